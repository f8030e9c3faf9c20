"""What the command line promises for every command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_page import DOCS, page_files

from freezeframe_replay.cli import help_text, main
from freezeframe_replay.cli.command import load, make_parser, module_of
from freezeframe_replay.cli.commands import BELOW, MEANT, MOVED, OF_THE_BASE_INSTALL, SUMMARIES, TOP

ROOT = Path(__file__).parents[2]
OWN = [name for name in SUMMARIES if name not in OF_THE_BASE_INSTALL]


@pytest.mark.parametrize("name", OWN)
def test_help_shows_examples_and_exit_codes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A user who types --help can copy a line and knows what a script will see."""
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert SUMMARIES[name] in " ".join(shown.split())
    command = load(name).COMMAND
    for line in command.examples:
        assert line in shown
    for code, means in command.codes.items():
        assert f"{code:<4} {means}" in shown


def test_examples_are_lines_that_the_commands_accept() -> None:
    """An example that the parser refuses would be worse than none."""
    import shlex

    from freezeframe_replay.cli.command import make_parser, split_program

    for name in OWN:
        for line in load(name).COMMAND.examples:
            words = shlex.split(line.split(" <")[0])
            length = 1 + len(name.split())
            if words[:length] != ["freezeframe", *name.split()]:
                continue  # `git bisect run freezeframe ...`
            make_parser(name).parse_args(split_program(words[length:])[0])


def test_the_list_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the list is shown, and the exit code says that something was missing."""
    assert main([]) == 2
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown == f"{help_text()}\n" * 2
    assert all(f"  {name} " in shown and summary in shown for name, summary in TOP.items())


def test_the_list_fits_a_terminal() -> None:
    """80 columns, and no more than 44 lines."""
    lines = help_text().splitlines()
    assert len(lines) <= 44
    assert max(map(len, lines)) <= 80


def test_every_module_of_a_command_is_in_the_list() -> None:
    """One that is not could not be found."""
    modules = (ROOT / "replay" / "freezeframe_replay" / "cli").glob("*.py")
    commands = {path.stem for path in modules if "\nCOMMAND: Final = " in path.read_text()}
    assert commands == {module_of(name) for name in OWN}


def test_a_misspelt_command_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, one line."""
    assert main(["stauts"]) == 2
    assert "did you mean `freezeframe status`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        ["runs", "--since", "yesterday"],
        ["runs", "--limit", "0"],
        ["up", "--http-port", "70000"],
        ["replay"],
        ["replay", "x", "--"],
        ["fixture", "x"],
        ["export", "x", "--as", "nothing"],
        ["sql", "SELECT 1", "--format", "xml"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_2(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The message names what was wrong or missing."""
    assert main(line) == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("end", ["FORMAT JSON", "format Vertical ;"])
def test_a_format_at_the_end_of_a_query_is_named_with_the_option_to_give(end: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", f"SELECT 1 {end}"]) == 1
    shown = capsys.readouterr().err
    assert f"must not end with FORMAT {end.split()[1]}" in shown
    assert "give --format table, json or csv" in shown


@pytest.fixture
def no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREEZEFRAME_DATA", str(tmp_path))
    monkeypatch.delenv("FREEZEFRAME_STORE", raising=False)


@pytest.mark.usefixtures("no_store")
@pytest.mark.parametrize(
    "line",
    [["runs"], ["show", "last"], ["sql", "SELECT 1"], ["replay", "last"], ["fixture", "last", "-o", "out"]],
    ids=" ".join,
)
def test_without_a_store_each_command_says_what_to_do(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 and two lines, no traceback."""
    assert main(line) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"freezeframe {line[0]}: no store")
    assert "do: start it with `freezeframe up`" in shown
    assert "Traceback" not in shown


@pytest.mark.usefixtures("no_store")
@pytest.mark.parametrize(
    "line",
    [
        ["runs"],
        ["show", "last"],
        ["replay", "last"],
        ["step", "last", "--until", "1"],
    ],
    ids=" ".join,
)
def test_with_json_an_error_is_a_document_on_stdout(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line, "--json"]) == 1
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["message"].startswith("no store")
    assert error["do"].startswith("start it with `freezeframe up`")
    assert error["message"] in shown.err


