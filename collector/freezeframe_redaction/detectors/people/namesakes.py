"""Names that are not private data: famous people of the past and of fiction, and things named after a person.

Applied only to names recognised by their words alone. After a greeting, a label, a key, a title or ``my name
is`` a name is a person's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from freezeframe_redaction.detectors.lexicon import COMMON, FAMOUS, GIVEN, SURNAMES, phrases
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_FORMS: Final = Rules("people_namesakes").forms

_BY_WORDS_ALONE: Final = frozenset(
    [
        "lexicon",
        "capitals",
        "line of its own",
        "initials",
        "described",
        "slavic",
        "script",
        "alone",
        "proposed",
        "model",
        "last, first",
    ]
)
"""Kinds of names recognised only by their words and neighbours."""
_REACH: Final = 48
_MAX_WORDS: Final = 5
_FAMOUS_WORDS: Final = frozenset(word for name in FAMOUS for word in name.split())
_FAMOUS_FIRST: Final = frozenset(name.partition(" ")[0] for name in FAMOUS)
_BEHIND = frozenset(phrases("namesakes.behind"))
_BEHIND_WITH_CAPITAL = frozenset(phrases("namesakes.behind_with_capital"))
_BETWEEN = frozenset(phrases("namesakes.between"))
_BEFORE = frozenset(phrases("namesakes.before"))
_BEFORE_WITH_CAPITAL = frozenset(phrases("namesakes.before_with_capital"))
_FOR_THINGS = _BEFORE | _BEFORE_WITH_CAPITAL | _BEHIND | _BEHIND_WITH_CAPITAL
_Spans = Sequence[tuple[int, int]]


def is_nobodys(text: str, low: int, high: int, found: Candidate) -> bool:
    """Return whether a name in the leaf ``text[low:high]`` is a famous one, or part of the name of a thing."""
    if found.class_ != names.CLASS or found.kind not in _BY_WORDS_ALONE:
        return False
    low, high = max(low, found.start - _REACH), min(high, found.end + _REACH)
    if _FORMS.is_written_to.match(text, found.end, high) or _FORMS.house_number.search(text, low, found.start):
        return False
    if found.kind == "script":
        return text[found.start : found.end] in FAMOUS and not _FORMS.han_tells.search(text, low, found.start)
    words = [match.span() for match in _FORMS.word.finditer(text, low, high)]
    own = [index for index, (start, end) in enumerate(words) if start < found.end and found.start < end]
    if not own:
        return False
    first, last = own[0], own[-1]
    return _is_famous(text, words, first, last) or (
        found.kind != "last, first" and _is_of_a_thing(text, low, words, first, last)
    )


def _is_famous(text: str, words: _Spans, first: int, last: int) -> bool:
    if _FAMOUS_WORDS.isdisjoint([_spelled(text, *word) for word in words[first : last + 1]]):
        return False
    spelled = [_spelled(text, *word) for word in words]
    for start in range(max(0, first - _MAX_WORDS + 1), last + 1):
        if spelled[start] not in _FAMOUS_FIRST:
            continue
        for end in range(start, min(len(words), start + _MAX_WORDS)):
            if end > start and not _FORMS.gap.fullmatch(text, words[end - 1][1], words[end][0]):
                break
            if end >= first and " ".join(spelled[start : end + 1]) in FAMOUS:
                others = (index for index in range(first, last + 1) if not start <= index <= end)
                if not any(_may_be_of_a_name(spelled[index]) for index in others):
                    return True
    return False


def _spelled(text: str, start: int, end: int) -> str:
    return text[start:end].lower().replace(".", "").removesuffix("'s").removesuffix("’s")


def _may_be_of_a_name(word: str) -> bool:
    """Return whether the next word turns a famous name into another one: ``Anna Galileo Galilei``, not ``Aula Galileo Galilei``."""
    return (word in GIVEN or word in SURNAMES) and word not in COMMON and word not in _FOR_THINGS


def _is_of_a_thing(text: str, low: int, words: _Spans, first: int, last: int) -> bool:
    """Return whether a word for a thing is the first or last of these words or right next to them: ``Grace Hopper Hall``."""
    if _FORMS.leads_to_thing.search(text, low, words[first][0]):
        return True
    for index in (first - 1, first):
        joined = index >= 0 and (index == first or _FORMS.joined.fullmatch(text, words[index][1], words[first][0]))
        if joined and index < last and _leads(text[slice(*words[index])]):
            return True
    first_name = text[slice(*words[first])].partition("-")[0]
    before, _, tail = text[slice(*words[last])].rpartition("-")
    before = before.rpartition("-")[2] or (text[slice(*words[last - 1])] if last - first > 1 else "")
    if _follows(tail, first_name, before) and _FORMS.ends_there.match(text, words[last][1]):
        return True
    for index in range(last + 1, len(words)):
        word = text[slice(*words[index])]
        if not _FORMS.joined.fullmatch(text, words[index - 1][1], words[index][0]):
            break
        if word.lower() not in _BETWEEN:  # "Grace Hopper Primary School"
            return _follows(word, first_name, tail) and _FORMS.ends_there.match(text, words[index][1]) is not None
    return False


def _leads(word: str) -> bool:
    """Return whether a name after the word is that of a room, a school and the like: ``sala``, ``Besprechungsraum``."""
    word = word.rpartition("'")[2].rpartition("’")[2]
    lowered = word.lower()
    if lowered in _BEFORE or (word[:1].isupper() and lowered in _BEFORE_WITH_CAPITAL):
        return True
    return _FORMS.ends_like_a_room.search(lowered) is not None and not names.is_known(word)


def _follows(word: str, given: str, before: str) -> bool:
    """Return whether the word turns the name before it into that of a thing.

    One that is also a surname does so only after a whole name.
    """
    lowered = word.lower()
    if not before or not (lowered in _BEHIND or (word[:1].isupper() and lowered in _BEHIND_WITH_CAPITAL)):
        return False
    whole = given != before and given.lower() in GIVEN and before.lower() in SURNAMES and before.lower() not in GIVEN
    return whole or lowered not in SURNAMES
