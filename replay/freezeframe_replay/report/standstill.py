"""Where a replay was stopped: the next call, and the program's frames, as text.

Paths are shown from the working directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Final

from freezeframe_replay.engine.compare import differences, json_or_text
from freezeframe_replay.report.render import short
from freezeframe_schemas.divergence import Report, Stopped

_LINES: Final = 40
"""Lines of a request that are shown, unless all are asked for."""
_BEFORE: Final = 20
"""Steps before the stop that are shown, unless all are asked for."""


def standstill_lines(report: Report, stopped: Stopped, *, width: int, full: bool = False) -> Iterator[str]:
    """Yield where a replay stopped: the steps before, the program's frames, what is asked and would be answered.

    Args:
        report: of the replay.
        stopped: where it stopped.
        width: columns at which lines are cut.
        full: show complete requests and answers.
    """
    yield f"stopped before step {stopped.step} ({stopped.call_kind} {stopped.name}), run {report.run_id}"
    before = report.served if full else report.served[-_BEFORE:]
    if len(before) < len(report.served):
        yield f"  {len(report.served) - len(before)} steps replayed, then"
    for item in before:
        yield short(f"  {item.step:>4}  {report.names.get(str(item.step), '')}", width)
    if report.divergences:
        yield f"  {len(report.divergences)} divergences before it (--json shows them)"
    yield from _frames(stopped, width)
    yield "about to ask"
    if stopped.address:
        yield short(f"  {stopped.address}", width)
    yield from _body(stopped.request, width, full)
    changes = list(differences(json_or_text(stopped.recorded), json_or_text(stopped.request)))
    changes += differences(stopped.recorded_address, stopped.address, "address")
    yield "recorded: the same" if not changes else "recorded differently, in parts that do not decide"
    for item in changes:
        yield from (short(f"  {item.path}", width), short(f"  - {item.recorded}", width), short(f"  + {item.live}", width))
    yield "would be answered"
    yield from _body(stopped.answer, width, full)


def _frames(stopped: Stopped, width: int) -> Iterator[str]:
    for frame in stopped.frames:
        yield short(f"at {_here(frame.place)}", width)
        yield from (short(f"    {name} = {text}", width) for name, text in frame.variables.items())


def _body(text: str, width: int, full: bool) -> Iterator[str]:
    if not text:
        yield "  (no body)"
        return
    value = json_or_text(text)
    lines = text.splitlines() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1).splitlines()
    shown = lines if full else lines[:_LINES]
    yield from (short(f"  {line}", width if not full else 10**6) for line in shown)
    if len(shown) < len(lines):
        yield f"  and {len(lines) - len(shown)} more lines (--full shows them)"


def _here(place: str) -> str:
    return place.removeprefix(os.path.join(os.getcwd(), ""))
