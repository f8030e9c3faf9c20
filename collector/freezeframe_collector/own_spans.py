"""The collector's own spans: what it did, in the form that it receives. Off by default.

They go to an OTLP endpoint, or into the collector's own log with everyone else's. They hold no payload, only names and numbers.
They cause no further ones: they enter after the receivers, and a segment that holds no other spans is stored without a span
about it.
"""

from __future__ import annotations

import logging
import os
import queue
import random
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final

from freezeframe_collector.admission import BusyError
from freezeframe_collector.batch import Batch, LogWriter
from freezeframe_collector.encoded import encode_spans
from freezeframe_schemas import genai
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanRecord

_LOG = logging.getLogger(__name__)
OFF: Final = "off"
SELF: Final = "self"
SCOPE: Final = Scope(name="freezeframe.collector", version=version("freezeframe"))
_HELD: Final = 1_000
"""Spans that may wait; more are dropped and counted: telemetry must not fill the memory."""
_INTERVAL_S: Final = 2.0
_TIMEOUT_S: Final = 5.0


class OwnSpans:
    """Takes what happened and sends it now and then, from its own thread."""

    def __init__(self, target: str, sample: float, log: LogWriter) -> None:
        """`target` is ``off``, ``self`` or the URL of an OTLP/HTTP endpoint; `sample` the share of requests that get a span."""
        self.dropped = 0
        self._target = target
        self._sample = sample
        self._log = log
        self._resource = Resource(attributes={genai.SERVICE_NAME: "freezeframe-collector", "process.pid": os.getpid()})
        self._waiting: queue.Queue[SpanRecord] = queue.Queue(_HELD)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        if target != OFF:
            self._thread = threading.Thread(target=self._run, name="freezeframe-own-spans", daemon=True)
            self._thread.start()

    def wants_request(self) -> bool:
        """Return whether the next request is to get a span."""
        return self._thread is not None and random.random() < self._sample  # noqa: S311  # a sample, not a secret

    def add(self, name: str, started_ns: int, attributes: Mapping[str, AttributeValue]) -> None:
        """Note what began at `started_ns` (since 1970) and ended now. Never waits."""
        if self._thread is None:
            return
        span = SpanRecord(
            trace_id=f"{random.getrandbits(127) + 1:032x}",
            span_id=f"{random.getrandbits(63) + 1:016x}",
            name=name,
            start_time_unix_nano=started_ns,
            end_time_unix_nano=time.time_ns(),
            attributes=attributes,
            resource=self._resource,
            scope=SCOPE,
        )
        try:
            self._waiting.put_nowait(span)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Send what is waiting and end the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S + 1.0)

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_S):
            self._send()
        self._send()

    def _send(self) -> None:
        spans: list[SpanRecord] = []
        while not self._waiting.empty():
            spans.append(self._waiting.get_nowait())
        if not spans:
            return
        try:
            if self._target == SELF:
                self._log.submit(Batch(encoded=encode_spans(spans), spans=spans)).result()
            else:
                _post(self._target, spans)
        except (BusyError, OSError) as error:
            # Other spans must not wait for these, and losing some of these does little harm: they are counted and dropped.
            self.dropped += len(spans)
            _LOG.warning("%d own spans could not be sent: %s", len(spans), type(error).__name__)


def is_own(span: SpanRecord) -> bool:
    """Return whether the span is one of the collector about itself."""
    return span.scope.name == SCOPE.name


def _post(url: str, spans: Sequence[SpanRecord]) -> None:
    headers = {"content-type": "application/x-protobuf"}
    request = urllib.request.Request(url, encode_traces(spans), headers, method="POST")  # noqa: S310  # the scheme was checked
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
        pass
