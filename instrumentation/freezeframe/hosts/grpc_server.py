"""Requests to servicers of gRPC, sync and asyncio: a run each, as in `applications` for ASGI and WSGI.

A method is wrapped when its service is assembled, below the server's interceptors. A run's input is the method, the
metadata of the allow-list, and each message with how many the servicer had sent before it took it; its output is the messages
and the status.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.hosts import request_runs
from freezeframe.runs.entry import EntryScope
from freezeframe.runs.run import file_of, target_of
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.rpc.grpc_messages import message_to_json, metadata_of
from freezeframe_schemas import values

METHOD: Final = "GRPC"
RECEIVED: Final = "freezeframe_received"
"""Attribute of a context by which a replay passes the client's messages beforehand."""
SHAPES: Final = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
LEFT: Final = {"left": True}
"""Placeholder for a message that did not come because the client had left."""
_MAX_MESSAGES: Final = 10_000


@dataclass(slots=True, kw_only=True)
class _GrpcSession:
    """A request in progress and its run, if one was started."""

    context: Any
    received: list[list[Any]] = field(default_factory=list[list[Any]])
    sent: list[Any] = field(default_factory=list[Any])
    scope: EntryScope = field(init=False)
    is_whole: bool = True
    """False if the client went away."""

    def on_receive(self, message: Any) -> Any:
        """Note a message of the client, as it is now, and return it."""
        if len(self.received) < _MAX_MESSAGES:
            with guard("grpc.receive"):
                self.received.append([len(self.sent), _Kept(message)])
        return message

    def leave(self) -> None:
        """Note that the client had left when its next message was awaited."""
        self.is_whole = False
        self.on_receive(LEFT)

    def on_send(self, message: Any) -> Any:
        """Note a message of the servicer, and return it."""
        if len(self.sent) < _MAX_MESSAGES:
            with guard("grpc.send"):
                self.sent.append(_Kept(message))
        return message

    def came(self) -> dict[str, Any]:
        """Return the messages of the client so far; in a replay all that it will send."""
        received = getattr(self.context, RECEIVED, None)
        return {"messages": [[sent, message.json()] for sent, message in self.received] if received is None else received}

    def end(self, error: BaseException | None = None) -> None:
        output, failure = None, ""
        with guard("grpc.end"):
            payload = self.scope.payload
            if payload is not None and switch.serving() is None:
                payload.add_input("messages", self.came()["messages"])
            if payload is not None or switch.serving() is not None:
                status, details = _status(self.context)
                if error is None or _is_refusal(error, status):
                    error, failure = None, "" if status == "OK" else status
                    outcome = {"sent": [message.json() for message in self.sent], "status": status, "details": details}
                    left = {} if self.is_whole else {"client_left_after": len(self.sent)}
                    output = values.encode(outcome | left)
        self.scope.finish(output=output, error=error, failure=failure)


class _Kept:
    """A message at the time of its arrival.

    A protobuf message is kept as its bytes, which is quick, and converted to JSON only for a run.
    """

    __slots__ = ("_kind", "_value")

    def __init__(self, message: Any) -> None:
        is_protobuf = hasattr(message, "DESCRIPTOR")
        self._kind: Any = type(message) if is_protobuf else None
        self._value = message.SerializePartialToString() if is_protobuf else message

    def json(self) -> Any:
        return self._value if self._kind is None else message_to_json(self._kind.FromString(self._value))


def install(patches: Patches, module: ModuleType) -> None:
    """Patch ``grpc._utilities``."""
    patches.around(module.DictionaryGenericHandler, "__init__", _make)


def _make(original: Any, generic: Any, service: str, handlers: Any) -> None:
    with guard("grpc.handlers"):
        for name, handler in list(handlers.items()):
            shape = SHAPES[handler.request_streaming, handler.response_streaming]
            watched = around(getattr(handler, shape), f"/{service}/{name}", shape)
            handlers[name] = handler._replace(**{shape: watched})  # in place: the server registers the same ones by name
    original(generic, service, handlers)


def around(behavior: Any, path: str, shape: str) -> Any:
    """Return a function that answers as `behavior` does and makes each request a run."""
    begin = functools.partial(_begin, behavior, path, shape)
    if inspect.isasyncgenfunction(behavior):

        async def yielding(request: Any, context: Any) -> AsyncIterator[Any]:
            session = begin(context, request)
            answers = behavior(_given(session, request, shape), context)
            if session is None:
                async for answer in answers:
                    yield answer
                return
            async for answer in _answers_async(session, answers):
                yield answer

        return functools.wraps(behavior)(yielding)
    if inspect.iscoroutinefunction(behavior):

        async def awaited(request: Any, context: Any) -> Any:
            session = begin(context, request)
            if session is None:
                return await behavior(request, context)
            with_session = _Writing(context, session) if "stream" in shape else context
            with _within(session):
                answer = await behavior(_given(session, request, shape), with_session)
                if not shape.endswith("stream"):
                    session.on_send(answer)
            session.end()
            return answer

        return functools.wraps(behavior)(awaited)

    def called(request: Any, context: Any, *more: Any) -> Any:
        session = None if more else begin(context, request)
        if session is None:
            return behavior(request, context, *more)
        with _within(session):
            answer = behavior(_given(session, request, shape), context)
            if not shape.endswith("stream"):
                session.on_send(answer)
        if shape.endswith("stream"):
            return _Answers(iter(answer), session)
        session.end()
        return answer

    return functools.wraps(behavior)(called)


