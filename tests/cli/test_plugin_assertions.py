"""The assertions of the pytest plugin, in a separate project: what holds passes; a failure says what was found."""

from __future__ import annotations

import pytest
from agent_folder import Project

CASES = """
import pytest

pytestmark = pytest.mark.freezeframe("tests/late-order")

def test_holds(freezeframe_fixture):
    result = freezeframe_fixture.replay()
    result.assert_path(["find_orders", "track"])
    result.assert_tool_called("track", with_={"order": "AC-1"})
    result.assert_never_called("refund")
    result.assert_never_called("model")
    result.assert_at_most("tool", 2)
    result.assert_grounded("Lyon")

def test_path(freezeframe_fixture):
    freezeframe_fixture.replay().assert_path(["find_orders", "refund"])

def test_with(freezeframe_fixture):
    freezeframe_fixture.replay().assert_tool_called("track", with_={"order": "AC-2"})

def test_never(freezeframe_fixture):
    freezeframe_fixture.replay().assert_never_called("track")

def test_grounded(freezeframe_fixture):
    freezeframe_fixture.replay().assert_grounded("it is in")
"""
FIXED = """
import pytest

@pytest.mark.freezeframe("tests/late-order")
def test_the_fix_tracks_the_right_order(freezeframe_fixture):
    freezeframe_fixture.replay().assert_tool_called("track", with_={"order": "AC-2"})
"""


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_each_assertion_passes_where_it_holds_and_says_what_was_found_where_not(project: Project) -> None:
    (project.root / "test_cases.py").write_text(CASES)
    done = project.pytest()
    assert "4 failed, 1 passed" in done.stdout, done.stdout
    for text in ("  - refund", "  + track", 'but with\n  {"order": "AC-1"}', "track was called 1 times, expected at most 0"):
        assert text in done.stdout
    assert "says 'it is in', and none of the 2 results" in done.stdout


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_call_that_the_recording_does_not_hold_counts_as_called(project: Project) -> None:
    (project.root / "test_fixed.py").write_text(FIXED)
    assert project.pytest().returncode == 1
    project.edit("orders[0]", "orders[1]")
    done = project.pytest()
    assert done.returncode == 0, done.stdout
