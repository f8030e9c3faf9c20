"""IP addresses, MAC addresses, and credentials inside URLs.

Loopback, unspecified, documentation and multicast addresses identify no one; dotted versions are not addresses.
"""

from __future__ import annotations

import ipaddress
import re

from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import CLAIM, EXAMINED, Candidate
from freezeframe_redaction.prf import BASE32, BASE62
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("network")
_FORMS = _RULES.forms

_LOCAL_NETWORK = ipaddress.IPv6Network("fc00::/7")
_PRIVATE_IP = "PRIVATE_IP"
_SURROGATE = re.compile(rf"rdxu[{BASE32}]{{6}}:rDx[{BASE62}]{{14}}")
"""A user and password made by `surrogates`."""


def _ipv4(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    text = match.string
    value = match.group()
    if _FORMS.no_person.match(value):
        return (Candidate(*match.span(), CLAIM if value[:2] in ("24", "25") else EXAMINED),)
    before = text[max(low, match.start() - 40) : match.start()].lower()
    is_section = _FORMS.section.match(text, match.start(), high) and not _FORMS.host.search(before)
    if _FORMS.version.search(before[-12:]) or is_section or _is_under_versions(text, low, high, match.start()):
        return (Candidate(*match.span(), EXAMINED),)
    return (Candidate(*match.span(), _PRIVATE_IP if _FORMS.private.match(value) else "IP", "v4"),)


def _is_under_versions(text: str, low: int, high: int, start: int) -> bool:
    """Return whether a nearby line has a version of two or three parts in the same column, as in ``pip list``."""
    line = above = text.rfind("\n", low, start) + 1 or low
    if start - line > _WIDEST or not _FORMS.package.fullmatch(text, line, start):
        return False
    below = start
    for _ in range(_LINES_OF_A_TABLE):
        above = text.rfind("\n", low, above - 1) + 1 or low
        below = text.find("\n", below, high) + 1 or high
        columns = ((at, at + start - line) for at in (above, below))
        if any(
            _FORMS.package.fullmatch(text, at, column) and _FORMS.short_version.match(text, column, high)
            for at, column in columns
        ):
            return True
    return False


_LINES_OF_A_TABLE = 3
_WIDEST = 80


def _ipv6(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    text, (start, end) = match.string, match.span()
    if (start > low and (text[start - 1].isalnum() or text[start - 1] == "_")) or (
        end < high and (text[end].isalnum() or text[end] == "_")
    ):
        return (Candidate(start, end, EXAMINED),)
    value = match.group().lstrip(".")
    start = end - len(value)
    # A trailing colon or port belongs to the sentence around the address.
    for cut in (value, value.rstrip(".:"), value.rpartition(":")[0], value.rstrip(":").rpartition(":")[0]):
        if cut.count(":") < 2 or len(cut) < 4:
            continue
        try:
            address = ipaddress.IPv6Address(cut)
        except ValueError:
            continue
        kept = address.is_loopback or address.is_unspecified or address.is_multicast
        surrogate = cut.lower().startswith(("2001:db8:", "2001:0db8:", "3fff:"))
        if kept or surrogate or not any(char.isdigit() for char in cut) or _looks_like_code(cut):
            return (Candidate(start, start + len(cut), CLAIM if surrogate else EXAMINED),)
        everybodys = address.is_link_local or address in _LOCAL_NETWORK
        return (Candidate(start, start + len(cut), _PRIVATE_IP if everybodys else "IP", "v6"),)
    return (Candidate(start, end, EXAMINED),)


def _looks_like_code(value: str) -> bool:
    """C++ and Rust paths, and times, are not addresses: ``a::b``, ``1::2`` have hardly any digits."""
    return "::" in value and len(value.replace(":", EXAMINED)) < 4


def _url(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    scheme_end = text.rfind("://", max(low, at - 340), at)
    if scheme_end < 0:
        return ()
    start = scheme_end
    while start > low and scheme_end - start < 31 and (text[start - 1].isalnum() or text[start - 1] in "+.-"):
        start -= 1
    match = _FORMS.userinfo.match(text, start, high)
    if match is None:
        return ()
    rest = match.group(2)
    # Userinfo ends at the last @ whose left side still looks like it; a password may hold : / and ?.
    sign = rest.rfind("@")
    while sign > 0 and ("://" in rest[:sign] or ":" not in rest[:sign]):
        sign = rest.rfind("@", 0, sign)
    if sign <= 0:
        return ()
    user, _, password = rest[:sign].partition(":")
    host = rest[sign + 1 :]
    if not password or not host or "/" in user or "?" in user or not (host[0].isalnum() or host[0] in "[{$"):
        return ()
    if _FORMS.template.match(password):
        return ()
    if _SURROGATE.fullmatch(rest, 0, sign):
        return (Candidate(match.start(2), match.start(2) + sign, CLAIM),)
    if re.match(r"[0-9]{1,5}/", password) and "." in user:
        # https://host:8080/path@version: a port, not a password.
        return ()
    shown_end = match.end()
    while shown_end > match.start(2) + sign and text[shown_end - 1] in ".,;:!?)]}":
        shown_end -= 1
    return (Candidate(match.start(2), match.start(2) + sign, "URL_CRED", "", (match.start(), shown_end)),)


DETECTORS = made_of(_RULES, _ipv4, _ipv6, _url)
