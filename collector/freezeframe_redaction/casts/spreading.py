"""Decide which words of a name are replaced throughout the run: a false finding that spreads costs many places."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from freezeframe_redaction.detectors.lexicon import COMMON, GIVEN, SURNAMES, phrases

_MIN_LETTERS: Final = 3
"""Letters of a word that is searched on its own."""
_THINGS: Final = frozenset(phrases("pairs.things"))
_LISTS: Final = ("proposed.ordinary", "names.rarely_given", "names.never_first", "names.technical")
_ORDINARY: Final = COMMON.union(_THINGS, *map(phrases, _LISTS))
_KEY: Final = "key"
_UNSURE: Final = frozenset(["proposed", "alone", "mention", "listed", "lexicon"])
"""Kinds of one-word names without evidence around them: half of those that spread were places."""


def is_ordinary(word: str) -> bool:
    """Return whether the word is mostly something else: on its own, it is replaced only in the place of the finding."""
    return word.lower() in _ORDINARY


def spreads_at_once(words: Sequence[str], kind: str) -> bool:
    """Return whether a name spreads without a check of the run: all of its words are listed, or a key shows that it is one."""
    return kind == _KEY or (len(words) > 1 and all(_is_listed(word) and not is_ordinary(word) for word in words))


def may_spread(words: Sequence[str], kind: str) -> bool:
    """Return whether a name may turn out to be one by all the evidence in the run."""
    return len(words) > 1 or kind not in _UNSURE


def is_name(words: Sequence[str], small: Collection[str]) -> bool:
    """Return whether a name of several words is one by all the evidence in the run.

    `small` are words that the run writes on their own in lower case: no word of a name is an ordinary one among
    these. An unlisted name is rejected, and so is one of three words: ``Paula Cole Harbinger``.
    """
    return words[-1].lower() not in _THINGS and all(
        not (is_ordinary(word) and word.lower() in small)
        if _is_listed(word)
        else len(words) == 2 and not is_ordinary(word) and word.lower() not in small
        for word in words
    )


def spreads_alone(word: str, small: Collection[str]) -> bool:
    """Return whether a word of a name is a name on its own."""
    return len(word) >= _MIN_LETTERS and word.lower() not in small and not is_ordinary(word)


def names_in(word: str) -> Iterator[tuple[str, ...]]:
    """Yield the word if it is a listed name, or the two listed names that it joins: ``mariakeller``."""
    splits = ((word[:at], word[at:]) for at in range(_MIN_LETTERS, len(word) - _MIN_LETTERS + 1))
    for names in ((word,), *splits):
        if all(_is_listed(name) and not is_ordinary(name) for name in names):
            yield names


def _is_listed(word: str) -> bool:
    small = word.lower()
    return small in GIVEN or small in SURNAMES or small == word.upper()
