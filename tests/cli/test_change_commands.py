"""`freezeframe diff` and its neighbours on the command line: what they print, and their exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from agent_folder import Project
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again


@pytest.fixture
def wrong() -> Fixture:
    """A run that took the wrong order."""
    return freeze(
        build_run(make_run(model_call("a", "1"), tool_call("track", "Lyon", "AC-1"), model_call("Lyon", "2"), answer="Lyon"))
    )


@pytest.fixture
def folders(wrong: Fixture, tmp_path: Path) -> tuple[str, str]:
    """The run, and one that took another order."""
    right = freeze(
        build_run(make_run(model_call("a", "1"), tool_call("track", "Bonn", "AC-2"), model_call("Bonn", "2"), answer="Bonn"))
    )
    write_fixture(wrong, tmp_path / "wrong")
    write_fixture(replace(right, run_id="cd" * 16), tmp_path / "right")
    return str(tmp_path / "wrong"), str(tmp_path / "right")


@pytest.mark.proof("command diff")
def test_diff_names_the_first_difference_and_what_changed(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *folders]) == 3
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert shown[0] == "different: first at step 2, runs abababababab and cdcdcdcdcdcd"
    assert shown[3:6] == ["$.args[0]", '- "AC-1"', '+ "AC-2"']
    assert "~ outcome" in shown
    assert shown[-1] == "1 more are the same (--all lists them)"


@pytest.mark.proof
def test_diff_of_a_run_with_itself_is_alike(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", folders[0], folders[0]]) == 0
    assert capsys.readouterr().out.startswith("alike: 3 steps")


@pytest.mark.proof
def test_diff_writes_json(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *folders, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert not found["alike"]
    assert [pair["how"] for pair in found["pairs"]] == ["same", "changed", "changed"]
    assert found["pairs"][1]["request"][0]["path"] == "$.args[0]"


@pytest.mark.proof("command experiment fork")
def test_a_fork_replays_up_to_what_the_change_makes_of_it(project: Project) -> None:
    """The tool answers otherwise, and the next request is the first difference."""
    made = project.freezeframe("experiment", "fork", "tests/late-order", "-o", "forks/a", "--step", "1", "--result", '["AC-9"]')
    assert made.returncode == 0, made.stderr
    assert 'step 1 result = ["AC-9"]' in made.stdout
    replayed = project.freezeframe("replay", "forks/a")
    assert replayed.returncode == 3, replayed.stderr
    assert "REPLAY-101 diverged at step 2 (tool track, lane root)" in replayed.stdout
    assert '+ "AC-9"' in replayed.stdout
    assert project.freezeframe("fixture", "verify", "forks/a").returncode == 0


@pytest.mark.proof
def test_a_fork_without_a_change_says_what_is_expected(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "fork", folders[0], "-o", str(tmp_path / "f")]) == 1
    assert "use --step N with --result" in capsys.readouterr().err
    assert main(["experiment", "fork", folders[0], "-o", str(tmp_path / "f"), "--step", "2", "--result", "AC"]) == 1
    assert "expected JSON" in capsys.readouterr().err


@pytest.mark.proof("command step")
def test_step_shows_the_call_about_to_be_made_and_where_the_code_stands(project: Project) -> None:
    stopped = project.freezeframe("step", "tests/late-order", "--until", "2")
    assert stopped.returncode == 0, stopped.stderr
    lines = stopped.stdout.splitlines()
    assert lines[0].startswith("stopped before step 2 (tool track), run ")
    assert '"order": "AC-1"' in [line.strip() for line in lines]
    assert "recorded: the same" in lines
    assert any(line.startswith("at agent.py:") and line.endswith(" in answer") for line in lines)
    assert "    orders = ['AC-1', 'AC-2']" in lines


@pytest.mark.proof
def test_step_is_3_where_the_code_leaves_the_recording_before_it(project: Project) -> None:
    project.edit('find_orders("keller")', 'find_orders("miller")')
    left = project.freezeframe("step", "tests/late-order", "--until", "2")
    assert left.returncode == 3, left.stderr
    assert "REPLAY-101 diverged at step 1" in left.stdout


@pytest.mark.proof
def test_step_says_which_steps_there_are(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", folders[0], "--until", "7"]) == 1
    assert "has steps 1 to 3" in capsys.readouterr().err
