"""A recording with nothing to compare: every command exits with 125, none calls it identical, same or whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from agent_folder import Project
from handmade_runs import make_run, model_call, told, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.dataset import write_dataset
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run

PASS = ("--", sys.executable, "-c", "pass")
NOTHING = "nothing was compared: the run recorded no calls, and no outcome"


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fixture:
    """A run as another instrumentation reports it: spans of a model and a tool, and no exchange. Written to ``foreign``."""
    fixture = freeze(build_run(told(make_run(model_call("where?", "Lyon"), tool_call("track", "Lyon", "AC-1")))))
    assert fixture.steps == ()
    write_fixture(fixture, tmp_path / "foreign")
    monkeypatch.chdir(tmp_path)
    return fixture


@pytest.mark.parametrize(
    "command",
    [
        ["fixture", "verify", "foreign"],
        ["export", "--as", "audit", "foreign", "-o", "out", "--unredacted"],
        ["diff", "foreign", "foreign"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.usefixtures("foreign")
def test_nothing_to_check_is_neither_whole_nor_alike(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 125
    said = capsys.readouterr()
    assert "whole" not in said.out
    assert not said.out.startswith("alike")
    assert any(why in said.out + said.err for why in ("recorded no calls", "neither run recorded calls", "no step in common"))
    assert not Path("out").exists()


@pytest.mark.proof("verdict incomparable")
@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.usefixtures("foreign")
def test_a_replay_that_compared_nothing_is_incomparable(capsys: pytest.CaptureFixture[str]) -> None:
    """It was "identical: 0 of 0", and a program that does nothing at all passed."""
    assert main(["replay", "foreign", *PASS]) == 125
    said = capsys.readouterr().out
    assert said.startswith(f"incomparable: {NOTHING}, run ")
    assert "next: see what the run holds" in said
    assert main(["replay", "foreign", "--json", *PASS]) == 125
    assert json.loads(capsys.readouterr().out)["verdict"] == "incomparable"


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_an_experiment_does_not_count_it_as_the_same(foreign: Fixture, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(Path("set"), [(foreign, "")], chosen_by="by hand")
    assert main(["experiment", "set", "--json", *PASS]) == 125
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["finding"], row["why"]) == ("incomparable", NOTHING)


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.usefixtures("foreign")
def test_it_cannot_be_fuzzed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "fuzz", "foreign", *PASS]) == 125
    assert NOTHING in capsys.readouterr().err
    assert main(["experiment", "fuzz", "foreign", "--live", "model", *PASS]) == 125
    assert "no calls and no outcome" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.usefixtures("foreign")
def test_no_commit_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = ["commit", "-q", "--allow-empty", "-m"]
    for command in (["init", "-q"], [*commit, "one"], [*commit, "two"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *command], cwd=tmp_path, check=True)
    assert main(["replay", "bisect", "foreign", "--good", "HEAD~1", *PASS]) == 1
    assert f"the replay is incomparable ({NOTHING}), expected identical" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_regression_test_of_it_fails(project: Project, foreign: Fixture) -> None:
    write_fixture(foreign, project.root / "foreign")
    (project.root / "test_it.py").write_text(
        "import pytest\n"
        'pytestmark = pytest.mark.freezeframe("foreign", command=["python", "-c", "pass"])\n'
        "def test_same(freezeframe_fixture): freezeframe_fixture.replay().assert_identical()\n"
        "def test_changed(freezeframe_fixture): freezeframe_fixture.replay().assert_not_reenacted()\n"
        'def test_never(freezeframe_fixture): freezeframe_fixture.replay().assert_never_called("refund")\n'
    )
    done = project.pytest()
    assert "3 failed" in done.stdout, done.stdout
    assert done.stdout.count(NOTHING) >= 3


CASSETTE = """
import pytest

def test_answer(freezeframe_cassette):
    assert freezeframe_cassette.play(len, "nothing is asked") == 16
"""


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_cassette_without_a_call_is_not_recorded_and_not_played(project: Project) -> None:
    """It would pass for ever, while the function runs for real."""
    (project.root / "test_it.py").write_text(CASSETTE)
    done = project.pytest("--freezeframe=once")
    assert done.returncode == 1
    assert "made no captured call" in done.stdout
    assert not (project.root / "cassettes").exists()
    write_fixture(freeze(build_run(make_run())), project.root / "cassettes/test_it/test_answer")
    done = project.pytest()
    assert done.returncode == 1
    assert "made no captured call" in done.stdout


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_run_of_ours_without_calls_is_identical_by_its_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was compared is said: the outcome, and that there were no calls."""
    source = "import freezeframe\nfreezeframe.instrument()\n@freezeframe.run\ndef answer(question):\n    return 'here'\n"
    (tmp_path / "agent.py").write_text(source)
    start = [sys.executable, "-c", "import agent; agent.answer('where?')"]
    subprocess.run(start, cwd=tmp_path, env={**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}, check=True)
    write_fixture(freeze(load_run_of_file(tmp_path / "spans.jsonl")), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert main(["replay", "run", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("identical: the outcome (the run recorded no calls), run ")
    (tmp_path / "agent.py").write_text(source.replace("'here'", "'there'"))
    assert main(["replay", "run", "--quiet"]) == 3
    assert main(["fixture", "verify", "run"]) == 0
    assert "run: whole, run " in capsys.readouterr().out
