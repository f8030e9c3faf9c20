"""What people read in place of a lane's path."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade_runs import model_call, tool_call
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas.exchange import Exchange, Kind, Lane, format_lane
from freezeframe_schemas.lane_names import lane_names

Call = tuple[Lane, Kind, int, int]
"""Lane, kind, begin and end."""
MODEL, TOOL = Kind.MODEL, Kind.TOOL
AGENT: list[Call] = [((0,), MODEL, 0, 1), ((1, 0), TOOL, 1, 2), ((1, 1), TOOL, 1, 3), ((2,), MODEL, 3, 4), ((3, 0), TOOL, 4, 5)]
"""An agent of a framework that starts a task for each step, and calls two tools at a time."""


def named(*calls: Call) -> dict[str, str]:
    return dict(lane_names(map(_exchange, calls)))


def _exchange(call: Call) -> Exchange:
    lane, kind, begin, end = call
    made = model_call("x", "y") if kind is MODEL else tool_call("x", 1)
    return replace(made, lane=lane, start_time_unix_nano=begin, end_time_unix_nano=end)


@pytest.mark.parametrize(
    ("calls", "names"),
    [
        ([((), MODEL, 0, 9)], {"": "root"}),
        ([((), MODEL, 0, 9), ((4, 2), TOOL, 0, 9)], {"": "root", "4.2": "task 1"}),
        ([((1, 6, 0), MODEL, 0, 9), ((1, 6, 1), MODEL, 0, 9)], {"1.6.0": "task 1", "1.6.1": "task 2"}),
        ([((0,), MODEL, 0, 2), ((0,), TOOL, 2, 3), ((1,), TOOL, 1, 3)], {"0": "task 1", "1": "task 2"}),
        (
            AGENT,
            {
                "0": "task 1, models",
                "1.0": "task 1, tools",
                "1.1": "task 1, tools 2",
                "2": "task 1, models",
                "3.0": "task 1, tools",
            },
        ),
    ],
)
def test_tasks_at_the_same_time_have_numbers_and_those_after_each_other_share_one(
    calls: list[Call], names: dict[str, str]
) -> None:
    assert named(*calls) == names


def test_each_conversation_of_a_crew_is_one_task() -> None:
    """Three agents side by side, each with a lane for models and one for tools, under lanes that all of them have."""
    crew = [((7, number, *lane), kind, begin, end) for number in range(3) for lane, kind, begin, end in AGENT]
    names = named(*crew)
    assert {format_lane(lane): names[format_lane(lane)].partition(",")[0] for lane, *_ in crew} == {
        format_lane(lane): f"task {lane[1] + 1}" for lane, *_ in crew
    }
    assert names["7.1.3.0"] == "task 2, tools"


lanes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
times = st.tuples(st.integers(0, 30), st.integers(1, 9))


@given(st.lists(st.tuples(lanes, st.sampled_from([MODEL, TOOL]), times), max_size=12))
def test_lanes_with_calls_at_the_same_time_never_share_a_name(found: list[tuple[Lane, Kind, tuple[int, int]]]) -> None:
    """Whatever the lanes: a name is that of one after the other."""
    calls = [(lane, kind, begin, begin + long) for lane, kind, (begin, long) in found]
    names = named(*calls)
    for one in calls:
        for other in calls:
            if one[0] != other[0] and names[format_lane(one[0])] == names[format_lane(other[0])]:
                assert one[3] <= other[2] or other[3] <= one[2]
