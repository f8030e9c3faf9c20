"""Readings: values that a lane read from its surroundings, in one list per kind, lane and calling file; a replay recalls them.

A feed is the name of such a list: ``KIND LANE FILE``. Outside a run, the kind ends in ``-outside``; inside a recorded tool, in
``-in-`` and the id of its span, so that only a replay that runs the tool takes it.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from freezeframe.context.current import Place
from freezeframe.context.draws import Draws, is_of_program
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.responder import Feed
from freezeframe_schemas.exchange import Lane, format_lane

_MAX_BEFORE: Final = 20
_MAX_ASKED: Final = 1_000
"""Limit of queries by all callers: a program that exceeds it is no longer being imported."""


def feed_of(kind: str, place: Place, file: str) -> str:
    """Return the feed of a place, for the calling file."""
    if place.run_anew or place.inside is not None:
        kind = f"{kind}-in-{place.call_span_id}"
    return _feed(kind, place.run is not None, place.lane.path, file)


@lru_cache(maxsize=1_000)
def _feed(kind: str, is_in_run: bool, lane: Lane, file: str) -> str:
    return f"{kind}{'' if is_in_run else '-outside'} {format_lane(lane)} {os.path.basename(file)}"


def is_read_inside(place: Place, file: str) -> bool:
    """Return whether a file's readings inside a call are kept or recalled: in a tool, if it is the program's file."""
    return (place.run_anew or place.inside is not None) and is_of_program(file)


def recall(feed: str) -> str | None:
    """Return the next reading of a replay; None if it has no more, or without a replay."""
    responder = switch.serving()
    return None if responder is None else responder.recall(Feed.READING, feed)


def note(place: Place, feed: str, value: str) -> list[str] | None:
    """Keep a reading; return the list that now ends with it, None if it is not kept."""
    recorder = switch.recorder()
    return None if recorder is None else (place.run or recorder.root).note_reading(feed, value)


def is_kept_before() -> bool:
    """Return whether readings outside of runs are kept for all of them, since no run has begun so far."""
    recorder = switch.recorder()
    if recorder is None or recorder.root.loaded.full or len(recorder.root.before) >= _MAX_BEFORE:
        return False
    recorder.root.calls_before += 1
    return recorder.root.calls_before < _MAX_ASKED


def note_before(place: Place, file: str, feed: str, value: str) -> None:
    """Keep the readings of a file of the program before the first run, for all runs: a replay imports the modules again."""
    recorder = switch.recorder()
    if recorder is not None and place.run is None and is_kept_before() and is_of_program(file):
        recorder.root.before.append((feed, value))


def draws_of(place: Place) -> Draws | None:
    """Return the store for draws at a place; None if they are not kept."""
    recorder = switch.recorder()
    if recorder is None or place.inside_call:
        return None
    return recorder.root.draws() if place.run is None else place.run.draws
