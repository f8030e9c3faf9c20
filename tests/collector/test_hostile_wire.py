"""Both receivers under hostile bytes on real sockets: always a well-formed answer or a closed connection, never a crash.

``FREEZEFRAME_FUZZ_S=3600 pytest tests/collector/test_hostile_wire.py`` goes on for an hour with a new seed.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import random
import resource
import shutil
import socket
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import zstandard
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from freezeframe_collector.pipeline import Stage
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.vendors.normalise import normalise

RECORDED = sorted((Path(__file__).parents[1] / "data" / "otlp").glob("*/*.pb"))
LONG_S = float(os.environ.get("FREEZEFRAME_FUZZ_S", "0"))
ROUNDS = 150
METHODS = (
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/no.such.Service/Method",
)
ANSWERS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
}
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "br": bytes,
}


def _chances() -> Iterator[random.Random]:
    """Yield a source of chance per round: the same rounds each time, or new ones for as long as was asked."""
    if not LONG_S:
        yield from (random.Random(number) for number in range(ROUNDS))
        return
    deadline = time.monotonic() + LONG_S / 2
    while time.monotonic() < deadline:
        yield random.Random(random.SystemRandom().getrandbits(64))


def _mangled(data: bytes, chance: random.Random) -> bytes:
    mangled = bytearray(data)
    for _ in range(chance.choice([0, 1, 1, 3, 20])):
        at = chance.randrange(len(mangled) + 1)
        match chance.randrange(4):
            case 0 if at < len(mangled):
                mangled[at] ^= 1 << chance.randrange(8)
            case 1:
                mangled[at:at] = chance.randbytes(chance.randrange(8))
            case 2:
                del mangled[at : at + chance.randrange(40)]
            case _:
                mangled[at:at] = mangled[: chance.randrange(200)]
    return bytes(mangled)


def _body(chance: random.Random) -> bytes:
    path = chance.choice(RECORDED)
    data = path.read_bytes()
    if chance.random() < 0.3 and ".traces." in path.name:
        data = json.dumps(spans_to_otlp_json(decode_traces(data).spans)).encode()
    return _mangled(data, chance)


@pytest.fixture
def collector(start_collector: Callable[..., Any]) -> Any:
    """Return a collector that normalises, with small limits."""
    return start_collector(stages=(Stage(name="normalise", apply=lambda span, _: normalise(span)),), max_bytes=4 << 20)


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.timeout(LONG_S + 120)
def test_http_answers_hostile_bodies(collector: Any) -> None:
    """Each answer has a status of the specification and a body in the sender's format; the collector goes on."""
    for chance in _chances():
        encoding = chance.choice(list(COMPRESSORS))
        body = _mangled(COMPRESSORS[encoding](_body(chance)), chance if chance.random() < 0.3 else random.Random(0))
        kind = chance.choice(["application/x-protobuf", "application/x-protobuf", "application/json", "text/plain", ""])
        path = chance.choice(["/v1/traces", "/v1/traces", "/v1/logs", "/v1/metrics", "/v1/nothing"])
        headers = {"content-type": kind, "content-encoding": encoding}
        connection = http.client.HTTPConnection("127.0.0.1", collector.http_port, timeout=120)
        connection.request("POST", path, body, {name: value for name, value in headers.items() if value})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status in (200, 400, 404, 413, 415), (answer.status, path, kind)
        if answer.status == 200 and kind == "application/x-protobuf" and path == "/v1/traces":
            ExportTraceServiceResponse.FromString(content)
        elif answer.status == 400 and kind == "application/x-protobuf":
            assert Status.FromString(content).code == 3
        elif answer.status == 400 and kind == "application/json":
            assert json.loads(content)["code"] == 3
    collector.flush()
    assert collector.log.audit().missing == 0
    assert collector.reporter.health() == ""


@pytest.mark.proof
@pytest.mark.timeout(LONG_S + 120)
@pytest.mark.long
def test_grpc_answers_hostile_messages(collector: Any) -> None:
    """Each answer is a status of the specification; the collector goes on."""
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        for chance in _chances():
            compression = chance.choice(list(grpc.Compression))
            call: Any = channel.unary_unary(chance.choice(METHODS))
            answer: Any = call.future(_body(chance), compression=compression, timeout=120)
            assert answer.code() in ANSWERS, answer.details()
    collector.flush()
    assert collector.log.audit().missing == 0
    assert collector.reporter.health() == ""


@pytest.mark.parametrize("door", ["http", "grpc"])
def test_bytes_that_are_no_protocol_close_the_connection(collector: Any, make_span: Callable[..., Any], door: str) -> None:
    """Garbage, half requests and endless headers end their own connection and no other."""
    port = collector.http_port if door == "http" else collector.grpc_port
    chance = random.Random(3)
    openings = [
        b"",
        b"\x00" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(200),
        b"POST /v1/traces HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        b"POST /v1/traces HTTP/1.1\r\n" + b"x: y\r\n" * 100_000,
        b"GET /" + b"a" * 200_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        *(chance.randbytes(chance.randrange(1, 500)) for _ in range(30)),
    ]
    for opening in openings:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
            try:
                connection.sendall(opening)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:
                continue
    body = encode_traces([make_span(1)])
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        channel.unary_unary(METHODS[0])(body, timeout=120)
    connection = http.client.HTTPConnection("127.0.0.1", collector.http_port, timeout=120)
    connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.long
def test_bombs_do_not_grow_the_process(collector: Any) -> None:
    """Bodies that unpack to hundreds of megabytes leave the process within a few limits' worth of memory."""
    bombs = {name: COMPRESSORS[name](bytes(1 << 27)) for name in ("gzip", "deflate", "zstd")}
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for encoding, bomb in bombs.items():
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", collector.http_port, timeout=120)
            headers = {"content-type": "application/x-protobuf", "content-encoding": encoding}
            connection.request("POST", "/v1/traces", bomb, headers)
            assert connection.getresponse().status == 400
            connection.close()
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    assert grown_mb < 100


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_sends_json(collector: Any, make_span: Callable[..., Any], tmp_path: Path) -> None:
    """The plainest sender there is: JSON from a file, gzipped by the shell."""
    file = tmp_path / "request.json.gz"
    file.write_bytes(gzip.compress(json.dumps(spans_to_otlp_json([make_span(1)])).encode()))
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    headers = ["-H", "content-type: application/json", "-H", "content-encoding: gzip"]
    command = ["curl", "-sS", "--fail", *headers, "--data-binary", f"@{file}", url]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(result.stdout) == {}
    collector.flush()
    assert collector.store.names() == ["span-000001"]
