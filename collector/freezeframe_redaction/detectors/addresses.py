"""Postal addresses: the cheap tier. House number and street word in either order, or anything with a number after ``address:``.

The catalogue of their forms is in ``rules/addresses.toml``; here is what may be around a street.
"""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import COMMON, phrases
from freezeframe_redaction.detectors.rows import by_name, made_of, reaching
from freezeframe_redaction.model import Candidate, Find
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.invented import holds_invented

CLASS = "ADDRESS"
_RULES = Rules("addresses")
_NAMED_STREET, _AFTER_KEY, _CODE, _BEFORE_ZIP, _BEFORE_STATE = map(
    _RULES.form, ("named_street", "after_key", "code", "before_zip", "before_state")
)
_HOUSE_NUMBER, _TITLE_OF_A_YEAR, _LONG_NUMBER, _STREET_BEFORE, _THOUSANDS = map(
    _RULES.form, ("house_number", "title_of_a_year", "long_number", "street_before", "thousands")
)
_MONTH, _YEAR, _STREET_WORD = map(_RULES.form, ("month", "year", "street_word"))
_KEYED, _PART, _STREET_LINE = map(_RULES.form, ("keyed", "part", "street_line"))
_NO_STREET_WORD, _SMALL_STREET, _HOUSE_AND_ROAD = map(_RULES.form, ("no_street_word", "small_street", "house_and_road"))
_UNIT_FIRST, _POSTAL_TOWN, _NO_STREET = map(_RULES.form, ("unit_first", "postal_town", "no_street"))

_ENGLISH, _GERMAN, _ROMANCE = map(_RULES.form, ("english", "german", "romance"))


# -- the block around a street: what is in front of it, and the lines after it -------------------------------------------

_UNIT_NUMBER = _RULES.text("unit_number")
_HEAD = re.compile(rf"(?:(?<![\w.,$-])(?:{_UNIT_NUMBER},? )?(?P<number>[0-9]{{1,6}}[A-Za-z]?(?:/[0-9]{{1,4}})? )?)$")


def _head(text: str, low: int, start: int) -> int:
    """Return where the block begins: a house or unit number may come before the street's name."""
    match = _HEAD.search(text, max(low, start - 24), start)
    if match is None or not text[match.start() : start].strip():
        return start
    return start if match["number"] and _BEFORE_ZIP.search(text, low, match.start()) else match.start()


