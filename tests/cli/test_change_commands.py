"""`freezeframe diff` and its neighbours on the command line: what they print, and their exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.freeze import freeze
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run


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


def test_diff_names_the_first_difference_and_what_changed(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *folders]) == 3
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert shown[0] == "different: first at step 2, runs abababababab and cdcdcdcdcdcd"
    assert ["$.args[0]", '- "AC-1"', '+ "AC-2"'] == shown[3:6]
    assert "~ outcome" in shown
    assert shown[-1] == "1 more the same (--all lists them)"


def test_diff_of_a_run_with_itself_is_alike(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", folders[0], folders[0]]) == 0
    assert capsys.readouterr().out.startswith("alike: 3 steps")


def test_diff_writes_json(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *folders, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert not found["alike"]
    assert [pair["how"] for pair in found["pairs"]] == ["same", "changed", "changed"]
    assert found["pairs"][1]["request"][0]["path"] == "$.args[0]"
