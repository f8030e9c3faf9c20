"""What a redacting process knows of the casts of open runs: the log's owner sends it each finding that is on disk."""

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
class Known:
    """The cast of a run as far as this process knows it."""

    cast: Cast = _EMPTY
    number: int = 0
    """How many findings it is made of."""


class KnownCasts:
    """The casts. Safe to use from many threads."""

    def __init__(self, seal: Seal, runs: int) -> None:
        """`runs` limits how many casts are kept; a dropped run starts again with nothing known."""
        self.seal = seal
        self._limit = runs
        self._lock = threading.Lock()
        self._known: OrderedDict[RunKey, Known] = OrderedDict()

    def of(self, run: RunKey) -> Known:
        with self._lock:
            return self._known.get(run) or Known()

    def learn(self, run: RunKey, number: int, sealed: bytes) -> None:
        """Take a finding; number 0: the run's cast was destroyed. One out of order is ignored: `Known.number` stays behind."""
        with self._lock:
            if not number:
                self._known.pop(run, None)
                return
            known = self._known.get(run) or Known()
            if number != known.number + 1:
                return
            try:
                cast = known.cast.joined(self.seal.open(run, [sealed]))
            except StoreError as error:
                _LOG.error("%s", error.message)
                return
            self._known[run] = Known(cast=cast, number=number)
            self._known.move_to_end(run)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
