"""Readings: what a lane took from its surroundings, in one list per kind, lane and calling file; a replay recalls them.

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
"""How often it is asked, by whomever: a program that asks more often is no longer being imported."""


def feed_of(kind: str, place: Place, file: str) -> str:
    """Return the feed of a place, for the file that asks there."""
    if place.run_anew or place.inside is not None:
        kind = f"{kind}-in-{place.call_span_id}"
    return _feed(kind, place.run is not None, place.lane.path, file)


@lru_cache(maxsize=1_000)
def _feed(kind: str, is_in_run: bool, lane: Lane, file: str) -> str:
    return f"{kind}{'' if is_in_run else '-outside'} {format_lane(lane)} {os.path.basename(file)}"


def is_read_inside(place: Place, file: str) -> bool:
    """Return whether what a file reads inside a call is kept or recalled: in a tool, if it is the program's file."""
    return (place.run_anew or place.inside is not None) and is_of_program(file)


def recall(feed: str) -> str | None:
    """Return the next reading that a replay has; None if it has no more, or there is no replay."""
    responder = switch.serving()
    return None if responder is None else responder.recall(Feed.READING, feed)


def note(place: Place, feed: str, value: str) -> list[str] | None:
    """Keep a reading; return the list that now ends with it, None if it is not kept."""
    recorder = switch.recorder()
    return None if recorder is None else (place.run or recorder.root).note_reading(feed, value)


def is_kept_before() -> bool:
    """Return whether what the program reads outside of runs is kept for all of them, since there was none so far."""
    recorder = switch.recorder()
    if recorder is None or recorder.root.loaded.full or len(recorder.root.before) >= _MAX_BEFORE:
        return False
    recorder.root.calls_before += 1
    return recorder.root.calls_before < _MAX_ASKED


def note_before(place: Place, file: str, feed: str, value: str) -> None:
    """Keep what a file of the program read before the first run, for all runs: a replay imports the program's modules again."""
    recorder = switch.recorder()
    if recorder is not None and place.run is None and is_kept_before() and is_of_program(file):
        recorder.root.before.append((feed, value))


def draws_of(place: Place) -> Draws | None:
    """Return the store for draws at a place; None if they are not kept."""
    recorder = switch.recorder()
    if recorder is None or place.inside_call:
        return None
    return recorder.root.draws() if place.run is None else place.run.draws
