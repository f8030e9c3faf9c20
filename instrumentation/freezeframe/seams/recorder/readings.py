"""Readings: what a lane took from its surroundings, in one list per kind, lane and calling file; a replay recalls them.

A feed is the name of such a list: ``KIND LANE FILE``. Outside a run, the kind ends in ``-outside``.
"""

from __future__ import annotations

import os
from typing import Final

from freezeframe.context.current import Place
from freezeframe.context.draws import Draws
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.responder import Feed
from freezeframe_schemas.exchange import format_lane

_MAX_BEFORE: Final = 100


def feed_of(kind: str, place: Place, file: str) -> str:
    """Return the feed of a place, for the file that asks there."""
    return f"{kind}{'' if place.run else '-outside'} {format_lane(place.lane.path)} {os.path.basename(file)}"


def recall(feed: str) -> str | None:
    """Return the next reading that a replay has; None if it has no more, or there is no replay."""
    responder = switch.serving()
    return None if responder is None else responder.recall(Feed.READING, feed)


def note(place: Place, feed: str, value: str) -> list[str] | None:
    """Keep a reading; return the list that now ends with it, None if it is not kept."""
    recorder = switch.recorder()
    return None if recorder is None else (place.run or recorder.root).note_reading(feed, value)


def note_before(place: Place, feed: str, value: str) -> None:
    """Keep a reading outside any run, before the first one, for all runs: a replay imports the program's modules again."""
    recorder = switch.recorder()
    if recorder is not None and place.run is None and not recorder.root.loaded.full and len(recorder.root.before) < _MAX_BEFORE:
        recorder.root.before.append((feed, value))


def draws_of(place: Place) -> Draws | None:
    """Return the store for draws at a place; None if they are not kept."""
    recorder = switch.recorder()
    if recorder is None or place.inside_call:
        return None
    return recorder.root.draws() if place.run is None else place.run.draws
