"""Invented names: pronounceable words of no language, in place of people's names and streets.

``Balomuzq``: three syllables from the key, then an ending that is a public check of them, so that the word is recognised.
"""

from __future__ import annotations

import re

from freezeframe_redaction.prf import Prf, tag

_ONSETS = "b bl br d dr f fl fr g gl gr h j k kl kr l m n p pl pr r s sl st t tr v w z zw".split()
_CONSONANTS = "bdfgklmnprstvwz"
_VOWELS = "aeiou"
_ENDINGS = ("zq", "vq", "xq", "qz", "qv", "kq", "jq", "qx")

_ONSET = "|".join(sorted(_ONSETS, key=len, reverse=True))
WORD = re.compile(
    rf"(?<![^\W_])(?:{_ONSET})[{_VOWELS}](?:[{_CONSONANTS}][{_VOWELS}]){{2}}(?:{'|'.join(_ENDINGS)})(?![^\W_])",
    re.IGNORECASE,
)


def invent(prf: Prf, class_: str, canonical: str) -> str:
    """Return the invented word for the value, capitalised."""
    number = prf.number(class_, canonical)
    body = ""
    for position in range(3):
        number, onset = divmod(number, len(_ONSETS) if position == 0 else len(_CONSONANTS))
        number, vowel = divmod(number, len(_VOWELS))
        body += (_ONSETS[onset] if position == 0 else _CONSONANTS[onset]) + _VOWELS[vowel]
    return (body + _ENDINGS[tag(body, len(_ENDINGS))]).capitalize()


def is_invented(word: str) -> bool:
    """Return whether the word is an invented one, in upper or lower case."""
    word = word.lower()
    return WORD.fullmatch(word) is not None and _ENDINGS[tag(word[:-2], len(_ENDINGS))] == word[-2:]


def holds_invented(text: str) -> bool:
    # Each ending holds a q, which few texts do.
    return ("q" in text or "Q" in text) and any(is_invented(match.group()) for match in WORD.finditer(text))
