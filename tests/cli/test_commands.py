"""The command line's promises that hold for every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.cli import COMMANDS, Command, help_text, main
from freezeframe_replay.cli.reference import reference_text

ROOT = Path(__file__).parents[2]
OWN = [command for command in COMMANDS if not command.delegates_to]


@pytest.mark.parametrize("command", OWN, ids=lambda command: command.name)
def test_help_shows_examples_and_exit_codes(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever types --help can copy a line and knows what a script will see."""
    assert main([command.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert command.summary.split(".")[0][:40] in " ".join(shown.split())
    for example in command.examples:
        assert example.line in shown
    for code, means in command.exit_codes.items():
        assert f"{code:<4} {means}" in shown


def test_examples_are_lines_that_the_commands_accept() -> None:
    """An example that the parser refuses would be worse than none."""
    import shlex

    from freezeframe_replay.cli.command import make_parser, split_program

    for command in OWN:
        for example in command.examples:
            words = shlex.split(example.line.split(" <")[0])
            if words[:2] != ["freezeframe", command.name]:
                continue  # `git bisect run freezeframe ...`
            make_parser(command).parse_args(split_program(words[2:])[0])


def test_the_list_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the list is shown, and the exit code says that something was missing."""
    assert main([]) == 2
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(command.summary in shown and command.summary in help_text() for command in COMMANDS)


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
        ["sql", "SELECT 1", "--format", "xml"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_2(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The message names what was found or is missing."""
    assert main(line) == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("end", ["FORMAT JSON", "format Vertical ;"])
def test_a_format_at_the_end_of_a_query_is_named_with_the_option_to_give(end: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", f"SELECT 1 {end}"]) == 1
    shown = capsys.readouterr().err
    assert f"must not end with FORMAT {end.split()[1]}" in shown
    assert "do: give --format table, json or csv" in shown


@pytest.mark.parametrize(
    "line",
    [["runs"], ["show", "last"], ["sql", "SELECT 1"], ["replay", "last"], ["fixture", "last", "-o", "out"]],
    ids=" ".join,
)
def test_without_a_store_each_command_says_what_to_do(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 and two lines, no traceback."""
    monkeypatch.setenv("FREEZEFRAME_DATA", str(tmp_path))
    monkeypatch.delenv("FREEZEFRAME_STORE", raising=False)
    assert main(line) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"freezeframe {line[0]}: no store")
    assert "do: start it with `freezeframe up`" in shown
    assert "Traceback" not in shown


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`freezeframe ... | head -1` ends quietly."""
    code = "import sys; from freezeframe_replay.cli import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        f'{sys.executable} -c "{code}" | true', shell=True, capture_output=True, text=True, check=False, executable="/bin/bash"
    )
    assert done.stderr == ""


def test_the_table_of_commands_loads_nothing_heavy() -> None:
    """The list of commands must be quick to show."""
    code = "import sys, freezeframe_replay.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "clickhouse_connect", "chdb", "opentelemetry.sdk", "hyperscan", "freezeframe"} & set(loaded)


def test_the_reference_page_is_current() -> None:
    """`python -m freezeframe_replay.cli.reference > docs/cli.md` writes it anew."""
    assert (ROOT / "docs" / "cli.md").read_text() == reference_text()
