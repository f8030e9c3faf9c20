"""One page: similar failures in groups. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_replay.web.markup import render
from freezeframe_replay.web.replay import Noted

BARS: Final = 28
"""Bars of the small chart of each group."""
_HEIGHT: Final = 20


def failures_page(
    groups: Sequence[FailureGroup],
    bars: Mapping[str, Sequence[int]],
    replays: Mapping[str, Noted],
    *,
    since: str,
    token: str,
    wrong: str = "",
) -> str:
    """Return the page.

    Args:
        groups: those of most runs first.
        bars: signature -> failures in each of `BARS` equal parts of the time.
        replays: run -> its last replay.
        since: the time, as typed.
        token: the value that the form of our own page sends back.
        wrong: the fault of `since`.
    """
    runs = list(dict.fromkeys(group.newest for group in groups))
    return render(
        "failures.html",
        groups=groups,
        charts={signature: _chart(counts) for signature, counts in bars.items()},
        replays=replays,
        runs=runs,
        running=any(not replay.has_ended for replay in replays.values()),
        since=since,
        token=token,
        wrong=wrong,
    )


def _chart(counts: Sequence[int]) -> list[dict[str, int]]:
    most = max(counts, default=0) or 1
    heights = [max(round(count / most * _HEIGHT), 2) if count else 0 for count in counts]
    return [{"x": 4 * place, "y": _HEIGHT - height, "height": height} for place, height in enumerate(heights) if height]
