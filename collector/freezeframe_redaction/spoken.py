"""Digits as people say them: ``four one five, double six seven``. Read for the detector, spelled for the surrogate."""

from __future__ import annotations

import re
from typing import Final

KIND: Final = "spoken"
"""Kind of a candidate whose digits are words."""
_DIGITS: Final = "zero one two three four five six seven eight nine".split()
_VALUES: Final = {word: str(value) for value, word in enumerate(_DIGITS)} | {"oh": "0", "o": "0", "nought": "0", "niner": "9"}
_TIMES: Final = {"double": 2, "triple": 3}
DIGIT: Final = "(?:zero|oh|nought|one|two|three|four|five|six|seven|eight|niner?)"
"""What one digit sounds like."""
_ONE: Final = r"(?:(?:double|triple)[ -])?(?:zero|oh?|nought|one|two|three|four|five|six|seven|eight|niner?)"
RUN: Final = re.compile(rf"(?<![\w-]){_ONE}(?:[ ,.\-]{{1,3}}(?:and )?{_ONE}){{3,24}}(?![\w-])", re.IGNORECASE)
"""Four digits and more."""
_WORD = re.compile("[a-z]+")


def digits_in(said: str) -> str:
    """Return the digits that the words say."""
    out: list[str] = []
    times = 1
    for word in _WORD.findall(said.lower()):
        if word in _TIMES:
            times = _TIMES[word]
        elif word in _VALUES:
            out.append(_VALUES[word] * times)
            times = 1
    return "".join(out)


def spell_out(digits: str) -> str:
    """Return the digits as words; what is no digit is left out."""
    return " ".join(_DIGITS[int(char)] for char in digits if "0" <= char <= "9")
