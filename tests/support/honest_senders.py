"""Honest senders, one over HTTP and one over gRPC, that note what was refused and how long each request waited."""

from __future__ import annotations

import http.client
import itertools
import threading
import time

import grpc
from running_collector import PROTOBUF, CollectorProcess, span

from freezeframe_schemas.otlp.encode import encode_traces

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPANS = 20
"""In a request."""
PAUSE_S = 0.02


class HonestSenders:
    """Two threads that send one request after the other, with a short pause, from the beginning of the block to its end."""

    def __init__(self, collector: CollectorProcess, text: str = "x" * 2_000, *, first: int = 0) -> None:
        """`first` numbers the first span; `text` is in each."""
        self._ports = collector.ports
        self._text = text
        self._numbers = itertools.count(first, SPANS)
        self._stopped = threading.Event()
        self.waits_s: dict[str, list[float]] = {"HTTP": [], "gRPC": []}
        """Of the requests that were taken."""
        self.refused: list[str] = []
        self._threads = [threading.Thread(target=self._http), threading.Thread(target=self._grpc)]

    @property
    def spans(self) -> int:
        """Return how many spans were acked."""
        return SPANS * sum(map(len, self.waits_s.values()))

    def __enter__(self) -> HonestSenders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _body(self) -> bytes:
        number = next(self._numbers)
        return encode_traces([span(number + n, self._text) for n in range(SPANS)])

    def _http(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports["http"], timeout=300)
        while not self._stopped.wait(PAUSE_S):
            body, began = self._body(), time.perf_counter()
            try:
                connection.request("POST", "/v1/traces", body, PROTOBUF)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.refused.append(repr(error))
                connection.close()
                continue
            if answer.status == 200:
                self.waits_s["HTTP"].append(time.perf_counter() - began)
            else:
                self.refused.append(f"HTTP {answer.status}")
        connection.close()

    def _grpc(self) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{self._ports['grpc']}") as channel:
            call = channel.unary_unary(EXPORT)
            while not self._stopped.wait(PAUSE_S):
                body, began = self._body(), time.perf_counter()
                try:
                    call(body, timeout=300)
                except grpc.RpcError as error:
                    self.refused.append(str(error))
                else:
                    self.waits_s["gRPC"].append(time.perf_counter() - began)
