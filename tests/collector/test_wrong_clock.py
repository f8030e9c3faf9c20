"""A sender whose clock is ahead: its spans are of now, keep their order and distances, and say that they were moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bare_spans import bare_span
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_collector.processors.clock import MAX_SKEW_NS, in_the_present
from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, SpanRecord

NOW = 1_795_892_400_123_456_789
HOUR = 3600 * 10**9
LAST = (1 << 64) - 1


def _span(start: int, end: int, *events: int) -> SpanRecord:
    made = bare_span({"a": "b"})
    at = tuple(Event(time_unix_nano=time, name="e") for time in events)
    return replace(made, start_time_unix_nano=start, end_time_unix_nano=end, events=at)


@given(start=st.integers(0, LAST), length=st.integers(0, LAST), events=st.lists(st.integers(0, LAST), max_size=3))
def test_no_time_is_left_in_the_future(start: int, length: int, events: list[int]) -> None:
    span = _span(start, min(LAST, start + length), *events)
    made = in_the_present(span, NOW)
    times = [made.start_time_unix_nano, made.end_time_unix_nano, *(event.time_unix_nano for event in made.events)]
    assert all(0 <= time <= NOW + MAX_SKEW_NS for time in times)
    assert made.start_time_unix_nano <= made.end_time_unix_nano
    assert in_the_present(made, NOW) == made
    if max(span.start_time_unix_nano, span.end_time_unix_nano, *events, 0) <= NOW + MAX_SKEW_NS:
        assert made == span
    else:
        assert genai.CLOCK_MOVED in made.attributes


@pytest.mark.parametrize(
    "start",
    [4_320_000_000_000_000_000, 9_224_318_000_000_000_000, NOW + MAX_SKEW_NS + 1, NOW + 400 * 24 * HOUR, LAST - 2 * HOUR],
    ids=["2106", "2262", "six minutes", "next year", "the last hour"],
)
def test_a_span_of_the_future_is_of_the_last_hour_with_its_length_and_events(start: int) -> None:
    made = in_the_present(_span(start, start + 10**9, start + 5), NOW)
    assert NOW - HOUR < made.start_time_unix_nano <= NOW
    assert made.end_time_unix_nano - made.start_time_unix_nano == 10**9
    assert made.events[0].time_unix_nano == made.start_time_unix_nano + 5
    assert made.attributes[genai.CLOCK_MOVED] == (start - made.start_time_unix_nano) // 10**9


def test_spans_of_one_clock_keep_their_distances_and_one_sent_again_is_equal() -> None:
    first, second = (_span(NOW + 9 * HOUR - offset, NOW + 9 * HOUR) for offset in (2 * 10**9, 2 * 10**9 - 20))
    one, other = in_the_present(first, NOW), in_the_present(second, NOW + 3 * 10**9)
    assert other.start_time_unix_nano - one.start_time_unix_nano == 20
    assert in_the_present(first, NOW + 60 * 10**9) == one


@pytest.mark.parametrize("time", [0, 1, NOW - 40 * 365 * 24 * HOUR, NOW, NOW + MAX_SKEW_NS])
def test_the_past_and_an_ordinary_skew_stay(time: int) -> None:
    span = _span(time, time, time)
    assert in_the_present(span, NOW) is span
