"""Calls a servicer of gRPC with a recorded request, in process: no server, no port.

Its answer is recorded and compared in the same place as in the run, around its method (`freezeframe.hosts.grpc_server`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from freezeframe.hosts.grpc_server import LEFT, RECEIVED, around
from freezeframe.seams.rpc.grpc_messages import message_from_json
from freezeframe_schemas.errors import ReplayError


def call_servicer(servicer: Any, given: Mapping[str, Any], left_after: int | None) -> None:
    """Call the method; its exceptions propagate.

    Args:
        servicer: the servicer, or a function that answers one method.
        given: the request, as `freezeframe.hosts.grpc_server` recorded it.
        left_after: number of messages of the answer after which the client left.

    Raises:
        ReplayError: the servicer no longer has the method.
    """
    name = given["path"].rpartition("/")[2]
    behavior = servicer if inspect.isroutine(servicer) else getattr(servicer, name, None)
    if behavior is None:
        raise ReplayError(f"{type(servicer).__name__} has no method {name!r} any more", do="check out the recorded commit")
    method = around(behavior, given["path"], given["shape"])
    messages = [message_from_json(message) for _, message in given["messages"]]
    if inspect.isasyncgenfunction(behavior) or inspect.iscoroutinefunction(behavior):
        asyncio.run(_call_async(method, given, messages, left_after))
        return
    left_after = None if LEFT in messages else left_after  # the method finds that out as it awaits a message
    request = _each(messages) if given["shape"].startswith("stream") else messages[0]
    answer = method(request, _Context(given))
    if given["shape"].endswith("stream"):
        answers = iter(answer)
        for number, _ in enumerate(answers, 1):
            if number == left_after:
                break
        answers.close()


async def _call_async(method: Any, given: Mapping[str, Any], messages: list[Any], left_after: int | None) -> None:
    left_after = None if LEFT in messages else left_after
    context = _AsyncContext(given, messages, left_after)
    request = _each_async(messages) if given["shape"].startswith("stream") else messages[0]
    if not inspect.isasyncgenfunction(method):
        with suppress(asyncio.CancelledError):
            await method(request, context)
        return
    answers = method(request, context)
    number = 0
    with suppress(asyncio.CancelledError):
        async for _ in answers:
            number += 1
            if number == left_after:
                break
    await answers.aclose()


def _each(messages: list[Any]) -> Iterator[Any]:
    import grpc

    for message in messages:
        if message == LEFT:
            raise grpc.RpcError
        yield message


async def _each_async(messages: list[Any]) -> AsyncIterator[Any]:
    for message in messages:
        if message == LEFT:
            raise asyncio.CancelledError
        yield message


class _Context:
    """Context of a request, as a servicer sees it."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._code: Any = None
        self._details = ""
        self._trailing: Any = ()
        setattr(self, RECEIVED, given["messages"])

    def invocation_metadata(self) -> Any:
        return tuple(self._given["headers"].items())

    def peer(self) -> str:
        """Return the client, without its port."""
        return f"{self._given['client']}:0"

    def peer_identities(self) -> None:
        """Return nothing: identities are not recorded."""

    peer_identity_key = peer_identities

    def auth_context(self) -> dict[str, Any]:
        """Return None, for the same reason."""
        return {}

    def is_active(self) -> bool:
        """Return True: the client has not left."""
        return True

    def time_remaining(self) -> None:
        """Return None: the request has no deadline."""

    def add_callback(self, callback: Any) -> bool:
        """Accept a callback for the end."""
        del callback
        return True

    def _ignore(self, *_: Any) -> None:
        pass

    cancel = set_compression = disable_next_message_compression = send_initial_metadata = _ignore

    def set_code(self, code: Any) -> None:
        self._code = code

    def set_details(self, details: str) -> None:
        self._details = details

    def set_trailing_metadata(self, metadata: Any) -> None:
        self._trailing = metadata

    def code(self) -> Any:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        return self._trailing

    def abort(self, code: Any, details: str) -> Any:
        """End the method with a status, as grpc does."""
        self._code, self._details = code, details
        raise Exception

    def abort_with_status(self, status: Any) -> Any:
        """End the method with a status, as grpc does."""
        return self.abort(status.code, status.details)

    def __enter__(self) -> _Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


class _AsyncContext(_Context):
    """The context of a servicer on asyncio."""

    def __init__(self, given: Mapping[str, Any], messages: list[Any], left_after: int | None) -> None:
        super().__init__(given)
        self._messages = iter(messages)
        self._written = 0
        self._left_after = left_after

    async def read(self) -> Any:
        """Return the next message, or grpc's mark for the end."""
        from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]  # it has it

        return next(self._messages, EOF)

    async def write(self, message: Any) -> None:
        """Accept a message; the client leaves when it did in the run."""
        del message
        self._written += 1
        if self._written == self._left_after:
            raise asyncio.CancelledError

    async def send_initial_metadata(self, metadata: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Send nothing."""

    def done(self) -> bool:
        """Return False: the request goes on."""
        return False

    cancelled = done

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> Any:
        """End the method with a status, as grpc does."""
        from grpc.aio import AbortError

        self._code, self._details, self._trailing = code, details, trailing_metadata
        raise AbortError

    async def abort_with_status(self, status: Any) -> Any:
        """End the method with a status, as grpc does."""
        await self.abort(status.code, status.details)
