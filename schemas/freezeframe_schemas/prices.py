"""List prices of models, for runs that are compared without a store. A new store begins with the same rows."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_ROW: Final = re.compile(r"\('([^']+)', '(\d{4}-\d\d-\d\d) 00:00:00', ([\d.]+), ([\d.]+), ([\d.]+), ([\d.]+), '[^']*'\)")
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens, from a day on."""

    prefix: str
    """Start of the model's name."""
    valid_from: dt.date
    input_usd: float
    output_usd: float
    cache_read_usd: float
    cache_write_usd: float

    def cost_usd(self, *, input_tokens: int, output_tokens: int, cache_read: int = 0, cache_write: int = 0) -> float:
        """Return what a call costs; `input_tokens` include cached ones, as the conventions count them."""
        fresh = max(input_tokens - cache_read - cache_write, 0)
        read_and_written = cache_read * self.cache_read_usd + cache_write * self.cache_write_usd
        return (fresh * self.input_usd + read_and_written + output_tokens * self.output_usd) / _MILLION


@cache
def list_prices() -> tuple[Price, ...]:
    """Return every row of the table of prices as a new store has it."""
    text = files("freezeframe_schemas").joinpath("sql", "0001_tables.sql").read_text(encoding="utf-8")
    return tuple(
        Price(
            prefix=row[1],
            valid_from=dt.date.fromisoformat(row[2]),
            input_usd=float(row[3]),
            output_usd=float(row[4]),
            cache_read_usd=float(row[5]),
            cache_write_usd=float(row[6]),
        )
        for row in _ROW.finditer(text)
    )


def price_of(model: str, day: dt.date) -> Price | None:
    """Return the price of a model on a day, as the store finds it: of the longest prefix, then the latest date."""
    known = [price for price in list_prices() if model.startswith(price.prefix)]
    longest = max((len(price.prefix) for price in known), default=0)
    valid = [price for price in known if len(price.prefix) == longest and price.valid_from <= day]
    return max(valid, key=lambda price: price.valid_from, default=None)
