"""The forms that programs make of a private value: functions that work on a value and on its surrogate alike.

Pure, and without a key: `forms_of(member, text)` yields those of the value and of its surrogate in the same order.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import repeat
from typing import Final
from urllib.parse import quote

_ESCAPED: Final = re.compile(r"\\u00[2-7]")
_ANY_ESCAPED: Final = re.compile(r"\\u")
NAME: Final = "PERSON"


def forms_of(class_: str, text: str) -> Iterator[str]:
    """Yield the forms of a value, or of its surrogate, in an order that depends only on the class, or an empty result."""
    yield text
    if class_ == NAME:
        yield text.capitalize()
        yield from (text.upper(), text.lower()) if len(text) > _SHORT_WORD else ("", "")  # MIA is an airport
        return
    small = text.lower()
    quoted = quote(text, safe="")
    encoded = base64.b64encode(_bytes(text)).decode()
    yield from (text.upper(), small, quoted, quoted.replace("%20", "+"), encoded)
    yield encoded if small == text else base64.b64encode(_bytes(small)).decode()
    if class_ == "EMAIL":
        local = text.rpartition("@")[0]
        yield from (local, local.lower(), local.upper())
    if class_ in NUMBERS:
        yield from _numbers(class_, _digits(text))
    if class_ == "IBAN":
        bare = "".join(filter(str.isalnum, text))
        yield bare
        yield _grouped(bare)
        yield bare[4:12]
    if class_ == "DOB":
        yield from _dates(text)


def _numbers(class_: str, digits: str) -> Iterator[str]:
    yield digits if len(digits) >= _MIN_DIGITS else ""
    if class_ == "CARD":
        yield _grouped(digits)
        yield _grouped(digits, "-")
    if class_ == "US_SSN":
        yield f"{digits[:3]}-{digits[3:5]}-{digits[5:]}"
    if class_ == "PHONE":
        yield "+" + digits if len(digits) >= _MIN_DIGITS else ""
        match = _NORTH_AMERICA.fullmatch(digits)
        groups = match.groups() if match else ()
        yield from _PHONES.format(*groups).split("|") if groups else repeat("", _PHONES.count("|") + 1)


def _grouped(text: str, sign: str = " ") -> str:
    return sign.join(text[at : at + 4] for at in range(0, len(text), 4))


def _dates(text: str) -> Iterator[str]:
    match = _DAY.fullmatch(text)
    day = {name: value for name, value in match.groupdict().items() if value} if match else {}
    month = int(day.get("month", day.get("m", "0")))
    if not 1 <= month <= 12:
        yield from repeat("", _DAYS.count("|") + 1)
        return
    number = day.get("day", day.get("d", ""))
    held = {
        "y": day.get("year", day.get("y", "")), "m": f"{month:02d}", "d": number.zfill(2), "short": int(number),
        "name": _MONTHS[month - 1],
    }  # fmt: skip
    yield from _DAYS.format(**held).split("|")


def last_four(class_: str, text: str) -> str:
    """Return the last digits by which people identify numbers; empty for other classes.

    They count only if the text shows it.
    """
    return _digits(text)[-4:] if class_ in NUMBERS or class_ == "IBAN" else ""


def speaks_of_an_end(text: str, start: int, end: int) -> bool:
    """Return whether the text calls four digits the end of a number, or consists of them."""
    return end - start == len(text) or _AN_END.search(text, max(0, start - 40), start) is not None


_NORTH_AMERICA: Final = re.compile("1?([0-9]{3})([0-9]{3})([0-9]{4})")
_PHONES: Final = (
    "{0}{1}{2}|1{0}{1}{2}|+1{0}{1}{2}|{0}-{1}-{2}|({0}) {1}-{2}|({0}){1}-{2}|{0}.{1}.{2}|{0} {1} {2}|{0}-{1}{2}|1-{0}-{1}-{2}"
    "|+1-{0}-{1}-{2}|+1 {0} {1} {2}|+1 {0}-{1}-{2}|+1 ({0}) {1}-{2}|+1.{0}.{1}.{2}|{1}-{2}|{1} {2}|{1}.{2}|{1}{2}"
)
_DAY: Final = re.compile(
    r"(?P<year>[0-9]{4})[-/.]?(?P<month>[0-9]{2})[-/.]?(?P<day>[0-9]{2})|(?P<d>[0-9]{1,2})\.(?P<m>[0-9]{1,2})\.(?P<y>[0-9]{4})"
)
_DAYS: Final = (
    "{y}-{m}-{d}|{y}/{m}/{d}|{y}{m}{d}|{d}.{m}.{y}|{m}/{d}/{y}|{d}/{m}/{y}|{m}-{d}-{y}|{d}-{m}-{y}"
    "|{name} {short}, {y}|{short} {name} {y}"
)
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_AN_END: Final = re.compile(
    r"(?i)(?:\bend(?:s|ing)?(?: (?:in|with))?|\blast (?:four|4)(?: digits)?(?: (?:is|are|of))?|[*x\u2022]{2,}"
    r"|\bendet auf|\bletzten? (?:vier|4)(?: (?:ziffern|stellen))?)[\s:*x\u2022#-]*\Z"
)


def is_telling(class_: str, form: str) -> bool:
    """Return whether a form can be searched: a short or purely alphabetic local part may be any word (``support``)."""
    return class_ != "EMAIL" or (len(form) >= _MIN_LOCAL_LETTERS and (len(form) > _MAX_WORD_LENGTH or not form.isalpha()))


def hashes_of(class_: str, text: str) -> Iterator[str]:
    """Yield the hashes of a value, or of its surrogate, also in lower case, and for a number also of its digits."""
    for form in (text, text.lower(), _digits(text) if class_ in NUMBERS else text):
        for kind in (hashlib.md5, hashlib.sha1, hashlib.sha256):
            yield kind(_bytes(form), usedforsecurity=False).hexdigest()


def may_hold_a_hash(text: str) -> bool:
    """Return whether the lower-case text has as many hexadecimal digits in a row as a hash; most texts have not."""
    some = _bytes(text[::_STEP]).translate(_HEX)
    return _SHORTEST_HASH[::_STEP] in some and _SHORTEST_HASH in _bytes(text).translate(_HEX)


_STEP: Final = 4
_SHORTEST_HASH: Final = b"0" * 32
_HEX: Final = bytes(48 if at in b"0123456789abcdef" else 32 for at in range(256))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digits(text: str) -> str:
    return "".join(char for char in text if char in "0123456789")


NUMBERS: Final = frozenset(["PHONE", "CARD", "US_SSN", "BANK_ACCOUNT"])
"""Classes of values that are digits in one of many layouts."""
_MIN_DIGITS: Final = 7
_MIN_LOCAL_LETTERS: Final = 6
"""Letters of the shortest local part that is searched on its own."""
_MAX_WORD_LENGTH: Final = 20
_MIN_LOGIN_LETTERS: Final = 6
_SHORT_WORD: Final = 3


def forms_of_name(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the forms of a name of several words."""
    first, last = words[0], words[-1]
    for sign in "_-.+":
        yield f"{first}{sign}{last}"
        yield f"{first}{sign}{last}".lower()
    yield f"{first}%20{last}"
    yield f"{first}{last}"
    yield f"{first}{last}".lower()
    yield f"{last}{first}".lower()
    for sign in "_-.":
        yield f"{last}{sign}{first}".lower()
        yield f"{first[0]}{sign}{last}".lower()
    yield f"{first[0]}{last}".lower()
    yield f"{first[0]}. {last}"
    yield f"{first} {last[0]}."
    login = f"{first}{last[0]}".lower()
    yield login if len(login) >= _MIN_LOGIN_LETTERS else ""


