"""Parts of a name: words, particles and titles; and tests of words by lists and by form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from freezeframe_redaction.detectors.lexicon import COMMON, COUNTRIES, GIVEN, NAMED_AFTER, SURNAMES, phrases
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.invented import holds_invented

CLASS = "PERSON"
_RULES = Rules("common")

TOKEN, PARTICLE = _RULES.text("token"), _RULES.text("particle")
PARTICLES = frozenset(phrases("names.particles"))
WORD = re.compile(TOKEN)
_NEXT = re.compile(rf"(?:[ \t]|-|, ?(?=(?:Jr|Sr)\b))({TOKEN})(\.?)")

_IN_AN_ID = re.compile(r"[-_]?[0-9]|_")
"""Digits after letters that are part of an identifier: ``Q3``, ``EMP-123456``."""

MARKS = _RULES.text("marks")
"""Marks inside words of scripts beyond Latin, Greek and Cyrillic, for a character class."""

NOT_NAMES = frozenset(phrases("names.not_names"))
"""Words in greetings and fields in place of a name."""
NAMED_AFTER_NOUNS = frozenset(phrases("names.named_after_nouns"))
"""Nouns for things named after people: ``Bell's palsy``."""
OFFICES = frozenset(phrases("names.offices"))
"""Names of organisations and departments, which sign letters and own things as people do."""
TITLES = frozenset(phrases("names.titles"))
INFLECTED_TITLES = frozenset(phrases("names.inflected_titles"))
"""Titles as they appear within a sentence, in lower case."""
_ANY_TITLE = TITLES | {title.capitalize() for title in INFLECTED_TITLES} | {"Pane"}
_TITLE_BEFORE = re.compile(r"(?<!\w)((?:[Ss]ig\.|[Dd]ott\.|[Pp]rof\.)?\w{2,13})\.?\s{1,3}\Z")
_DEGREES_BEHIND = re.compile(r"(?:,? (?:Jr|Sr|PhD|Ph\.D|MD|M\.D|DDS|DVM|Esq|MBA|II|III)\b\.?){1,2}")
DEGREES = frozenset("MD PhD DDS RN NP PA DO Esq MBA MSc BSc BA MA FRCS FRCP MRCP MBBS MBChB LLB LLM CPA DVM".split())
TECHNICAL = frozenset(phrases("names.technical"))
"""Given names that are more often software, places or the cast of cryptography."""
NEVER_FIRST = frozenset(phrases("names.never_first"))
RARELY_GIVEN = frozenset(phrases("names.rarely_given"))
"""Given names that are mostly something else: ``Leafy greens``, ``Coral can recover``."""
ORDINARY_NAMES = frozenset(phrases("proposed.ordinary")) | RARELY_GIVEN
"""Names that are frequent in lower case in recorded traffic."""
SHORT_WORDS = frozenset(word for word in COMMON if len(word) < 4) | frozenset(phrases("names.short_words"))
"""Given names that are mainly ordinary words; even next to a surname they do not count as evidence."""
SURNAME_ENDING = _RULES.form("surname_ending")


def tokens_at(text: str, start: int, high: int, limit: int = 6) -> list[tuple[int, int]]:
    """Return the spans of the words that may belong to a name that begins at `start`."""
    first = WORD.match(text, start, min(high, start + 40))
    if first is None:
        return []
    out = [first.span()]
    position = first.end()
    if text[position - 2 : position] == "'s":
        return out
    # An initial carries its dot.
    if first.end() - first.start() == 1 and text[position : position + 1] == ".":
        position += 1
    while len(out) < limit:
        match = _NEXT.match(text, position, min(high, position + 42))
        if match is None:
            break
        word = match.group(1)
        if not (word[0].isupper() or word in PARTICLES) or word in DEGREES:
            break
        if word.isupper() and _IN_AN_ID.match(text, match.end(1)):
            break
        out.append(match.span(1))
        position = match.end() if len(word) == 1 or word in ("Jr", "Sr") else match.end(1)
        if (match.group(2) and len(word) > 1) or word[-2:] == "'s":
            break  # the end of a sentence; "Mike Pall's LuaJIT"
    while out and text[out[-1][0] : out[-1][1]] in PARTICLES:
        out.pop()
    return out


def real(text: str, tokens: Iterable[tuple[int, int]]) -> list[str]:
    """Return the words of a name that are neither initials nor particles."""
    return [word for a, b in tokens if len(word := text[a:b]) > 1 and word not in PARTICLES]


def is_known(word: str) -> bool:
    """Return whether a list has the word, or a part of it."""
    lowered = word.lower()
    return (
        lowered in GIVEN
        or lowered in SURNAMES
        or any(part in GIVEN or part in SURNAMES for part in lowered.split("-") if "-" in lowered)
    )


