"""IP addresses, MAC addresses, and credentials inside URLs.

Loopback, unspecified, documentation and multicast addresses identify no one; dotted versions are not addresses.
"""

from __future__ import annotations

import ipaddress
import re

from freezeframe_redaction.detectors.rows import by_name, made_of
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.prf import BASE32, BASE62
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("network")
_PRIVATE, _USERINFO, _TEMPLATE = map(_RULES.form, ("private", "userinfo", "template"))
_VERSION, _NO_PERSON = map(_RULES.form, ("version", "no_person"))
_SECTION, _HOST, _PACKAGE, _SHORT_VERSION = map(_RULES.form, ("section", "host", "package", "short_version"))

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"(?<![\w.%]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w]|\.[0-9]|-(?:alpha|beta|rc|dev|pre|snapshot|final|post)\b)")
_IPV6_CHARS = frozenset("0123456789abcdefABCDEF:.")
_LOCAL_NETWORK = ipaddress.IPv6Network("fc00::/7")
_PRIVATE_IP = "PRIVATE_IP"
_SURROGATE = re.compile(rf"rdxu[{BASE32}]{{6}}:rDx[{BASE62}]{{14}}")
"""What `surrogates` makes of a user and a password."""


def _ipv4(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    start = at
    while start > max(low, at - 16) and text[start - 1] in "0123456789.":
        start -= 1
    match = _IPV4.search(text, start, min(high, at + 16))
    if match is None or not match.start() < at <= match.end():
        return ()
    value = match.group()
    if _NO_PERSON.match(value):
        return (Candidate(match.start(), match.end(), "*" if value[:2] in ("24", "25") else ""),)
    before = text[max(low, match.start() - 40) : match.start()].lower()
    if _VERSION.search(before[-12:]) or (_SECTION.match(text, match.start(), high) and not _HOST.search(before)):
        return (Candidate(match.start(), match.end(), ""),)
    if _is_under_versions(text, low, high, match.start()):
        return (Candidate(match.start(), match.end(), ""),)
    return (Candidate(match.start(), match.end(), _PRIVATE_IP if _PRIVATE.match(value) else "IP", "v4"),)


def _is_under_versions(text: str, low: int, high: int, start: int) -> bool:
    """Whether a line near by has a version of two or three parts in the same column, as the packages of ``pip list`` have."""
    line = above = text.rfind("\n", low, start) + 1 or low
    if start - line > _WIDEST or not _PACKAGE.fullmatch(text, line, start):
        return False
    below = start
    for _ in range(_LINES_OF_A_TABLE):
        above = text.rfind("\n", low, above - 1) + 1 or low
        below = text.find("\n", below, high) + 1 or high
        columns = ((at, at + start - line) for at in (above, below))
        if any(_PACKAGE.fullmatch(text, at, column) and _SHORT_VERSION.match(text, column, high) for at, column in columns):
            return True
    return False


_LINES_OF_A_TABLE = 3
_WIDEST = 80


def _ipv6(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    start, end = at - 1, at
    floor, ceiling = max(low, at - 48), min(high, at + 48)
    while start > floor and text[start - 1] in _IPV6_CHARS:
        start -= 1
    while end < ceiling and text[end] in _IPV6_CHARS:
        end += 1
    if (start > low and (text[start - 1].isalnum() or text[start - 1] == "_")) or (
        end < high and (text[end].isalnum() or text[end] == "_")
    ):
        return (Candidate(start, end, ""),)
    value = text[start:end].lstrip(".")
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
            return (Candidate(start, start + len(cut), "*" if surrogate else ""),)
        everybodys = address.is_link_local or address in _LOCAL_NETWORK
        return (Candidate(start, start + len(cut), _PRIVATE_IP if everybodys else "IP", "v6"),)
    return (Candidate(start, end, ""),)


def _looks_like_code(value: str) -> bool:
    """C++ and Rust paths, and times, are not addresses: ``a::b``, ``1::2`` have hardly any digits."""
    return "::" in value and len(value.replace(":", "")) < 4


def _url(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    scheme_end = text.rfind("://", max(low, at - 340), at)
    if scheme_end < 0:
        return ()
    start = scheme_end
    while start > low and scheme_end - start < 31 and (text[start - 1].isalnum() or text[start - 1] in "+.-"):
        start -= 1
    match = _USERINFO.match(text, start, high)
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
    if _TEMPLATE.match(password):
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


DETECTORS = made_of(_RULES, by_name(_ipv4, _ipv6, _url))
