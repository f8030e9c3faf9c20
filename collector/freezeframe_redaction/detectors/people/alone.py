"""A given name alone, if the words around it suggest a person, or the learned evidence accepts it; and lists of given names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_redaction.detectors.lexicon import GIVEN, phrases
from freezeframe_redaction.detectors.people import announced, evidence, names
from freezeframe_redaction.detectors.people.classes import Neighbours, test_of
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_BEGIN_WITH_THEM: Final = "Both Copy Call With Hired Congratulations Tell Ask Is Did Has".split()
"""Words at the start of a sentence that precede people."""
_RULES: Final = Rules("people_alone", {"leads_to": "|".join((*phrases("alone.leads_to"), *_BEGIN_WITH_THEM))})
_FORMS: Final = _RULES.forms
_ALONE: Final = Neighbours(_RULES, "alone")
_PROPOSED: Final = Neighbours(_RULES, "proposed")


def _alone(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """A given name alone, if the words around it suggest a person."""
    # Most triggers end on the third letter.
    start = at - 3 if at - 3 >= low and text[at - 3].isupper() else _capital_before(text, low, at)
    double = _FORMS.first_half.search(text, max(low, start - 20), start) if text[start - 1 : start] == "-" else None
    if double is not None:
        start = double.start()
    word = names.WORD.match(text, start, min(high, start + 40))
    if word is None:
        return ()
    end = word.end() - (2 if word.group()[-2:] in ("'s", "'S") else 0)
    kind = _ALONE.kind_of(text, low, high, start, end)
    return names.accept(text, [(start, end)], kind) if kind else ()


def _capital_before(text: str, low: int, at: int) -> int:
    """Return the start of the last capitalised word that begins before `at`."""
    for position in range(at - 1, max(low, at - 40) - 1, -1):
        if text[position].isupper() and (position == 0 or not text[position - 1].isalpha()):
            return position
    return at - 1


_MAY_BE_LISTED, _IS_SURNAME = map(test_of, ("!common | given", "surname | invented"))


def _listed(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``Mary, Efimiya, Isabel and Jodi``: if most are given names, so are the others."""
    text = match.string
    spans = [one.span() for one in names.WORD.finditer(text, match.start(), match.end())]
    spans = [span for span in spans if text[span[0]].isupper() and text[span[0] + 1 : span[1]].islower()]
    if spans and not names.is_given_name(text[slice(*spans[0])]):
        start = spans[0][0]
        if _FORMS.capital_before.search(text, max(low, start - 24), start):
            spans = spans[1:]  # "Mexicana Restaurant, Mary & Tito's"
    words = [text[a:b] for a, b in spans]
    has_given_names = 2 * sum(map(names.is_plain_given_name, words)) > len(words) > 2
    # "Jones, Smith and Davis" are a company more often than three people.
    if not has_given_names or all(map(_IS_SURNAME, words)) or not all(map(_MAY_BE_LISTED, words)):
        return ()
    return tuple(found for span in spans for found in names.accept(text, [span], "listed"))


# -- without any sign of a person -------------------------------------------------------------------------------------
# The trigger engine is not asked: twenty thousand names take it minutes to compile, and one pass for capitalised words is cheaper.

_CAPITALISED: Final = re.compile(r"[A-Z][a-z]{2,}")
_GIVEN: Final = frozenset(
    word.capitalize()
    for word in GIVEN - names.ORDINARY_NAMES.union(announced.GREETINGS)
    if len(word) > 2 and names.is_plain_given_name(word)
)


def propose(text: str, bounds: Sequence[evidence.Span]) -> Iterator[tuple[int, evidence.Item]]:
    """Yield each given name without evidence around it, with the number of its leaf; the learned evidence decides.

    `bounds` are the starts and ends of the leaves' own texts.
    """
    if _GIVEN.isdisjoint(_CAPITALISED.findall(text)):
        return
    index = 0
    for match in _CAPITALISED.finditer(text):
        if match.group() not in _GIVEN:
            continue
        start, end = match.span()
        while bounds[index][1] < end:
            index += 1
        low, high = bounds[index]
        kind = _PROPOSED.kind_of(text, low, high, start, end) if start >= low else ""
        if kind:
            yield index, (Candidate(start, end, names.CLASS, kind), evidence.PROPOSED)


DETECTORS = made_of(_RULES, _alone, _listed)