class _within:  # noqa: N801 - reads like the function that `contextmanager` would return
    """Run code of the servicer inside the run; an exception ends the run."""

    __slots__ = ("_leave", "_session")

    def __init__(self, session: _GrpcSession) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._leave = self._session.scope.enter()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._leave()
        if error is not None and not isinstance(error, StopIteration | StopAsyncIteration):
            self._session.is_whole &= isinstance(error, Exception)
            self._session.end(error if self._session.is_whole else None)


def _begin(behavior: Any, path: str, shape: str, context: Any, request: Any) -> _GrpcSession | None:
    if current_place().run is not None or (switch.serving() is None and switch.recorder() is None):
        return None
    with guard("grpc.begin"):
        session = _GrpcSession(context=context)
        if shape.startswith("unary"):
            session.on_receive(request)
        metadata = metadata_of(context.invocation_metadata())
        named = dict(metadata)

        def request_input() -> dict[str, Any]:
            client = str(context.peer() or "").rpartition(":")[0]
            headers = request_runs.recorded_headers(metadata)
            return {"method": METHOD, "path": path, "shape": shape, "headers": headers, "client": client}

        first: Callable[[tuple[str, ...]], str | None] = lambda names: next((named[n] for n in names if n in named), None)  # noqa: E731
        description = request_runs.RequestFacts(name=path, first=first, given=request_input)
        session.scope = request_runs.begin_scope(functools.partial(_target, behavior), lambda: description, session.came)
        return session
    return None


def _target(behavior: Any) -> tuple[str, str | None]:
    """Return the place where a replay finds the servicer: a global, or its class, if it takes no arguments; or a function."""
    owner: Any = getattr(behavior, "__self__", None)
    if owner is None or isinstance(owner, type):
        return target_of(behavior), file_of(behavior)
    return request_runs.place_of_object(owner)


def _given(session: _GrpcSession | None, request: Any, shape: str) -> Any:
    if session is None or shape.startswith("unary"):
        return request
    return _messages_async(session, aiter(request)) if hasattr(request, "__aiter__") else _messages(session, iter(request))


def _messages(session: _GrpcSession, requests: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            request = next(requests)
        except StopIteration:
            return
        except BaseException:
            session.leave()
            raise
        yield session.on_receive(request)


async def _messages_async(session: _GrpcSession, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    while True:
        try:
            request = await anext(requests)
        except StopAsyncIteration:
            return
        except BaseException:
            session.leave()
            raise
        yield session.on_receive(request)


class _Answers:
    """A servicer's streamed answer, whose code runs inside the run."""

    def __init__(self, answers: Iterator[Any], session: _GrpcSession) -> None:
        self._answers = answers
        self._session = session

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            with _within(self._session):
                answer = next(self._answers)
        except StopIteration:
            self._session.end()
            raise
        return self._session.on_send(answer)

    def close(self) -> None:
        """End the servicer's code, and the run: the client went away."""
        try:
            with _within(self._session):
                getattr(self._answers, "close", lambda: None)()
        finally:
            self._session.is_whole = False
            self._session.end()

    __del__ = close  # the server only drops it; a run that has ended ends once


async def _answers_async(session: _GrpcSession, answers: AsyncGenerator[Any]) -> AsyncIterator[Any]:
    try:
        while True:
            try:
                with _within(session):
                    answer = await anext(answers)
            except StopAsyncIteration:
                session.end()
                return
            yield session.on_send(answer)
    finally:  # if it goes on, the client went away
        try:
            with _within(session):
                await answers.aclose()
        finally:
            session.is_whole = False
            session.end()


class _Writing:
    """The context of a servicer that reads and writes messages by it."""

    def __init__(self, context: Any, session: _GrpcSession) -> None:
        self._context = context
        self._session = session

    async def read(self) -> Any:
        message = await self._context.read()
        return self._session.on_receive(message) if hasattr(message, "DESCRIPTOR") or isinstance(message, bytes) else message

    async def write(self, message: Any) -> None:
        self._session.on_send(message)
        await self._context.write(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _status(context: Any) -> tuple[str, str]:
    """Return the status's name and its details."""
    import grpc

    code, details = context.code(), context.details()
    found = next((one for one in grpc.StatusCode if code in (one, one.value[0])), None)
    text = details.decode(errors="replace") if isinstance(details, bytes) else str(details or "")
    return "OK" if found is None else found.name, text


def _is_refusal(error: BaseException, status: str) -> bool:
    """Return whether an exception comes from ``context.abort``, which ends the method."""
    return status != "OK" and (type(error).__name__ == "AbortError" or (type(error) is Exception and not error.args))
