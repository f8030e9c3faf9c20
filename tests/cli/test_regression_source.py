"""The regression test that `fixture --pytest` writes."""

from __future__ import annotations

import ast

import pytest
from handmade_runs import make_run, tool_call
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.report.regression import Expect, regression_test, slug
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run


def fixture_of(question: str = "where is it?", answer: str = "Lyon") -> Fixture:
    return freeze(build_run(make_run(tool_call("track", 1), question=question, answer=answer)))


def test_the_source_reads_as_a_person_would_write_it() -> None:
    """Plain Python: what was recorded as a comment, one call, one assertion."""
    assert (
        regression_test(fixture_of(), "late-order", expect=Expect.CHANGED)
        == '''\
"""Regression test of a recorded run: red while the code re-enacts the recorded failure, green once it does not.

Written by `freezeframe fixture`; edit it freely. The recording is next to this file: no store, no network.
"""

from freezeframe_replay.pytest_plugin import FrozenRun

# Recorded 1970-01-01 00:00:01Z, run abababababababababababababababab, 1 steps.
# Entry point: agent:answer
# Called with: answer("where is it?")
# Outcome: returned "Lyon"


def test_late_order_is_no_longer_reenacted(freezeframe_fixture: FrozenRun) -> None:
    result = freezeframe_fixture.replay()
    result.assert_not_reenacted()
'''
    )


def test_a_command_goes_into_the_marker() -> None:
    """The test starts the command given after `--`, too."""
    source = regression_test(fixture_of(), "x", expect=Expect.IDENTICAL, command=["python", "a'gent.py"])
    assert "@pytest.mark.freezeframe(command=['python', \"a'gent.py\"])\ndef test_x_is_reenacted_exactly(" in source
    assert "import pytest\nfrom freezeframe_replay" in source
    ast.parse(source)


@given(st.text(), st.text(), st.text(min_size=1))
def test_no_recorded_text_becomes_code(question: str, answer: str, name: str) -> None:
    """Whatever was asked or answered, and however the directory is called: the same few statements."""
    tree = ast.parse(regression_test(fixture_of(question, answer), name, expect=Expect.CHANGED))
    assert [type(node).__name__ for node in tree.body] == ["Expr", "ImportFrom", "FunctionDef"]


@pytest.mark.parametrize(
    ("name", "expected"), [("late-order 7", "late_order_7"), ("Größe", "gr_e"), ("---", "run"), ("4bf9", "4bf9")]
)
def test_slugs_fit_into_python_names(name: str, expected: str) -> None:
    """ASCII letters, digits and underscores."""
    assert slug(name) == expected
    assert f"test_{slug(name)}".isidentifier()
