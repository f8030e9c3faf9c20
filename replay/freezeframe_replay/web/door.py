"""Access to the replay service's runs: for programs that show the reader's token, and browsers that came by a link.

The token itself never reaches a browser. A command that can read it requests a link, which opens the pages once, within a few
minutes; from then on a cookie does, until the service ends. Cookies ignore ports: a server of another user on this machine
can receive this cookie if its address is opened in the same browser. That is why it opens only these pages.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Final

from freezeframe_schemas.local_tokens import is_same, shown_token

_LINK_S: Final = 600.0
_MAX_LINKS: Final = 100


class Door:
    """The links and the cookie of one service, for as long as it runs."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._links: dict[str, float] = {}
        self.cookie = secrets.token_urlsafe(32)

    def admits(self, authorization: str | None, cookies: Mapping[str, str], cookie_name: str) -> bool:
        """Return whether a request with this header and these cookies may be answered."""
        return self.is_program(authorization) or is_same(cookies.get(cookie_name, ""), self.cookie)

    def is_program(self, authorization: str | None) -> bool:
        """Return whether the header shows the token."""
        return is_same(shown_token(authorization), self._token)

    def make_link(self) -> str:
        """Return the path of a link that opens the pages once."""
        now = time.monotonic()
        alive = {code: until for code, until in self._links.items() if until > now}
        self._links = dict(list(alive.items())[-_MAX_LINKS:])
        code = secrets.token_urlsafe(24)
        self._links[code] = now + _LINK_S
        return f"/enter?code={code}"

    def enter(self, code: str) -> bool:
        """Return whether the link with this code opens the pages; it works once."""
        return self._links.pop(code, 0.0) > time.monotonic()
