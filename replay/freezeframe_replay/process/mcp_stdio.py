"""MCP over standard input and output: a message is a line. Answered here, or by a server that is reached over HTTP."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Callable

from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, dump, parse

Answer = Callable[[JsonValue], "JsonObject | None"]


def answer_lines(answer: Answer) -> None:
    """Answer each line of the standard input until it ends."""
    for line in sys.stdin.buffer:
        if line.strip() and (reply := answer(parse(line))) is not None:
            sys.stdout.buffer.write(dump(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


def hand_on_lines(url: str) -> None:
    """Let an MCP server at a URL of this machine answer each line of the standard input."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(message: JsonValue) -> JsonObject | None:
        asked = urllib.request.Request(url, data=dump(message).encode(), headers={"Content-Type": "application/json"})  # noqa: S310 - ours
        try:
            with opener.open(asked) as response:
                body = response.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        return as_object(parse(body)) if body else None

    answer_lines(ask)
