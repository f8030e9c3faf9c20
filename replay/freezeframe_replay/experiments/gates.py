"""Gates: limits that a candidate must not exceed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from freezeframe_replay.report.render import counted
from freezeframe_replay.report.spent import Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The limits; None sets none."""

    changed: int | None = None
    """Rows that may change."""
    broken: int | None = None
    """Runs that passed before and may fail now."""
    p95_s: float | None = None
    """Seconds that the calls of 95 of 100 runs may take."""
    usd: float | None = None
    """US dollars that the dearest run may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One limit, and the result."""

    name: str
    limit: float
    found: float | None
    """None if it is not known."""
    passed: bool | None
    """None if it is not known."""
    note: str = ""


def check_gates(
    gates: Gates,
    changed: int,
    rows: Sequence[Spent | None],
    incomparable: int = 0,
    broken: int = 0,
    unknown: int = 0,
) -> Iterator[Gate]:
    """Yield each limit that is set, with its result.

    Args:
        gates: the limits.
        changed: rows that changed.
        rows: time and cost of each run, None if unknown.
        incomparable: rows that may have changed.
        broken: runs that passed before and fail now.
        unknown: runs that may be broken.
    """
    if gates.changed is not None:
        yield _gate("changed", gates.changed, changed, incomparable, least=changed, most=changed + incomparable)
    if gates.broken is not None:
        yield _gate("broken", gates.broken, broken, unknown, least=broken, most=broken + unknown)
    unknown = sum(row is None for row in rows)
    if gates.p95_s is not None:
        known = [row.ms / 1000 for row in rows if row is not None]
        yield _gate("p95 seconds", gates.p95_s, _p95(known), unknown, least=_p95([*known, *[0.0] * unknown]))
    if gates.usd is not None:
        unknown += sum(row.unknown > 0 for row in rows if row is not None)
        found = max((row.usd for row in rows if row is not None), default=None)
        yield _gate("US dollars a run", gates.usd, found, unknown, least=found)


def _gate(
    name: str, limit: float, found: float | None, unknown: int, *, least: float | None, most: float | None = None
) -> Gate:
    """Return a limit. Runs with an unknown value leave it open, unless no value of theirs could change it."""
    exceeded = least is not None and least > limit
    is_open = found is None or (unknown > 0 and (most is None or most > limit))
    note = f"not known of {counted(unknown, 'run')}" if unknown else ""
    return Gate(name=name, limit=limit, found=found, passed=False if exceeded else None if is_open else True, note=note)


def _p95(values: Sequence[float]) -> float | None:
    """Return the smallest of the values that 95 of 100 do not exceed, or None."""
    return sorted(values)[math.ceil(len(values) * 0.95) - 1] if values else None
