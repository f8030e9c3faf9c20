"""Whatever is wrong with collector or disk: the application's results are as without freezeframe; the loss is counted, and
reported."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from capture_provider import Provider

import freezeframe
from freezeframe import _instrument, seams
from freezeframe._config import load_settings
from freezeframe.export.tracing import make_provider

Options = dict[str, Any]
Fault = Callable[[ExitStack, Path, pytest.MonkeyPatch], Options]
"""Sets up the fault, and returns the options of `instrument()` that lead to it."""


@contextmanager
def listener(behave: Callable[[socket.socket], None]) -> Generator[str]:
    """Listen, and do with each connection as `behave` says; give the URL."""
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            held.append(connection)
            try:
                behave(connection)
            except OSError:
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    for connection in held:
        connection.close()
    thread.join()


def answering(data: bytes) -> Fault:
    """A collector that answers each request with these bytes, and hangs up."""

    def behave(connection: socket.socket) -> None:
        connection.recv(1 << 20)
        connection.sendall(data)
        connection.close()

    return lambda stack, path, patch: {"endpoint": stack.enter_context(listener(behave))}


def down(stack: ExitStack, path: Path, patch: pytest.MonkeyPatch) -> Options:
    """No one listens."""
    return {"endpoint": "http://127.0.0.1:9"}


def silent(stack: ExitStack, path: Path, patch: pytest.MonkeyPatch) -> Options:
    """A collector that takes everything and never answers."""
    return {"endpoint": stack.enter_context(listener(lambda connection: None))}


def no_name(stack: ExitStack, path: Path, patch: pytest.MonkeyPatch) -> Options:
    """A host that does not exist."""
    return {"endpoint": "http://collector.invalid:4318"}


def full_disk(stack: ExitStack, path: Path, patch: pytest.MonkeyPatch) -> Options:
    """A file on a disk that is full."""
    return {"file": "/dev/full"}


def no_directory(stack: ExitStack, path: Path, patch: pytest.MonkeyPatch) -> Options:
    """A file in a directory that does not exist."""
    return {"file": str(path / "gone" / "spans.jsonl")}


def full_spool(stack: ExitStack, path: Path, patch: pytest.MonkeyPatch) -> Options:
    """No one listens, and the spool's disk is full."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    key = path / "spool.key"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    patch.setattr(os, "fsync", full)
    return {"endpoint": "http://127.0.0.1:9", "spool": str(path / "spool"), "spool_key": str(key)}


FAULTS: dict[str, Fault] = {
    "down": down,
    "no such host": no_name,
    "silent": silent,
    "hangs up": answering(b""),
    "answers garbage": answering(b"\x00\x01 this is no HTTP\r\n\r\n"),
    "answers half": answering(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 100\r\n\r\nhalf"),
    "answers with an endless header": answering(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000),
    "answers 500": answering(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"),
    "answers 302": answering(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n"),
    "full disk": full_disk,
    "no directory": no_directory,
    "full spool": full_spool,
}
FIRST = {"down", "answers half", "full disk", "full spool"}
"""Those that `make test` tries."""


def application(provider: str) -> list[Any]:
    """Return all results of an agent with a tool and a model call, including an exception of its own."""

    @freezeframe.tool
    def double(number: int) -> int:
        return number * 2

    @freezeframe.tool
    def fail() -> None:
        raise ValueError("the application's own")

    seen: list[Any] = []
    with freezeframe.run("agent"):
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]}
        seen.append(httpx.post(f"{provider}/v1/chat/completions", json=body).json())
        seen.append(double(21))
        try:
            fail()
        except ValueError as error:
            seen.append(repr(error))
    return seen


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.proof if name in FIRST else ()) for name in FAULTS])
def test_the_application_does_not_notice_and_the_loss_is_counted_and_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Provider() as provider:
        bare = application(provider.url)
    with ExitStack() as stack, Provider() as provider, caplog.at_level(logging.WARNING, logger="freezeframe"):
        options = FAULTS[name](stack, tmp_path, monkeypatch)
        timing = {"batch_interval_s": 0.01, "export_timeout_s": 0.2, "exit_timeout_s": 0.5}
        settings = load_settings({"root": "never", "spool": False, **timing, **options}, environ={})
        handle = _instrument.start_recording(
            settings, _instrument.make_exporter(settings), provider=make_provider("shop"), environment=dict
        )
        seams.install()
        recorded = application(provider.url)
        handle.uninstrument()
    assert recorded == bare
    assert handle.counts is not None
    # the entry, its pending span, and three calls
    assert (handle.counts.exported, handle.counts.lost) == (0, 5)
    assert "5 could not be sent" in caplog.text


@pytest.mark.proof
@pytest.mark.long
def test_a_collector_that_never_answers_does_not_hold_the_application(provider: Provider) -> None:
    """The application runs to its end while the first batch still waits for its answer."""
    asked = threading.Event()

    def hold(connection: socket.socket) -> None:
        connection.recv(1)
        asked.set()

    with listener(hold) as url:
        settings = load_settings(
            {
                "root": "never",
                "spool": False,
                "endpoint": url,
                "batch_interval_s": 0.0,
                "exit_timeout_s": 0.1,
                "export_timeout_s": 30.0,
            },
            environ={},
        )
        handle = _instrument.start_recording(
            settings, _instrument.make_exporter(settings), provider=make_provider("shop"), environment=dict
        )
        seams.install()
        application(provider.url)
        assert asked.wait()
        for _ in range(20):
            application(provider.url)
        assert handle.counts is not None
        assert (handle.counts.exported, handle.counts.lost) == (0, 0)  # still under way
        handle.uninstrument()
        assert handle.counts.lost == 21 * 5


AT_THE_END = """
import io, logging, sys, freezeframe

stream = io.StringIO() if sys.argv[1] == "a handler" else sys.stderr
logging.basicConfig(stream=stream)

@freezeframe.run
def work():
    return 1

freezeframe.instrument(endpoint=sys.argv[2], spool=False, exit_timeout_s=0.05)
work()
stream.close()
"""


@pytest.mark.long  # starts processes
@pytest.mark.parametrize("closed", ["a handler", "standard error"])
def test_no_traceback_of_logging_ends_a_run_whose_streams_are_closed(closed: str, tmp_path: Path) -> None:
    """A handler that was made in a test writes to a stream of pytest, which closes before the loss is reported at exit."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FREEZEFRAME_")}
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        command = [sys.executable, "-c", AT_THE_END, closed, f"http://127.0.0.1:{silent.getsockname()[1]}"]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=True)
    lines = done.stderr.splitlines()
    loss = "freezeframe: 0 spans were delivered, 0 spooled, 0 did not fit the queue, 2 could not be sent"
    assert (loss in lines) == (closed == "a handler")
    assert [line for line in lines if not line.startswith("freezeframe: ")] == []  # why it was lost may be there, too
