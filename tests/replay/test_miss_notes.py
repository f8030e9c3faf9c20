"""What a divergence says of its likely reason."""

from __future__ import annotations

import pytest

from freezeframe_replay.engine.miss import with_reason
from freezeframe_schemas.divergence import Divergence, DivergenceKind


@pytest.mark.parametrize(
    ("recorded", "live", "named"),
    [
        ("278.9 ms left", "276.7 ms left", True),
        ("8.271442 per s", "2.184411 per s", True),
        ("3.5 and 0.25", "3.6 and 0.26", True),
        ("the price is 12.50", "the price is 15.00", False),
        ("3.5 and 0.25", "3.6 and 0.75", False),
        ("278.9 ms left", "276.7 ms over", False),
        ("385 ms left", "379 ms left", True),
        ("385 ms left", "79 ms left", False),
        ("81.693 per s", "21.844 per s", True),
        ("A-1057", "A-1042", False),
    ],
)
def test_numbers_that_may_be_computed_from_a_duration_are_named(recorded: str, live: str, named: bool) -> None:
    changed = Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=2, lane="", recorded=recorded, live=live)
    (first,) = with_reason([changed], [])
    assert ("computes with a duration" in first.note) is named


@pytest.mark.parametrize(("live", "named"), [("It took 33 ms.", True), ("It took 331 ms.", False), ("It took 1 ms.", False)])
def test_a_number_that_the_program_measured_is_named_if_it_is_far_from_that_of_the_run(live: str, named: bool) -> None:
    changed = Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=2, lane="", recorded="It took 1 ms.", live=live)
    (first,) = with_reason([changed], [], {"33": "too far", "1": "too far"})
    assert ("33 may be a duration that the program measured, too far" in first.note) is named
