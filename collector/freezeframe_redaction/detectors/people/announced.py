"""Names after words that announce one: ``Dear``, ``my name is``, ``Herr``, ``Kind regards``, ``my wife``.

Also in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from freezeframe_redaction.detectors.lexicon import GIVEN, SURNAMES, phrases
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.classes import test_of
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

SAYS_NAME = phrases("announced.says_name")
"""After these a word is a name, whatever it looks like."""
STRONG = (*(phrase.lower().rstrip(",") for phrase in SAYS_NAME),)
GREETINGS = phrases("announced.greetings")
_ANNOUNCERS = (*phrases("announced.announcers"), *(one.capitalize() for one in GREETINGS))
"""After these a word is a name if it looks like one."""
_BEYOND_LATIN = tuple(title for title in (*names.TITLES, *names.INFLECTED_TITLES, *_ANNOUNCERS) if not title[0].isascii())
"""The engine recognises borders of ASCII words only."""
_THINGS = frozenset(phrases("pairs.things"))
_CLOSINGS = phrases("announced.closings")
"""Ends of letters; the name follows, on a separate line or not."""


def as_alternatives(listed: Iterable[str]) -> str:
    """Return the phrases as alternatives of a trigger."""
    return "|".join(re.escape(phrase).replace(r"\ ", " ") for phrase in sorted(set(listed)))


_HUMP = re.compile("[A-Z][a-z]{3,}")
ANNOUNCING = frozenset(word.lower() for phrase in (*SAYS_NAME, *_ANNOUNCERS, *_CLOSINGS) for word in phrase.split())
"""Words that come before a name and are not part of it."""


def _either_case(listed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases with a lower-case and with a capital first letter."""
    return tuple(dict.fromkeys(made for one in listed for made in (one, one[0].upper() + one[1:], one[0].lower() + one[1:])))


_SAID = _either_case(SAYS_NAME)
_TITLES = as_alternatives([*(one for one in (*names.TITLES, *names.INFLECTED_TITLES) if one[0].isascii()), "Fr", "Me", "dhr", "mevr", "mw", "hr",
    "sig", "sra", "mevrouw", "meneer", "dott", "domnule", "doamna", "señor", "señora", "senhor", "senhora", "monsieur", "madame", "signor",
    "signora"])  # fmt: skip
"""Titles. Those that are also ordinary words are as weak as ``Dear``."""
_RULES = Rules(
    "people_announced",
    {
        "titles": _TITLES,
        "announcers": as_alternatives(one for one in _ANNOUNCERS if one[0].isascii()),
        "beyond_latin": as_alternatives(_BEYOND_LATIN),
        "said": as_alternatives(one for one in _SAID if one[0].isascii()),
        "said_beyond_latin": as_alternatives(one for one in _SAID if not one[0].isascii()),
        "closings": as_alternatives(_CLOSINGS),
    },
)
_FORMS = _RULES.forms


def _is_greeted(text: str, low: int, high: int, tokens: list[tuple[int, int]]) -> bool:
    """Return whether these words follow a greeting and end the line or precede a comma: ``Hi Ndapewa, please``."""
    start, end = tokens[0][0], tokens[-1][1]
    return (
        len(tokens) <= 3
        and _FORMS.greeting_ends.match(text, end, min(high, end + 8)) is not None
        and _FORMS.greeted.search(text, max(low, start - 32), start) is not None
        and text[max(low, start - 24) : start].lower().rstrip(" ,").endswith(GREETINGS)
        and all(names.may_be_name(text[a:b]) or text[a:b] in names.PARTICLES for a, b in tokens)
        and (text[start - 2] != "," or names.is_known(text[start:end]) or not text[start:end].isascii())
    )


def _is_signature(text: str, low: int, high: int, tokens: list[tuple[int, int]]) -> bool:
    """Return whether the words are a separate line below ``Kind regards`` or the two dashes of a signature."""
    start, end = tokens[0][0], tokens[-1][1]
    before = text[max(low, start - 48) : start]
    ending = _FORMS.end_of_letter.search(before) if "\n" in before[-16:] else None
    if ending is None or not _FORMS.signed.match(text, end, min(high, end + 8)):
        return False
    words = [text[a:b] for a, b in tokens]
    return len(words) <= 4 and all(_LOOKS_SIGNED(word) and _MAY_SIGN(word) for word in words)


_LOOKS_SIGNED = test_of("particle | !>1 | even | upper")
_MAY_SIGN = test_of("particle | ⟨signs⟩ !common | ⟨signs⟩ given | ⟨signs⟩ surname")


