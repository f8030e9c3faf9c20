"""Headers and URLs in their recorded form: secrets are replaced before anything is recorded, or looked up in a replay."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from freezeframe_schemas.exchange import SECRET_REMOVED, Headers, Request, Timeouts

_SECRET_HEADER: Final = re.compile(
    r"^(?:(?:proxy-)?authorization|cookie2?|set-cookie2?|(?:.*[-_])?(?:api[-_]?key|key|token|secret|password|signature|auth))$",
    re.IGNORECASE,
)
_COOKIE_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_COOKIE_ATTRIBUTE: Final = re.compile(
    r"(?:path|domain|max-age|samesite)=[^=]{0,200}|expires=(?P<date>.{0,40})|secure|httponly|partitioned", re.IGNORECASE
)
_SECRET_QUERY: Final = re.compile(
    r"(?<![^?&])((?:[\w.-]*[-_.])?(?:api[-_]?key|key|token|sig|signature|secret|password|credential|code)=)[^&#]*",
    re.IGNORECASE,
)


def clean_request(
    method: str,
    url: str,
    headers: Iterable[tuple[bytes | str, bytes | str]],
    body: bytes = b"",
    *,
    timeouts: Timeouts | None = None,
) -> Request:
    """Return a request in its recorded form."""
    return Request(method=str(method), url=clean_url(url), headers=clean_headers(headers), body=body, timeouts=timeouts)


def clean_headers(pairs: Iterable[tuple[bytes | str, bytes | str]]) -> Headers:
    """Return headers as text in wire order, secrets replaced. Cookies keep their names, because programs check for them."""
    return tuple(
        [
            (text, known if secret is None else secret(known))
            for name, value in pairs
            for text, secret in (_known_header(name),)
            for known in (value.decode("latin-1") if isinstance(value, bytes) else value,)
        ]
    )


def _clean_cookies(value: str) -> str:
    """Return ``session=...; theme=...`` of a request without the values."""
    return "; ".join(_clean_cookie(pair) for pair in value.split(";"))


def _clean_cookie(pair: str) -> str:
    name, equals, _ = pair.strip().partition("=")
    return f"{name}={SECRET_REMOVED}" if equals and _COOKIE_NAME.fullmatch(name) else SECRET_REMOVED


def _clean_set_cookie(value: str) -> str:
    """Return ``session=...; Path=/`` of an answer without the value.

    A date in the future is left out, too: by the time of the replay it would have passed and the cookie would have expired.
    """
    pair, *attributes = value.split(";")
    known = (found for attribute in attributes if (found := _COOKIE_ATTRIBUTE.fullmatch(attribute.strip())))
    return "; ".join([_clean_cookie(pair), *(found[0] for found in known if not found["date"] or _is_past(found["date"]))])


def _is_past(date: str) -> bool:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp() < time.time()
    except (ValueError, OverflowError):
        return False


def _removed(value: str) -> str:
    del value
    return SECRET_REMOVED


@lru_cache(maxsize=1024)
def _known_header(name: bytes | str) -> tuple[str, Callable[[str], str] | None]:
    """Return a header's name as text, and the function that removes the secret from its value, if it has one."""
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    if _SECRET_HEADER.match(text) is None:
        return text, None
    return text, _COOKIE_HEADERS.get(text.lower(), _removed)


_COOKIE_HEADERS: Final = {"cookie": _clean_cookies, "set-cookie": _clean_set_cookie}


def clean_url(url: str) -> str:
    """Return the URL without passwords and keys."""
    if "@" in url:
        parts = urlsplit(url)
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    head, mark, query = url.partition("?")
    return head + mark + _SECRET_QUERY.sub(rf"\g<1>{SECRET_REMOVED}", query) if mark else url
