"""Messages that a gRPC client streams to a server: noted as grpc takes them, and compared at the end of a replayed call.

Such a call is two steps of its run, because its messages are known only at its end: the call with its answers,
and, if it ended well and everything was sent, the messages. A replay takes the messages outside the program's
lane, as grpc does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context import later
from freezeframe.context.current import PLACE
from freezeframe.seams.functions import calls
from freezeframe.seams.order.lanes import child_place
from freezeframe.seams.recorder.recording import outside_lane
from freezeframe.seams.rpc.grpc_messages import message_to_json
from freezeframe_schemas.exchange import Kind

WHOLE: Final = "whole"
"""In the end of a call: everything was sent."""
_PATIENCE_S: Final = 5.0
"""Time that a replay waits for a thread to produce the last message. The run did not wait: the server had them all."""


class Unsent:
    """An empty stream, for a client whose one request is part of the call."""

    is_live = False
    """A replay makes the call for real: then grpc takes the messages."""

    def mark(self, reply: dict[str, Any]) -> None:
        """Note in the end of a call whether everything was sent."""

    def watch(self, call: Any) -> None:
        """Note the messages that the program writes to a call."""

    def note(self, request: Any) -> Any:
        """Note a message, and return it."""
        return request

    def take(self) -> None:
        """Begin to take the messages, in a replay."""

    def compare(self, reply: dict[str, Any]) -> None:
        """Record the messages, or compare them with the recording; once, at the end of a call."""

    async def compare_later(self, reply: dict[str, Any]) -> None:
        """Wait for the last message in a replay, then compare all of them."""


class _Noted(Unsent):
    """The messages of a client. The program's code that makes them has its own lane, and is not part of the call."""

    def __init__(self, method: str, seam: str) -> None:
        self._place = child_place()
        self._context = later.get_current()
        self._call = (Kind.HTTP, seam, f"{method} sent")
        self._messages: list[Any] = []
        self.is_whole = False

    @contextmanager
    def _in_lane(self) -> Generator[None]:
        token, around = PLACE.set(self._place), later.attach(self._context)
        try:
            yield
        finally:
            later.detach(around)
            PLACE.reset(token)

    def note(self, request: Any) -> Any:
        with guard("grpc.request"):
            self._messages.append(message_to_json(request))
        return request

    def mark(self, reply: dict[str, Any]) -> None:
        if self.is_whole and reply["code"] == "OK":  # if the call failed, how much was sent is chance
            reply[WHOLE] = True

    def _describe(self) -> calls.FunctionCall:
        return calls.FunctionCall.of(*self._call, *self._messages, kwargs={})

    def compare(self, reply: dict[str, Any]) -> None:
        if WHOLE in reply:
            calls.run(self._describe, lambda: None)


class Sent(_Noted):
    """The messages of a sync client."""

    def __init__(self, requests: Iterable[Any], method: str, seam: str) -> None:
        super().__init__(method, seam)
        self._requests: Iterator[Any] = iter(requests)
        self._thread: threading.Thread | None = None

    def __iter__(self) -> Sent:
        return self

    def __next__(self) -> Any:
        with self._in_lane():
            try:
                request = next(self._requests)
            except StopIteration:
                self.is_whole = True
                raise
        return self.note(request)

    def take(self) -> None:
        with outside_lane():
            self._thread = threading.Thread(target=lambda: [None for _ in self], daemon=True)
            self._thread.start()

    def compare(self, reply: dict[str, Any]) -> None:
        if self._thread is not None and WHOLE in reply:
            self._thread.join(_PATIENCE_S)
        super().compare(reply)


class SentLater(_Noted):
    """The messages of a client of asyncio: of an iterator, or written one by one."""

    def __init__(self, requests: AsyncIterable[Any] | Iterable[Any] | None, method: str, seam: str) -> None:
        super().__init__(method, seam)
        self._requests: Any = requests
        if requests is not None:
            self._requests = aiter(requests) if isinstance(requests, AsyncIterable) else iter(requests)
        self._task: asyncio.Task[None] | None = None

    @property
    def given(self) -> SentLater | None:
        """Iterator to pass to grpc in place of the original, or None."""
        return None if self._requests is None else self

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        with self._in_lane():
            try:
                is_async = hasattr(self._requests, "__anext__")
                request = await anext(self._requests) if is_async else next(self._requests)
            except (StopAsyncIteration, StopIteration):
                self.is_whole = True
                raise StopAsyncIteration from None
        return self.note(request)

    def watch(self, call: Any) -> None:
        if self._requests is not None:
            return
        write, done = call.write, call.done_writing

        async def written(request: Any) -> None:
            await write(request)
            self.note(request)

        async def all_written() -> None:
            await done()
            self.is_whole = True

        call.write, call.done_writing = written, all_written

    def take(self) -> None:
        if self._requests is not None and not self.is_live:
            with outside_lane():
                self._task = asyncio.create_task(self._take_all())

    async def _take_all(self) -> None:
        async for _ in self:
            pass

    async def compare_later(self, reply: dict[str, Any]) -> None:
        if WHOLE not in reply or self.is_live:
            return
        if self._task is not None:
            await asyncio.wait([self._task])
        await calls.run_async(self._describe, _nothing)


async def _nothing() -> None:
    pass
