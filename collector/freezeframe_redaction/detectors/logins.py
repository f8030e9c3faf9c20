"""Credentials of command lines, calls and password files: the checks that ``rules/logins.toml`` names."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.assigned import CLASS, judge, judge_password
from freezeframe_redaction.detectors.rows import by_name, made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.marks import is_marked_secret

_RULES = Rules("logins")
_CODE_LIST, _ONE_CODE = map(_RULES.form, ("code_list", "one_code"))
_LONGEST_PORT = 6
"""Digits of a password that is not a port: ``connect("localhost", "5432")``."""
_MOST_CODES = 20


def _is_no_template(value: str) -> bool:
    return not value.startswith(("$", "{", "<"))


def _is_no_argument(value: str) -> bool:
    return not value.startswith(("$", "{", "<", "*"))


def _is_no_port(value: str) -> bool:
    return not (value.isdigit() and len(value) < _LONGEST_PORT) and not value.startswith(("$", "{", "<", "%"))


def _beside(match: re.Match[str]) -> tuple[Candidate, ...]:
    """What is right after ``password``, without a sign between."""
    return judge_password(match) if _is_made_up(match[1]) else ()


def _is_made_up(value: str) -> bool:
    """Whether the text right after ``password`` is not a word: digits among letters of both cases, or a sign and digits."""
    digits = sum(map(str.isdigit, value))
    cased = any(map(str.islower, value)) and any(map(str.isupper, value))
    return digits > 1 and any(map(str.isalpha, value)) and (cased or any(char in "!@#$%^&*+?~" for char in value[:-1]))


def _flag(match: re.Match[str]) -> tuple[Candidate, ...]:
    """``gpg --passphrase Onyx96981``: a flag whose name says it; with a sign it is an assignment."""
    name = match[1].lower()
    return judge("password" if "pass" in name else name.replace("-", "_"), match[2], match.start(2), scheme=None)


def _backup(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Backup codes: 98281-33263, 11872-20931``."""
    opening = _CODE_LIST.match(text, at, min(high, at + 60))
    out: list[Candidate] = []
    position = opening.end() if opening else high
    while len(out) < _MOST_CODES and (match := _ONE_CODE.match(text, position, min(high, position + 60))):
        out.append(Candidate(*match.span(1), "*" if is_marked_secret(match.group(1)) else CLASS, "password"))
        position = match.end()
    return tuple(out)


DETECTORS = made_of(
    _RULES,
    by_name(_backup),
    {"is_no_template": _is_no_template, "is_no_argument": _is_no_argument, "is_no_port": _is_no_port},
    {"password": judge_password, "beside": _beside, "flag": _flag},
)
