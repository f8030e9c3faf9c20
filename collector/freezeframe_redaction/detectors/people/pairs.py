"""Two words that together are a name: given name and surname, in either order, in capitals, in two cells."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import COMMON, GIVEN, SURNAMES, phrases
from freezeframe_redaction.detectors.people import announced, names
from freezeframe_redaction.detectors.rows import made_of, reaching
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.invented import holds_invented

_RULES = Rules("people_pairs")
_NAMED_AFTER, _RUN_BEFORE, _IN_CAPITALS = map(_RULES.form, ("named_after", "run_before", "in_capitals"))
_LISTED_PASSENGER = _RULES.form("listed_passenger")


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
    if previous.lower() in COMMON and not (len(previous) < 4 or names.is_given(previous)):
        return ()
    first = _first_word(text, floor, start)
    if first is None:
        return ()
    tokens = names.tokens_at(text, first, high)
    if len(tokens) < 2:
        return ()
    words = [text[a:b] for a, b in tokens]
    index = 0
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
    if (
        index == 1
        and len(leading) > 3
        and names.may_be_name(words[0])
        and not (leading.endswith(_OTHERWISE) or leading in announced.ANNOUNCING or names.is_title(leading))
    ):
        index = 0  # "Zephaniah Obadele Thorne"
    kept = names.trimmed(text, tokens[index : index + 5])
    if len(kept) < 2:
        return ()
    return (*_spouse(text, low, kept[0][0]), *names.accept(text, kept, "lexicon"))


_WITH_ANOTHER = re.compile(rf"(?<![\w'-])({names.TOKEN}) (?:and|&|und|et|y|e|i|og|och|en) \Z")


def _spouse(text: str, low: int, start: int) -> tuple[Candidate, ...]:
    """Return the given name of a person who shares the surname that follows: ``Fionnuala and Diarmuid Ó Conaill``."""
    match = _WITH_ANOTHER.search(text, max(low, start - 28), start) if text[start - 1 : start] == " " else None
    if match is None or not names.is_plainly_given(match[1]) or not match[1][1:].islower():
        return ()
    if text[match.start() - 2 : match.start()] == ", " and match[1].lower() in SURNAMES:
        return ()  # "Jones, Smith and Davis"
    return names.accept(text, [match.span(1)], "couple")


_THINGS = frozenset(phrases("pairs.things"))
"""Places and things that end in a word which no person's name ends in: ``Forest Hills``, ``Mariana Trench``."""
_COMPANIES = frozenset("ltd llc inc gmbh limited corporation industries plc".split())
_OTHERWISE = ("ing", "ed", "ly", "s", "tion", "ment", "er", "or", "ist", "ian", "ant", "ent", "ive", "al", "man")
"""How verbs and words for occupations end: ``Producer James Sparks``."""


def _is_named_after(words: list[str], behind: str) -> bool:
    """Whether the words are something that is named after a person: ``Bellman Ford``, ``Grace Hopper Award``."""
    return words[-1].lower() in _COMPANIES or _NAMED_AFTER.match(behind) is not None or names.is_brand(words)


_VIETNAMESE = frozenset(
    "nguyen nguyễn tran trần pham phạm hoang hoàng huynh huỳnh phan vũ võ đặng bui bùi đỗ hồ ngô dương lý".split()
)
"""Family names come first; one to three short words follow."""

_CHINESE = frozenset(phrases("pairs.chinese"))
_PINYIN = re.compile(r"(?i:(?:[bpmfdtnlgkhjqxrzcsyw]|[zcs]h)?(?:[iu]?[aeo](?:i|o|u|n|ng|r)?|[iu]n?g?|ui|iu|ua)){2}")
"""A given name of two syllables after it: ``Xu Weiqiang``."""


def _stands_alone(text: str, low: int, high: int, tokens: list[tuple[int, int]], words: list[str]) -> bool:
    """Whether words that end in a surname fill a line or follow a word that leads to a person, as in an address block."""
    last = words[-1].lower()
    if (
        not 2 <= len(words) <= 4
        or len(last) < 4
        or any(names.is_ordinary(word) for word in words if len(word) > 1 and word not in names.PARTICLES)
        or words[0].lower() in names.NEVER_FIRST
        or words[0].lower() in names.TECHNICAL
        or not (last in SURNAMES or names.SURNAME_ENDING.search(last))
    ):
        return False
    before = text[max(low, tokens[0][0] - 16) : tokens[0][0]]
    behind = text[tokens[-1][1] : min(high, tokens[-1][1] + 1)]
    if behind in ("", "\n") and (not before.strip("> ?\t") or before.rstrip("> ?\t")[-1:] in ("\n", ":")):
        return True
    return before.rstrip().rpartition(" ")[2].lower() in _LEADING


_LEADING = frozenset(
    "says said told by starring named called with actor actress producer director commenter singer writer author assistant".split()
)


