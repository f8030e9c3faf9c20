"""Costs of runs and their model calls, from the store's view ``model_calls``: by its table of prices, or by the sender.

An unknown cost never counts as zero: calls of a model without a price, or without a count of tokens, are counted separately.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from freezeframe_replay.sources.store import RunRow, RunStore

_FRESH_S: Final = 300.0
"""Time to keep the cost of a run that did not grow: a changed price shows up after that."""
_MAX_KEPT: Final = 10_000
CALLS: Final = """
    SELECT trace_id, span_id, cost_usd,
        -- refused or never answered: costs nothing. Else it is known by a price and tokens, or because the sender said it
        status = 'error' AND ifNull(http_status, 599) >= 400
        OR priced AND (input_tokens IS NOT NULL OR output_tokens IS NOT NULL OR cost_usd > 0) AS known
    FROM model_calls WHERE trace_id IN {ids:Array(String)}
"""
"""Model calls with their cost, and whether it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of some model calls."""

    usd: float
    """The sum of known costs."""
    calls: int
    unknown: int
    """Number of calls with an unknown cost."""


class Costs:
    """The costs of runs: those computed before, and new ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int, int, int], tuple[float, Cost | None]] = {}

    def of_runs(self, store: RunStore, rows: Sequence[RunRow]) -> dict[str, Cost]:
        """Return trace id -> cost, for the runs that called a model.

        Raises:
            PermanentStoreError: the store refuses the query.
            RetryableStoreError: the store does not answer.
        """
        called = [row for row in rows if row.model_calls]
        now = time.monotonic()
        with self._lock:
            known = {row.trace_id: kept[1] for row in called if (kept := self._kept.get(_key(row))) and kept[0] > now}
        unknown = [row for row in called if row.trace_id not in known]
        if unknown:
            _, found = store.sql(
                f"SELECT trace_id, sumIf(cost_usd, known), count(), countIf(NOT known) FROM ({CALLS}) GROUP BY trace_id",
                {"ids": [row.trace_id for row in unknown]},
            )
            costs = {str(row[0]): Cost(usd=float(row[1]), calls=int(row[2]), unknown=int(row[3])) for row in found}
            known |= {row.trace_id: costs.get(row.trace_id) for row in unknown}
            with self._lock:
                if len(self._kept) > _MAX_KEPT:
                    self._kept.clear()
                self._kept |= {_key(row): (now + _FRESH_S, costs.get(row.trace_id)) for row in unknown}
        return {trace_id: cost for trace_id, cost in known.items() if cost is not None}


def costs_of_calls(store: RunStore, trace_id: str) -> dict[str, float | None]:
    """Return span id -> US dollars for each call of a model in a run; None if it is not known.

    Raises:
        PermanentStoreError: the store refuses the query.
        RetryableStoreError: the store does not answer.
    """
    _, found = store.sql(f"SELECT span_id, if(known, cost_usd, NULL) FROM ({CALLS})", {"ids": [trace_id]})
    return {str(row[0]): None if row[1] is None else float(row[1]) for row in found}


def sum_of(costs: Mapping[str, float | None]) -> Cost | None:
    """Return the total cost of a run's calls; None without model calls."""
    known = [usd for usd in costs.values() if usd is not None]
    return Cost(usd=sum(known), calls=len(costs), unknown=len(costs) - len(known)) if costs else None


def _key(row: RunRow) -> tuple[str, int, int, int]:
    return row.trace_id, row.spans, row.input_tokens, row.output_tokens
