"""Short codes that open something, next to their name (``rules/codes.toml``)."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import made_of, value
from freezeframe_redaction.detectors.secrets import CLASS
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.shapes import digits_of


def _dumped(match: re.Match[str]) -> tuple[Candidate, ...]:
    """``4000056655665556|12/27|911``: card, expiry, code."""
    return value(match, CLASS, "code", 2) if luhn(digits_of(match[1])) else ()


DETECTORS = made_of(Rules("codes"), takes={"dumped": _dumped})
