"""Postal addresses: the cheap tier. House number and street word in either order, or anything with a number after ``address:``.

The catalogue of their forms is in ``rules/addresses.toml``; this module covers the parts around a street.
"""

from __future__ import annotations

import re
from itertools import dropwhile

from freezeframe_redaction.detectors.lexicon import COMMON, phrases
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.invented import holds_invented

CLASS = "ADDRESS"
_RULES = Rules("addresses")
_FORMS = _RULES.forms


# -- the block around a street: what is in front of it, and the lines after it -------------------------------------------


def _head(text: str, low: int, start: int) -> int:
    """Return where the block begins: a house or unit number may come before the street's name."""
    match = _FORMS.head.search(text, max(low, start - 24), start)
    if match is None or not text[match.start() : start].strip():
        return start
    return start if match["number"] and _FORMS.before_zip.search(text, low, match.start()) else match.start()


def _tail(text: str, end: int, high: int) -> int:
    """Return where the block ends: unit, place, postcode and country, on the same line or on the next few."""
    best, position, numbered = end, end, True
    for _ in range(7):
        part = _FORMS.part.match(text, position, min(high, position + 80))
        if part is None:
            break
        place = part["place"]
        behind = text[part.end() : part.end() + 1] if part.end() < high else ""
        if place is not None:
            word = place.split(" ", 1)[0]
            ends = behind in ("", "\n", ",", "?", "!", ";", ")") or (
                (behind == "." and text[part.end() + 1 : part.end() + 2] in ("", " ", "\n"))
                or _FORMS.before_state.match(text, part.end(), high) is not None
            )
            if (
                (part["gap"] == " " and not numbered)
                or (
                    not part["placed"]
                    and word.lower() in COMMON
                    and word.lower() not in _PLACE_WORDS
                    and not (word.isupper() and len(word) == 2)
                )
                or not (part["placed"] or ends or numbered)
            ):
                break
            if part["placed"] or ends:
                best = part.end()
        elif part["empty"] is None:
            if (
                part["code"]
                and part["town"] is None
                and "\n" in part["gap"]
                and behind not in ("", "\n", ",", ".", ";", "?", "!")
            ):
                break  # "416 60 039 office" on the next line is a phone number
            best = part.end()
        numbered = part["unit"] is not None or (numbered and part["empty"] is not None)
        position = part.end()
    return best


_PLACE_WORDS = frozenset(phrases("addresses.place_words"))


def _street(match: re.Match[str], low: int, high: int, group: int = 0) -> tuple[Candidate, ...]:
    """Return the block around a street; nothing if it is too short to be one."""
    start = match.start(group)
    trimmed = match[group].rstrip(" ,.;:-'’")  # the quotation mark around it is not part of it
    if len(trimmed) < 6:
        return ()
    if holds_invented(trimmed):
        return (Candidate(start, start + len(trimmed), CLAIM),)
    text = match.string
    return (Candidate(_head(text, low, start), _tail(text, start + len(trimmed), high), CLASS),)