def _last_word(text: str, floor: int, end: int) -> str:
    """Return the word that ends at `end`, without the marks around it."""
    begin = max(text.rfind(" ", floor, end), text.rfind("\n", floor, end), floor - 1) + 1
    return text[begin:end].strip("(\"'*_[.,:;>#-/`")


_ORDINARY_FIRST = names.ORDINARY_NAMES - frozenset("art chip clay drew gene guy jan julian miles".split())


def _pairs(words: list[str], index: int) -> bool:
    """Whether the word and the next one that is neither initial nor particle look like given name and surname."""
    first = words[index]
    if (index and words[index - 1] in names.PLACE_PREFIXES) or first.lower() in names.NEVER_FIRST:
        return False
    last = next((word for word in words[index + 1 :] if len(word) > 1 and word not in names.PARTICLES), None)
    if first.lower() in _VIETNAMESE and 2 <= len(words) - index <= 4 and all(len(word) < 7 for word in words[index + 1 :]):
        return True
    if (
        first.lower() in _CHINESE
        and last is not None
        and len(last) > 4
        and last.lower() not in COMMON
        and _PINYIN.fullmatch(last)
    ):
        return True
    if _is_joined_surname(words[index : index + 3]):
        return True
    if last is not None and (_is_foreign_pair(first, last) or _has_beginning_of_surname(first, last)):
        return True
    if last is None or not names.is_given(first) or len(first) < 2 or first.lower() in ("princess", "prince", "queen", "royal"):
        return False
    surname = last.lower() in SURNAMES or names.SURNAME_ENDING.search(last.lower()) is not None
    if first.lower() in _ORDINARY_FIRST and (last.lower() in names.ORDINARY_NAMES or not surname):
        return False  # "Toy Story", "Candy Crush"
    if names.is_ordinary(last):
        # "Erin Dale", "Sophie Lang": an ordinary word after a word that can only be a name.
        return (
            len(first) > 3
            and len(last) > 3
            and names.is_plainly_given(first)
            and last.lower() in SURNAMES
            and last[1:].islower()
        )
    if names.is_ordinary(first):
        return last.lower() in SURNAMES and first.lower() not in names.SHORT_WORDS
    if last.lower() in SURNAMES or last.lower() in GIVEN:
        return True
    # An unknown word after a good given name is a surname more often than not; camel case and acronyms are not.
    particle = len(words) > index + 1 and words[index + 1] in names.PARTICLES
    return len(first) > 2 and len(last) > (2 if particle else 3) and all(part[1:].islower() for part in last.split("-"))


_SURNAME_BEGINNING = re.compile(r"(?:O'|D'|Mc|Mac|Fitz|(?:Al|El|Abdul|Ben)-)[A-Z][^\W\d_]{2,}")


_JOINING = frozenset("Mac Ní Nic Ó Uí Al El Bin Binti Ibn Abu".split())
_JOINING_PLACES_TOO = frozenset("Van Von De Della Di Du Dos Da Ap".split())


def _is_joined_surname(words: list[str]) -> bool:
    """Whether a capitalised word is followed by what joins two words of a surname: ``Fiachra Mac Giolla``, ``Hamdan Al Maktoumi``."""
    return (
        len(words) == 3
        and (words[1] in _JOINING or (words[1] in _JOINING_PLACES_TOO and names.is_plainly_given(words[0])))
        and all(
            len(word) > 2 and word[0].isupper() and word[1:].islower() and word.lower() not in COMMON
            for word in (words[0], words[2])
        )
        and words[0].lower() not in names.TECHNICAL
        and words[0].lower() not in names.NEVER_FIRST
    )


def _has_beginning_of_surname(first: str, last: str) -> bool:
    """Whether a capitalised word is followed by one that begins as surnames do: ``Aoife O'Sullivan``, ``Fatima Al-Zahra``."""
    return (
        len(first) > 2
        and first[1:].islower()
        and first.lower() not in COMMON
        and first.lower() not in names.TECHNICAL
        and _SURNAME_BEGINNING.fullmatch(last) is not None
    )


def _is_foreign_pair(first: str, last: str) -> bool:
    """Whether two capitalised words that no list may know look like a person: ``Zargan Vedzizhev``, ``Dreux Joly``."""
    first_lower, last_lower = first.lower(), last.lower()
    if (
        len(first) < 3
        or len(last) < 4
        or not (first[1:].islower() and last[1:].islower())
        or first_lower in COMMON
        or last_lower in COMMON
        or first_lower in names.NEVER_FIRST
        or first_lower in names.TECHNICAL
    ):
        return False
    surname = last_lower in SURNAMES
    if not first.isascii() or not last.isascii():
        # Letters with marks occur in names and places; a place has no surname.
        return surname or first_lower in GIVEN or first_lower in SURNAMES or bool(names.SURNAME_ENDING.search(last_lower))
    return (surname and (first_lower in SURNAMES or first_lower[-1] in "aeio")) or (
        bool(names.SURNAME_ENDING.search(last_lower))
        and (surname or first_lower in GIVEN or first_lower in SURNAMES or len(last) > 6)
    )