def _behind_certain(text: str, low: int, tokens: list[tuple[int, int]], before: str, *, strong: bool) -> tuple[Candidate, ...]:
    """After a title or ``my name is`` a word is a name, unless it is plainly something else."""
    words = [text[a:b] for a, b in tokens]
    first, start = words[0], tokens[0][0]
    if names.is_brand(words) or names.is_brand([*text[max(low, start - 4) : start].split(), *words]):
        return ()
    if strong and _FORMS.compares.search(before):
        return ()  # "if name is NOTSET:"
    if len(words) == 1 and not (_GIVEN_OR_NO_WORD if strong else _NAME_OR_NO_WORD)(first):
        return ()
    if strong and len(humps := _HUMP.findall(first)) > 1 and not any(map(names.is_known, humps)):
        return ()  # "your name is: TechnicalExpert"
    if strong and len(words) == 1 and not names.is_known(first) and text[tokens[0][1] : tokens[0][1] + 1] in ("_", "(", "/"):
        return ()
    kept = _before_letters(text, names.trimmed(text, names.before_common(text, tokens)))
    words = [text[a:b] for a, b in kept]
    if all(map(_IS_PROSE, words)):
        return ()
    dotted = before.rstrip()[-1:] == "."
    shouted = before.rstrip(" .")[-2:].isupper() or (first.isupper() and len(first) > 1)
    if shouted and not (strong or dotted) and (names.is_ordinary(first) or not any(map(names.is_known, words))):
        return ()  # "MS EXCEL"
    if strong:
        return names.accept(text, kept, "said")
    return names.accept(text, kept, "titled" if _FORMS.of_persons.search(before) and not shouted else "context")


_GIVEN_OR_NO_WORD, _NAME_OR_NO_WORD = map(test_of, ("!common | given", "!common | given | surname"))
_SURNAME_OR_NO_WORD, _IS_PROSE = map(test_of, ("!common | surname", "common !known"))


