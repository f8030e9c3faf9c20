"""Credentials of command lines, calls and password files: the checks that ``rules/logins.toml`` names."""

from __future__ import annotations

from freezeframe_redaction.detectors.assigned import CLASS, judge, judge_password
from freezeframe_redaction.detectors.rows import by_name, made_of, reaching, value
from freezeframe_redaction.detectors.secrets import is_marked_secret
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("logins")
_LOGIN_LINE, _BESIDE, _PGPASS = map(_RULES.form, ("login_line", "beside", "pgpass"))
_CALLED, _NAMED_FLAG = map(_RULES.form, ("called", "named_flag"))
_CODE_LIST, _ONE_CODE = map(_RULES.form, ("code_list", "one_code"))
_LONGEST_PORT = 6
"""Digits of a password that is not a port: ``connect("localhost", "5432")``."""
_MOST_CODES = 20


def _is_no_template(value: str) -> bool:
    return not value.startswith(("$", "{", "<"))


def _is_no_argument(value: str) -> bool:
    return not value.startswith(("$", "{", "<", "*"))


def _netrc(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``machine h login u password p``: the trigger ended in the password."""
    match = reaching(_LOGIN_LINE, text, low, high, at, 120, 130)
    if match is None:
        match = _BESIDE.search(text, max(low, at - 20), min(high, at + 130))
        if match is None or not _is_made_up(match.group(1)):
            return ()
    return judge_password(match)


def _is_made_up(value: str) -> bool:
    """Whether the text right after ``password`` is not a word: digits among letters of both cases, or a sign and digits."""
    digits = sum(map(str.isdigit, value))
    cased = any(map(str.islower, value)) and any(map(str.isupper, value))
    return digits > 1 and any(map(str.isalpha, value)) and (cased or any(char in "!@#$%^&*+?~" for char in value[:-1]))


def _pgpass(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``host:port:database:user:password``."""
    return judge_password(reaching(_PGPASS, text, low, high, at, 160, 270, begun=True))


def _called(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``auth=("bot", "...")``, ``net use ... /user:bo ...``, ``echo ... | sudo -S``, and the code that a guest scans for the wifi."""
    for match in _CALLED.finditer(text, max(low, at - 260), min(high, at + 140)):
        if match.end() >= at and match.lastindex:
            password = match[match.lastindex]
            port = password.isdigit() and len(password) < _LONGEST_PORT
            if not is_marked_secret(password) and (port or password.startswith(("$", "{", "<", "%"))):
                return ()
            return value(match, CLASS, "password", match.lastindex, is_marked_secret)
    return ()


def _named_flag(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``gpg --passphrase Onyx96981``: a flag whose name says it; with a sign it is an assignment."""
    match = reaching(_NAMED_FLAG, text, low, high, at, 44, 260)
    if match is None:
        return ()
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
    by_name(_called, _named_flag, _backup, _netrc, _pgpass),
    {"is_no_template": _is_no_template, "is_no_argument": _is_no_argument},
    is_marked=is_marked_secret,
)
