"""Credential look-ups: requests for temporary keys that SDKs make before the application's own requests.

They are never recorded, because their answers are secrets and a run does not depend on them. A replay signs
nothing for real, so it answers each with a dummy key, in the form that its SDK reads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs, urlsplit

from freezeframe_schemas.exchange import SECRET_REMOVED, Request

_EXPIRES: Final = "2099-01-01T00:00:00Z"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookUp:
    """One kind of look-up: its address, and the form of its answer."""

    host: str
    """Regular expression on the whole host."""
    path: str
    """Regular expression found in the path."""
    answer: Callable[[Request], str]
    content_type: str = _JSON


def _text(text: str) -> Callable[[Request], str]:
    return lambda _: text


def _json(**fields: object) -> Callable[[Request], str]:
    return _text(json.dumps(fields))


def _sts(request: Request) -> str:
    """Return an answer of AWS STS: the element names contain the name of the action."""
    action = parse_qs(request.body.decode(errors="replace")).get("Action", ["GetCallerIdentity"])[0]
    credentials = "".join(f"<{name}>{SECRET_REMOVED}</{name}>" for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    return (
        f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
        f"<Arn>arn:aws:iam::000000000000:role/{SECRET_REMOVED}</Arn><Account>000000000000</Account><UserId>none</UserId>"
        f"<Credentials>{credentials}<Expiration>{_EXPIRES}</Expiration></Credentials>"
        f"</{action}Result><ResponseMetadata><RequestId>none</RequestId></ResponseMetadata></{action}Response>"
    )


_AWS: Final = {
    "AccessKeyId": SECRET_REMOVED,
    "SecretAccessKey": SECRET_REMOVED,
    "Token": SECRET_REMOVED,
    "Expiration": _EXPIRES,
}
_OAUTH: Final = {"access_token": SECRET_REMOVED, "expires_in": 3600, "token_type": "Bearer"}
_METADATA: Final = r"169\.254\.169\.254|\[?fd00:ec2::254\]?|metadata\.google\.internal"

_CONTAINER: Final = _LookUp(host=r"169\.254\.170\.(?:2|23)", path="", answer=_json(**_AWS))
_CONTAINER_VARIABLE: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
"""Holds the address if it is a different one."""

_LOOK_UPS: Final = (
    # AWS: instance metadata, containers, STS, single sign-on
    _LookUp(host=_METADATA, path=r"^/latest/api/token$", answer=_text(SECRET_REMOVED), content_type="text/plain"),
    _LookUp(
        host=_METADATA,
        path=r"^/latest/meta-data/iam/security-credentials/$",
        answer=_text(SECRET_REMOVED),
        content_type="text/plain",
    ),
    _LookUp(
        host=_METADATA,
        path=r"^/latest/meta-data/iam/security-credentials/.",
        answer=_json(Code="Success", Type="AWS-HMAC", LastUpdated="2020-01-01T00:00:00Z", **_AWS),
    ),
    _CONTAINER,
    _LookUp(host=r"sts(?:\..+)?\.amazonaws\.com(?:\.cn)?", path="", answer=_sts, content_type="text/xml"),
    _LookUp(
        host=r"portal\.sso\..+\.amazonaws\.com",
        path="^/federation/credentials$",
        answer=_json(
            roleCredentials={
                "accessKeyId": SECRET_REMOVED,
                "secretAccessKey": SECRET_REMOVED,
                "sessionToken": SECRET_REMOVED,
                "expiration": 4070908800000,
            }
        ),
    ),
    # Google: metadata server, OAuth
    _LookUp(host=_METADATA, path=r"^/computeMetadata/v1/instance/service-accounts/[^/]+/token", answer=_json(**_OAUTH)),
    _LookUp(host=r"(?:oauth2|sts)\.googleapis\.com", path=r"/token$", answer=_json(**_OAUTH)),
    _LookUp(
        host=r"iamcredentials\.googleapis\.com",
        path=r":generateAccessToken$",
        answer=_json(accessToken=SECRET_REMOVED, expireTime=_EXPIRES),
    ),
    # Azure: managed identity, Entra
    _LookUp(host=_METADATA, path=r"^/metadata/identity/oauth2/token$", answer=_json(**_OAUTH, expires_on="4070908800")),
    _LookUp(host=r"login\.microsoftonline\.(?:com|us)", path=r"/oauth2/(?:v2\.0/)?token$", answer=_json(**_OAUTH)),
)


def is_look_up(url: str) -> bool:
    """Return whether a request asks for credentials."""
    return _find(url) is not None


def answer_of(request: Request) -> tuple[str, bytes] | None:
    """Return content type and body of a replay's answer, None if the request is not a look-up."""
    found = _find(request.url)
    return None if found is None else (found.content_type, found.answer(request).encode())


def _find(url: str) -> _LookUp | None:
    if url == os.environ.get(_CONTAINER_VARIABLE):
        return _CONTAINER
    return _found(url)


@lru_cache(maxsize=512)
def _found(url: str) -> _LookUp | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not _SOME_HOST.fullmatch(host):
        return None
    return next((row for row in _LOOK_UPS if re.fullmatch(row.host, host) and re.search(row.path, parts.path)), None)


_SOME_HOST: Final = re.compile("|".join(f"(?:{host})" for host in {row.host for row in _LOOK_UPS}), re.IGNORECASE)
"""A quick check: most requests go elsewhere."""
