"""How many statements run at a time: in all, and for one user and one address, so that no one takes every place."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from freezeframe_collector.readers.errors import ClickHouseError

SHORT_PLACES: Final = 4
"""Further places, for short statements: slow ones of the same user do not hold them."""
_READS: Final = re.compile(
    rb"\b(?:FROM|JOIN|IN|TABLE|SHOW|DESC|DESCRIBE|EXISTS|CHECK|EXPLAIN|WITH|ARRAY|range|repeat|sleep\w*)\b", re.IGNORECASE
)
_MAX_SHORT_BYTES: Final = 200
_MAX_WAITING: Final = 200
"""For one user at one address."""
_WAIT_S: Final = 60.0


class Admission:
    """Places for statements. Whoever holds half of them waits while others are let in."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._share = max(1, places // 2)
        self._running: Counter[tuple[str, str]] = Counter()
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self, user: str, address: str) -> AsyncGenerator[None]:
        """Hold a place while a statement runs.

        Raises:
            ClickHouseError: too many are waiting already, or no place became free in time.
        """
        who = (user, address)
        if self._waiting[who] >= _MAX_WAITING:
            raise _full(f"{_MAX_WAITING} of your statements are already waiting")
        self._waiting[who] += 1
        try:
            async with asyncio.timeout(_WAIT_S), self._changed:
                await self._changed.wait_for(lambda: self._free(who))
                self._running[who] += 1
        except TimeoutError:
            raise _full(f"no slot became free within {_WAIT_S:g} s") from None
        finally:
            self._waiting[who] -= 1
            self._waiting += Counter()  # drops those at zero
        try:
            yield
        finally:
            async with self._changed:
                self._running[who] -= 1
                self._running += Counter()
                self._changed.notify_all()

    def _free(self, who: tuple[str, str]) -> bool:
        return self._running[who] < self._share and self._running.total() < self._places


def is_short(sql: bytes) -> bool:
    """Return whether a statement reads nothing stored, and makes nothing that takes long: a client's ``SELECT 1``."""
    return len(sql) <= _MAX_SHORT_BYTES and _READS.search(sql) is None


def _full(why: str) -> ClickHouseError:
    return ClickHouseError(202, "TOO_MANY_SIMULTANEOUS_QUERIES", f"Too many simultaneous queries: {why}; ask again later")
