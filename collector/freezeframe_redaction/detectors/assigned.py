"""Credentials recognised by the name they are assigned to: passwords, tokens, ``Authorization``, command-line logins."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.checks import value
from freezeframe_redaction.detectors.lexicon import phrases
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.marks import is_marked_secret

CLASS = "SECRET"
_RULES = Rules("assigned")
_FORMS = _RULES.forms

_SYMBOLS = frozenset("!@#$%^&*-_+=?~")
_RARE = frozenset("!#$%&*+?~^@=")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    # The trigger ends on the sign between name and value; PHP writes ``"name";s:8:"value"``.
    start = text.rfind(";", low, at) if text[at - 1].isdigit() else at - 1
    while start > low and text[start - 1] in " =:\"'\\])>\t":
        start -= 1
    match = _FORMS.value.match(text, start, min(high, at + 560))
    if match is None:
        return ()
    name = text[max(low, start - 24) : start].lower()
    value, at_value = match.group(2), match.start(2)
    following = _FORMS.next_field.search(value)
    if following is not None:
        value = value[: following.start()]
    if text[start:at_value].strip(" \t\r\n\"'") == ">" and not text.startswith("</", match.end(2)):
        return ()  # ``<YOUR_TOKEN>``, not ``<token>...</token>``
    if "\n" in text[start:at_value] and _FORMS.next_name.match(value):
        return ()  # nothing is assigned: ``TOKEN=`` above ``HOST=db``
    if (value.isidentifier() and text[match.end(2) : match.end(2) + 1] in ("(", "[")) or _FORMS.code.fullmatch(value):
        return ()
    if name.endswith("cookie"):
        return _cookies(text, at_value, high)
    return _judge(name, value, at_value, scheme=match.group(1))


_NO_COOKIE = frozenset(["path", "domain", "expires", "max-age", "samesite", "priority", "version"])
_MAX_COOKIES = 100


def _cookies(text: str, start: int, high: int) -> tuple[Candidate, ...]:
    """``Cookie: theme=dark; sessionid=9f2c...``: each value that looks random; names and attributes stay."""
    out: list[Candidate] = []
    for _ in range(_MAX_COOKIES):
        match = _FORMS.cookie.match(text, start, min(high, start + 4300))
        if match is None:
            break
        start = match.end()
        if match["name"] and match["name"].lower() not in _NO_COOKIE and _is_random(match["value"]):
            out += value(match, CLASS, "generic", "value")
    return tuple(out)


def _is_random(value: str) -> bool:
    """Return whether the value is long and mixed enough to be random."""
    return (
        len(value) >= _MIN_RANDOM_LENGTH
        and not _FORMS.date.fullmatch(value)
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and len(set(value)) >= 8
    )


_MIN_RANDOM_LENGTH = 10


def _judge(name: str, value: str, start: int, *, scheme: str | None = None) -> tuple[Candidate, ...]:
    value = value.rstrip(".,;:!?\\")
    end = start + len(value)
    if is_marked_secret(value):
        return (Candidate(start, end, CLAIM),)
    if scheme and scheme.strip().lower() != "token":
        is_one = len(value) >= 8 and not value.startswith(("$", "{", "<"))
        return (Candidate(start, end, CLASS, "authorization"),) if is_one else ()
    if _FORMS.reference.match(value) or _FORMS.opens_nothing.search(name):
        return ()
    has_digit = any(char.isdigit() for char in value)
    has_letter = any(char.isalpha() for char in value)
    if _FORMS.strong.search(name):
        if len(value) < 6 or len(set(value)) < 4 or value.startswith("/"):
            return ()
        mixed = has_digit or any(char in _SYMBOLS for char in value)
        return (Candidate(start, end, CLASS, "password"),) if (mixed and has_letter) or (has_digit and len(value) >= 6) else ()
    if value.startswith("/") and len(value) != 40:
        return ()
    needed = 16 if _FORMS.keyish.search(name) else 10
    if len(value) < needed or not (has_digit and has_letter) or len(set(value)) < min(8, len(value) // 2 + 1):
        return ()
    is_path = value.count(".") > 3 or value.count("/") > 4 or value.count("-") > 6 or _FORMS.words.fullmatch(value)
    if is_path and not _FORMS.base64.fullmatch(value):
        return ()
    if _FORMS.uuid.fullmatch(value) and "secret" not in name and "api" not in name:
        return ()
    return (Candidate(start, end, CLASS, "generic"),)


def _spoken(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``my password is ...``, ``password for staging is ...``."""
    value = match[1].rstrip(".,;:!?")
    end = match.start(1) + len(value)
    if is_marked_secret(value):
        return (Candidate(match.start(1), end, CLAIM),)
    signed = any(map(str.isalpha, value)) or not _SYMBOLS.isdisjoint(value.strip("-_"))
    if len(value) < 6 or _FORMS.reference.match(value) or not signed or not any(map(str.isdigit, value)):
        return ()
    return (Candidate(match.start(1), end, CLASS, "password"),)


