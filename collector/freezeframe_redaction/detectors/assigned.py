"""Credentials known by what they are assigned to: passwords, tokens, ``Authorization`` headers, command-line logins."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import phrases
from freezeframe_redaction.detectors.rows import by_name, made_of, value
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.marks import is_marked_secret

CLASS = "SECRET"
_RULES = Rules("assigned")
_KEYISH, _CODE, _NEXT_FIELD, _DATE, _VERB = map(_RULES.form, ("keyish", "code", "next_field", "date", "verb"))
_VALUE, _SPOKEN, _REFERENCE, _OPENS_NOTHING = map(_RULES.form, ("value", "spoken", "reference", "opens_nothing"))
_COOKIE, _PHRASE, _SECRET_NAME = map(_RULES.form, ("cookie", "phrase", "secret_name"))

_SYMBOLS = frozenset("!@#$%^&*-_+=?~")
_NAME_OF_PASSWORD = _RULES.text("name_of_password")
_STRONG = re.compile(rf"(?:{_NAME_OF_PASSWORD}|jelsz[oó]|(?:\b|_)pass|пароль|密码|パスワード|비밀번호|pin[ _]?code)$")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    # The trigger ends on the sign between name and value; PHP writes ``"name";s:8:"value"``.
    start = text.rfind(";", low, at) if text[at - 1].isdigit() else at - 1
    while start > low and text[start - 1] in " =:\"'\\])>\t":
        start -= 1
    match = _VALUE.match(text, start, min(high, at + 560))
    if match is None:
        return ()
    name = text[max(low, start - 24) : start].lower()
    value, at_value = match.group(2), match.start(2)
    following = _NEXT_FIELD.search(value)
    if following is not None:
        value = value[: following.start()]
    if text[start:at_value].strip(" \t\r\n\"'") == ">" and not text.startswith("</", match.end(2)):
        return ()  # ``<YOUR_TOKEN>``, not ``<token>...</token>``
    if (value.isidentifier() and text[match.end(2) : match.end(2) + 1] in ("(", "[")) or _CODE.fullmatch(value):
        return ()
    if name.endswith("cookie"):
        return _cookies(text, at_value, high)
    return judge(name, value, at_value, scheme=match.group(1))


_NO_COOKIE = frozenset(["path", "domain", "expires", "max-age", "samesite", "priority", "version"])
_MOST_COOKIES = 100


def _cookies(text: str, start: int, high: int) -> tuple[Candidate, ...]:
    """``Cookie: theme=dark; sessionid=9f2c...``: each value that looks random; names and attributes stay."""
    out: list[Candidate] = []
    for _ in range(_MOST_COOKIES):
        match = _COOKIE.match(text, start, min(high, start + 4300))
        if match is None:
            break
        start = match.end()
        if match["name"] and match["name"].lower() not in _NO_COOKIE and _is_random(match["value"]):
            marked = is_marked_secret(match["value"])
            out.append(Candidate(*match.span("value"), "*" if marked else CLASS, "generic"))
    return tuple(out)


def _is_random(value: str) -> bool:
    """Whether the value is long and mixed enough to be drawn at random."""
    return (
        len(value) >= _LEAST_RANDOM
        and not _DATE.fullmatch(value)
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and len(set(value)) >= 8
    )


_LEAST_RANDOM = 10


def judge(name: str, value: str, start: int, *, scheme: str | None) -> tuple[Candidate, ...]:
    end = start + len(value)
    value = value.rstrip(".,;:!?\\")
    end = start + len(value)
    if is_marked_secret(value):
        return (Candidate(start, end, "*"),)
    if scheme and scheme.strip().lower() != "token":
        return (
            (Candidate(start, end, CLASS, "authorization"),)
            if len(value) >= 8 and not value.startswith(("$", "{", "<"))
            else ()
        )
    if _REFERENCE.match(value) or _OPENS_NOTHING.search(name):
        return ()
    has_digit = any(char.isdigit() for char in value)
    has_letter = any(char.isalpha() for char in value)
    if _STRONG.search(name):
        if len(value) < 6 or len(set(value)) < 4 or value.startswith("/"):
            return ()
        mixed = has_digit or any(char in _SYMBOLS for char in value)
        return (Candidate(start, end, CLASS, "password"),) if (mixed and has_letter) or (has_digit and len(value) >= 6) else ()
    if value.startswith("/") and len(value) != 40:
        return ()
    needed = (
        16
        if _KEYISH.search(name) and not re.search(r"(?:secret|api|access|auth|private|wi-?fi)[_ -]?(?:key|token)$", name)
        else 10
    )
    if len(value) < needed or not (has_digit and has_letter) or len(set(value)) < min(8, len(value) // 2 + 1):
        return ()
    if re.fullmatch(r"[A-Za-z0-9+/]{40,}={0,2}", value):
        return (Candidate(start, end, CLASS, "generic"),)
    if (
        value.count(".") > 3
        or value.count("/") > 4
        or value.count("-") > 6
        or re.fullmatch(r"[a-z_.]+[0-9]{0,2}(?:[._-][a-z]+)*", value)
    ):
        return ()
    if re.fullmatch(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", value) and "secret" not in name and "api" not in name:
        return ()
    return (Candidate(start, end, CLASS, "generic"),)


def _spoken(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _SPOKEN.match(text, at, min(high, at + 180))
    if match is None:
        return ()
    value = match.group(1).rstrip(".,;:!?")
    start = match.start(1)
    if is_marked_secret(value):
        return (Candidate(start, start + len(value), "*"),)
    has_digit = any(char.isdigit() for char in value)
    has_symbol = any(char in _SYMBOLS for char in value.strip("-_"))
    if (
        len(value) < 6
        or _REFERENCE.match(value)
        or not ((has_digit and any(map(str.isalpha, value))) or (has_symbol and has_digit))
    ):
        return ()
    return (Candidate(start, start + len(value), CLASS, "password"),)


_NO_PHRASE = frozenset(phrases("assigned.no_phrase"))
_SEED_WORDS = 12
"""Words of the shortest recovery phrase. Source: BIP-39, "Generating the mnemonic"."""


def _phrase(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``passphrase: orchid lantern mosaic twelve``: separate words that do not make a sentence."""
    match = _PHRASE.match(text, at, min(high, at + 320))
    if match is None:
        return ()
    words = re.findall("[a-z]{3,}", match.group(1))
    signed = text[at : match.start(1)].rstrip("\"'`( \n")[-1:] in ("=", ":", ">")
    if not _NO_PHRASE.isdisjoint(words) or (len(words) < _SEED_WORDS and not (signed and len(words) <= 8)):
        return ()
    return value(match, CLASS, "password")


def _judge_named(match: re.Match[str]) -> tuple[Candidate, ...]:
    """Judge the second group, which the first one names: ``variable "db_password" { default = "..." }`` of Terraform."""
    if not _SECRET_NAME.search(match[1]):
        return ()
    return judge(match[1].lower().removesuffix("_value"), match[2], match.start(2), scheme=None)


def _cookie_flag(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``curl -b "session=..."``: the trigger ended after the first name."""
    return _cookies(text, max(text.rfind('"', low, at), text.rfind("'", low, at)) + 1, high)


def judge_password(match: re.Match[str]) -> tuple[Candidate, ...]:
    """Judge the first group as a password."""
    return judge("password", match[1], match.start(1), scheme=None)


def _said_after(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``my password is ...``: the trigger ended on the blank before the verb."""
    return _spoken(text, low, high, at - 1)


def _spoken_for(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``password for staging is ...``: the trigger ended after the verb."""
    verb = _VERB.search(text, max(low, at - 8), at)
    return _spoken(text, low, high, verb.start()) if verb else ()


DETECTORS = made_of(
    _RULES,
    by_name(_find, _said_after, _spoken_for, _phrase, _cookie_flag),
    takes={"password": judge_password, "named": _judge_named},
)
