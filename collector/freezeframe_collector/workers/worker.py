"""A worker: one of several processes that receive. Started by `pool`, with its end of the socket pair as standard input.

It holds no log, no store and no lock. When the owner is gone it ends at once: senders repeat unacked requests.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from freezeframe_collector.admission import BusyError
from freezeframe_collector.batch import Appended, Batch
from freezeframe_collector.casts.known import KnownCasts
from freezeframe_collector.front import Front, build_pipeline, build_redaction
from freezeframe_collector.memory import collect_rarely, return_large_blocks
from freezeframe_collector.pipeline import Pipeline
from freezeframe_collector.settings.config import config_from_values
from freezeframe_collector.telemetry import configure_logging, hide_exception_text
from freezeframe_collector.workers.channel import (
    Channel,
    ChannelMessage,
    MessageKind,
    pack_batch,
    unpack_appended,
    unpack_busy,
    unpack_finding,
)
from freezeframe_schemas.errors import FreezeframeError

_COUNTS_INTERVAL_S: Final = 1.0
_OWNER_GONE: Final = 3


class Owner:
    """The process that owns the log, as a worker sees it: its log, and its pages."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        self._answers: dict[int, tuple[Callable[[bytes], None], Callable[[BusyError], None]]] = {}
        self.pipeline: Pipeline | None = None
        self.casts: KnownCasts | None = None

    def submit(self, batch: Batch) -> Future[Appended]:
        """Hand the batch to the log; the answer comes when it is on the disk."""
        answer = Future[Appended]()
        self._call(
            MessageKind.APPEND,
            pack_batch(batch),
            lambda payload: answer.set_result(unpack_appended(payload)),
            answer.set_exception,
        )
        return answer

    def health(self) -> str:
        """Return the owner's fault, or an empty text."""
        return self._page("health")

    def readiness(self) -> str:
        """Return the obstacle to storing spans, or an empty text."""
        return self._page("readiness")

    def metrics(self) -> str:
        """Return the Prometheus text of the whole collector."""
        return self._page("metrics")

    def status(self) -> dict[str, object]:
        """Return the state of the whole collector."""
        return self._page("status")

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything acked is in the store; return whether that happened."""
        return self._page("flush", timeout_s)

    def send_counts(self) -> None:
        """Report the counts since the last report to the owner."""
        if self.pipeline is not None:
            counts = {"meter": self.pipeline.meter.drain(), "budget": self.pipeline.budget.state().to_json()}
            self._channel.send(ChannelMessage(kind=MessageKind.COUNTS, payload=json.dumps(counts).encode()))

    def listen(self) -> float:
        """Receive the owner's answers until its stop message; return the seconds for stopping.

        Ends the process when the owner dies.
        """
        while (message := self._channel.receive()) is not None:
            if message.kind is MessageKind.STOP:
                # Answers still come while the last requests are finished.
                threading.Thread(target=self.listen, name="freezeframe-owner", daemon=True).start()
                return float(json.loads(message.payload))
            if message.kind is MessageKind.CAST:
                if self.casts is not None:
                    self.casts.learn(*unpack_finding(message.payload))
                continue
            answered, refused = self._answers.pop(message.number)
            if message.kind is MessageKind.BUSY:
                refused(unpack_busy(message.payload))
            else:
                answered(message.payload)
        os._exit(_OWNER_GONE)

    def _page(self, name: str, *arguments: float) -> Any:
        self.send_counts()
        answer = Future[bytes]()
        self._call(MessageKind.PAGE, json.dumps([name, *arguments]).encode(), answer.set_result, answer.set_exception)
        return json.loads(answer.result())

    def _call(
        self, kind: MessageKind, payload: bytes, answered: Callable[[bytes], None], refused: Callable[[BusyError], None]
    ) -> None:
        number = next(self._numbers)
        self._answers[number] = (answered, refused)
        self._channel.send(ChannelMessage(kind=kind, number=number, payload=payload))


async def _serve(channel: Channel, values: dict[str, Any]) -> None:
    return_large_blocks()
    config = config_from_values(values)
    configure_logging(config.service.log_level)
    hide_exception_text()
    owner = Owner(channel)
    redact = build_redaction(config)
    owner.casts = redact.casts
    pipeline = owner.pipeline = build_pipeline(config, owner, redact)
    front = Front(config, pipeline, owner, shares_ports=True)
    grpc_port, http_port = await front.start()
    collect_rarely()
    channel.send(ChannelMessage(kind=MessageKind.READY, payload=json.dumps({"grpc": grpc_port, "http": http_port}).encode()))
    stopping = asyncio.ensure_future(asyncio.to_thread(owner.listen))
    while not stopping.done():
        await asyncio.wait((stopping,), timeout=_COUNTS_INTERVAL_S)
        owner.send_counts()
    await front.stop(stopping.result())
    owner.send_counts()


def main() -> int:
    """Run a worker; return 0 when it was asked to stop."""
    # The owner obeys a signal to the whole group: it tells its workers.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=os.dup(0)))
    first = channel.receive()
    if first is None or first.kind is not MessageKind.CONFIG:
        return _OWNER_GONE
    try:
        asyncio.run(_serve(channel, json.loads(first.payload)))
    except FreezeframeError as error:
        channel.send(ChannelMessage(kind=MessageKind.FAILED, payload=str(error).encode()))
        return 2
    except OSError:
        # A message could not be sent: the owner is gone.
        return _OWNER_GONE
    return 0


if __name__ == "__main__":
    sys.exit(main())
