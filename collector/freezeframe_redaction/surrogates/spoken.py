"""Digits as people say them: ``four one five, double six seven``. Read for the detector, spelled for the surrogate."""

from __future__ import annotations

import re
from typing import Final

from freezeframe_redaction.rules.read import Rules

KIND: Final = "spoken"
"""Kind of a candidate whose digits are words."""
_RULES: Final = Rules("spelled")
_LANGUAGES: Final = tuple(words.split() for words in _RULES.entries("digits").values())
"""The ten digits in each language."""
_OTHERS: Final = {"oh": "0", "o": "0", "nought": "0", "niner": "9", "zwo": "2", "meia": "6"}
_VALUES: Final = {word: str(value) for words in _LANGUAGES for value, word in enumerate(words)} | _OTHERS
_TIMES: Final = {"double": 2, "triple": 3, "doble": 2, "doppel": 2}
DIGITS: Final = {language: words.replace(" ", "|") for language, words in _RULES.entries("digits").items()}
"""The words for one digit in each language, as alternatives."""
_ANY: Final = "|".join(sorted(_VALUES, key=lambda word: (-len(word), word)))
_ONE: Final = rf"(?:(?:{'|'.join(_TIMES)})[ -])?(?:{_ANY})"
RUN: Final = re.compile(rf"(?<![\w-]){_ONE}(?:[ ,.\-]{{1,3}}(?:and )?{_ONE}){{3,24}}(?![\w-])", re.IGNORECASE)
"""Four digits and more."""
_WORD = re.compile(r"[^\W\d_]+")


def digits_in(said: str) -> str:
    """Return the digits that the words spell."""
    out: list[str] = []
    times = 1
    for word in _WORD.findall(said.lower()):
        if word in _TIMES:
            times = _TIMES[word]
        elif word in _VALUES:
            out.append(_VALUES[word] * times)
            times = 1
    return "".join(out)


def spell_out(digits: str, like: str) -> str:
    """Return the digits as words of the language of `like`; anything that is not a digit is left out."""
    original_words = set(_WORD.findall(like.lower()))
    words = max(_LANGUAGES, key=lambda words: len(original_words.intersection(words)))
    return " ".join(words[int(char)] for char in digits if "0" <= char <= "9")