def is_given_name(word: str) -> bool:
    """Return whether the word is a given name, or a double one that begins with one."""
    lowered = word.lower()
    return lowered in GIVEN or ("-" in lowered and lowered.split("-")[0] in GIVEN)


def is_ordinary(word: str) -> bool:
    """Return whether the word is one of ordinary prose or documentation."""
    return word.lower() in COMMON


def is_title(word: str) -> bool:
    return word.capitalize() in _ANY_TITLE


def is_brand(words: Sequence[str]) -> bool:
    """Return whether two words are a country, or a company, product or method named after people: ``Wells Fargo``."""
    pairs = [f"{one} {next_}".lower() for one, next_ in pairwise(words)]
    pairs += [pair.removesuffix("'s") for pair in pairs]
    return not (NAMED_AFTER.isdisjoint(pairs) and COUNTRIES.isdisjoint(pairs))


def title_start(text: str, low: int, start: int) -> int:
    """Return the start of the titles right before `start` (``Frau Dr. ``); `start` without titles."""
    for _ in range(2):
        title = _TITLE_BEFORE.search(text, max(low, start - 20), start)
        if title is None or not is_title(title[1]):
            break
        start = title.start()
    return start


def accept(text: str, tokens: list[tuple[int, int]], kind: str) -> tuple[Candidate, ...]:
    """Return the words as one name, or as a surrogate if they are one."""
    start, end = tokens[0][0], tokens[-1][1]
    if text[end - 2 : end] in ("'s", "'S"):
        end -= 2
    if holds_invented(text[start:end]):
        return (Candidate(start, end, "*"),)
    # "Mr." and "PhD" identify no one and stay, but they belong to the name that is reported.
    degrees = _DEGREES_BEHIND.match(text, end)
    shown = (title_start(text, 0, start), degrees.end() if degrees else end)
    return (Candidate(start, end, CLASS, kind, None if shown == (start, end) else shown),)


def before_common(text: str, tokens: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the words of an upper-case name up to the next ordinary word, since capitals do not distinguish the two."""
    if not text[slice(*tokens[0])].isupper():
        return tokens
    for index, token in enumerate(tokens[1:], 1):
        word = text[slice(*token)]
        if len(word) > 1 and (is_ordinary(word) or is_title(word)) and word.lower() not in SURNAMES:
            return tokens[:index]
    return tokens


def trimmed(text: str, tokens: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop words from the end that are not part of a name."""
    whole = len(tokens)
    while len(tokens) > 1 and is_ordinary(text[slice(*tokens[-1])]) and text[slice(*tokens[-1])].lower() not in SURNAMES:
        tokens = tokens[:-1]
    # With ordinary words behind, the word may be of a thing: "Maria Lopez Elementary School".
    named = real(text, tokens) if len(tokens) == whole > 2 else ()
    return tokens[:-1] if len(named) > 2 and _may_follow(*named[-3:]) else tokens


def _may_follow(given: str, surname: str, word: str) -> bool:
    """Return whether the word only follows a whole name: ``Andrea Jung Biography``, ``Jane Doe Feedback``."""
    word = word.removesuffix("'s")
    is_listed = is_known(word) or not word.isascii() or has_form_of_surname(word)
    return len(word) > 2 and is_whole(given, surname) and not is_listed


def is_whole(given: str, surname: str) -> bool:
    """Return whether two words are a complete name by the lists alone."""
    return is_plain_given_name(given) and surname.lower() in SURNAMES and surname not in PARTICLES


def has_form_of_surname(word: str) -> bool:
    """Return whether the word ends as surnames do and is one, or is written with foreign letters."""
    lowered = word.lower()
    return (
        len(word) > 5
        and lowered not in COMMON
        and SURNAME_ENDING.search(lowered) is not None
        and (lowered in SURNAMES or not word.isascii() or len(word) > 8)
    )


def is_plain_given_name(word: str) -> bool:
    """Return whether the word is a given name, and neither an ordinary word nor better known as software or a place."""
    lowered = word.lower()
    return lowered in GIVEN and lowered not in COMMON and lowered not in TECHNICAL and lowered not in RARELY_GIVEN


def may_be_name(word: str) -> bool:
    """Return whether the word looks like part of a name: not an office, an ordinary word, camel case or an acronym."""
    lowered = word.lower()
    if lowered in NOT_NAMES or lowered in OFFICES or lowered in TECHNICAL or not word[:1].isupper():
        return False
    parts = [part for part in re.split("['-]", word) if len(part) > 1]
    if not word.isupper() and any(
        not part[1:].islower() for part in parts if not part.startswith(("Mc", "Mac", "Mc", "De", "Van", "Fitz"))
    ):
        return False
    if word.isupper() and len(word) < 4 and not is_known(word):
        return False
    return not is_ordinary(word) or (is_known(word) and lowered not in SHORT_WORDS)
