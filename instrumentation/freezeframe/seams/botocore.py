"""botocore and boto3 (Bedrock, and the AWS calls of tools): every attempt, at ``URLLib3Session.send``.

botocore reads most bodies inside that method, so the raw response is watched from the moment that botocore has it. In a replay
botocore's own method runs over a connection that hands out the recording: its errors are made by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.seams import _port
from freezeframe.seams import http as shared
from freezeframe.seams.patching import Patches
from freezeframe.seams.recording import Body, Recording, unrecorded, while_sending
from freezeframe.seams.urllib3 import Watch, served_response
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import SECRET_REMOVED, Completion, Exchange, Request

SEAM: Final = "botocore"

_EDITED: Final = "_freezeframe_edited"
"""Mark of a request that a client made, the edits of a replay in it."""

_SENDING: Final[ContextVar[Recording | None]] = ContextVar("freezeframe_botocore", default=None)


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``botocore.httpsession`` with the response class that it uses, ``.credentials`` or ``.endpoint``."""
    if hasattr(module, "EndpointCreator"):
        patches.replace(module.Endpoint, "create_request", _wrap_create_request)
        return
    if hasattr(module, "CredentialResolver"):
        patches.replace(module.CredentialResolver, "load_credentials", functools.partial(_wrap_credentials, module=module))
        return
    patches.replace(module.URLLib3Session, "send", _wrap_send)
    awsrequest: Any = module.botocore.awsrequest
    patches.replace(awsrequest.AWSResponse, "__init__", _wrap_response)


def _wrap_credentials(original: Callable[..., Any], *, module: Any) -> Callable[..., Any]:
    """Have a replay sign with a key that opens nothing: the machine may have none, and nobody reads the signature."""

    @functools.wraps(original)
    def load_credentials(self: Any) -> Any:
        if _port.serving() is None:
            return original(self)
        return module.Credentials(SECRET_REMOVED, SECRET_REMOVED, SECRET_REMOVED, method="freezeframe")

    return load_credentials


def _wrap_create_request(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap where a request is made out of its parts, once an attempt: an edit has to be in it before it is signed."""

    @functools.wraps(original)
    def create_request(self: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        body: Any = params.get("body")
        if _port.serving() is not None and isinstance(body, bytes | bytearray | str):
            given = body.encode() if isinstance(body, str) else bytes(body)
            headers = shared.clean_headers(params["headers"].items())
            written = Request(method=params["method"], url=shared.clean_url(params["url"]), headers=headers, body=given)
            edited = _port.edited(written)
            params = params if edited is None else {**params, "body": edited}
        request = original(self, params, *args, **kwargs)
        setattr(request, _EDITED, True)
        return request

    return create_request


def _wrap_send(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(session: Any, request: Any) -> Any:
        responder = _port.serving()
        if responder is not None:
            answer = _ask(request, responder)
            if answer is not None:
                with while_sending():
                    return original(_ServedConnection(session, answer), request)
        recording = _start(request)
        if recording is None:
            with unrecorded():
                return original(session, request)
        token = _SENDING.set(recording)
        try:
            with while_sending():
                return original(session, request)
        except BaseException as error:
            recording.finish(Completion.NONE, error)
            raise
        finally:
            _SENDING.reset(token)

    return send


def _wrap_response(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, url: Any, status_code: Any, headers: Any, raw: Any) -> None:
        original(self, url, status_code, headers, raw)
        recording = _SENDING.get()
        if recording is not None:
            with guard("botocore.response"):
                recording.answered(status_code, shared.clean_headers(raw.headers.items()), raw.reason)
                Watch(raw, recording)

    return init


def _start(request: Any) -> Recording | None:
    recorder = _port.recorder()
    if recorder is None:
        return None
    with guard("botocore.request"):
        written = _write(request)
        subject = shared.subject_of(request.method, request.url, written.headers)
        if not shared.is_recorded(subject, request.url, recorder):
            return None
        return recorder.start(
            kind=subject.kind,
            name=shared.name_of(written.method, written.url),
            seam=SEAM,
            request=replace(written, body=b""),
            request_body=Body(recorder.settings.max_body_bytes, written.body),
            dialect=subject.dialect,
            provider=subject.provider,
        )
    return None


def _write(request: Any) -> Request:
    body: Any = request.body
    if hasattr(body, "read") and hasattr(body, "seek"):  # an upload: read it and put it back
        start = body.tell()
        data = body.read()
        body.seek(start)
        body = data
    return Request(
        method=str(request.method),
        url=shared.clean_url(str(request.url)),
        headers=shared.clean_headers(request.headers.items()),
        body=body.encode() if isinstance(body, str) else bytes(body or b""),
    )


def _ask(request: Any, responder: _port.Responder) -> Exchange | None:
    written = _write(request)
    if not hasattr(request, _EDITED) and _port.edited(written) is not None:
        raise ReplayMiss(
            f"{request.method} {request.url}: signed outside of a botocore client, so nothing can be edited in it any more; "
            "change the agent's code instead"
        )
    subject = shared.subject_of(request.method, request.url, written.headers)
    return shared.ask(responder, seam=SEAM, subject=subject, request=written)


class _ServedConnection:
    """Stands for the session, its pool manager and its connection at once; all else is the session's."""

    def __init__(self, session: Any, answer: Exchange) -> None:
        self._session = session
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def _get_connection_manager(self, *args: Any) -> Any:
        return self

    def connection_from_url(self, url: str) -> Any:
        """As a pool manager."""
        return self

    def _setup_ssl_cert(self, *args: Any) -> None:
        """No connection, no certificate."""

    def urlopen(self, **options: Any) -> Any:
        """As a connection."""
        answer = self._answer
        if answer.response.completion is Completion.NONE:
            raise shared.recorded_error(answer) or ConnectionError("recorded without a response and without its error")
        return served_response(answer)
