"""Steps that are asked for in another order than recorded, lane by lane."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.engine.session import Order

lanes = st.sampled_from([(), (0,), (0, 1)])


@given(asked=st.lists(st.tuples(st.integers(1, 9), lanes, lanes), max_size=12))
def test_a_step_is_out_of_order_behind_the_latest_one_of_its_lane(
    asked: list[tuple[int, tuple[int, ...], tuple[int, ...]]],
) -> None:
    """What another lane asked for has no order, and decides none."""
    order = Order()
    for place, (step, lane, requested_in_step) in enumerate(asked):
        before = [one for one, its_lane, where in asked[:place] if its_lane == lane == where]
        latest = max(before, default=0)
        assert order.broken_by(step, lane, requested_in_step) == (latest if requested_in_step == lane and latest > step else 0)


def test_after_a_fork_nothing_is_out_of_order() -> None:
    order = Order()
    assert [order.broken_by(step, (), ()) for step in (3, 2)] == [0, 3]
    order.after_fork()
    assert order.broken_by(1, (), ()) == 0
