"""A seam's interface to a replay: the call that it makes, and the responder that answers in place of the world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from freezeframe_schemas import exchange
from freezeframe_schemas.exchange import Exchange, FunctionCode, Kind, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that the application makes at a seam while a replay is served."""

    kind: Kind
    name: str
    """Tool, retriever or MCP method; ``POST /v1/chat/completions`` for HTTP."""
    seam: str
    request: Request
    dialect: str | None = None
    provider: str | None = None
    lane: exchange.Lane = ()
    sequence: int = 0
    call_id: str | None = None
    code: Callable[[], FunctionCode | None] | None = None
    """Returns the application's code that would answer."""


class Feed(StrEnum):
    """Inputs of a program other than calls: environment, time, random numbers."""

    READING = "reading"
    """The next of a series of readings, such as the UUIDs of one lane and file."""
    FLAG = "flag"
    """The value of a feature flag, as tagged JSON, by its key."""


class Responder(Protocol):
    """Answers in place of the world in a replay. Called from any thread."""

    def respond(self, call: Call) -> Exchange | None:
        """Return the recorded exchange that answers `call`, or None if it must be made for real.

        Raises:
            ReplayMiss: the recording holds no answer.
        """
        ...

    def runs(self, answer: Exchange) -> bool:
        """Return whether the function that would answer runs, with its calls answered; then `ran` takes its result."""
        ...

    def ran(self, answer: Exchange, result_json: str | None, error_json: str | None) -> None:
        """Called with such a function's result or exception, as tagged JSON."""
        ...

    def unserved(self, what: str) -> None:
        """Called with an input of a running tool that is not in the recording, in words: ``reads stock.json``."""
        ...

    def recall(self, feed: Feed, key: str) -> str | None:
        """Return the value that the run got there, or None if no (further) value was recorded."""
        ...

    async def turn(self, answer: Exchange) -> None:
        """Wait in a task until it is this answer's turn; forever, if the run abandoned the call before it was answered."""
        ...

    def turn_in_thread(self, answer: Exchange) -> None:
        """Like `turn`, for a seam that blocks its thread."""
        ...

    async def stay_open(self, answer: Exchange) -> None:
        """Wait in a task that has read all of a stream that the run abandoned, until it abandons it again."""
        ...

    def reach(self, now_ns: int) -> None:
        """Called when the program reads a piece of an answer that came at this time of the run, in ns since 1970."""
        ...

    def loop_time(self, loop: Any) -> float | None:
        """Return the time of an event loop in seconds, None for its own."""
        ...

    def enter(self, target: str, input_json: str) -> None:
        """Called when an entry point starts, with its input as tagged JSON."""
        ...

    def leave(self, output_json: str | None, error_json: str | None, unseen: Sequence[str] = ()) -> None:
        """Called when it ends, with its output or exception as tagged JSON, and the parts of its outcome that neither holds."""
        ...


EditRequest = Callable[[Request], bytes | None]
"""Returns the body that replaces a request's, or None if it stays."""
