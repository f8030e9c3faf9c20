"""Classes of words, and tests of them that tables spell: ``given !common >2 | surname``.

A word's classes are computed once, as bits, so any test is two comparisons. A native engine needs the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from freezeframe_redaction.detectors.checks import Take
from freezeframe_redaction.detectors.lexicon import COMMON, COUNTRIES, GIVEN, SURNAMES, phrases
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rule, Rules
from freezeframe_redaction.surrogates.invented import is_invented

Test = Callable[[str], bool]
_RULES: Final = Rules("people_words")
_LISTED: Final[Mapping[str, frozenset[str]]] = {
    "in_given": GIVEN,
    "surname": SURNAMES,
    "common": COMMON,
    "technical": names.TECHNICAL,
    "never_first": names.NEVER_FIRST,
    "not_name": names.NOT_NAMES,
    "country": COUNTRIES,
    "short_word": names.SHORT_WORDS,
    "ordinary_name": names.ORDINARY_NAMES,
    **{
        name: frozenset(word for one in listed.split() for word in phrases(one))
        for name, listed in _RULES.entries("lists").items()
    },
}
_LOOKS: Final[Mapping[str, re.Pattern[str]]] = {name: _RULES.form(name) for name in _RULES.entries("forms")}
_OTHERS: Final[Mapping[str, Test]] = {
    "none": lambda word: not word,
    "given": names.is_given_name,
    "plain": names.is_plain_given_name,
    "known": names.is_known,
    "title": names.is_title,
    "invented": is_invented,
    "may_be": names.may_be_name,
    "capital": lambda word: word[:1].isupper(),
    "upper": str.isupper,
    "small": lambda word: word[1:].islower(),
    "small_parts": lambda word: all(part[1:].islower() for part in word.split("-")),
    "even": lambda word: all(part[1:].islower() for part in re.split("['-]", word) if len(part) > 1),
    "plain_parts": lambda word: all(map(names.is_plain_given_name, word.split("-"))),
    "surname_form": names.has_form_of_surname,
    "ascii": str.isascii,
    "ending": lambda word: names.SURNAME_ENDING.search(word.lower()) is not None,
    **{f">{least}": lambda word, least=least: len(word) > least for least in range(1, 8)},
}
_BITS: Final = {name: 1 << bit for bit, name in enumerate((*_LISTED, *_LOOKS, *_OTHERS))}


@lru_cache(maxsize=50_000)
def _bits_of(word: str) -> int:
    lowered = word.lower()
    held = [name for name, listed in _LISTED.items() if lowered in listed]
    held += [name for name, look in _LOOKS.items() if look.fullmatch(word)]
    held += [name for name, test in _OTHERS.items() if test(word)]
    return sum(map(_BITS.__getitem__, held))


def test_of(spelled: str) -> Test:
    """Return a test: alternatives of classes that a word must have, or (``!``) must not."""
    either = [_masks(alternative.split()) for alternative in _RULES.filled(spelled).split("|")]

    @lru_cache(maxsize=10_000)
    def test(word: str) -> bool:
        bits = _bits_of(word)
        return any(bits & asked == wanted for asked, wanted in either)

    return test


def by_words(rule: Rule) -> Take:
    """Return a function that accepts the words in a match's groups as a name, or as one each, by the rule's tests."""
    rows = [tuple(map(test_of, row)) for row in rule.words]

    def take(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
        spans = [match.span(group) for group in range(1, match.re.groups + 1) if match[group]]
        words = [match.string[start:end].removesuffix("'s") for start, end in spans]
        fit = (zip(tests, words, strict=True) for tests in rows if len(tests) == len(words))
        if not any(all(test(word) for test, word in pairs) for pairs in fit) or names.is_brand(words):
            return ()
        parts = [[span] for span in spans] if rule.each else [spans]
        return tuple(found for part in parts for found in names.accept(match.string, part, rule.kind))

    return take


class Neighbours:
    """A table that classifies a word by its neighbours: the first matching row gives its kind."""

    def __init__(self, rules: Rules, name: str) -> None:
        self._rows = tuple(_neighbours(row, rules) for row in rules.table(name))

    def kind_of(self, text: str, low: int, high: int, start: int, end: int, word: str = "") -> str:
        """Return the kind of name ``text[start:end]``, or of `word` in it; an empty text if it is not a name."""
        word = word or text[start:end]
        before, behind = text[max(low, start - _NEAR) : start], text[end : min(high, end + _NEAR)]
        previous = before.rstrip(" \t").rpartition(" ")[2].rpartition("\n")[2].strip("\"'(,>*_[\\“‘")
        following = behind.removeprefix("'s").lstrip(" ,").partition("\n")[0].split(" ", 1)[0].rstrip('.,!?:;"\\')
        if names.is_brand([previous, *word.split("-")]):
            return ""  # "Dr Pepper", "Viola-Jones"
        for kind, is_word, is_before, is_behind, is_previous, is_following in self._rows:
            if (
                (is_word is None or is_word(word))
                and (is_before is None or is_before.search(before))
                and (is_behind is None or is_behind.match(behind))
                and (is_previous is None or is_previous(previous))
                and (is_following is None or is_following(following))
            ):
                return kind
        return ""


_NEAR: Final = 24
"""Characters before and after a word that are its neighbours."""


_Neighbours = tuple[str, Test | None, re.Pattern[str] | None, re.Pattern[str] | None, Test | None, Test | None]


def _neighbours(row: Mapping[str, str], rules: Rules) -> _Neighbours:
    """Return the kind, and the conditions on the word, on the text before and after it, and on the words there."""
    filled = {name: rules.filled(entry) for name, entry in row.items() if entry}
    word, previous, following = (
        test_of(filled[name]) if name in filled else None for name in ("word", "previous", "following")
    )
    before, behind = (re.compile(filled[name]) if name in filled else None for name in ("before", "behind"))
    return row["kind"], word, before, behind, previous, following


def _masks(classes: Iterable[str]) -> tuple[int, int]:
    """Return the tested bits, and their required values."""
    wanted = never = 0
    for name in classes:
        if name[0] == "!":
            never |= _BITS[name[1:]]
        else:
            wanted |= _BITS[name]
    return wanted | never, wanted
