"""Postcodes by themselves (``rules/postcodes.toml``). Next to a street they belong to the address (`addresses`)."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.rules.read import Rules

KIND = "postcode"
"""The surrogate of a postcode is as long as it, and not a street."""
_YEAR = re.compile(r"(?:19|20)[0-9]{2}$")

DETECTORS = made_of(Rules("postcodes"), where={"is_no_year": lambda code: _YEAR.match(code) is None})
