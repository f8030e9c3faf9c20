"""gRPC clients, sync and asyncio: a call of a run with one request, answered once or by a stream, above the wire.

A replay answers with grpc's own objects, finished beforehand. Calls that stream requests, and those of asyncio behind
interceptors, are gaps of their run (`sessions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe._drive import Watcher
from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import outside_lane
from freezeframe.seams.rpc.grpc_messages import message_from_json, message_to_json, metadata_of
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Completion, Kind

SEAM: Final = "grpc"
_OK: Final[dict[str, Any]] = {"code": "OK", "details": "", "trailing": []}
_TELEMETRY: Final = "/opentelemetry.proto.collector."
"""Services that receive traces: a run does not depend on them."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``grpc._channel`` or ``grpc.aio._channel``."""
    kinds: Any = module
    if module.__name__ == "grpc.aio._channel":
        patches.around(kinds.UnaryUnaryMultiCallable, "__call__", _unary_async)
        patches.around(kinds.UnaryStreamMultiCallable, "__call__", _stream_async)
        return
    for name in ("__call__", "with_call", "future"):
        patches.around(kinds._UnaryUnaryMultiCallable, name, partial(_unary, kinds, name))
    for name in ("_UnaryStreamMultiCallable", "_SingleThreadedUnaryStreamMultiCallable"):
        patches.around(getattr(kinds, name), "__call__", partial(_stream, kinds))


def method_of(callable_: Any) -> str:
    """Return ``/package.Service/Method``."""
    method: Any = getattr(callable_, "_method", "")
    return method.decode(errors="replace") if isinstance(method, bytes) else str(method or "")


def is_exchange(callable_: Any) -> bool:
    """Return whether a call made here is recorded or served."""
    place, recorder = current_place(), switch.recorder()
    if method_of(callable_).startswith(_TELEMETRY) or place.inside_call or place.sending:
        return False
    if switch.serving() is not None:
        return True
    return recorder is not None and (place.run is not None or recorder.root.sights() is not None)


def _asked(callable_: Any, request: Any) -> calls.Describe:
    return lambda: calls.FunctionCall.of(Kind.HTTP, SEAM, method_of(callable_), message_to_json(request), kwargs={})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """How a call ended: as recorded, or as it just did."""

    told: Any
    """``{"message": ..., "code": "OK", "details": "", "trailing": [["name", "value"]]}``."""
    returned: Any = None
    error: Any = None


def _end_of(call: Any) -> dict[str, Any]:
    code: Any = call.code()
    return {"code": code.name, "details": call.details() or "", "trailing": metadata_of(call.trailing_metadata())}


# -- sync -----------------------------------------------------------------------------------------------------------------


