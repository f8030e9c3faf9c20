"""No sender locks out another: a real collector with slow, silent, flooding, bombing and honest senders."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from running_collector import PROTOBUF, CollectorProcess, span

from freezeframe_schemas.otlp.encode import encode_traces

pytestmark = pytest.mark.long

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MIB = 1 << 20
SMALL_LIMITS = {
    "FREEZEFRAME_COLLECTOR__ADMISSION__IN_FLIGHT_BYTES": str(32 * MIB),
    "FREEZEFRAME_COLLECTOR__LIMITS__SPAN_BYTES": str(8 * MIB),
    "FREEZEFRAME_COLLECTOR__HTTP__MAX_BODY_BYTES": str(8 * MIB),
    "FREEZEFRAME_COLLECTOR__GRPC__MAX_MESSAGE_BYTES": str(8 * MIB),
}
BOMBS = 24
MOST_GROWTH_MB = 300
"""The 48 bombs at once would be 336 MB, and twice that while their parts are put together."""


def _peak_mb(collector: CollectorProcess) -> int:
    lines = Path(f"/proc/{collector.ports['pid']}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


@contextlib.contextmanager
def _slow_bodies(port: int, count: int) -> Generator[list[socket.socket]]:
    head = b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
        for one in sockets:
            one.sendall(head + f"Content-Length: {8 * MIB}\r\n\r\na".encode())
        yield sockets


@contextlib.contextmanager
def _silent_calls(port: int, count: int) -> Generator[list[Any]]:
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait()
        yield b""

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            yield [channel.stream_unary(EXPORT).future(silent()) for _ in range(count)]
        finally:
            never.set()


def _flood(port: int, stopped: threading.Event, frame: bytes) -> None:
    """Send HTTP/2 frames without a pause, over a new connection whenever one is closed."""
    while not stopped.is_set():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
            one.settimeout(1.0)
            one.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            while not stopped.is_set():
                one.sendall(frame * 100)
                stopped.wait(0.005)  # the test's own process needs its turn


def test_slow_silent_flooding_and_bombing_senders_lock_nobody_out(tmp_path: Path) -> None:
    """Every honest request is taken at its first try while all the hostile ones go on, and the memory stays bounded."""
    collector = CollectorProcess(tmp_path / "data", environment=SMALL_LIMITS)
    stopped = threading.Event()
    bomb = gzip.compress(bytes(7 * MIB))
    answers: list[object] = []
    rounds: list[int] = []
    http = httpx.Client(timeout=120, limits=httpx.Limits(max_connections=None))

    def bombard() -> None:
        headers = {**PROTOBUF, "content-encoding": "gzip"}
        answers.append(http.post(f"{collector.url}/v1/traces", content=bomb, headers=headers).status_code)
        with grpc.insecure_channel(f"127.0.0.1:{collector.ports['grpc']}") as channel:
            call: Any = channel.unary_unary(EXPORT)
            answers.append(call.future(bytes(7 * MIB), compression=grpc.Compression.Gzip, timeout=120).code())

    ping, settings = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8), b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    floods = [threading.Thread(target=_flood, args=(collector.ports["grpc"], stopped, frame)) for frame in (ping, settings)]
    bombers = [threading.Thread(target=bombard) for _ in range(BOMBS)]
    try:
        with (
            _slow_bodies(collector.ports["http"], 20) as slow,
            _silent_calls(collector.ports["grpc"], 20),
            grpc.insecure_channel(f"127.0.0.1:{collector.ports['grpc']}") as channel,
            http,
        ):
            send: Callable[[bytes], bytes] = channel.unary_unary(EXPORT)
            send(encode_traces([span(0)]))
            before_mb = _peak_mb(collector)
            for thread in (*floods, *bombers):
                thread.start()
            while any(thread.is_alive() for thread in bombers):
                number = 40 * (len(rounds) + 1)
                body = encode_traces([span(number + n, "x" * 2_000) for n in range(20)])
                assert http.post(f"{collector.url}/v1/traces", content=body, headers=PROTOBUF).status_code == 200
                send(encode_traces([span(number + 20 + n, "x" * 2_000) for n in range(20)]))  # raises unless taken
                for one in slow:
                    with contextlib.suppress(OSError):
                        one.sendall(b"a")
                rounds.append(number)
            stopped.set()
        assert len(answers) == 2 * BOMBS
        assert set(answers) <= {400, 429, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert _peak_mb(collector) - before_mb < MOST_GROWTH_MB
        collector.flush()
        audit = collector.status()["audit"]
        assert (audit["stored"], audit["missing"], audit["rejected"]) == (1 + 40 * len(rounds), 0, 0)
        assert rounds
    finally:
        stopped.set()
        for thread in (*floods, *bombers):
            if thread.ident is not None:
                thread.join()
        collector.kill()
