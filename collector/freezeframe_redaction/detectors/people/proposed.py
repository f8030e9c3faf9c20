"""Given names without any sign of a person around them: each is proposed, and the learned evidence alone accepts it.

The trigger engine is not asked: twenty thousand names take it minutes to compile, and one pass for capitalised words is cheaper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_redaction.detectors.lexicon import COMMON, GIVEN
from freezeframe_redaction.detectors.people import evidence, names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_LEAST_LETTERS: Final = 3
_CAPITALISED: Final = re.compile(r"[A-Z][a-z]{2,}")
_GIVEN: Final = frozenset(
    word.capitalize() for word in GIVEN - names.ORDINARY_NAMES if len(word) >= _LEAST_LETTERS and names.is_plainly_given(word)
)
_NAMED_AFTER: Final = Rules("people_pairs").form("named_after")
_DIRECTIONS: Final = frozenset(f"{side}{end}" for side in ("north", "south", "east", "west") for end in ("", "ern"))
"""Before a given name they make it a place, as `names.PLACE_PREFIXES` do: western Tama area."""
_PART_OF: Final = re.compile(r"""(?:(?<=[*_"“'])By|(?i:\b(?:book|gospel|chapters?|verses?) of)) \Z""")
"""What books and shops are called: ``the Book of Esther``, ``**By Chloe**``."""
_FARTHEST: Final = 24
_JOINED: Final = "_-.@/#$<`'’\\&=+%"
"""Before or after a word, these make it a part of something else: a file, an identifier, a double name."""


def find(text: str, bounds: Sequence[evidence.Span]) -> Iterator[tuple[int, evidence.Item]]:
    """Yield leaf index and proposal; `bounds` are where the leaves' own texts begin and end."""
    index = 0
    for match in _CAPITALISED.finditer(text):
        if match.group() not in _GIVEN:
            continue
        start, end = match.span()
        while bounds[index][1] < end:
            index += 1
        low, high = bounds[index]
        if start < low or not _is_alone(text, low, high, start, end):
            continue
        yield index, (Candidate(start, end, names.CLASS, "proposed"), evidence.PROPOSED)


def _is_alone(text: str, low: int, high: int, start: int, end: int) -> bool:
    """Whether the word is not a part of something else: an identifier, a fragment of a stream, a longer name, a shop."""
    before, behind = text[max(low, start - _FARTHEST) : start], text[end : min(high, end + _FARTHEST)]
    last, first = before[-1:] or " ", behind[:1] or " "
    if last.isalnum() or last in _JOINED or first.isalnum() or first in "_-@/(`=<[+%" or before[-2:] == "& ":
        return False
    if (first == "." and behind[1:2].isalnum()) or (first == " " and behind[1:2].isupper()):
        return False
    if first in "'’" and behind[1:2].isalpha() and behind[1:2] != "s":
        return False  # "Sana'a"
    if not (before + behind).strip() or (first == '"' and before.rstrip(" ")[-1:] == '"'):
        return False
    following = behind.removeprefix("'s").partition("\n")[0].split(maxsplit=1)
    owns = behind[:2] == "'s"
    if following and (following[0].strip(".,;:!?)\"'") in names.NAMED_AFTER_NOUNS or (owns and following[0][0].isupper())):
        return False  # "Murphy sign", "John's Roast Pork"
    if _NAMED_AFTER.match(behind) or names.is_title(text[start:end]):
        return False  # "Nash equilibrium", "Captain"
    previous = before.rpartition("\n")[2].rpartition(" ")[0].rpartition(" ")[2] if last == " " else ""
    previous = previous.lstrip("'\"“‘([*_\\")
    if _PART_OF.search(before):
        return False
    if previous in names.PLACE_PREFIXES or previous.lower() in _DIRECTIONS:
        return False
    if not previous[:1].isupper():
        return True
    return (
        not owns
        and previous.lower() in COMMON
        and not names.is_title(previous)
        and not names.is_brand([previous, text[start:end]])
    )
