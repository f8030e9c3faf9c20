"""CollectorExporter: a batch on its way: encoded, compressed, retried while there is time, split if it is too large.

The errors, by what to do about them::

    DeliveryError
      TryAgain      the collector is down or busy: the same batch, later
      Unreachable   nothing accepts our batches at the moment, and trying again at once would not help
      Refused       this batch will never be accepted
        TooLarge    as one message; its halves may be accepted

Source: OTLP 1.x specification, "OTLP/HTTP Response" and "OTLP/gRPC: Failures".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from freezeframe._guard import log_once
from freezeframe.export.export_queue import BatchDeadline, BatchResult
from freezeframe.export.otlp import encode_request
from freezeframe.export.tls import TlsFiles
from freezeframe_schemas.data_directory import is_chosen
from freezeframe_schemas.exchange import without_bodies
from freezeframe_schemas.lifecycle import is_pending
from freezeframe_schemas.local_tokens import SENDER, bearer, read_token, whose_port
from freezeframe_schemas.span import SpanRecord

_FIRST_WAIT_S: Final = 1.0
_MAX_WAIT_S: Final = 8.0


class DeliveryError(ConnectionError):
    """A batch was not accepted."""


class TryAgain(DeliveryError):
    """The collector is down or busy."""

    def __init__(self, message: str, after_s: float | None = None, *, is_down: bool = False) -> None:
        super().__init__(message)
        self.is_down = is_down
        """Nothing accepts connections there."""
        self.after_s = after_s
        """The delay that the collector asked for (Retry-After, RetryInfo); None if it named none."""


class Unreachable(DeliveryError):
    """Batches are not accepted at the moment: no time left, no such path, no permission."""


class Refused(DeliveryError):
    """This batch will never be accepted."""


class TooLarge(Refused):
    """The batch is over the receiver's limit for one message."""


class Wire(Protocol):
    """One connection to a collector. It belongs to one thread, and starts afresh in a forked child."""

    target: str
    """Host, port and path, for messages."""
    is_collector: bool | None
    """Its last answer was a freezeframe collector's; None before the first."""

    def send(self, body: bytes, timeout_s: float) -> int:
        """Send one request and return how many of its spans the collector set aside.

        Raises:
            DeliveryError: it was not accepted.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Destination of batches, and the way to send them."""

    endpoint: str
    headers: Sequence[tuple[str, str]] = ()
    encoding: str = "none"
    """Compression of batches."""
    tls: TlsFiles = field(default_factory=TlsFiles)
    own: Path | None = None
    """This project's data directory if the address was not configured: the collector there may be another project's."""


def show_token(host: str, port: int, own: Path | None) -> dict[str, str]:
    """Return the header that admits us to this user's collector on that port, or an empty result.

    Args:
        host: the destination's host.
        port: its port.
        own: see `Destination.own`.

    Raises:
        Unreachable: it is another project's collector.
    """
    owner = whose_port(host, port)
    if owner is None:
        return {}
    if own is not None and own != owner:
        if is_chosen(own):
            raise Unreachable(
                f"this is the collector of {owner}, and this project's data directory is {own} (start its collector with "
                "`freezeframe up` on other ports, or set FREEZEFRAME_ENDPOINT to send to this one)"
            )
        log_once("delivery.whose", "freezeframe: %s does not exist, so spans go to the collector of %s", own, owner)
    return bearer(read_token(owner, SENDER))


class CollectorExporter:
    """Delivers batches over a `Wire`."""

    def __init__(
        self, wire: Wire, compress: Callable[[bytes], bytes], request_timeout_s: float, *, asks_who: bool = False
    ) -> None:
        """`asks_who`: the address may be any backend's, which is not sent the marks of runs that began."""
        self._wire = wire
        self._asks_who = asks_who
        self._compress = compress
        self._request_timeout_s = request_timeout_s
        # Senders that lost the same collector must not come back in step. A separate generator leaves the application's alone.
        self._random = random.Random()  # noqa: S311 - not a secret

    def export(self, records: Sequence[SpanRecord], deadline: BatchDeadline) -> BatchResult:
        """Send the batch, in halves if it is too large.

        A single span that is too large is sent without its bodies, and marked: a step known to be incomplete is
        worth more than one missing without a trace. It is never split into several spans: the collector redacts
        span by span, and would miss a value that is cut in two.

        Raises:
            Unreachable: it was not accepted before the deadline.
        """
        marks = 0
        if self._asks_who and not self._takes_marks(records, deadline):
            own = [record for record in records if not is_pending(record)]
            marks, records = len(records) - len(own), own
            if not own:
                return BatchResult(delivered=marks)
        try:
            return self.post(encode_request(records), len(records), deadline) + BatchResult(delivered=marks)
        except TooLarge as error:
            if len(records) > 1:
                half = len(records) // 2
                return self.export(records[:half], deadline) + self.export(records[half:], deadline)
            lean = without_bodies(records[0], f"over the receiver's limit ({error})")
            if lean is records[0]:
                return BatchResult(failed=1, why=str(error))
            log_once("delivery.too_large", "freezeframe: %s; sent without its bodies, so that run cannot be replayed", error)
            return self.export([lean], deadline)
        except Refused as error:
            return BatchResult(failed=len(records), why=str(error))

    def _takes_marks(self, records: Sequence[SpanRecord], deadline: BatchDeadline) -> bool:
        """Return whether the receiver knows pending spans; ask it by an empty request if some are to be sent first."""
        if self._wire.is_collector is None and any(map(is_pending, records)):
            try:
                self.post(b"", 0, deadline)
            except Refused:
                return False
        return self._wire.is_collector is not False

    def post(self, body: bytes, spans: int, deadline: BatchDeadline) -> BatchResult:
        """Send an encoded request with this many spans; retry as long as the deadline allows.

        Raises:
            Refused: it will never be accepted.
            Unreachable: it was not accepted before the deadline.
        """
        packed = self._compress(body)
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                timeout_s = max(0.1, min(self._request_timeout_s, deadline.left_s))
                rejected = min(self._wire.send(packed, timeout_s), spans)
            except TryAgain as error:
                if deadline.left_s <= 0 or (error.is_down and deadline.is_hopeless_if_down):
                    raise Unreachable(f"{self._wire.target}: {error}") from error
                log_once("delivery.retry", "freezeframe: %s: %s; trying again", self._wire.target, error)
                deadline.wait(min(wait_s if error.after_s is None else error.after_s, deadline.left_s))
                wait_s = min(wait_s * 2, _MAX_WAIT_S) * self._random.uniform(0.8, 1.0)
            except Unreachable as error:
                raise Unreachable(f"{self._wire.target}: {error}") from error
            else:
                why = f"{self._wire.target}: the collector rejected {rejected} spans" if rejected else ""
                return BatchResult(delivered=spans - rejected, failed=rejected, why=why)

    def idle(self) -> bool:
        """Do nothing: no batch waits here."""
        return False

    def close(self) -> None:
        self._wire.close()
