"""Bring times of a sender whose clock is ahead into the present: a span of 2106 would be the last run for ever.

A time is moved by whole hours, so that the spans of a run keep their order and their distances, and so that a span that
is sent again stays equal to itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

MAX_SKEW_NS: Final = 5 * 60 * 10**9
"""Maximum that a clock may be ahead: ordinary clocks differ by less."""
_STEP_NS: Final = 3600 * 10**9


def in_the_present(span: SpanRecord, now_ns: int) -> SpanRecord:
    """Return the span with no time after `now_ns`, apart from an ordinary skew; an attribute shows how far it was moved."""
    times = [span.start_time_unix_nano, span.end_time_unix_nano, *(event.time_unix_nano for event in span.events)]
    if max(times) <= now_ns + MAX_SKEW_NS:
        return span
    whole = _excess(span.start_time_unix_nano, now_ns)
    moved = [time_ns - whole - _excess(time_ns - whole, now_ns) if time_ns > whole else time_ns for time_ns in times]
    start, end, *of_events = moved
    made = replace(
        span,
        start_time_unix_nano=start,
        end_time_unix_nano=max(start, end) if times[0] <= times[1] else end,
        events=tuple(replace(event, time_unix_nano=at) for event, at in zip(span.events, of_events, strict=True)),
    )
    by_ns = max(before - after for before, after in zip(times, moved, strict=True))
    return made.with_attributes({genai.CLOCK_MOVED: by_ns // 10**9})


def _excess(time_ns: int, now_ns: int) -> int:
    """Return the amount to move a time back: whole hours, so that it is not after now; 0 for an ordinary skew."""
    ahead = time_ns - now_ns
    return -(-ahead // _STEP_NS) * _STEP_NS if ahead > MAX_SKEW_NS else 0
