"""E-mail addresses, plain, percent-encoded, quoted-printable, as HTML entities, and spelled ``bob [at] gmail [dot] com``.

An address at a reserved domain (RFC 2606) is replaced like any other: whoever tries the redactor types one, and a redactor that
lets it pass looks broken. Only the surrogates made here stay, and `you@example.com`, which documentation writes.
"""

from __future__ import annotations

import re

from freezeframe_redaction.model import Candidate, Detector, Example
from freezeframe_redaction.prf import BASE32

CLASS = "EMAIL"

_AT = r"(?:@|%40|=40|&#0{0,4}64;|&#[xX]0{0,4}40;|&commat;|\s?[\[({<]\s?(?:at|AT|At|@)\s?[\])}>]\s?)"
_DOT = r"(?:\.|%2[eE]|&#0{0,4}46;|\s?[\[({<]\s?(?:dot|DOT|Dot|\.)\s?[\])}>]\s?)"
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = re.compile(rf"({_AT})((?:{_LABEL}{_DOT}){{1,8}}(?:[^\W\d_]{{2,24}}|xn--[a-z0-9-]{{2,59}}))(?![\w-])")
_LOCAL = re.compile(r"[\w!#$%*+^~'-](?:[\w!#$%*+^~.'-]{0,63})$")
_LOCAL_ENCODED = re.compile(r"[\w+%-](?:[\w+.%-]{0,63})$")
_AT_ONLY = re.compile(_AT)
_DOT_ONLY = re.compile(_DOT)
_SURROGATE = re.compile(rf"u[{BASE32}]{{10}}@d[{BASE32}]{{5,6}}\.example\.com")
"""What `surrogates` makes of an address; others that make the like have a domain of five letters."""
_NOT_A_TLD = frozenset(
    "png jpg jpeg svg gif webp ico bmp js mjs jsx ts tsx py pyi css scss html htm json md rst txt yml yaml toml lock sh go rs java php rb so dll exe zip gz tar whl".split()
)
_ROLES = frozenset({"git", "hg", "svn"})
_PLACEHOLDERS = frozenset({"you", "user", "username", "name", "email", "foo", "someone", "your.name", "your.email"})
_DOCUMENTATION = frozenset({"example.com", "example.org", "example.net"})


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    # The trigger ends one character into the domain; the sign itself is at most 12 characters wide.
    for position in (at - 2,) if text[at - 2] == "@" else range(max(low, at - 12), at):
        match = _DOMAIN.match(text, position, min(high, position + 300))
        if match is not None and match.end(1) < at + 2:
            break
    else:
        return ()
    sign, domain = match.group(1), match.group(2)
    left = text[max(low, match.start() - 64) : match.start()]
    local = (_LOCAL if sign == "@" else _LOCAL_ENCODED).search(left)
    if local is None:
        return ()
    start = match.start() - (len(left) - local.start())
    name = local.group().lstrip("!#$%*^~'.-")
    start = match.start() - len(name)
    # A literal backslash-n before the address is an escape that lost its JSON string, not a letter of the name.
    if start > low and text[start - 1] == "\\" and name[:1] in "nrtbf" and len(name) > 1:
        start, name = start + 1, name[1:]
    if not name or name.endswith("."):
        return ()
    plain = _DOT_ONLY.sub(".", domain).lower()
    if plain.rpartition(".")[2] in _NOT_A_TLD or text[match.end() : match.end() + 1] == "(":
        return ()
    if name.lower() in _ROLES:
        return ()
    if _SURROGATE.fullmatch(f"{name}@{plain}") or (plain in _DOCUMENTATION and name.lower() in _PLACEHOLDERS):
        return ()
    return (Candidate(start, match.end(), CLASS, "" if sign == "@" else sign.strip()),)


def plain_address(value: str) -> str:
    """Return the address in lower case with its sign and dots in plain form."""
    return _DOT_ONLY.sub(".", _AT_ONLY.sub("@", value, count=1)).lower()


DETECTORS = (
    Detector(
        name="email",
        class_=CLASS,
        triggers=(
            r"[A-Za-z0-9_%+\-'\xc0-\xff]@[A-Za-z0-9\xc0-\xff]",
            r"[A-Za-z0-9_][%=]40[A-Za-z0-9]",
            r"(?i)[A-Za-z0-9_](?:&#0{0,4}64;|&#x0{0,4}40;|&commat;)[A-Za-z0-9]",
            r"(?i)[\[({<] ?(?:at|@) ?[\])}>] ?[A-Za-z0-9]",
        ),
        find=_find,
        examples=(
            Example(text="reach me at b.smith@gmail.com, please", value="b.smith@gmail.com", near_miss="npm i lodash@4.17.21"),
            Example(text="https://x.io/?e=bob%40gmail.com&p=1", value="bob%40gmail.com", near_miss="img@2x.png"),
            Example(text="bob [at] gmail [dot] com", value="bob [at] gmail [dot] com", near_miss="git@github.com:org/repo.git"),
        ),
    ),
)