def _first_word(text: str, floor: int, start: int) -> int | None:
    """Return where the run of capitalised words, initials and particles that reaches `start` begins, at a capital."""
    run = _RUN_BEFORE.search(text, floor, start)
    if run is None:
        return None
    owned = text.rfind("'s ", run.start(), start)  # "Acme's Tânia Souza"
    return next((at for at in range(owned + 3 if owned >= 0 else run.start(), start) if text[at].isupper()), None)


_MAILBOX = re.compile(r"(?: [^\W\d_]\.?)?[\"']? ?[<\[](?:mailto:)?[^<>\s@]{1,64}@")
"""After a name in the header of a mail."""
_AND_ANOTHER = re.compile(r",? (?:and|&|or) [A-Z]")


def _last_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Smith, John``."""
    comma = text.rfind(",", max(low, at - 24), at)
    if comma < 0:
        return ()
    begin = comma
    while begin > low and comma - begin < 24 and (text[begin - 1].isalpha() or text[begin - 1] in "'-"):
        begin -= 1
    second = names.WORD.match(text, comma + 2, min(high, comma + 30))
    surname = text[begin:comma]
    if (
        second is not None
        and text[max(low, begin - 2) : begin].endswith(('"', "'", ": ", "; "))
        and _MAILBOX.match(text, second.end(), high)
    ):
        return names.accept(text, [(begin, comma), second.span()], "last, first")
    before = _last_word(text, max(low, begin - 24), begin - 1) if text[begin - 1 : begin] == " " and begin > low else ""
    if before[:1].isupper() and (before.lower() in names.NEVER_FIRST or before.lower() in names.PARTICLES):
        return ()  # "Den Haag, Rio Grande" are places
    if before[:1].isupper() and before.lower() in names.TECHNICAL:
        return ()  # "Dart Sass, Ruby on Rails"
    if before and names.is_brand([before, text[begin:comma]]):
        return ()  # "Harley Davidson, Johnson Controls"
    if text[max(low, begin - 2) : begin] == "& ":
        return ()  # "Johnson & Johnson, Morgan Stanley"
    if second is None or surname.lower() not in SURNAMES or names.is_ordinary(surname):
        return ()
    given = second.group()
    if _AND_ANOTHER.match(text, second.end(), min(high, second.end() + 12)):
        return ()  # "Jones, Mitchell and Williams" are three, of a company more often than not
    if (
        not names.is_given(given)
        or names.is_ordinary(given)
        or given.lower() in names.NEVER_FIRST
        or (given.lower() in SURNAMES and given.lower() not in GIVEN)
    ):
        return ()
    return names.accept(text, [(begin, comma), second.span()], "last, first")


_CELLS = re.compile(rf"(?<!\w)({names.LETTER}{{3,20}})(?:[,;\t|]|', ?')({names.LETTER}{{3,20}})(?!\w)")


def _cells(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Latoya,Jefferson``: a given name and a surname in two cells of a row."""
    match = reaching(_CELLS, text, low, high, at, 26, 20)
    if match is None:
        return ()
    one, other = match.group(1).lower(), match.group(2).lower()
    is_name = (one in GIVEN and other in SURNAMES) or (other in GIVEN and one in SURNAMES)
    if not is_name or any(word in COMMON or word in names.TECHNICAL for word in (one, other)):
        return ()
    return names.accept(text, [match.span(1), match.span(2)], "cells")


def _capitals(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``JOHN SMITH``: both words in the lexicons, neither ordinary."""
    for match in _IN_CAPITALS.finditer(text, max(low, at - 34), min(high, at + 20)):
        start, end = match.start(1), match.end(2)
        if end < at:
            continue
        if holds_invented(text[start:end]):
            return (Candidate(start, end, "*"),)
        first, last = match.group(1).lower(), match.group(2).lower()
        if first in GIVEN and last in SURNAMES and first not in COMMON and last not in COMMON:
            return (Candidate(start, end, names.CLASS, "capitals"),)
    return ()


def _passenger(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``MUELLER/HANS MR``, as airlines write names."""
    for match in _LISTED_PASSENGER.finditer(text, max(low, at - 64), min(high, at + 6)):
        surname, _, given = match.group(1).partition("/")
        if match.group(1).isupper():
            start = match.start(1)
            return names.accept(text, [(start, start + len(surname)), (match.end(1) - len(given), match.end(1))], "passenger")
    return ()


DETECTORS = made_of(
    _RULES, {"pair": _pair, "last_first": _last_first, "capitals": _capitals, "passenger": _passenger, "cells": _cells}
)