def _tail(text: str, end: int, high: int) -> int:
    """Return where the block ends: unit, place, postcode and country, on the same line or on the next few."""
    best, position, numbered = end, end, True
    for _ in range(7):
        part = _PART.match(text, position, min(high, position + 80))
        if part is None:
            break
        place = part["place"]
        behind = text[part.end() : part.end() + 1] if part.end() < high else ""
        if place is not None:
            word = place.split(" ", 1)[0]
            ends = behind in ("", "\n", ",", "?", "!", ";", ")") or (
                (behind == "." and text[part.end() + 1 : part.end() + 2] in ("", " ", "\n"))
                or _BEFORE_STATE.match(text, part.end(), high) is not None
            )
            follows = part["gap"] != " " or numbered
            if (
                not follows
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


def _accept(match: re.Match[str], low: int, high: int, group: int = 0) -> tuple[Candidate, ...]:
    value = match.group(group)
    start = match.start(group)
    trimmed = value.rstrip(" ,.;:-'’")  # the quotation mark around it is not part of it
    if len(trimmed) < 6 or start < low:
        return ()
    if holds_invented(trimmed):
        return (Candidate(start, start + len(trimmed), "*"),)
    text = match.string
    return (Candidate(_head(text, low, start), _tail(text, start + len(trimmed), high), CLASS),)


def _unit(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``6614 Luite tee 87, Apt. 931``: the unit shows that the words before it are a street, whatever the language."""
    unit = reaching(_UNIT_ONLY, text, low, high, at, 20, 8)
    if unit is None:
        return ()
    line = _STREET_LINE.search(text, max(low, unit.start() - 90), unit.start())
    if line is None or holds_invented(text[line.start() : unit.end()]):
        return ()
    words = [word for word in re.split(r"[^\w.'’-]+", line.group()) if word[:1].isalpha()]
    if all(word.lower() in COMMON for word in words):
        return ()
    return (Candidate(line.start(), _tail(text, unit.end(), high), CLASS),)


_UNIT_ONLY = re.compile(rf"(?<!\w){_UNIT_NUMBER}")


_YEARS = re.compile("(?:1[6-9]|20)[0-9]{2}(?: to | and |-|–)(?:1[6-9]|20)[0-9]{2}, ")


def _number_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``1600 Pennsylvania Avenue``: the trigger ended on the word after the number."""
    if " " not in text[at - 2 : at]:
        return ()
    number = _HOUSE_NUMBER.search(text, max(low, at - 24), at)
    if number and text[max(low, number.start() - 3) : number.start()] in ("'s ", "’s "):
        return ()  # "Buffett's 2024 Berkshire Hathaway Letter"
    if number and _YEARS.search(text, max(low, number.start() - 8), number.end()):
        return ()  # "built 1873 to 1877, Upper Yosemite Fall Trail"
    match = _ENGLISH.match(text, number.start(1), min(high, at + 160)) if number else None
    return _accept(match, low, high) if match and not _NO_STREET.search(match.group()) else ()


def _german(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = reaching(_GERMAN, text, low, high, at, 60, 60, begun=True)
    if match is None:
        return ()
    words = re.split(r"[ .]+(?=[^ .]*[0-9])", match.group(), maxsplit=1)[0].split(" ")
    # "During 1971" and "Spring 2024" end like streets, "Markt 3" and "use gate 22" do not name one.
    if not words[0][0].isupper() or (words[0].lower() in COMMON and len(words) < 3) or words == ["Markt"]:
        return ()
    return () if _NO_STREET_WORD.match(words[-1].lower()) else _accept(match, low, high)


def _romance(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    for match in _ROMANCE.finditer(text, max(low, at - 40), min(high, at + 110)):
        if match.end() >= at and match.start() < at:
            if _LONG_NUMBER.search(match.group()):
                return ()  # "via DHL 00340434161094021501"
            found = _accept(match, low, high)
            # Without a number these words are ordinary ones, the names of software, or streets that a text is about.
            return tuple(one for one in found if one.class_ == "*" or any(map(str.isdigit, text[one.start : one.end])))
    return ()


def _keyed(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    opening = _AFTER_KEY.match(text, at - 1, min(high, at + 30))
    if opening is None or holds_invented(text[max(low, at - 24) : at]):
        return ()
    start = opening.end()
    if _NAMED_STREET.search(text, max(low, at - 24), start):
        return ()
    if text[start : start + 1] in "([{<`@" or not (text[start : start + 1].isalnum()):
        return ()
    for pattern in (_ENGLISH, _GERMAN, _ROMANCE):
        match = pattern.match(text, start, min(high, start + 130))
        if match is not None:
            return _accept(match, low, high)
    match = _KEYED.match(text, start, min(high, start + 130))
    if match is None:
        return ()
    value = match.group(1)
    # An address has a number and words; an IP, an e-mail, a URL, a hex number or a line of code is not one.
    words = [word for word in re.split(r"[\s,]+", value) if word]
    if (
        len(words) < 2
        or not any(map(str.isdigit, value))
        or _CODE.search(value)
        or "@" in value
        or "://" in value
        or value.lower().startswith(("0x", "address"))
        or _TITLE_OF_A_YEAR.fullmatch(value)
    ):
        return ()
    small = _SMALL_STREET.match(value)
    if small is not None:
        return (Candidate(start, start + small.end(), CLASS),)
    if sum(word[:1].isupper() for word in words if word[:1].isalpha()) * 2 < sum(word[:1].isalpha() for word in words):
        return ()
    if not any(word[:1].isalpha() and len(word) > 2 for word in words) or len(words) > 14:
        return ()
    return _accept(match, low, high, 1)


def _around(names: str) -> Find:
    """Return the check that one of the forms is around the trigger's end."""
    forms = tuple(map(_RULES.form, names.split()))

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        for form in forms:
            match = reaching(form, text, low, high, at, 60, 80, begun=True)
            if match is not None and (found := _accept(match, low, high)):
                return found
        return ()

    return find


def _unit_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``House No. 45, Sector 17, Chandigarh 160017``: a unit, parts between commas, and a postcode; no street is named."""
    found = (reaching(one, text, low, high, at, 20, 150, begun=True) for one in (_HOUSE_AND_ROAD, _UNIT_FIRST))
    return next((_accept(match, low, high) for match in found if match), ())


def _is_count_or_date(line: str, match: re.Match[str]) -> bool:
    """Whether the numbers are one: ``With 500,000 American``, ``On May 31, 1783, Adelaide``."""
    numbers = match.string[match.start() : match.end("code")]
    return bool(_YEAR.match(match["code"]) or _THOUSANDS.search(numbers) or _MONTH.search(line))


def _street_and_town(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Długa 5/12, 00-950 Warszawa``: no word for a street, but a number, a postcode and a town after the name."""
    if text[at - 3] != " ":
        return ()
    for match in _POSTAL_TOWN.finditer(text, max(low, at - 24), min(high, at + 60)):
        if match.end() < at:
            continue
        line = _STREET_BEFORE.search(text, max(low, match.start() - 90), match.start() + 1)
        if line is None or match.start() >= at or _is_count_or_date(line.group(), match) or holds_invented(line.group()):
            return ()
        words = list(_STREET_WORD.finditer(line.group()))
        before = max((at for at, word in enumerate(words) if word.group().lower() in _BEFORE_STREET), default=-1)
        words = words[before + 1 :]
        while words and not words[0].group()[0].isupper():
            words.pop(0)
        if not words or all(word.group().lower() in COMMON for word in words):
            return ()
        return (Candidate(line.start() + words[0].start(), _tail(text, match.end(), high), CLASS),)
    return ()


_BEFORE_STREET = frozenset(phrases("addresses.before_street"))


_FORMS = ("postbox", "romaji", "quarter", "military", "colombian", "no_spaces postbox", "chinese japanese postbox", "korean")
DETECTORS = made_of(
    _RULES,
    by_name(_number_first, _german, _romance, _keyed, _unit, _street_and_town, _unit_first)
    | {names: _around(names) for names in _FORMS},
)