TIMED = [name for name in SUMMARIES if name not in OF_THE_BASE_INSTALL and "--timeout" in make_parser(name).format_help()]


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-1", "soon"])
@pytest.mark.parametrize("name", TIMED)
def test_a_time_limit_is_a_number_of_seconds_above_zero(name: str, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), f"--timeout={limit}"]) == 2
    assert f"found '{limit}', expected a number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("depth", [900, 1_000, 100_000])
def test_json_that_is_nested_too_deeply_is_named_and_the_other_lines_are_redacted(
    depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lines.jsonl"
    deep = '{"id": 1, "value": ' + "[" * depth + "]" * depth + "}"
    file.write_text(f'{deep}\n{{"id": 2, "text": "plain"}}\n')
    assert main(["store", "redact-file", "--keys", str(tmp_path / "keys"), str(file)]) == 1
    shown = capsys.readouterr()
    assert f"{file}:1: the JSON is nested too deeply" in shown.err
    assert json.loads(shown.out)["id"] == 2


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`freezeframe ... | head -1` ends quietly."""
    code = "import sys; from freezeframe_replay.cli import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        f'{sys.executable} -c "{code}" | true', shell=True, capture_output=True, text=True, check=False, executable="/bin/bash"
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("list", "runs"), ("ls", "runs"), ("log", "logs"), ("history", "runs"), ("ps", "status"), ("view", "show")),
        *(("start", "up"), ("stop", "down"), ("compare", "diff"), ("rerun", "replay"), ("query", "sql"), ("shwo", "show")),
    ],
)
def test_a_word_of_another_tool_is_answered_with_the_command_that_does_it(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its meaning: in letters, `list` is nearest to `bisect`."""
    assert main([typed]) == 2
    assert f"did you mean `freezeframe {meant}`?" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["frobnicate", "xyzzy", "bistro"])
def test_a_word_that_is_like_no_command_gets_no_guess(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([typed]) == 2
    assert "`freezeframe --help` lists the commands" in capsys.readouterr().err


def test_each_word_of_another_tool_means_a_command_and_is_none() -> None:
    assert {meant.split()[0] for meant in MEANT.values()} <= set(SUMMARIES)
    assert not set(MEANT) & (set(TOP) | set(MOVED))


@pytest.mark.parametrize("name", sorted(MOVED))
def test_an_old_name_is_answered_with_the_new_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "last"]) == 2
    assert capsys.readouterr().err == f"freezeframe: `freezeframe {name}` is now `freezeframe {MOVED[name]}`\n"
    assert MOVED[name].partition(" --as ")[0] in SUMMARIES


@pytest.mark.parametrize("name", BELOW)
def test_the_help_of_a_command_lists_what_is_below_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from freezeframe._cli import main as main_of_the_base_install

    assert main_of_the_base_install([name, "--help"]) == 0
    shown = capsys.readouterr().out.partition("more (")[2]
    assert all(re.search(rf"^  {word} ", shown, re.MULTILINE) for word in BELOW[name])


def test_the_table_of_commands_loads_nothing_heavy() -> None:
    """The list of commands must be quick to show."""
    code = "import sys, freezeframe_replay.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "clickhouse_connect", "chdb", "opentelemetry.sdk", "hyperscan", "freezeframe"} & set(loaded)


def test_the_reference_pages_are_current() -> None:
    """`python tests/support/cli_page.py` writes the pages anew."""
    written = [DOCS / "cli.md", *(DOCS / "cli").glob("*.md")]
    assert {file: file.read_text() for file in written} == page_files()
