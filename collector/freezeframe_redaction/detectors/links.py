"""What the path of a link gives away: the token of a magic link, the number of a chat (``rules/links.toml``)."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.detectors.secrets import is_marked_secret
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.plans import is_assigned

_LEAST_PIECE = 10


def _is_random(token: str) -> bool:
    """Whether the token is random: words joined by dashes name a page; a random one mixes digits and letters."""
    longest = max(re.split(r"[-_.~]", token), key=len)
    mixed = sum(map(str.isdigit, longest)) > 1 and any(map(str.isalpha, longest))
    return len(longest) >= _LEAST_PIECE and mixed


DETECTORS = made_of(Rules("links"), where={"is_random": _is_random, "is_assigned": is_assigned}, is_marked=is_marked_secret)
