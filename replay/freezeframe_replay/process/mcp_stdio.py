"""MCP over standard input and output: a message is a line. Answered here, by a server over HTTP, or by a program, watched."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

from freezeframe_replay.process.keeper import ended_with_us
from freezeframe_replay.process.served_run import MCP_VARIABLE
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, dump, parse

CALLS_VARIABLE: Final = "FREEZEFRAME_MCP_CALLS_URL"
"""Address to which the calls of a wrapped server are reported, for `freezeframe run --proxy`."""

Answer = Callable[[JsonValue], "JsonObject | None"]


def answer_lines(answer: Answer) -> None:
    """Answer each line of the standard input until it ends."""
    for line in sys.stdin.buffer:
        if line.strip() and (reply := answer(parse(line))) is not None:
            sys.stdout.buffer.write(dump(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


def hand_on_lines(url: str) -> None:
    """Let an MCP server at a URL of this machine answer each line of the standard input."""
    answer_lines(lambda message: as_object(parse(body)) if (body := _post(url, message)) else None)


def wrap_server(argv: list[str]) -> int:
    """Be an MCP server over stdio in place of the program `argv`; return the exit status.

    Inside a program that `freezeframe run --proxy` started, the server is started, and its calls are reported to the recording.
    Inside one that `freezeframe replay serve` started, the recording answers and nothing is started.

    Raises:
        ReplayError: the server cannot be started.
    """
    served, calls_url = os.environ.get(MCP_VARIABLE), os.environ.get(CALLS_VARIABLE)
    if served:
        hand_on_lines(served)
        return 0
    try:
        server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise ReplayError(f"{argv[0]}: cannot be started: {error.strerror}") from error
    calls: dict[str, tuple[JsonObject, int]] = {}
    with server, ended_with_us(server.pid):
        threading.Thread(target=_hand_in, args=(server, calls), daemon=True).start()
        assert server.stdout is not None
        for line in server.stdout:
            answer = as_object(parse(line))
            known = calls.pop(dump(answer.get("id")), None) if "method" not in answer else None
            if known is not None and calls_url:  # before the client can go on, and end
                call, start_ns = known
                message: JsonObject = {"method": call.get("method"), "params": call.get("params"), "answer": answer}
                _post(calls_url, {**message, "start": start_ns, "end": time.time_ns()})
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return server.returncode


def _hand_in(server: subprocess.Popen[bytes], asked: dict[str, tuple[JsonObject, int]]) -> None:
    """Hand the client's messages to the server, and remember its requests."""
    server_input: Any = server.stdin
    try:
        for line in sys.stdin.buffer:
            message = as_object(parse(line))
            if "id" in message and as_text(message.get("method")):
                asked[dump(message.get("id"))] = (message, time.time_ns())
            server_input.write(line)
            server_input.flush()
        server_input.close()
    except OSError:
        return  # the server has ended, and so do we


def _post(url: str, message: JsonValue) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data=dump(message).encode(), headers={"Content-Type": "application/json"})  # noqa: S310 - ours
    try:
        with opener.open(request) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        return error.read()
