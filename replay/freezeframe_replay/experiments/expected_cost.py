"""Expected cost: what a run's model calls cost at today's list price, for the recorded model or for another one. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Final

from freezeframe_replay.report.align import side_of
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.prices import price_of

_BYTES_A_TOKEN: Final = 3
"""Fewer than in most texts, so that an estimate is rather too high."""


def expected_cost(fixture: Fixture, model: str | None = None) -> float | str:
    """Return US dollars for the recorded calls, or the name of a model that has no list price.

    `model`: answers in place of the recorded ones.
    """
    total, today = 0.0, dt.datetime.now(dt.UTC).date()
    for step in fixture.steps:
        if step.exchange.kind is not Kind.MODEL:
            continue
        side = side_of(step)
        name = model or side.model or step.model or ""
        price = price_of(name, today)
        if price is None:
            return name
        exchange = step.exchange
        sizes = len(exchange.request.body) // _BYTES_A_TOKEN, len(exchange.response.body) // _BYTES_A_TOKEN
        tokens = side.tokens or sizes
        total += price.cost_usd(input_tokens=tokens[0], output_tokens=tokens[1])
    return total
