"""SpoolingExporter: to the collector while it is up, to the disk while it is down, and from the disk once it is back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe._guard import log_once, logger
from freezeframe.export.delivery import CollectorExporter, Refused, Unreachable
from freezeframe.export.export_queue import BatchDeadline, BatchResult
from freezeframe.export.seal import DamagedBatch, SpoolSeal
from freezeframe.export.spool import Spool, SpoolFileError, SpoolFull
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.span import SpanRecord

_PATIENCE_S: Final = 5.0
"""Time to try a batch before it is spooled: short, because spans in memory are lost with the process."""
_DRAIN_TIMEOUT_S: Final = 2.0
_FIRST_REST_S: Final = 2.0
_MAX_REST_S: Final = 30.0


@dataclass(slots=True)
class DrainCounts:
    """Outcome of the batches found on the disk."""

    delivered: int = 0
    """Spans."""
    refused: int = 0
    """Spans that the collector does not accept."""
    damaged: int = 0
    """Batches set aside."""
    foreign: int = 0
    """Batches with another key or version, left in place."""


class SpoolingExporter:
    """A `CollectorExporter` backed by a spool."""

    def __init__(self, live: CollectorExporter, spool: Spool, seal: SpoolSeal) -> None:
        self._live = live
        self._spool = spool
        self._seal = seal
        self._rest_s = 0.0
        """Pause before the collector is tried again; 0 while it accepts batches."""
        self._rest_until_s = 0.0
        self._skipped: set[Path] = set()
        self.drained = DrainCounts()
        spool.sweep()
        self._expire()

    @property
    def waiting(self) -> int:
        """Number of deliverable batches on the disk."""
        return sum(path not in self._skipped for path in self._spool.batches())

    def export(self, records: Sequence[SpanRecord], deadline: BatchDeadline) -> BatchResult:
        """Deliver the batch, or spool it; if that fails too, continue as without a spool."""
        if not self._resting():
            try:
                result = self._live.export(records, deadline.within(_PATIENCE_S))
            except Unreachable as error:
                self._rest(error)
            else:
                self._rest_s = 0.0
                return result
        try:
            self._spool.put(*self._seal.seal(records))
        except (OSError, SpoolFull, ConfigError) as error:
            log_once("spool.put", "freezeframe: %s; spans wait in memory only", error)
            return self._live.export(records, deadline)
        return BatchResult(spooled=len(records))

    def idle(self) -> bool:
        """Deliver one spooled batch, if one waits and the collector is not being left alone; return whether to go on."""
        if self._resting():
            return False
        path = next((path for path in self._spool.batches() if path not in self._skipped), None)
        return path is not None and self._drain(path)

    def drain(self) -> None:
        """Deliver everything that waits, until the collector accepts no more."""
        while self.idle():
            pass

    def _drain(self, path: Path) -> bool:
        try:
            with self._spool.claim(path) as claim:
                if claim is None:  # another process is delivering it
                    return False
                try:
                    result = self._live.post(self._seal.open(claim), claim.header.spans, BatchDeadline(_DRAIN_TIMEOUT_S))
                except DamagedBatch as error:
                    logger.warning("freezeframe: %s; kept as it is", error)
                    self.drained.damaged += 1
                    claim.set_aside()
                except Refused as error:
                    logger.warning("freezeframe: %d spooled spans were refused: %s", claim.header.spans, error)
                    self.drained.refused += claim.header.spans
                    claim.done()
                else:
                    self._rest_s = 0.0
                    self.drained.delivered += result.delivered
                    self.drained.refused += result.failed
                    claim.done()
        except Unreachable as error:
            self._rest(error)
            return False
        except ConfigError as error:  # the key cannot be used
            log_once("spool.key", "freezeframe: %s; the spooled spans stay where they are", error)
            return False
        except SpoolFileError as error:
            log_once(f"spool.foreign:{path.parent}", "freezeframe: %s; left where it is", error)
            self.drained.foreign += 1
            self._skipped.add(path)
        return True

    def _resting(self) -> bool:
        return self._rest_s > 0 and time.monotonic() < self._rest_until_s

    def _rest(self, error: Unreachable) -> None:
        """Leave the collector alone for a while, longer each time."""
        log_once("spool.begin", "freezeframe: %s; spans wait in %s and are delivered later", error, self._spool.directory)
        self._expire()
        self._rest_s = min(max(self._rest_s * 2, _FIRST_REST_S), _MAX_REST_S)
        self._rest_until_s = time.monotonic() + self._rest_s

    def _expire(self) -> None:
        expired = self._spool.expire()
        if expired:
            logger.warning("freezeframe: %d spooled batches were too old and were deleted (%s)", expired, self._spool.directory)

    def close(self) -> None:
        """Close the connection; batches on the disk stay there."""
        self._live.close()
