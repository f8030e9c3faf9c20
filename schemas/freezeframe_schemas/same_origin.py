"""Determine the origin of an HTTP request: a program, one of our pages, or another page in a browser on this machine.

A page of any origin can make its visitor's browser send requests to loopback. It cannot choose the headers that are read here:
the browser sets ``Host``, ``Origin`` and ``Sec-Fetch-*``. Each of our HTTP listeners calls `why_foreign`, and sends
`ANSWER_HEADERS` with each answer, so that a page of another origin can neither load it as a script nor embed it. Pure.

Source: Fetch standard, "Origin header" and "Cross-Origin-Resource-Policy header"; Fetch Metadata Request Headers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Final

ANSWER_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE)
_BROWSER: Final = "Mozilla/"
_OURS: Final = frozenset({"same-origin", "none"})
"""``Sec-Fetch-Site`` for a page of the same origin, and for an address that someone typed."""


def why_foreign(
    headers: Mapping[str, str],
    *,
    names: Collection[str] | None,
    origins: Collection[str] = (),
    links: bool = False,
) -> str | None:
    """Return why a request must not be answered, or None if it may be.

    Args:
        headers: the request's headers; case is ignored.
        names: hosts allowed in ``Host``, without the port; None for any, if strangers are expected.
        origins: other pages that may send requests.
        links: whether a link on someone else's page may lead here. The browser shows the answer; the page never sees it.
    """
    host = headers.get("Host", "")
    name = host_name(host)
    if names is not None and (name is None or name not in names):
        return f"Host {host!r:.80}"
    origin = headers.get("Origin")
    if origin is not None and origin in origins:
        return None
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return f"Origin {origin!r:.80}"
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        follows_link = links and headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
        return None if site in _OURS or follows_link else f"a page of another origin (Sec-Fetch-Site {site!r:.40})"
    if origin is None and not links and headers.get("User-Agent", "").startswith(_BROWSER) and not _authorized(headers):
        return "a browser that does not say which page sent the request"
    return None


def host_name(host: str) -> str | None:
    """Return the name in a ``Host`` header, in lower case and without the port; None if the header is not a host at all."""
    found = _HOST.fullmatch(host)
    return None if found is None else found[1].lower()


def _authorized(headers: Mapping[str, str]) -> bool:
    """Return whether the request has a header that a page can only send after a preflight."""
    return any(name in headers for name in ("Authorization", "X-ClickHouse-User", "X-ClickHouse-Key"))


def is_loopback(host: str) -> bool:
    """Return whether a listener on this address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
