"""Senders that mean harm, in its own process: slow, silent, flooding and bombing ones, all at once.

``python hostile_senders.py HTTP_PORT GRPC_PORT MESSAGE_BYTES`` goes on until its standard input ends.
After each wave of bombs it prints one line of JSON: how often the bombs got which answer.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
BOMBS = 16
"""In a wave, over each protocol."""
SLOW = 40
"""Requests that never end, over each protocol."""
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)
_CALL = (  # POST, http, the path, a content type and te: trailers, as literals
    b"\x83\x86\x04" + bytes([len(EXPORT)]) + EXPORT.encode() + b"\x01\x01x\x0f\x10\x10application/grpc\x00\x02te\x08trailers"
)
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


class HostileSenders:
    """The process, for a test or a benchmark."""

    def __init__(self, ports: dict[str, Any], message_bytes: int) -> None:
        numbers = (ports["http"], ports["grpc"], message_bytes)
        command = [sys.executable, str(Path(__file__)), *map(str, numbers)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.waves: list[Counter[str]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.waves.append(Counter(json.loads(line)))

    @property
    def is_running(self) -> bool:
        """Return whether they still attack."""
        return self._process.poll() is None

    def __enter__(self) -> HostileSenders:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


def _unfinished_body(port: int, size_bytes: int) -> None:
    """Announce a large body and send a byte now and then; begin again when it is refused."""
    head = b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(head + f"Content-Length: {size_bytes}\r\n\r\na".encode())
            one.settimeout(0.2)
            while not _is_answered(one):
                one.sendall(b"a")
        time.sleep(0.05)


def _is_answered(one: socket.socket) -> bool:
    try:
        one.recv(1)
    except TimeoutError:
        return False
    return True


def http2_frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """Return one frame. Source: RFC 9113, section 4.1."""
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def send_unfinished_message(one: socket.socket, size_bytes: int) -> None:
    """Begin a gRPC call over a new connection and send all of its message but the last byte, as fast as the server takes it.

    Returns when the server has ended the call.
    """
    one.sendall(_HTTP2 + http2_frame(1, 4, 1, _CALL))
    frames = one.makefile("rb")
    windows = {0: 65_535, 1: 65_535}
    message = memoryview(b"\0" + size_bytes.to_bytes(4, "big") + bytes(size_bytes - 1))
    while True:
        piece = message[: max(0, min(16_384, *windows.values()))]
        if piece:
            one.sendall(http2_frame(0, 0, 1, bytes(piece)))
            message = message[len(piece) :]
            windows = {stream: window - len(piece) for stream, window in windows.items()}
            continue
        head = frames.read(9)
        if not head:
            return
        body = frames.read(int.from_bytes(head[:3], "big"))
        if head[3] in (1, 3, 7):  # HEADERS, RST_STREAM, GOAWAY
            return
        if head[3] == 8:
            windows[int.from_bytes(head[5:], "big")] += int.from_bytes(body, "big")


def _unfinished_message(port: int, size_bytes: int) -> None:
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
            send_unfinished_message(one, size_bytes)
        time.sleep(0.05)


def _silent_call(channel: grpc.Channel) -> None:
    """Begin a call whose message never comes, again and again."""
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait()
        yield b""

    while True:
        call: Any = channel.stream_unary(EXPORT).future(silent())
        call.code()  # once it has ended
        time.sleep(0.05)


def _flood(port: int, frame: bytes) -> None:
    """Send HTTP/2 frames without a pause, over a new connection whenever one is closed."""
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
            one.settimeout(1.0)
            one.sendall(_HTTP2)
            while True:
                one.sendall(frame * 100)
                time.sleep(0.005)  # the frames are to fill the collector, not this machine


class _Bombs:
    """Small messages from which much comes out, and large ones that hold nothing."""

    def __init__(self, http_port: int, grpc_port: int, size_bytes: int) -> None:
        self._http_port = http_port
        self._grpc_port = grpc_port
        self._plain = bytes(size_bytes)
        self._packed = gzip.compress(self._plain)

    def wave(self, answers: Counter[str]) -> None:
        """Send all at once and count the answers."""
        threads = [threading.Thread(target=send, args=(answers,)) for send in (self._http, self._grpc) for _ in range(BOMBS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _http(self, answers: Counter[str]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._http_port, timeout=120)
        headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        connection.request("POST", "/v1/traces", self._packed, headers)
        answers[str(connection.getresponse().status)] += 1
        connection.close()

    def _grpc(self, answers: Counter[str]) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{self._grpc_port}") as channel:
            call: Any = channel.unary_unary(EXPORT)
            answers[call.future(self._plain, compression=grpc.Compression.Gzip, timeout=120).code().name] += 1


def main() -> None:
    """Attack until the standard input ends."""
    http_port, grpc_port, size_bytes = map(int, sys.argv[1:])
    threading.Thread(target=_end_with_input, daemon=True).start()
    channel = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")
    attacks = [partial(_flood, grpc_port, frame) for frame in (_PING, _SETTINGS)]
    attacks += [partial(_unfinished_message, grpc_port, size_bytes)] * SLOW
    attacks += [partial(_unfinished_body, http_port, size_bytes)] * SLOW + [partial(_silent_call, channel)] * SLOW
    for attack in attacks:
        threading.Thread(target=attack).start()
    bombs = _Bombs(http_port, grpc_port, size_bytes)
    while True:
        answers = Counter[str]()
        bombs.wave(answers)
        print(json.dumps(answers), flush=True)


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