_NO_PHRASE = frozenset(phrases("assigned.no_phrase"))
_SEED_WORDS = 12
"""Words of the shortest recovery phrase. Source: BIP-39, "Generating the mnemonic"."""


def _phrase(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``passphrase: orchid lantern mosaic twelve``: separate words that do not make a sentence."""
    words = re.findall("[a-z]{3,}", match[1])
    signed = match.string[match.start() : match.start(1)].rstrip("\"'`( \n")[-1:] in ("=", ":", ">")
    if not _NO_PHRASE.isdisjoint(words) or (len(words) < _SEED_WORDS and not (signed and len(words) <= 8)):
        return ()
    return value(match, CLASS, "password")


def _named(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """Judge the second group, which the first one names: ``variable "db_password" { default = "..." }`` of Terraform."""
    if not _FORMS.secret_name.search(match[1]):
        return ()
    return _judge(match[1].lower().removesuffix("_value"), match[2], match.start(2))


def _cookie_flag(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``curl -b "session=..."``: the trigger ended after the first name."""
    return _cookies(text, max(text.rfind('"', low, at), text.rfind("'", low, at)) + 1, high)


def _password(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    return _judge("password", match[1], match.start(1))


def _next_to(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """Find the value right after ``password`` without a sign between, unless it is a word: mixed letters and digits, or a sign."""
    value = match[1]
    cased = any(map(str.islower, value)) and any(map(str.isupper, value))
    signed = any(char in "!@#$%^&*+?~" for char in value[:-1])
    made_up = sum(map(str.isdigit, value)) > 1 and any(map(str.isalpha, value)) and (cased or signed)
    return _password(match, low, high) if made_up else ()


def _flag(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``gpg --passphrase Onyx96981``: a flag with a telling name; with an equals sign it is an assignment."""
    name = match[1].lower()
    return _judge("password" if "pass" in name else name.replace("-", "_"), match[2], match.start(2))


def _backup(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``Backup codes: 98281-33263, 11872-20931``."""
    out: list[Candidate] = []
    position = match.end()
    while len(out) < _MAX_CODES and (code := _LOGINS.forms.one_code.match(match.string, position, min(high, position + 60))):
        out += value(code, CLASS, "password")
        position = code.end()
    return tuple(out)


_MAX_CODES = 20
_LOGINS = Rules("logins")

_FAR = 56
"""Maximum characters between a word for a password and the password.

One whose special characters also occur in names of things must be nearer.
"""
_NEAR = 32
_MAX_LENGTH = 64


def _shaped(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Find a value with the shape of a password after a word for one, or in the answer to it, with any text between."""
    if _FORMS.is_assigned.match(text, at, min(high, at + 8)):
        return ()  # perhaps in a URL
    if _FORMS.shaped_after.search(text, max(low, at - _NEAR), at) is None:
        return ()
    for start in (at, context.answer(text, at, high)):
        for word in _FORMS.shaped.finditer(text, start, min(high, start + _FAR + _MAX_LENGTH)) if start is not None else ():
            between = text[start : word.start()]
            if len(between) > _FAR or "\n" in between:
                break
            if _has_shape_of_password(word.group(), near=len(between) <= _NEAR):
                return _judge("password", word.group(), word.start())
    return ()


def _has_shape_of_password(word: str, *, near: bool) -> bool:
    """Return whether the word has lower-case and capital letters, digits and a character that is rare in names of things."""
    bare = word.rstrip(".!?")
    if not (any(map(str.islower, bare)) and any(map(str.isupper, bare)) and any(map(str.isdigit, bare))):
        return False
    if not _RARE.isdisjoint(bare):
        return "@" not in bare or "." not in bare.partition("@")[2]
    return near and _FORMS.number_between.search(bare) is not None


DETECTORS = (
    *made_of(_RULES, _find, _spoken, _phrase, _cookie_flag, _shaped, _password, _named),
    *made_of(_LOGINS, _password, _next_to, _flag, _backup),
)
