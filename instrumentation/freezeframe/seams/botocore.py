"""botocore and boto3 (Bedrock, and the AWS calls of tools): it asks urllib3, where its attempts are recorded and served.

Here it is named; an edit of a replay is put into a request before that is signed; a replay signs with a key that opens nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams import _port, urllib3
from freezeframe.seams import http as shared
from freezeframe.seams.patching import Patches
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import SECRET_REMOVED, Request

LIBRARY: Final = urllib3.Library(seam="botocore", edits=False)

_EDITED: Final = "_freezeframe_edited"
"""Mark of a request that a client made, the edits of a replay in it."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``botocore.httpsession``, ``.credentials`` or ``.endpoint``."""
    if hasattr(module, "EndpointCreator"):
        patches.replace(module.Endpoint, "create_request", _wrap_create_request)
        return
    if hasattr(module, "CredentialResolver"):
        patches.replace(module.CredentialResolver, "load_credentials", functools.partial(_wrap_credentials, module=module))
        return
    patches.replace(module.URLLib3Session, "send", _wrap_send)


def _wrap_credentials(original: Callable[..., Any], *, module: Any) -> Callable[..., Any]:
    """Have a replay sign with a key that opens nothing: the machine may have none, and no one reads the signature."""

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
        if _port.serving() is not None and not hasattr(request, _EDITED) and _port.edited(_write(request)) is not None:
            raise ReplayMiss(
                f"{request.method} {request.url}: signed outside of a botocore client, so it can no longer be edited; "
                "change the agent's code instead"
            )
        with urllib3.asked_by(LIBRARY):
            return original(session, request)

    return send


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