def _unit(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``6614 Luite tee 87, Apt. 931``: the unit shows that the words before it are a street, whatever the language."""
    text, start, end = match.string, match.start(), match.end()
    line = _FORMS.street_line.search(text, max(low, start - 90), start)
    if line is None or holds_invented(text[line.start() : end]):
        return ()
    words = [word for word in re.split(r"[^\w.'’-]+", line.group()) if word[:1].isalpha()]
    return () if all(word.lower() in COMMON for word in words) else (Candidate(line.start(), _tail(text, end, high), CLASS),)


def _number_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``1600 Pennsylvania Avenue``: the trigger ended on the word after the number."""
    if " " not in text[at - 2 : at]:
        return ()
    number = _FORMS.house_number.search(text, max(low, at - 24), at)
    if number and text[max(low, number.start() - 3) : number.start()] in ("'s ", "’s "):
        return ()  # "Buffett's 2024 Berkshire Hathaway Letter"
    if number and _FORMS.years.search(text, max(low, number.start() - 8), number.end()):
        return ()  # "built 1873 to 1877, Upper Yosemite Fall Trail"
    match = _FORMS.english.match(text, number.start(1), min(high, at + 160)) if number else None
    return _street(match, low, high) if match and not _FORMS.no_street.search(match.group()) else ()


def _german(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    words = re.split(r"[ .]+(?=[^ .]*[0-9])", match.group(), maxsplit=1)[0].split(" ")
    # "During 1971" and "Spring 2024" end like streets, "Markt 3" and "use gate 22" do not name one.
    if not words[0][0].isupper() or (words[0].lower() in COMMON and len(words) < 3) or words == ["Markt"]:
        return ()
    return () if _FORMS.no_street_word.match(words[-1].lower()) else _street(match, low, high)


def _romance(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    if _FORMS.long_number.search(match.group()):
        return ()  # "via DHL 00340434161094021501"
    # Without a number these words are ordinary ones, the names of software, or streets that a text is about.
    found = _street(match, low, high)
    return tuple(one for one in found if one.class_ == CLAIM or any(map(str.isdigit, match.string[one.start : one.end])))


def _keyed(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    opening = _FORMS.after_key.match(text, at - 1, min(high, at + 30))
    if opening is None or holds_invented(text[max(low, at - 24) : at]):
        return ()
    start = opening.end()
    if _FORMS.named_street.search(text, max(low, at - 24), start):
        return ()
    if text[start : start + 1] in "([{<`@" or not (text[start : start + 1].isalnum()):
        return ()
    for pattern in (_FORMS.english, _FORMS.german, _FORMS.romance):
        match = pattern.match(text, start, min(high, start + 130))
        if match is not None:
            return _street(match, low, high)
    match = _FORMS.keyed.match(text, start, min(high, start + 130))
    if match is None:
        return ()
    value = match.group(1)
    # An address has a number and words; an IP, an e-mail, a URL, a hex number or a line of code is not one.
    words = [word for word in re.split(r"[\s,]+", value) if word]
    is_code = _FORMS.code.search(value) or "@" in value or "://" in value or value.lower().startswith(("0x", "address"))
    if len(words) < 2 or not any(map(str.isdigit, value)) or is_code or _FORMS.title_of_a_year.fullmatch(value):
        return ()
    small = _FORMS.small_street.match(value)
    if small is not None:
        return (Candidate(start, start + small.end(), CLASS),)
    spelled = [word for word in words if word[:1].isalpha()]
    if (
        2 * sum(word[:1].isupper() for word in spelled) < len(spelled)
        or max(map(len, spelled), default=0) < 3
        or len(words) > 14
    ):
        return ()
    return _street(match, low, high, 1)


def _is_count_or_date(line: str, match: re.Match[str]) -> bool:
    """Return whether the numbers are one: ``With 500,000 American``, ``On May 31, 1783, Adelaide``."""
    numbers = match.string[match.start() : match.end("code")]
    return bool(_FORMS.year.match(match["code"]) or _FORMS.thousands.search(numbers) or _FORMS.month.search(line))


def _street_and_town(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``Długa 5/12, 00-950 Warszawa``: no word for a street, but a number, a postcode and a town after the name."""
    line = _FORMS.street_before.search(match.string, max(low, match.start() - 90), match.start() + 1)
    if line is None or _is_count_or_date(line.group(), match) or holds_invented(line.group()):
        return ()
    words = list(_FORMS.street_word.finditer(line.group()))
    before = max((at for at, word in enumerate(words) if word.group().lower() in _BEFORE_STREET), default=-1)
    words = list(dropwhile(lambda word: not word.group()[0].isupper(), words[before + 1 :]))
    if not words or all(word.group().lower() in COMMON for word in words):
        return ()
    return (Candidate(line.start() + words[0].start(), _tail(match.string, match.end(), high), CLASS),)


_BEFORE_STREET = frozenset(phrases("addresses.before_street"))


DETECTORS = made_of(_RULES, _number_first, _german, _romance, _keyed, _street, _unit, _street_and_town)
