"""Runs from a file of spans: show, replay and fixture without any collector."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from agent_folder import Project
from bare_spans import bare_span
from handmade_runs import make_run, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.sources.span_file import load_run_of_file, split_name
from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError, WireError
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again


@pytest.mark.proof
def test_a_recorded_file_is_shown_replayed_and_frozen(recorded: tuple[Path, Run], project: Project) -> None:
    """The whole way with two files and no process of freezeframe."""
    shutil.copy(recorded[0] / "spans.jsonl", project.root / "spans.jsonl")
    run_id = recorded[1].trace_id
    shown = project.freezeframe("show", "spans.jsonl")
    assert f"run           {run_id}" in shown.stdout
    assert "next: freezeframe replay spans.jsonl" in shown.stdout
    assert "2 of 2 steps and the outcome" in project.freezeframe("replay", f"spans.jsonl:{run_id[:6]}").stdout
    assert project.freezeframe("fixture", str(project.root / "spans.jsonl"), "-o", "kept").returncode == 0
    assert project.freezeframe("fixture", "verify", "kept").returncode == 0


@pytest.mark.proof
def test_what_is_advised_names_the_file_or_the_fixture_as_it_was_named(recorded: tuple[Path, Run], project: Project) -> None:
    """Not by the run's id, which only a store would know; and a fixture becomes a test like a run does."""
    shutil.copy(recorded[0] / "spans.jsonl", project.root / "spans.jsonl")
    project.freezeframe("fixture", "spans.jsonl", "-o", "forks/kept")
    (project.root / "agent.py").rename(project.root / "elsewhere.py")
    for named in ("spans.jsonl", "forks/kept"):
        lost = project.freezeframe("replay", named)
        assert lost.returncode == 125
        assert f"freezeframe replay {named} -- CMD" in " ".join(lost.stdout.split())
    made = project.freezeframe("fixture", "forks/kept", "-o", "tests/kept", "--pytest")
    assert made.returncode == 0, made.stderr
    assert (project.root / "tests/kept/test_kept.py").is_file()
    assert project.freezeframe("fixture", "verify", "tests/kept").returncode == 0


@pytest.mark.proof
def test_a_redacted_file_names_nobody_and_still_replays(project: Project) -> None:
    """A file that an agent wrote itself is not redacted; one command does it, and `fixture` says so."""
    source = project.root / "agent.py"
    source.write_text(source.read_text().replace('return f"', 'return f"{question}: '))
    asked = "import freezeframe; freezeframe.instrument(); import agent; agent.answer('who is jane.roe@partner.io?')"
    assert project.python("-c", asked, environ={"FREEZEFRAME_FILE": "spans.jsonl"}).returncode == 0
    for command in (["fixture"], ["experiment", "dataset"]):
        assert "not redacted" in project.freezeframe(*command, "spans.jsonl", "-o", f"{command[-1]}-bare").stderr
    counted = project.freezeframe("store", "redact-file", "--dry-run", "spans.jsonl")
    assert "EMAIL" in counted.stdout
    assert "jane.roe" not in counted.stdout
    (project.root / "redacted.jsonl").write_text(project.freezeframe("store", "redact-file", "spans.jsonl").stdout)
    assert "jane.roe" in (project.root / "spans.jsonl").read_text()
    assert "jane.roe" not in (project.root / "redacted.jsonl").read_text()
    assert "2 of 2 steps and the outcome" in project.freezeframe("replay", "redacted.jsonl").stdout
    for command in (["fixture"], ["experiment", "dataset"]):
        assert "not redacted" not in project.freezeframe(*command, "redacted.jsonl", "-o", f"{command[-1]}-kept").stderr


@pytest.mark.proof
def test_of_several_runs_the_newest_or_the_named_one_is_taken(tmp_path: Path) -> None:
    """An id that matches no run or several is an error that lists the runs."""
    file = tmp_path / "spans.jsonl"
    older = make_run(tool_call("track", 1), answer="older")
    moved = [replace(span, trace_id="ac" * 16, start_time_unix_nano=1) for span in older]
    file.write_text("\n".join(json.dumps(spans_to_otlp_json(spans)) for spans in (moved, older)) + "\n")
    assert load_run_of_file(file).trace_id == "ab" * 16
    assert load_run_of_file(file, "ac").trace_id == "ac" * 16
    for name in ("a", "ff"):
        with pytest.raises(RunError, match="of its 2 runs") as raised:
            load_run_of_file(file, name)
        assert "ac" * 16 in str(raised.value.do)


def test_what_an_sdk_left_behind_is_not_taken_and_the_other_runs_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest trace may be the SDK's own span, which says that there was a call and nothing of it."""
    older, newer = make_run(tool_call("track", 1), answer="older"), make_run(tool_call("track", 2), answer="newer")
    moved = [replace(span, trace_id="ac" * 16, start_time_unix_nano=1) for span in older]
    said = {genai.OPERATION_NAME: "chat", genai.REQUEST_MODEL: "m"}
    left = [bare_span(said, trace_id="fe" * 16, span_id="fe" * 8, start_time_unix_nano=2**62, end_time_unix_nano=2**62)]
    file = tmp_path / "spans.jsonl"
    file.write_text("\n".join(json.dumps(spans_to_otlp_json(spans)) for spans in (moved, newer, left)) + "\n")
    assert main(["show", str(file)]) == 0
    shown = capsys.readouterr()
    assert f"run           {'ab' * 16}" in shown.out
    assert shown.err == f"note: {file} holds 3 runs, took {'ab' * 16}; others: {file}:{'ac' * 16}\n"
    assert main(["show", f"{file}:acac"]) == 0
    assert capsys.readouterr().err == ""


def test_a_run_that_cannot_be_served_is_named_and_the_others_are_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spans.jsonl"
    left = [bare_span({}, trace_id="fe" * 16, span_id="fe" * 8)]
    runs = (make_run(tool_call("track", 1), answer="older"), left)
    file.write_text("\n".join(json.dumps(spans_to_otlp_json(spans)) for spans in runs) + "\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["replay", "serve", f"{file}:fe", f"{file}:ab", "--mcp"]) == 125
    told = capsys.readouterr().err
    assert f"not served: {file}:fe: run {'fe' * 16}" in told
    assert f"{file}:ab" in "".join(told.split()), "wherever the line is folded"
    assert main(["replay", "serve", f"{file}:fe", "--mcp"]) == 1


@pytest.mark.proof
def test_a_line_that_is_no_span_is_named(tmp_path: Path) -> None:
    """File, line, and what else could be meant."""
    file = tmp_path / "spans.jsonl"
    file.write_text('{"resourceSpans": []}\n\nnonsense\n')
    with pytest.raises(WireError, match="line 3: not JSON"):
        load_run_of_file(file)
    file.write_text('{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 7}]}]}]}\n')
    with pytest.raises(WireError, match="line 1"):
        load_run_of_file(file)


@pytest.mark.proof
@pytest.mark.parametrize("named", ["none.jsonl", "none.json", "none.jsonl:4bf92f35"])
def test_a_file_that_is_not_there_is_said_to_be_that(named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And it is not looked for in a store that is not running."""
    assert main(["show", named]) == 1
    assert f"{named}: no such file" in capsys.readouterr().err


@pytest.mark.proof
def test_ids_of_runs_are_not_taken_for_files(tmp_path: Path) -> None:
    """Only a file that exists is taken for one."""
    assert split_name("4bf92f35") is None
    assert split_name(str(tmp_path)) is None
    assert split_name(f"{tmp_path}/none.jsonl:4b") is None
