"""botocore and boto3 (Bedrock, and the AWS calls of tools): built on urllib3, whose seam records and serves their attempts.

Here they are named; a replay's edit is put into a request before signing; a replay signs with a key that opens
nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe._cleaning import clean_request
from freezeframe.seams.http import urllib3
from freezeframe.seams.http.adapter import known_bytes
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import SECRET_REMOVED, Request

LIBRARY: Final = urllib3.Library(seam="botocore", edits=False)

_EDITED: Final = "_freezeframe_edited"
"""Marks a request that a client made with a replay's edits in it."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``botocore.httpsession``, ``.credentials`` or ``.endpoint``."""
    if hasattr(module, "EndpointCreator"):
        patches.around(module.Endpoint, "create_request", _create_request)
    elif hasattr(module, "CredentialResolver"):
        patches.around(module.CredentialResolver, "load_credentials", functools.partial(_load_credentials, module=module))
    else:
        patches.around(module.URLLib3Session, "send", _send)


def _load_credentials(original: Callable[..., Any], resolver: Any, *, module: Any) -> Any:
    """Let a replay sign with a dummy key: the machine may have no key, and no one checks the signature."""
    if switch.serving() is None:
        return original(resolver)
    return module.Credentials(SECRET_REMOVED, SECRET_REMOVED, SECRET_REMOVED, method="freezeframe")


def _create_request(original: Callable[..., Any], endpoint: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
    """Build a request from its parts, once per attempt: an edit must be in it before it is signed."""
    body: Any = params.get("body")
    if switch.serving() is not None and isinstance(body, bytes | bytearray | str):
        written = clean_request(params["method"], params["url"], params["headers"].items(), known_bytes(body) or b"")
        edited = switch.edited(written)
        params = params if edited is None else {**params, "body": edited}
    request = original(endpoint, params, *args, **kwargs)
    setattr(request, _EDITED, True)
    return request


def _send(original: Callable[..., Any], session: Any, request: Any) -> Any:
    if switch.serving() is not None and not hasattr(request, _EDITED) and switch.edited(_write(request)) is not None:
        raise ReplayMiss(
            f"{request.method} {request.url}: signed outside of a botocore client, so it can no longer be edited; "
            "change the agent's code instead"
        )
    with urllib3.called_by(LIBRARY):
        return original(session, request)


def _write(request: Any) -> Request:
    body: Any = request.body
    if hasattr(body, "read") and hasattr(body, "seek"):  # an upload: read it and put it back
        start = body.tell()
        data = body.read()
        body.seek(start)
        body = data
    return clean_request(request.method, str(request.url), request.headers.items(), known_bytes(body) or b"")
