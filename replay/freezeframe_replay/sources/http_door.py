"""Requests to backends: loopback goes through no proxy, a redirect is an error, and credentials become headers.

Requests are repeated while the backend is busy.
"""

from __future__ import annotations

import base64
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RetryableStoreError

LOOPBACK: Final = "127.0.0.1"
_TRIES: Final = 8
_TIMEOUT_S: Final = 60.0
_BUSY: Final = frozenset({429, 502, 503, 504})


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: urllib would send a key to wherever it points."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Follow no redirect."""


def opener(host: str) -> urllib.request.OpenerDirector:
    """Return an opener for URLs of a host. Loopback never goes through a proxy, regardless of the environment."""
    proxies = [urllib.request.ProxyHandler({})] if host in {"localhost", LOOPBACK, "::1"} else []
    return urllib.request.build_opener(NoRedirect, *proxies)


def deliver(request: urllib.request.Request, *, what: str, again: str, pause: Callable[[float], None] = time.sleep) -> bytes:
    """Return the answer to a request, which is made again if the server is busy. Errors name `what`, and the remedy.

    Raises:
        PermanentStoreError: the server refuses it.
        RetryableStoreError: it does not answer, or stays busy.
    """
    for tried in range(_TRIES):
        try:
            with opener(urlsplit(request.full_url).hostname or "").open(request, timeout=_TIMEOUT_S) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code not in _BUSY:
                raise PermanentStoreError(f"{what}: refused with HTTP {error.code}", do=again) from None
            retry_after = error.headers.get("Retry-After", "")
            pause(min(float(retry_after) if retry_after.isdecimal() else 1.0, 2.0**tried))
        except OSError as error:
            raise RetryableStoreError(f"{what}: does not answer: {error}", do=again) from error
    raise RetryableStoreError(f"{what}: still busy after {_TRIES} tries", do=again)


def credentials(url: str) -> dict[str, str]:
    """Return the header for user and password of the URL, if it holds any (RFC 7617)."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def headers_in(environ: Mapping[str, str], variable: str) -> dict[str, str]:
    """Return the headers that a variable holds: ``name=value,name=value`` with percent-encoding.

    Raises:
        ConfigError: it has another form.
    """
    pairs = [pair.partition("=") for pair in environ.get(variable, "").split(",") if pair.strip()]
    if any(not sign for _, sign, _ in pairs):
        raise ConfigError(f"{variable}: expected name=value, separated by commas")
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}
