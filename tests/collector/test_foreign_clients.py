"""OTLP senders that are not Python: Node's exporters, and rotel (Rust) as a forwarder. What they mean arrives, gzip included.

Each is installed once, from its public registry, if its package manager is available; without one the tests are skipped.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from installing import install

from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanKind, SpanRecord, StatusCode

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
NODE = HERE / "node"
ROTEL = HERE.parents[1] / ".freezeframe" / "rotel"
ROTEL_VERSION = "0.0.1a15"


@pytest.fixture(scope="module")
def node() -> str:
    """Return the command of Node, with the exporters installed."""
    command, npm = shutil.which("node"), shutil.which("npm")
    if command is None or npm is None:
        pytest.skip("needs node and npm")
    if not (NODE / "node_modules" / "@opentelemetry" / "sdk-trace-base").exists():
        install([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"], NODE)
    return command


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("kind", ["http", "proto", "grpc"])
def test_nodes_exporters_are_understood(start_collector: Callable[..., Any], node: str, kind: str, compression: str) -> None:
    """JSON, protobuf and gRPC as Node writes them: the same two spans."""
    collector = start_collector()
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    if kind == "grpc":
        url = f"http://127.0.0.1:{collector.grpc_port}"
    sent = subprocess.run(
        [node, "send.mjs", kind, url, compression], cwd=NODE, capture_output=True, text=True, timeout=300, check=False
    )
    assert sent.returncode == 0, sent.stderr
    collector.flush()
    spans = {span.name: span for span in collector.store.spans}
    parent, child = spans["answer"], spans["chat gpt-4o-mini"]
    assert (parent.kind, child.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert (child.trace_id, child.parent_span_id) == (parent.trace_id, parent.span_id)
    assert child.resource.attributes["service.name"] == "node-agent"
    assert (child.scope.name, child.scope.version) == ("weather", "1.0.0")
    assert dict(child.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("stop",),
        "said": "Grüße 🌦️ " * 200,
    }
    assert (child.status_code, child.status_message) == (StatusCode.ERROR, "cut short")
    assert [(event.name, dict(event.attributes)) for event in child.events] == [("first token", {"offset": 12})]
    assert parent.start_time_unix_nano <= child.start_time_unix_nano <= child.end_time_unix_nano


@pytest.fixture(scope="module")
def rotel() -> Path:
    """Return the command of rotel, installed from its wheel."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
    if not ROTEL.exists():
        install([*pip, "install", "-q", "--no-deps", "--target", str(ROTEL), f"rotel=={ROTEL_VERSION}"], HERE)
    return next(ROTEL.glob("rotel/rotel-agent"))


@pytest.fixture
def start_rotel(rotel: Path, tmp_path: Path) -> Generator[Callable[..., int]]:
    """Return a function that starts rotel with options and gives the port on which it takes OTLP/HTTP."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> int:
        with socket.socket() as grpc_port, socket.socket() as http_port:
            grpc_port.bind(("127.0.0.1", 0))
            http_port.bind(("127.0.0.1", 0))
            grpc, http = grpc_port.getsockname()[1], http_port.getsockname()[1]
        doors = ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc}", "--otlp-http-endpoint", f"127.0.0.1:{http}"]
        log = (tmp_path / "rotel.log").open("wb")
        started.append(subprocess.Popen([str(rotel), "start", *doors, *options], stdout=log, stderr=log))
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", http)) == 0:
                    return http
            assert started[-1].poll() is None, (tmp_path / "rotel.log").read_text()[-500:]
            time.sleep(0.02)

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("compression", ["gzip", "none"])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_rotel_forwards_to_it(
    start_collector: Callable[..., Any],
    start_rotel: Callable[..., int],
    make_span: Callable[..., SpanRecord],
    protocol: str,
    compression: str,
) -> None:
    """Rotel forwards what it was sent, as Rust encodes it."""
    collector = start_collector()
    port = collector.grpc_port if protocol == "grpc" else collector.http_port
    options = ("--otlp-exporter-endpoint", f"http://127.0.0.1:{port}", "--otlp-exporter-protocol", protocol)
    door = start_rotel("--exporter", "otlp", *options, "--otlp-exporter-compression", compression)
    spans = [make_span(number, {"text": "hello " * 500, "number": number}) for number in range(40)]
    body = encode_traces(spans)
    answer = httpx.post(f"http://127.0.0.1:{door}/v1/traces", content=body, headers={"content-type": "application/x-protobuf"})
    assert answer.status_code in (200, 202)
    while collector.log.audit().counts.received < len(spans):  # the test's own time limit bounds it
        time.sleep(0.02)
    collector.flush()
    assert sorted(collector.store.spans, key=lambda span: span.span_id) == spans
