"""lm15: model calls over its own sockets, without any HTTP library. DSPy brings it along as its default engine.

A response is of the library's own class, so that its reading and closing are the library's; only its pieces are ours.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from freezeframe._cleaning import clean_headers, clean_request
from freezeframe._guard import guard
from freezeframe.seams.http import adapter
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import Recording, while_reading, while_sending
from freezeframe.seams.recorder.responder import Responder
from freezeframe_schemas.exchange import Completion, Exchange, Request

SEAM: Final = "lm15"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch the package of its transports."""
    patches.around(module.StdlibTransport, "stream", _stream)
    patches.around(module.StdlibAsyncTransport, "_do_stream", _stream_async)


def _stream(original: Callable[..., Any], transport: Any, request: Any) -> Any:
    responder = switch.serving()
    if responder is not None:
        request, answer = _answer_of(responder, request)
        if answer is not None:
            responder.turn_in_thread(answer)
            return _served(transport, "TransportResponse", answer, _released)
    recording = adapter.record(SEAM, lambda: (_write(request), request.body))
    with while_sending(recording):
        response = original(transport, request)
    if recording is not None:
        with guard("lm15.response"):
            _answered(recording, response)
            response._chunks = _seen(response._chunks, recording)
            release = response._release

            def released(is_read: bool) -> Any:
                recording.finish(Completion.CLOSED_EARLY)  # unless it has been read
                return release(is_read)

            response._release = released
    return response


async def _stream_async(original: Callable[..., Awaitable[Any]], transport: Any, request: Any) -> Any:
    responder = switch.serving()
    if responder is not None:
        request, answer = _answer_of(responder, request)
        if answer is not None:
            await switch.take_turn(responder, answer)
            return _served(transport, "AsyncTransportResponse", answer, _released_async)
    recording = adapter.record(SEAM, lambda: (_write(request), request.body))
    with while_sending(recording):
        response = await original(transport, request)
    if recording is not None:
        with guard("lm15.response"):
            _answered(recording, response)
            response._chunks = _seen_async(response._chunks, recording)
            release = response._release

            async def released(is_read: bool) -> Any:
                recording.finish(Completion.CLOSED_EARLY)
                return await release(is_read)

            response._release = released
    return response


def _write(request: Any) -> Request:
    limits = {name: getattr(request, f"{name}_timeout") for name in ("connect", "read", "write")}
    return clean_request(request.method, request.url, request.headers, timeouts=tuple(limits.items()))


# -- record ---------------------------------------------------------------------------------------------------------------


def _answered(recording: Recording, response: Any) -> None:
    version = {"HTTP/1.0": "1.0"}.get(response.http_version)
    recording.answered(response.status, clean_headers(response.headers), response.reason, version)


def _seen(chunks: Iterator[bytes], recording: Recording) -> Iterator[bytes]:
    with while_reading(recording):
        for chunk in chunks:
            recording.chunk(chunk)
            yield chunk


async def _seen_async(chunks: AsyncIterator[bytes], recording: Recording) -> AsyncIterator[bytes]:
    with while_reading(recording):
        async for chunk in chunks:
            recording.chunk(chunk)
            yield chunk


# -- serve ----------------------------------------------------------------------------------------------------------------


def _answer_of(responder: Responder, request: Any) -> tuple[Any, Exchange | None]:
    """Return the request as it would be sent, and the recorded answer to it."""
    edited = switch.edited(replace(_write(request), body=request.body))
    if edited is not None:
        request = replace(request, body=edited)
    return request, adapter.ask(responder, SEAM, replace(_write(request), body=request.body), request.body)


def _served(transport: Any, kind: str, answer: Exchange, release: Callable[..., Any]) -> Any:
    """Return the recorded response, or raise the recorded error."""
    module: Any = sys.modules[type(transport).__module__]
    failure = adapter.failure(answer, module.ConnectError)
    if failure is not None:
        raise failure
    return getattr(module, kind)(
        status=answer.response.status or 200,
        reason=adapter.served_reason(answer),
        headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in adapter.served_headers(answer)],
        http_version=f"HTTP/{answer.response.version or '1.1'}",
        chunks=adapter.ServedChunks(adapter.Schedule(answer), adapter.end_of_stream(answer)),
        release=release,
    )


def _released(is_read: bool) -> None:
    """Do nothing: there is no connection."""


async def _released_async(is_read: bool) -> None:
    """Do nothing: there is no connection."""
