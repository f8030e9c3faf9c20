"""IBANs: country, length and mod 97; spaces, dashes and lower case allowed."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import by_name, made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules import checksums
from freezeframe_redaction.rules.read import Rules

CLASS = "IBAN"
_SHAPE = re.compile(r"[A-Za-z]{2} ?[0-9]{2}(?:[ .-]?[A-Za-z0-9]){11,31}")
_HEAD = re.compile(r"(?<![^\W_])([A-Za-z]{2}) ?[0-9]{2}")
_BARE = str.maketrans("", "", " .-")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    for head in _HEAD.finditer(text, max(low, at - 18), at - 3):
        start = head.start()
        length = checksums.IBAN_LENGTHS.get(head[1].upper())
        match = _SHAPE.match(text, start, min(high, start + 70)) if length else None
        if match is None:
            continue
        count = 0
        end = start
        for end in range(start, match.end()):
            count += text[end].isalnum()
            if count == length:
                break
        end += 1
        bare = text[start:end].translate(_BARE).upper()
        if (
            count != length
            or (end < high and text[end].isalnum() and "iban" not in text[max(low, start - 8) : start].lower())
            or not checksums.iban(bare)
        ):
            continue
        return (Candidate(start, end, CLASS),)
    return ()


DETECTORS = made_of(Rules("iban"), by_name(_find))
