"""What the path of a link gives away: the token of a magic link, the number of a chat."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import phone
from freezeframe_redaction.detectors.secrets import CLASS, is_marked_secret
from freezeframe_redaction.plans import is_assigned
from freezeframe_redaction.rows import around, row

_STEPS = (
    r"(?:magic(?:[_-]?link)?|reset(?:[_-]?password)?|password[_-]?reset|forgot[_-]password|verify(?:[_-]?email)?|confirm(?:[_-]?email)?|activate"
    r"|invit(?:e|es|ation|ations)|unsubscribe|one[_-]time|autologin|signin|passwordless|share[_-]?link)"
)
_TOKEN = re.compile(rf"(?i)/{_STEPS}/(?:[a-z]{{1,12}}/)?([A-Za-z0-9_\-.~]{{16,600}})(?![\w/])")
_CHAT = re.compile(r"wa\.me/\+?([1-9][0-9]{7,14})(?![0-9])")


_LEAST_PIECE = 10


def _is_random(token: str) -> bool:
    """Whether the token is random: words joined by dashes name a page; a random one mixes digits and letters."""
    longest = max(re.split(r"[-_.~]", token), key=len)
    mixed = sum(map(str.isdigit, longest)) > 1 and any(map(str.isalpha, longest))
    return len(longest) >= _LEAST_PIECE and mixed


_token = around(_TOKEN, CLASS, 80, 620, "generic", where=_is_random, is_marked=is_marked_secret)


_chat = around(_CHAT, phone.CLASS, 40, 16, "international", where=is_assigned)


DETECTORS = (
    row("secret: token in the path of a link", CLASS, _token, rf"(?i)/{_STEPS}/[^\s/]",
        shows=("https://app.acme.io/magic/⟦a1B2c3D4e5F6g7H8i9⟧", "https://docs.acme.io/reset/how-to-reset-a-password")),
    row("phone: link of a chat", phone.CLASS, _chat, r"wa\.me/\+?[0-9]{8}",
        shows=("https://wa.me/⟦4915124688013⟧", "https://wa.me/message")),
)  # fmt: skip
