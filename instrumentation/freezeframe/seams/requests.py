"""requests: every attempt of every session, at ``HTTPAdapter.send``.

The body is seen at urllib3's raw reads, before content-decoding. It is served by a urllib3 response over the recorded bytes, so
that requests itself makes its exceptions out of urllib3's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.seams import _port
from freezeframe.seams import http as shared
from freezeframe.seams.patching import Patches
from freezeframe.seams.recording import Body, Recorder, Recording, unrecorded, while_sending
from freezeframe.seams.urllib3 import Watch, served_response
from freezeframe_schemas.exchange import Completion, Exchange, Request

SEAM: Final = "requests"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``requests.adapters``."""
    patches.replace(module.HTTPAdapter, "send", _wrap)


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(adapter: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        responder = _port.serving()
        if responder is not None:
            answer = _ask(request, responder)
            if answer is not None:
                return _serve(adapter, request, answer)
        recording = _start(request)
        if recording is None:
            with unrecorded():
                return original(adapter, request, *args, **kwargs)
        try:
            with while_sending():
                response = original(adapter, request, *args, **kwargs)
        except BaseException as error:
            recording.finish(Completion.NONE, error)
            raise
        with guard("requests.response"):
            raw = response.raw
            recording.answered(response.status_code, shared.clean_headers(raw.headers.items()), response.reason)
            Watch(raw, recording)
        return response

    return send


# -- record -------------------------------------------------------------------------------------------------------------


def _start(request: Any) -> Recording | None:
    recorder = _port.recorder()
    if recorder is None:
        return None
    with guard("requests.request"):
        written = _write(request)
        subject = shared.subject_of(request.method, request.url, written.headers)
        if not shared.is_recorded(subject, request.url, recorder):
            return None
        return recorder.start(
            kind=subject.kind,
            name=shared.name_of(written.method, written.url),
            seam=SEAM,
            request=written,
            request_body=_record_body(request, recorder),
            dialect=subject.dialect,
            provider=subject.provider,
        )
    return None


def _write(request: Any) -> Request:
    return Request(
        method=str(request.method),
        url=shared.clean_url(str(request.url)),
        headers=shared.clean_headers(request.headers.items()),
    )


def _record_body(request: Any, recorder: Recorder) -> Body:
    """Return the body; of one that is streamed, what goes by as it is sent."""
    body = Body(recorder.settings.max_body_bytes)
    given = request.body
    if isinstance(given, str | bytes):
        body.add(given.encode() if isinstance(given, str) else given)
    elif given is not None:
        request.body = _tee(given, body)
    return body


class _tee:  # noqa: N801 - used as a function
    """An upload that is read piece by piece, watched. Everything but reading is the original's."""

    def __init__(self, inner: Any, body: Body) -> None:
        self._inner = inner
        self._body = body
        if hasattr(inner, "read"):
            self.read = self._read  # only what the original has: urllib3 chooses by it

    def __iter__(self) -> Generator[Any]:
        for piece in self._inner:
            with guard("requests.upload"):
                self._body.add(piece.encode() if isinstance(piece, str) else bytes(piece))
            yield piece

    def _read(self, *args: Any) -> Any:
        piece = self._inner.read(*args)
        with guard("requests.upload"):
            self._body.add(piece.encode() if isinstance(piece, str) else bytes(piece))
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


# -- serve --------------------------------------------------------------------------------------------------------------


def _ask(request: Any, responder: _port.Responder) -> Exchange | None:
    given = request.body
    if given is not None and not isinstance(given, str | bytes):
        # read once: should the call go out after all, the bytes do
        given = request.body = given.read() if hasattr(given, "read") else b"".join(given)
    body = given.encode() if isinstance(given, str) else given or b""
    written = replace(_write(request), body=body)
    edited = _port.edited(written)
    if edited is not None:
        request.prepare_body(edited, None)
        written = replace(written, body=edited)
    subject = shared.subject_of(request.method, request.url, written.headers)
    return shared.ask(responder, seam=SEAM, subject=subject, request=written)


def _serve(adapter: Any, request: Any, answer: Exchange) -> Any:
    if answer.response.completion is Completion.NONE:
        raise _rebuilt(answer, request)
    return adapter.build_response(request, served_response(answer))


def _rebuilt(answer: Exchange, request: Any) -> BaseException:
    error = shared.recorded_error(answer)
    if error is None:
        import requests

        return requests.exceptions.ConnectionError("recorded without a response and without its error", request=request)
    if hasattr(error, "response"):
        error.request = request  # pyright: ignore[reportAttributeAccessIssue] - a RequestException
    return error
