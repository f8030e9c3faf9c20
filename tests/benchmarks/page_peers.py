"""Phoenix on this machine, from an environment of its own, for the benchmark that shows it beside our pages."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import httpx

from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

_BATCH = 500


class Phoenix:
    """One server on free ports, with its data in a folder; ends with the context."""

    def __init__(self, python: str, folder: Path) -> None:
        http, grpc = _free_port(), _free_port()
        self.origin = f"http://127.0.0.1:{http}"
        folder.mkdir(parents=True)
        ports = {"PHOENIX_PORT": str(http), "PHOENIX_GRPC_PORT": str(grpc), "PHOENIX_HOST": "127.0.0.1"}
        quiet = {"PHOENIX_TELEMETRY_ENABLED": "false", "PHOENIX_WORKING_DIR": str(folder)}
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [python, "-m", "phoenix.server.main", "serve"],
                env={**os.environ, **ports, **quiet},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._folder = folder

    def __enter__(self) -> Self:
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"phoenix: ended: {(self._folder / 'log').read_text()[-2000:]}")
            try:
                if httpx.get(f"{self.origin}/healthz", timeout=5).is_success:
                    return self
            except httpx.TransportError:
                time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def send(self, spans: Sequence[SpanRecord]) -> None:
        """Send spans over OTLP, each with an id that no other trace has: Phoenix keeps one span of an id."""
        spans = [replace(span, span_id=_own(span, span.span_id), parent_span_id=_parent(span)) for span in spans]
        headers = {"Content-Type": "application/x-protobuf"}
        for begin in range(0, len(spans), _BATCH):
            body = encode_traces(spans[begin : begin + _BATCH])
            httpx.post(f"{self.origin}/v1/traces", content=body, headers=headers, timeout=400).raise_for_status()

    def project(self) -> str:
        """Return the id of the project that the spans went to, once it is there."""
        while True:
            found = httpx.get(f"{self.origin}/v1/projects", timeout=60).json()["data"]
            if found:
                return str(found[0]["id"])
            time.sleep(0.2)


def _own(span: SpanRecord, span_id: str) -> str:
    return hashlib.sha256(f"{span.trace_id} {span_id}".encode()).hexdigest()[:16]


def _parent(span: SpanRecord) -> str | None:
    return span.parent_span_id and _own(span, span.parent_span_id)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