_SPELLED: Final = re.compile(r'["\\/\x00-\x1f]')
"""Characters that JSON may spell in more than one way."""


_RUN: Final = re.compile(r"[^\W_]+")
_MIN_RUN_LENGTH: Final = 4


def needle_of(form: str, run: str) -> str:
    """Return the text that any lower-case raw text with a form of this `longest_run` contains.

    It is a part that layouts and encodings of a value share; for base64 and short forms, the form itself.
    """
    if form[-1] == "=":
        return form.lower()
    return run.lower() if is_needle(form, run) else max(_SPELLED.split(form.lower()), key=len)


def is_needle(form: str, run: str) -> bool:
    """Return whether the run is the needle of every form with it."""
    return form[-1] != "=" and (len(run) >= _MIN_RUN_LENGTH or run == form)


def longest_run(form: str) -> tuple[str, int]:
    """Return the longest run of letters and digits of a form, and its start: few other texts contain it."""
    run = max(_RUN.findall(form.partition("@")[0].partition("%40")[0]), key=len, default="")
    return run, form.find(run)


def shortest(texts: Collection[str]) -> tuple[str, ...]:
    """Return the texts without those that contain another one."""
    kept: list[str] = []
    for one in sorted(texts, key=len):
        if not any(shorter in one for shorter in kept):
            kept.append(one)
    return tuple(kept)


class Needles:
    """Pattern that shows whether raw text may contain a form: false positives are allowed, false negatives are not."""

    def __init__(self, found: Iterable[str], hashes: Callable[[], Iterable[str]] = tuple) -> None:
        """`hashes` makes the hashes to search for, too."""
        self._found = tuple(dict.fromkeys(found))
        self._plain = tuple(one for one in self._found if one[-1] != "=")
        self._padded = tuple(one for one in self._found if one[-1] == "=")
        self._hashes = hashes
        self._escaped = _ESCAPED if all(one.isascii() for one in self._found) else _ANY_ESCAPED

    def occur_in(self, text: str) -> bool:
        """Return whether one of them occurs, in lower case, or may be written with JSON's escapes."""
        if not self._found:
            return False
        small = text.lower()
        return (
            any(one in small for one in self._plain)
            or ("=" in text and any(one in small for one in self._padded))
            or ("\\u" in text and self._escaped.search(text) is not None)
            or (may_hold_a_hash(small) and any(made in small for made in self._hashes()))
        )
