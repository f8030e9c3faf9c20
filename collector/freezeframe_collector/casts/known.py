"""A redacting process's copy of the casts of open runs: the log's owner sends it each finding that is on disk."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from freezeframe_collector.casts.found import RunKey
from freezeframe_collector.casts.sealing import Seal
from freezeframe_redaction.casts.book import Cast
from freezeframe_schemas.errors import StoreError

_LOG = logging.getLogger(__name__)
_EMPTY: Final = Cast()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCast:
    """The cast of a run as far as this process knows it."""

    cast: Cast = _EMPTY
    number: int = 0
    """Number of findings in it."""


class KnownCasts:
    """The casts. Safe to use from many threads."""

    def __init__(self, seal: Seal, runs: int) -> None:
        """`runs` limits the number of casts; a dropped run starts again without known values."""
        self.seal = seal
        self._limit = runs
        self._lock = threading.Lock()
        self._known: OrderedDict[RunKey, KnownCast] = OrderedDict()
        self._made: OrderedDict[RunKey, tuple[bytes, KnownCast]] = OrderedDict()
        """The last sealed finding of a run by this process, and the cast once it is on disk: no need to open its own seal."""

    def of(self, run: RunKey) -> KnownCast:
        with self._lock:
            return self._known.get(run) or KnownCast()

    def close(self, run: RunKey, known: KnownCast, cast: Cast) -> bytes:
        """Return the new values of the cast, sealed."""
        sealed = self.seal.close(run, cast.beyond(known.cast))
        with self._lock:
            self._made[run] = sealed, KnownCast(cast=cast, number=known.number + 1)
            if len(self._made) > self._limit:
                self._made.popitem(last=False)
        return sealed

    def learn(self, run: RunKey, number: int, sealed: bytes) -> None:
        """Take a finding; number 0: the run's cast was destroyed. One out of order is ignored; `number` stays behind."""
        with self._lock:
            made, learnt = self._made.pop(run, (b"", None))
            if not number:
                self._known.pop(run, None)
                return
            known = self._known.get(run) or KnownCast()
            if number != known.number + 1:
                return
            if learnt is None or made != sealed or learnt.number != number:
                try:
                    learnt = KnownCast(cast=known.cast.joined(self.seal.open(run, [sealed])), number=number)
                except StoreError as error:
                    _LOG.error("%s", error.message)
                    return
            self._known[run] = learnt
            self._known.move_to_end(run)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
