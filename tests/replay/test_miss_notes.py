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
        ("<176433382212.1234.56789012@host>", "<176433382319.1234.56789012@host>", False),  # a message id
        ("<176433382212.210.99@host>", "<176433382212.210.98@host>", False),
        ("id 1.20.300", "id 1.20.301", False),
        ("mail to 12345@host.org", "mail to 12346@host.org", False),
        ("at 10.0.0.12", "at 10.0.0.13", False),
        ("took 3.214s.", "took 3.211s.", True),
        ("(0.125)", "(0.126)", True),
    ],
)
def test_numbers_that_may_be_computed_from_a_duration_are_named(recorded: str, live: str, named: bool) -> None:
    changed = Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=2, lane="", recorded=recorded, live=live)
    (first,) = with_reason([changed], [])
    assert ("computes with a duration" in first.note) is named


@pytest.mark.parametrize(
    ("live", "named"),
    [
        ("use <shop.Cart object at 0x7fb5402e1390> now", True),
        ("use <shop.Bag object at 0x7fb5402e1390> now", False),
        ("use <shop.Cart object at 0x7fb5402e1390> later", False),
    ],
)
def test_a_difference_in_nothing_but_the_address_of_an_object_is_named(live: str, named: bool) -> None:
    recorded = "use <shop.Cart object at 0x7f0912ffa010> now"
    changed = Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=2, lane="", recorded=recorded, live=live)
    (first,) = with_reason([changed], [])
    assert ("only addresses of objects differ" in first.note) is named


@pytest.mark.parametrize(("live", "named"), [("It took 33 ms.", True), ("It took 331 ms.", False), ("It took 1 ms.", False)])
def test_a_number_that_the_program_measured_is_named_if_it_is_far_from_that_of_the_run(live: str, named: bool) -> None:
    changed = Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=2, lane="", recorded="It took 1 ms.", live=live)
    (first,) = with_reason([changed], [], {"33": "too far", "1": "too far"})
    assert ("33 may be a duration that the program measured, too far" in first.note) is named


RETURNS = "returns a shop:Order, which a replay does not give back whole (only plain data and fields)"
FETCH, PRICE, COUNT = (f"{name} (shop.py:{line}) {RETURNS}" for name, line in (("fetch", 3), ("price", 9), ("count", 15)))
CHANGES = "tool fill (shop.py:20) changes its argument found, which a replay does not do: return the change"
HELD = "the result of execute_tool price holds a _thread:lock, which a replay does not give back whole: return plain data"
CARRIED = "an earlier run of the process changed shop.SEEN, which a replay does not do: keep no state"

READS, WRITES = (f"main (agent.py:9) {act}, outside any tool: mark main" for act in ("starts date", "writes log.txt"))


@pytest.mark.parametrize(
    ("gaps", "made", "named"),
    [
        ([FETCH, PRICE, COUNT], ["fetch", "price"], PRICE),
        ([FETCH, PRICE, COUNT], ["price", "fetch", "POST /v1/chat/completions"], FETCH),
        ([FETCH, CHANGES], ["fetch", "fill"], CHANGES),
        ([FETCH, CARRIED], ["fetch"], FETCH),
        ([HELD, CARRIED], ["price"], HELD),
        ([HELD, CARRIED], ["fetch"], CARRIED),
        ([FETCH, CARRIED], [], CARRIED),
        ([FETCH, CARRIED], ["count"], CARRIED),
        ([FETCH], [], ""),
        ([FETCH, FETCH.replace("Order", "Line")], ["fetch"], f"{FETCH}; {FETCH.replace('Order', 'Line')}"),
        (
            [CARRIED.replace("SEEN", name) for name in "ABCDE"],
            ["fetch"],
            "; ".join(CARRIED.replace("SEEN", n) for n in "ABC") + "; 2 more",
        ),
        (["the files of shop.py changed"], ["fetch"], ""),
        ([READS, WRITES], ["fetch"], READS),
        ([WRITES], ["fetch"], WRITES),
        ([FETCH, READS], ["fetch"], FETCH),
        ([FETCH, READS], [], READS),
    ],
)
def test_the_gap_of_the_call_made_last_is_named_and_no_other_ones(gaps: list[str], made: list[str], named: str) -> None:
    changed = Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=2, lane="")
    (first,) = with_reason([changed], gaps, recorded={"fetch", "price", "count", "fill"}, made=made)
    assert first.note == (f"a gap of the run may be the reason: {named}" if named else "")
