"""gRPC clients of asyncio: a call of a run, above the wire. The sync ones: `grpc_client`.

A replay answers with our own object. Calls behind interceptors are gaps of their run (`sessions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from functools import partial
from types import ModuleType
from typing import Any

from freezeframe._drive import Watcher
from freezeframe._guard import guard
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import outside_lane
from freezeframe.seams.rpc.grpc_client import (
    OK,
    SEAM,
    asked,
    given,
    has_no_request,
    is_exchange,
    metadata,
    method_of,
    no_dump,
    once,
)
from freezeframe.seams.rpc.grpc_messages import message_from_json, message_to_json, metadata_of
from freezeframe.seams.rpc.grpc_requests import SentLater, Unsent
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Completion


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``grpc.aio._channel``."""
    kinds: Any = module
    patches.around(kinds.UnaryUnaryMultiCallable, "__call__", partial(_call, sends=False, is_stream=False))
    patches.around(kinds.UnaryStreamMultiCallable, "__call__", partial(_call, sends=False, is_stream=True))
    patches.around(kinds.StreamUnaryMultiCallable, "__call__", partial(_call, sends=True, is_stream=False))
    patches.around(kinds.StreamStreamMultiCallable, "__call__", partial(_call, sends=True, is_stream=True))


def _call(original: Any, callable_: Any, *args: Any, sends: bool, is_stream: bool, **kwargs: Any) -> Any:
    is_refused = not sends and has_no_request(args, kwargs)
    if is_refused or not is_exchange(callable_) or (switch.serving() is None and callable_._interceptors):
        return original(callable_, *args, **kwargs)
    request, rest = given(args, kwargs)
    sent, first = Unsent(), request
    if sends:
        sent = later = SentLater(request, method_of(callable_), SEAM)
        first = later.given
    describe, invoke = asked(callable_, request, sends=sends), partial(original, callable_, first, *rest, **kwargs)
    if switch.serving() is not None:

        async def live() -> dict[str, Any]:
            sent.is_live = True
            if is_stream:
                return {"yields": [message async for message in invoke()], "return": None}
            return {"message": await invoke(), **OK}

        dump = no_dump if sends or is_stream else values.encode
        return _ServedCall(calls.run_async(describe, live, dump=dump, load=values.decode), sent)
    if not is_stream:
        call = _recorded_unary(describe, invoke, sent)
        sent.watch(call)
        return call
    with outside_lane():  # its tasks are grpc's
        call, watcher = calls.begin_async_generator(describe, invoke)
    if watcher is not calls.UNWATCHED:
        _watch(call, watcher, sent)
    return call


def _recorded_unary(describe: calls.Describe, invoke: Callable[[], Any], sent: Unsent) -> Any:
    made: list[Any] = []
    recording = calls.begin(describe, lambda: made.append(invoke()))
    (call,) = made
    if recording is not None:

        def done(answer: asyncio.Task[Any]) -> None:
            reply: dict[str, Any] = {}
            with guard("grpc.answer"):
                reply = _end_of(call)
                message = message_to_json(answer.result()) if reply["code"] == "OK" and not answer.cancelled() else None
                sent.mark(reply)
                recording.chunk(values.encode({"message": message, **reply}).encode())
            recording.finish(Completion.COMPLETE)
            with guard("grpc.sent"):
                sent.compare(reply)

        call._call_response.add_done_callback(done)
    return call


def _end_of(call: Any) -> dict[str, Any]:
    import grpc

    status: Any = call._cython_call._status
    if status is None:
        return {"code": "CANCELLED", "details": "", "trailing": []}
    code = next(one for one in grpc.StatusCode if one.value[0] == status.code())
    return {"code": code.name, "details": status.details() or "", "trailing": metadata_of(status.trailing_metadata())}


def _watch(call: Any, watcher: Watcher, sent: Unsent) -> None:
    read, end = call._read, once(watcher)
    sent.watch(call)

    async def watched() -> Any:
        from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]  # it has it

        message = await read()
        if message is EOF:
            await call.code()  # the status may come later; grpc waits for it next
        with guard("grpc.message"):
            if message is EOF:
                reply = _end_of(call)
                sent.mark(reply)
                if end(reply):
                    sent.compare(reply)
            else:
                watcher.add(message_to_json(message))
        return message

    call._read = watched

    def over(call: Any) -> None:
        if call.cancelled():
            end(None)

    call.add_done_callback(over)


class _ServedCall:
    """A call of asyncio's that a replay answers: awaited, or iterated."""

    def __init__(self, answering: Coroutine[Any, Any, dict[str, Any]], sent: Unsent) -> None:
        self._asked: Coroutine[Any, Any, dict[str, Any]] | None = answering
        self._sent = sent
        self._reply: dict[str, Any] = {}
        self._messages: Any = None

    async def _answer(self) -> dict[str, Any]:
        if self._asked is not None:
            answering, self._asked = self._asked, None
            self._reply = await answering
            self._messages = iter(self._reply.get("yields", ()))
            self._sent.take()
        return self._reply

    async def _compare(self) -> None:
        sent, self._sent = self._sent, Unsent()
        await sent.compare_later(await self._end())

    async def _end(self) -> dict[str, Any]:
        reply = await self._answer()
        return (reply.get("return") or OK) if "yields" in reply else reply

    async def _message(self) -> Any:
        reply = await self._answer()
        await self._compare()
        await self._raise()
        return message_from_json(reply["message"])

    async def _raise(self) -> None:
        from grpc.aio import AioRpcError, Metadata

        end = await self._end()
        if end["code"] != "OK":
            raise AioRpcError(await self.code(), Metadata(), Metadata(*metadata(end)), details=end["details"])

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._message().__await__()

    async def read(self) -> Any:
        """Return the next message, or grpc's mark for the end."""
        from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]  # it has it

        await self._answer()
        message = next(self._messages, EOF)
        if message is EOF:
            await self._compare()
        return message_from_json(message)

    async def write(self, request: Any) -> None:
        """Take a message of the program."""
        self._sent.note(request)

    async def done_writing(self) -> None:
        """Take nothing more: what was sent is compared at the end."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        await self._answer()
        for message in self._messages:
            yield message_from_json(message)
        await self._compare()
        await self._raise()

    async def code(self) -> Any:
        import grpc

        return grpc.StatusCode[(await self._end())["code"]]

    async def details(self) -> str:
        return (await self._end())["details"]

    async def initial_metadata(self) -> Any:
        """Return nothing: that is not recorded."""
        return ()

    async def trailing_metadata(self) -> Any:
        return metadata(await self._end())

    async def wait_for_connection(self) -> None:
        """Wait for nothing."""

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        """Return that it was not cancelled."""
        return False

    def done(self) -> bool:
        return True