def _before_letters(text: str, tokens: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the words of a name up to the letters of something else: ``Dr Mukherjee GMC 701``."""
    for index, token in enumerate(tokens[1:], 1):
        if _ARE_LETTERS(text[slice(*token)]) and not all(text[a:b].isupper() for a, b in tokens[:index]):
            return tokens[:index]
    return tokens


_ARE_LETTERS = test_of("upper >1 !>4 !surname")


def _behind_titles(text: str, start: int, high: int) -> list[tuple[int, int]]:
    """Return the words of a name at `start`, or behind the titles there: ``Sehr geehrte Frau Dr. Weiß``."""
    tokens = names.tokens_at(text, start, high)
    for _ in range(3):
        if not tokens or not names.is_title(text[slice(*tokens[0])]):
            break
        following = names.WORD.search(text, tokens[0][1], min(high, tokens[0][1] + 4))
        tokens = names.tokens_at(text, following.start(), high) if following else []
    return tokens


_CONTRACTED = re.compile(r"'(?:m|ve|ll|re|d)\Z")
"""``Hi, I'm Henrik``"""


def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on the first letter after a word that announces a name."""
    tokens = _behind_titles(text, at - 1, high)
    if not tokens:
        return ()
    start = tokens[0][0]
    words = [text[a:b] for a, b in tokens]
    first = words[0]
    if (
        _CONTRACTED.search(first)
        or first.lower() in names.NOT_NAMES
        or not first[0].isupper()
        or (len(first) == 1 and len(words) == 1 and first.isascii())
        or (_FORMS.greeted_plural.search(text, max(low, start - 6), tokens[-1][1]) and not names.is_known(first))
    ):
        return ()
    if _is_signature(text, low, high, tokens) and (len(words) > 1 or len(first) > 2):
        return names.accept(text, tokens, "signature")
    if _is_greeted(text, low, high, tokens):
        return names.accept(text, tokens, "greeted")
    particles = _FORMS.particles_before.search(text, max(low, start - 16), start)
    whole = particles.start() if particles else start
    before = text[max(low, whole - 48) : whole]
    strong = before.rstrip(" \t\r\n:,*_)\"'").lower().endswith(STRONG)
    titled = names.title_start(text, low, whole) < whole
    if strong or titled:
        return _behind_certain(text, low, tokens, before, strong=strong)
    kept = names.trimmed(text, tokens)
    words = [text[a:b] for a, b in kept]
    if len(words) > 1 and words[-1].lower() in _THINGS:
        return ()  # "Dear Whitney Museum Collection Team"
    introduced = _FORMS.presents_self.search(before) is not None
    if len(words) == 1:
        is_certain = introduced and names.may_be_name(words[0]) and _FORMS.and_tells.match(text, kept[-1][1])
        good = (_ALONE_AFTER_ITS if before[-4:].lower() == "its " else _ALONE)(words[0])
        return names.accept(text, kept, "context") if is_certain or good else ()
    real = names.real(text, kept)
    if len(real) > 1 and real[0].lower() in names.PARTICLES:
        real = real[1:]  # "heer De Vries"
    if introduced and 2 <= len(real) <= 4 and all(map(names.may_be_name, real)) and not names.is_brand(words):
        return names.accept(text, kept, "context")
    known = any(map(names.is_known, real)) and not all(map(names.is_ordinary, real))
    good = known and _GIVEN_OR_NO_WORD(real[0]) and _SURNAME_OR_NO_WORD(real[-1])
    return names.accept(text, kept, "context") if good else ()


_ALONE = test_of(">2 given !common | surname_form")
_ALONE_AFTER_ITS = test_of(">2 given !common !ordinary_name | surname_form")
"""``its Ping event``"""


# -- relatives --------------------------------------------------------------------------------------------------------

_ENGLISH = phrases("kin.english")
_IS_SHOUTED = test_of("upper common")
_KIN = Rules(
    "people_kin",
    {
        "english": as_alternatives([*_ENGLISH, "in-law"]),
        "others": as_alternatives(phrases("kin.others")),
    },
)


def _kin(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """After ``my wife`` a word is a name if it looks like one; after ``wife`` alone, if a list has it."""
    start = at - 1
    word = names.WORD.match(text, start, min(high, start + 30))
    if word is not None and (word.group().lower() in _ENGLISH or _IS_SHOUTED(word.group())):
        return ()  # "Father Son and Holy Ghost", "LANDLORD IN THE PROPERTY"
    if _KIN.forms.before.search(text, max(low, start - 48), start) is not None:
        tokens = names.tokens_at(text, start, high)
        words = [text[a:b] for a, b in tokens]
        if words and words[0].lower() not in names.NOT_NAMES and (names.may_be_name(words[0]) or names.is_given_name(words[0])):
            return names.accept(text, tokens if all(map(names.may_be_name, words)) else tokens[:1], "kin")
    return find(text, low, high, at)


# -- in small letters ---------------------------------------------------------------------------------------------------

_SMALL = Rules("people_small")


def _small(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``my name is anna kowalska``: in lower case, so the words themselves must be names."""
    start = at - 1
    word = names.WORD.match(text, start, min(high, start + 24))
    if word is None or ((plain := word.group().removesuffix("'s")) not in GIVEN and plain not in SURNAMES):
        return ()
    reach = _SMALL.forms.small_words.match(text, start, min(high, start + 60))
    if reach is None:
        return ()
    spans = [one.span() for one in names.WORD.finditer(text, start, reach.end())]
    words = [text[a:b] for a, b in spans]
    if not words or not words[0].islower():
        return ()
    first, last = words[0].removesuffix("'s"), words[-1].removesuffix("'s")
    if text[max(low, start - 4) : start].lower() == "its " and not _SMALL.forms.calls.match(text, spans[0][1]):
        return ()
    strong = text[max(low, start - 24) : start].rstrip(" \n").lower().endswith(STRONG)
    titled = names.title_start(text, low, start) < start
    is_pair = len(words) > 1 and last.islower() and _IS_FIRST_IN_SMALL(first)
    if is_pair and (_IS_LAST_IN_SMALL(last) or (strong and _MAY_BE_LAST_IN_SMALL(last))):
        return names.accept(text, spans, "small")
    if first in names.ORDINARY_NAMES and not strong and not titled:
        return ()  # "Dad joke"
    return names.accept(text, spans[:1], "small") if _ALONE_IN_SMALL(first) or (titled and _TITLED_IN_SMALL(first)) else ()


_IS_FIRST_IN_SMALL, _ALONE_IN_SMALL, _TITLED_IN_SMALL = map(
    test_of, ("in_given >2 !short_word", ">2 plain", ">2 surname !common")
)
_IS_LAST_IN_SMALL, _MAY_BE_LAST_IN_SMALL = map(test_of, ("!common surname | !common ending", "!common >3"))

ANNOUNCED = (*made_of(_RULES, find), *made_of(_KIN, _kin))
IN_SMALL_LETTERS = made_of(_SMALL, _small)