def _unary(kinds: Any, name: str, original: Any, callable_: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_exchange(callable_):
        return original(callable_, request, *args, **kwargs)
    describe, invoke = _asked(callable_, request), partial(original, callable_, request, *args, **kwargs)
    if name == "future" and switch.serving() is None:
        return _recorded_future(describe, invoke)
    load: Callable[[str], _Outcome] = lambda text: _Outcome(told=values.decode(text))  # noqa: E731 - typed
    outcome = calls.run(describe, partial(_outcome, name, invoke), dump=_dump, load=load)
    if outcome.error is not None:
        raise outcome.error
    return _served(kinds, name, outcome.told) if switch.serving() is not None and outcome.returned is None else outcome.returned


def _outcome(name: str, invoke: Callable[[], Any]) -> _Outcome:
    """Make the call. A status that is not OK is an answer, too."""
    import grpc

    try:
        returned = invoke()
    except grpc.RpcError as error:
        return _Outcome(told={"message": None, **_end_of(error)}, error=error)
    told = {"message": None, **_OK}
    with guard("grpc.answer"):
        message, end = (returned[0], _end_of(returned[1])) if name == "with_call" else (returned, _OK)
        told = {"message": message_to_json(message), **end}
    return _Outcome(told=told, returned=returned)


def _dump(outcome: _Outcome) -> str:
    return values.encode(outcome.told)


def _no_dump(result: Any) -> str:
    return result if isinstance(result, str) else "null"


def _recorded_future(describe: calls.Describe, invoke: Callable[[], Any]) -> Any:
    made: list[Any] = []
    recording = calls.begin(describe, lambda: made.append(invoke()))
    (future,) = made
    if recording is not None:

        def done(call: Any) -> None:
            with guard("grpc.future"):
                message = message_to_json(call.result()) if call.code().name == "OK" else None
                recording.chunk(values.encode({"message": message, **_end_of(call)}).encode())
            recording.finish(Completion.COMPLETE)

        future.add_done_callback(done)
    return future


def _finished(kinds: Any, told: Any, message: Any = None) -> Any:
    """Return grpc's own object for a call that has ended."""
    import grpc

    state = kinds._RPCState((), (), _metadata(told), grpc.StatusCode[told["code"]], told["details"])
    state.response = message
    return kinds._MultiThreadedRendezvous(state, None, None, None)


def _metadata(told: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in told["trailing"])


def _served(kinds: Any, name: str, told: Any) -> Any:
    message = message_from_json(told["message"])
    call = _finished(kinds, told, message)
    if name == "future":
        return call
    if told["code"] != "OK":
        raise kinds._InactiveRpcError(call._state)
    return (message, call) if name == "with_call" else message


def _stream(kinds: Any, original: Any, callable_: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_exchange(callable_):
        return original(callable_, request, *args, **kwargs)
    describe, invoke = _asked(callable_, request), partial(original, callable_, request, *args, **kwargs)
    if switch.serving() is not None:
        told: Any = calls.run(describe, invoke, dump=_no_dump, load=values.decode)
        return _served_stream(kinds, told) if isinstance(told, dict) else told
    with outside_lane():
        call, watcher = calls.begin_generator(describe, invoke)
    if watcher is not calls.UNWATCHED:
        _watch(call, watcher)
    return call


def _watch(call: Any, watcher: Watcher) -> None:
    take = call._next
    end = _once(watcher)

    def watched() -> Any:
        try:
            message = take()
        except BaseException:
            with guard("grpc.end"):
                end(_end_of(call))
            raise
        with guard("grpc.message"):
            watcher.add(message_to_json(message))
        return message

    call._next = watched
    call.add_callback(lambda: end(None) if call.cancelled() else None)


def _once(watcher: Watcher) -> Callable[[dict[str, Any] | None], None]:
    """Return what ends a stream once, with its status; without one if the program did not wait for it."""
    left = [watcher]

    def end(told: dict[str, Any] | None) -> None:
        if left:
            left.pop().end(Completion.CLOSED_EARLY if told is None else Completion.COMPLETE, result=told)

    return end


def _served_stream(kinds: Any, told: dict[str, Any]) -> Any:
    """Return a call whose messages are those that were recorded, and then its end."""
    end: dict[str, Any] = told["return"] or _OK
    call, messages = _finished(kinds, end), iter(told["yields"])

    def take() -> Any:
        for message in messages:
            return message_from_json(message)
        if end["code"] != "OK":
            raise call
        raise StopIteration

    call._next = take
    return call


# -- asyncio --------------------------------------------------------------------------------------------------------------


def _unary_async(original: Any, callable_: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_exchange(callable_) or (switch.serving() is None and callable_._interceptors):
        return original(callable_, request, *args, **kwargs)
    describe, invoke = _asked(callable_, request), partial(original, callable_, request, *args, **kwargs)
    if switch.serving() is not None:

        async def live() -> dict[str, Any]:
            return {"message": await invoke(), **_OK}

        return _ServedCall(calls.run_async(describe, live, load=values.decode))
    made: list[Any] = []
    recording = calls.begin(describe, lambda: made.append(invoke()))
    (call,) = made
    if recording is not None:

        def done(answer: asyncio.Task[Any]) -> None:
            with guard("grpc.answer"):
                told = _end_of_async(call)
                message = message_to_json(answer.result()) if told["code"] == "OK" and not answer.cancelled() else None
                recording.chunk(values.encode({"message": message, **told}).encode())
            recording.finish(Completion.COMPLETE)

        call._call_response.add_done_callback(done)
    return call


def _end_of_async(call: Any) -> dict[str, Any]:
    import grpc

    status: Any = call._cython_call._status
    if status is None:
        return {"code": "CANCELLED", "details": "", "trailing": []}
    code = next(one for one in grpc.StatusCode if one.value[0] == status.code())
    return {"code": code.name, "details": status.details() or "", "trailing": metadata_of(status.trailing_metadata())}


def _stream_async(original: Any, callable_: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_exchange(callable_) or (switch.serving() is None and callable_._interceptors):
        return original(callable_, request, *args, **kwargs)
    describe, invoke = _asked(callable_, request), partial(original, callable_, request, *args, **kwargs)
    if switch.serving() is not None:

        async def live() -> dict[str, Any]:
            return {"yields": [message async for message in invoke()], "return": None}

        return _ServedCall(calls.run_async(describe, live, dump=_no_dump, load=values.decode))
    with outside_lane():  # its tasks are grpc's
        call, watcher = calls.begin_async_generator(describe, invoke)
    if watcher is not calls.UNWATCHED:
        _watch_async(call, watcher)
    return call


def _watch_async(call: Any, watcher: Watcher) -> None:
    read, end = call._read, _once(watcher)

    async def watched() -> Any:
        from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]  # it has it

        message = await read()
        if message is EOF:
            await call.code()  # the status may come later; grpc waits for it next
        with guard("grpc.message"):
            if message is EOF:
                end(_end_of_async(call))
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

    def __init__(self, asked: Coroutine[Any, Any, dict[str, Any]]) -> None:
        self._asked: Coroutine[Any, Any, dict[str, Any]] | None = asked
        self._told: dict[str, Any] = {}
        self._messages: Any = None

    async def _answer(self) -> dict[str, Any]:
        if self._asked is not None:
            asked, self._asked = self._asked, None
            self._told = await asked
            self._messages = iter(self._told.get("yields", ()))
        return self._told

    async def _end(self) -> dict[str, Any]:
        told = await self._answer()
        return (told.get("return") or _OK) if "yields" in told else told

    async def _message(self) -> Any:
        told = await self._answer()
        await self._raise()
        return message_from_json(told["message"])

    async def _raise(self) -> None:
        from grpc.aio import AioRpcError, Metadata

        end = await self._end()
        if end["code"] != "OK":
            raise AioRpcError(await self.code(), Metadata(), Metadata(*_metadata(end)), details=end["details"])

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._message().__await__()

    async def read(self) -> Any:
        """Return the next message, or what says that there is none."""
        from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]  # it has it

        await self._answer()
        return message_from_json(next(self._messages, EOF))

    async def __aiter__(self) -> AsyncIterator[Any]:
        await self._answer()
        for message in self._messages:
            yield message_from_json(message)
        await self._raise()

    async def code(self) -> Any:
        """Return the status."""
        import grpc

        return grpc.StatusCode[(await self._end())["code"]]

    async def details(self) -> str:
        """Return its details."""
        return (await self._end())["details"]

    async def initial_metadata(self) -> Any:
        """Return nothing: that is not recorded."""
        return ()

    async def trailing_metadata(self) -> Any:
        """Return the metadata of the end."""
        return _metadata(await self._end())

    async def wait_for_connection(self) -> None:
        """Wait for nothing."""

    def cancel(self) -> bool:
        """Return that it has ended."""
        return False

    def cancelled(self) -> bool:
        """Return that it was not cancelled."""
        return False

    def done(self) -> bool:
        """Return that it has ended."""
        return True
