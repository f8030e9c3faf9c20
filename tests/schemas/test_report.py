"""A replay's report crosses from the replayed process to its parent as JSON, and arrives unchanged."""

from __future__ import annotations

import json

import pytest
from arbitrary import text
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas.divergence import (
    REPORT_VERSION,
    Ambiguous,
    Check,
    Divergence,
    DivergenceKind,
    Report,
    Served,
    Uncompared,
    Why,
    report_from_json,
    report_to_json,
)
from freezeframe_schemas.errors import WireError

step = st.integers(1, 99)
texts = st.lists(text, max_size=2).map(tuple)
divergences = st.builds(
    Divergence,
    kind=st.sampled_from(DivergenceKind),
    step=st.none() | step,
    lane=text,
    name=text,
    path=text,
    recorded=st.none() | text,
    live=st.none() | text,
    would_have_returned=st.none() | text,
    agreed=texts,
    differed=texts,
    note=text,
)
reports = st.builds(
    Report,
    run_id=text,
    steps=step,
    served=st.lists(st.builds(Served, step=step, how=st.just("relaxed"), relaxed=texts), max_size=2).map(tuple),
    divergences=st.lists(divergences, max_size=2).map(tuple),
    outcome=st.none() | text,
    entered=st.booleans(),
    sockets_tried=step,
    warnings=texts,
    names=st.dictionaries(step.map(str), text, max_size=2),
    inside=step,
    input_check=st.sampled_from(Check),
    outcome_check=st.sampled_from(Check),
    outcome_relaxed=texts,
    exit_status=step,
    unheard=texts,
    uncompared=st.lists(
        st.builds(Uncompared, class_name=text, surrogate=text, why=st.sampled_from(Why), step=st.none() | step), max_size=2
    ).map(tuple),
    ambiguous=st.lists(st.builds(Ambiguous, steps=st.tuples(step, step), why=text), max_size=2).map(tuple),
    requires_values=st.booleans(),
)


@given(report=reports)
def test_a_report_survives_its_json(report: Report) -> None:
    assert report_from_json(report_to_json(report)) == report


def test_another_version_is_refused_and_both_are_named() -> None:
    value = json.loads(report_to_json(Report(run_id="r", steps=0)))
    value["version"] = REPORT_VERSION + 1
    with pytest.raises(WireError, match=f"version {REPORT_VERSION + 1}, expected {REPORT_VERSION}"):
        report_from_json(json.dumps(value))


@pytest.mark.parametrize("broken", ["", "{}", "[]", "null", '{"version": 1}', '{"version": 1, "served": 3}'])
def test_what_is_no_report_is_refused(broken: str) -> None:
    """The replayed process may have died while writing it."""
    with pytest.raises(WireError):
        report_from_json(broken)


def test_the_codes_of_divergences_are_stable() -> None:
    """People search for them, and scripts match them."""
    assert {kind.name: kind.value for kind in DivergenceKind} == {
        "REQUEST_CHANGED": "REPLAY-101",
        "EXTRA_CALL": "REPLAY-102",
        "MISSING_CALL": "REPLAY-103",
        "OUTCOME_CHANGED": "REPLAY-104",
        "INPUT_CHANGED": "REPLAY-105",
        "NETWORK": "REPLAY-106",
        "ORDER_CHANGED": "REPLAY-107",
        "FENCED": "REPLAY-108",
        "STILL_WAITED": "REPLAY-109",
        "RESULT_CHANGED": "REPLAY-110",
    }
