"""Passports, identity cards and driving licences: the checks that ``rules/documents.toml`` names."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.rules.read import Rules


def _may_be_number(value: str) -> bool:
    digits = sum(map(str.isdigit, value))
    # A few digits are enough among capitals (``KWT6HMWM1``); a word of prose has none.
    return (
        6 <= len(value) <= 24
        and digits > 0
        and (digits > 3 or value.isupper())
        and re.match(r"(?:19|20)[0-9]{2}-[01][0-9]-", value) is None
    )


DETECTORS = made_of(Rules("documents"), where={"may_be_number": _may_be_number})
