"""A stub model that gives a unit test's answers through the real SDKs: no network, no recording, no key.

    with model_stub() as model:
        model.tool_call("lookup", {"order": "AC-1"})
        model.reply("It is in Lyon.")
        assert answer("Where is AC-1?") == "It is in Lyon."

Model calls are answered in the order in which they are made, in the client's wire format, whole or streamed as requested.
Tools run for real.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from freezeframe.seams import Call, serve, stop_serving
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.responder import Feed
from freezeframe_schemas.errors import ReplayMiss, WireError
from freezeframe_schemas.exchange import Exchange, Kind, Request, Response
from freezeframe_schemas.wire.answer import Answer, ToolCall
from freezeframe_schemas.wire.dialect import WireDialect
from freezeframe_schemas.wire.registry import PROVIDERS, dialect_of

_KEYS: Final = tuple(name for row in PROVIDERS for name in row.credentials)
"""Clients cannot be created without one."""

_Write = Callable[[WireDialect, Request], Response]


class ModelStub:
    """A stub model. Set its answers, call by call; `requests` holds the requests it received."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        """Bodies of the requests so far."""
        self._left: deque[_Write] = deque()
        self._said = 0
        self._lock = threading.Lock()

    def reply(self, text: str) -> None:
        """Answer one call with a text."""
        self._say(pieces=(text,))

    def stream(self, pieces: Sequence[str]) -> None:
        """Answer one call with a text in pieces; a client that does not stream gets them joined."""
        self._say(pieces=tuple(pieces))

    def tool_call(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Answer one call by asking for a tool."""
        self.tool_calls((name, arguments or {}))

    def tool_calls(self, *calls: tuple[str, Mapping[str, Any]]) -> None:
        """Answer one call by asking for several tools at once."""
        self._say(
            tool_calls=tuple(
                ToolCall(id=f"call_{self._said + 1}_{index}", name=name, arguments=arguments)
                for index, (name, arguments) in enumerate(calls, 1)
            )
        )

    def embedding(self, *vectors: Sequence[float]) -> None:
        """Answer one call of an embeddings model, with a vector for each input."""
        self._say(vectors=vectors)

    def error(self, status: int, message: str = "refused by the stub") -> None:
        """Refuse one call. SDKs retry after 429 and 5xx, so also set an answer for the next attempt."""
        self._left.append(lambda dialect, _: dialect.write_error(status, message))

    @property
    def left(self) -> int:
        """Return the number of unused answers."""
        return len(self._left)

    def _say(
        self,
        *,
        pieces: tuple[str, ...] = (),
        tool_calls: tuple[ToolCall, ...] = (),
        vectors: tuple[Sequence[float], ...] = (),
    ) -> None:
        self._said += 1
        answer = Answer(pieces=pieces, tool_calls=tool_calls, vectors=vectors, id=f"stub_{self._said}")
        self._left.append(lambda dialect, request: dialect.write_answer(answer, request))

    # -- called by the seams ----------------------------------------------------------------------------------------------

    def respond(self, call: Call) -> Exchange | None:
        """Answer a model call; let a tool run; refuse any other call."""
        if call.kind is not Kind.MODEL:
            if call.request.method:
                raise ReplayMiss(f"{call.name}: a stub answers model calls only, and a test has no network")
            return None
        body: dict[str, Any] = json.loads(call.request.body or b"{}")
        with self._lock:
            self.requests.append(body)
            if not self._left:
                raise ReplayMiss(f"model call {len(self.requests)}: the stub has no answer left for {call.name}")
            write = self._left.popleft()
        dialect = dialect_of(call.request, call.dialect)
        if dialect is None:
            raise ReplayMiss(f"{call.name}: a stub answers in the wire format of the request, and knows none for this one")
        try:
            response = write(dialect, call.request)
        except WireError as error:
            raise ReplayMiss(f"{call.name}: {error}") from error
        return Exchange(kind=call.kind, name=call.name, seam=call.seam, request=call.request, response=response)

    def recall(self, feed: Feed, key: str) -> str | None:
        """Return nothing: flags and readings are the test's own."""
        del feed, key

    def runs(self, answer: Exchange) -> bool:
        """Return False: tools run anyway."""
        del answer
        return False

    def ran(self, answer: Exchange, result_json: str | None, error_json: str | None) -> None:
        """Do nothing: no result is compared."""

    def unserved(self, what: str) -> None:
        """Do nothing: nothing is compared."""

    async def turn(self, answer: Exchange) -> None:
        """Do not wait: answers come when they are requested."""

    def turn_in_thread(self, answer: Exchange) -> None:
        """Do not wait: answers come when they are requested."""

    async def stay_open(self, answer: Exchange) -> None:
        """Do not wait: streams end at their end."""

    def reach(self, now_ns: int) -> None:
        """Do nothing: time is the test's own."""

    def loop_time(self, loop: Any) -> float | None:
        """Return None: time is the test's own."""
        del loop

    def enter(self, target: str, input_json: str) -> None:
        """Do nothing: entry points are not watched."""

    def leave(self, output_json: str | None, error_json: str | None, unseen: Sequence[str] = ()) -> None:
        """Do nothing: entry points are not watched."""


@contextmanager
def model_stub() -> Generator[ModelStub]:
    """Answer every model call in the block with the test's answers.

    Raises:
        RuntimeError: a replay or another stub is active in this process.
        AssertionError: the block ended with unused answers.
    """
    from freezeframe import seams
    from freezeframe._instrument import active_handle

    if switch.serving() is not None:
        raise RuntimeError("model_stub(): a replay or another stub is active in this process")
    stub = ModelStub()
    lent = [name for name in _KEYS if name not in os.environ]
    os.environ.update(dict.fromkeys(lent, "stub"))
    serve(stub)
    try:
        yield stub
    finally:
        stop_serving()
        if active_handle() is None:
            seams.uninstall()
        for name in lent:
            os.environ.pop(name, None)
    if stub.left:
        raise AssertionError(f"{stub.left} answers of the model were never used, {len(stub.requests)} calls were made")
