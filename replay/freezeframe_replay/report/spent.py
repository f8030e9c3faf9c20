"""Time, and cost at list price, of a run's calls. Pure.

In a replay, an answer from the recording counts with its recorded values, and a live call with its own. The
program's own code is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from freezeframe_replay.report.align import Side, side_of
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The sums over calls."""

    ms: float = 0.0
    """Time in calls; calls inside others are part of these."""
    usd: float = 0.0
    """The sum of known costs."""
    unknown: int = 0
    """Number of model calls with an unknown cost: no list price, or no count of tokens."""

    def __add__(self, other: Spent) -> Spent:
        """Return the sums of both."""
        return Spent(ms=round(self.ms + other.ms, 1), usd=self.usd + other.usd, unknown=self.unknown + other.unknown)


def spent_by(fixture: Fixture, served: Collection[int] | None = None) -> Spent:
    """Return time and cost of a run's calls; with `served`, only of these steps and the calls inside them."""
    chosen = [step for step in fixture.steps if served is None or step.number in served or step.inside in served]
    return spent_on(chosen)


def spent_on(steps: Iterable[Step]) -> Spent:
    """Return the time, tokens and cost of these steps."""
    total = Spent()
    for step in steps:
        total += _spent(step, side_of(step))
    return total


def _spent(step: Step, side: Side) -> Spent:
    is_model = step.exchange.kind is Kind.MODEL
    refused = (step.exchange.response.status or 0) >= 400  # costs nothing
    # an embedding has no output tokens: as in the store's view of costs, a cost above 0 is known
    known = side.cost_usd is not None and (side.tokens is not None or side.cost_usd > 0)
    return Spent(
        ms=side.ms if step.inside is None else 0.0,
        usd=side.cost_usd or 0.0 if known else 0.0,
        unknown=int(is_model and not known and not refused),
    )
