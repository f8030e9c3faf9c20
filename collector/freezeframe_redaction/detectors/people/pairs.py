"""Two words that together are a name: given name and surname, in either order, in capitals, in two cells."""

from __future__ import annotations

import re
from functools import lru_cache

from freezeframe_redaction.detectors.lexicon import COMMON, GIVEN, SURNAMES, phrases
from freezeframe_redaction.detectors.people import announced, names
from freezeframe_redaction.detectors.people.classes import Neighbours, by_words, test_of
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.invented import holds_invented

_RULES = Rules("people_pairs", {"before_a_person": "|".join(phrases("initials.before_a_person"))})
_FORMS = _RULES.forms


def _pair(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Two capitalised words in a row; the trigger ended in the second one."""
    # The trigger ends on the second letter of the last word; most pairs fail on it or on the word before it.
    start = at - 2
    floor = max(low, at - 64)
    last = names.WORD.match(text, start, min(high, at + 30))
    if start <= floor or last is None:
        return ()
    ending = last.group().lower()
    if ending in COMMON and ending not in SURNAMES:
        return ()
    previous = _last_word(text, floor, start - 1)
    if previous.lower() in COMMON and not (len(previous) < 4 or names.is_given_name(previous)):
        return ()
    first = _first_word(text, floor, start)
    if first is None:
        return ()
    tokens = names.tokens_at(text, first, high)
    if len(tokens) < 2:
        return ()
    words = [text[a:b] for a, b in tokens]
    index = 0
    if words[0].lower() in announced.GREETINGS and _FORMS.greets.search(text, max(low, first - 8), first):
        tokens, words = tokens[1:], words[1:]  # "Caro Luca, ", and what follows is announced
        if len(words) < 2:
            return ()
    if words[-1].lower() in _THINGS and len(words) > 2:
        tokens, words = tokens[:-1], words[:-1]  # "Eva Draconis Story"
    if words[-1].lower() in _THINGS or _is_named_after(words, text[tokens[-1][1] : min(high, tokens[-1][1] + 24)]):
        return (Candidate(tokens[0][0], tokens[-1][0], ""),)
    # "When Maria Lopez": ordinary words in front are not part of the name.
    while index < len(words) - 1 and not _pairs(words, index):
        index += 1
    if index >= len(words) - 1:
        if _stands_alone(text, low, high, tokens, words):
            return names.accept(text, tokens, "line of its own")
        return (Candidate(tokens[0][0], tokens[-1][0], ""),)
    leading = words[0].lower()
    whole = names.real(text, tokens[1:])[:2]
    if (
        index == 1
        and len(leading) > 3
        and names.may_be_name(words[0])
        and not (len(whole) == 2 and names.is_whole(*whole) and not names.is_known(words[0]))
        and not (leading.endswith(_OTHERWISE) or leading in announced.ANNOUNCING or names.is_title(leading))
    ):
        index = 0  # "Zephaniah Obadele Thorne"
    kept = names.trimmed(text, tokens[index : index + 5])
    before = text[max(low, kept[0][0] - 24) : kept[0][0]]
    is_title = len(kept) == _TITLE and _FORMS.title_before.search(before) and all(text[a:b].istitle() for a, b in kept)
    if len(kept) < 2 or is_title:
        return ()
    if len(kept) < len(tokens) and (
        text[slice(*kept[-1])].lower() in _THINGS  # "Whitney Museum Collection Team"
        or _FORMS.named_after.match(text, kept[-1][1], min(high, kept[-1][1] + 24))
    ):
        return (Candidate(tokens[0][0], tokens[-1][0], ""),)  # "Robert Gordon University"
    return (*_spouse(text, low, kept[0][0]), *names.accept(text, kept, "lexicon"))


def _spouse(text: str, low: int, start: int) -> tuple[Candidate, ...]:
    """Return the given name of a person who shares the surname that follows: ``Fionnuala and Diarmuid Ó Conaill``."""
    match = _FORMS.with_another.search(text, max(low, start - 28), start) if text[start - 1 : start] == " " else None
    if match is None or not names.is_plain_given_name(match[1]) or not match[1][1:].islower():
        return ()
    if text[match.start() - 2 : match.start()] == ", " and match[1].lower() in SURNAMES:
        return ()  # "Jones, Smith and Davis"
    return names.accept(text, [match.span(1)], "couple")


_TITLE = 5
"""Number of capitalised words in a row that are a title or links: ``Waterford Holiday Homes Waterford``."""
_THINGS = frozenset(phrases("pairs.things"))
"""Last words of places and things, which end no person's name: ``Forest Hills``, ``Mariana Trench``."""
_COMPANIES = frozenset("ltd llc inc gmbh limited corporation industries plc".split())
_OTHERWISE = ("ing", "ed", "ly", "s", "tion", "ment", "er", "or", "ist", "ian", "ant", "ent", "ive", "al", "man")
"""Endings of verbs and words for occupations: ``Producer James Sparks``."""


def _is_named_after(words: list[str], behind: str) -> bool:
    """Return whether the words are something that is named after a person: ``Bellman Ford``, ``Grace Hopper Award``."""
    return words[-1].lower() in _COMPANIES or _FORMS.named_after.match(behind) is not None or names.is_brand(words)


def _stands_alone(text: str, low: int, high: int, tokens: list[tuple[int, int]], words: list[str]) -> bool:
    """Return whether a surname phrase is alone on its line or follows a cue word, as in an address block."""
    if not (2 <= len(words) <= 4 and all(map(_IS_NO_WORD, words)) and _MAY_BE_FIRST(words[0]) and _IS_SURNAME(words[-1])):
        return False
    before = text[max(low, tokens[0][0] - 16) : tokens[0][0]]
    ends_line = text[tokens[-1][1] : min(high, tokens[-1][1] + 1)] in ("", "\n")
    led_to = before.rstrip().rpartition(" ")[2].lower() in _LEADING
    return led_to or (ends_line and _FORMS.begins_line.search(before) is not None)


_IS_NO_WORD = test_of("!common | !>1 | particle")
_LEADING = frozenset(phrases("pairs.leading"))


def _last_word(text: str, floor: int, end: int) -> str:
    """Return the word that ends at `end`, without the marks around it."""
    begin = max(text.rfind(" ", floor, end), text.rfind("\n", floor, end), floor - 1) + 1
    return text[begin:end].strip("(\"'*_[.,:;>#-/`")


_PAIRS = tuple(
    (row["is_name"], test_of(row["first"]), test_of(row["last"]), row.get("particle", False))
    for row in Rules("people_words").table("pairs")
)


def _pairs(words: list[str], index: int) -> bool:
    """Return whether the word and the next one that is neither initial nor particle look like given name and surname."""
    first = words[index]
    if (index and _MAKES_A_PLACE(words[index - 1])) or _IS_NEVER_FIRST(first):
        return False
    if _IS_VIETNAMESE(first) and 2 <= len(words) - index <= 4 and all(len(word) < 7 for word in words[index + 1 :]):
        return True  # the family name comes first, and one to three short words follow
    if _is_joined_surname(words[index : index + 3]):
        return True
    last = next((word for word in words[index + 1 :] if len(word) > 1 and word not in names.PARTICLES), None)
    return last is not None and _is_pair(first, last, words[index + 1] in names.PARTICLES)


@lru_cache(maxsize=20_000)
def _is_pair(first: str, last: str, particle: bool) -> bool:
    rows = (row for row in _PAIRS if row[1](first) and row[2](last) and (particle or not row[3]))
    return next((row[0] for row in rows), False)


_MAKES_A_PLACE, _IS_NEVER_FIRST, _IS_VIETNAMESE = map(test_of, ("capital place_prefix", "never_first", "vietnamese"))
_IS_SURNAME = test_of(">3 surname | >3 ending")
_MAY_BE_FIRST, _MAY_BE_JOINED = map(test_of, ("!technical !never_first", ">2 capital small !common"))
_JOINING = frozenset("Mac Ní Nic Ó Uí Al El Bin Binti Ibn Abu".split())
_JOINING_PLACES_TOO = frozenset("Van Von De Della Di Du Dos Da Ap".split())


def _is_joined_surname(words: list[str]) -> bool:
    """Return whether a particle of a surname follows a capitalised word: ``Fiachra Mac Giolla``, ``Hamdan Al Maktoumi``."""
    return (
        len(words) == 3
        and (words[1] in _JOINING or (words[1] in _JOINING_PLACES_TOO and names.is_plain_given_name(words[0])))
        and _MAY_BE_JOINED(words[0])
        and _MAY_BE_FIRST(words[0])
        and _MAY_BE_JOINED(words[2])
    )


def _first_word(text: str, floor: int, start: int) -> int | None:
    """Return the start of the run of capitalised words, initials and particles that reaches `start`, at a capital."""
    run = _FORMS.run_before.search(text, floor, start)
    if run is None:
        return None
    owned = text.rfind("'s ", run.start(), start)  # "Acme's Tânia Souza"
    return next((at for at in range(owned + 3 if owned >= 0 else run.start(), start) if text[at].isupper()), None)


def _last_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Smith, John``."""
    comma = text.rfind(",", max(low, at - 24), at)
    surname = _FORMS.word_before.search(text, max(low, comma - 24), comma) if comma >= 0 else None
    first_name = names.WORD.match(text, comma + 2, min(high, comma + 30))
    if surname is None or first_name is None:
        return ()
    tokens, begin, end = [surname.span(), first_name.span()], surname.start(), first_name.end()
    if _FORMS.field_before.search(text[max(low, begin - 2) : begin]) and _FORMS.mailbox.match(text, end, high):
        return names.accept(text, tokens, "last, first")
    kind = _LAST_FIRST.kind_of(text, low, high, begin, end, surname.group()) if _IS_GIVEN_BEHIND(first_name.group()) else ""
    return names.accept(text, tokens, kind) if kind else ()


_IS_GIVEN_BEHIND = test_of("given !common !never_first !surname | given !common !never_first in_given")
_LAST_FIRST, _INITIALS = Neighbours(_RULES, "last_first"), Neighbours(_RULES, "initials")


def _initials(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``J.R. Haversham``: initials, and a surname by its form, by the lists or by the word before."""
    text = match.string
    if not match[2] and _FORMS.is_option.search(text, max(low, match.start() - 2), match.start() + 1):
        return ()
    letters = "".join(filter(str.isalpha, match[1] + match[2])).lower()
    kind = (
        _INITIALS.kind_of(text, low, high, *match.span(), match[3].removesuffix("'s")) if letters not in _NOT_INITIALS else ""
    )
    return names.accept(text, [match.span(3)], kind) if kind else ()


_NOT_INITIALS = frozenset(phrases("initials.not_initials"))


def _capitals(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``JOHN SMITH``: both words in the lexicons, neither ordinary."""
    for match in _FORMS.in_capitals.finditer(text, max(low, at - 34), min(high, at + 20)):
        start, end = match.start(1), match.end(2)
        if end < at:
            continue
        if holds_invented(text[start:end]):
            return (Candidate(start, end, "*"),)
        first, last = match.group(1).lower(), match.group(2).lower()
        if names.is_brand([first, last]):
            return (Candidate(start, end, ""),)
        if first in GIVEN and last in SURNAMES and first not in COMMON and last not in COMMON:
            return (Candidate(start, end, names.CLASS, "capitals"),)
    return ()


DETECTORS = made_of(_RULES, _pair, _last_first, _capitals, _initials, by_words)
