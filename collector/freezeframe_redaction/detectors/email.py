"""E-mail addresses, plain, quoted-printable, and spelled ``bob [at] gmail [dot] com``.

An address at a reserved domain (RFC 2606) is replaced like any other: people who try the redactor type one, and a redactor that
lets it pass looks broken. Only the surrogates made here stay, and `you@example.com`, which documentation uses.
"""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import phrases
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.prf import BASE32
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.mailboxes import AT, DOT, DOT_ONLY, SPOKEN

CLASS = "EMAIL"
_RULES = Rules("email", {"said": f"(?i:{SPOKEN.pattern})"})
_FORMS = _RULES.forms

_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = re.compile(rf"({AT})((?:{_LABEL}{DOT}){{1,8}}(?:[^\W\d_]{{2,24}}|xn--[a-z0-9-]{{2,59}}))(?![\w-])")
_LOCAL_SAID = re.compile(rf"[\w+-]{{1,40}}(?:{DOT}[\w+-]{{1,40}}){{0,4}}$")
_PROVIDERS = frozenset(phrases("email.providers"))
_SURROGATE = re.compile(rf"u[{BASE32}]{{10}}@d[{BASE32}]{{5,6}}\.example\.com")
"""An address made by `surrogates`; similar ones made elsewhere have a domain of five letters."""
_NOT_A_TLD = frozenset(phrases("email.no_domains"))
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
    local = (
        _FORMS.local_quoted.search(left)
        if sign == "@" and left[-1:] == '"'
        else (_FORMS.local if sign == "@" else _FORMS.local_encoded if sign[0] == "=" else _LOCAL_SAID).search(left)
    )
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
    plain = DOT_ONLY.sub(".", domain).lower()
    end = match.end()
    if sign == "@" and _FORMS.names_file.search(plain):  # "jane.roe@corp.io.json", a file named after someone
        plain = plain.rpartition(".")[0]
        end -= len(domain) - len(plain)
    if plain.rpartition(".")[2] in _NOT_A_TLD or text[end : end + 1] == "(":
        return ()
    if name.lower() in _ROLES:
        return ()
    if _SURROGATE.fullmatch(f"{name}@{plain}"):
        return (Candidate(start, end, CLAIM),)
    if plain in _DOCUMENTATION and name.lower() in _PLACEHOLDERS:
        return ()
    return (Candidate(start, end, CLASS, "" if sign == "@" else sign.strip()),)


def _spoken(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``john dot smith at gmail dot com``: at a mail provider, or if the name before the sign is not a word of prose."""
    local, domain = match.groups()
    if _FORMS.package.match(domain) or match.string[match.end() : match.end() + 1] == "(" or not any(map(str.isalpha, local)):
        return ()  # "4.1.2 at SourceForge.net"
    at_provider = "." not in domain and domain.partition(" ")[0].lower() in _PROVIDERS
    is_name = " " in local or any(char in "._+0123456789" for char in local)
    if at_provider or is_name or _FORMS.sign_said.match(match.string, match.end(1), high):
        return (Candidate(match.start(1), match.end(), CLASS, "spoken"),)
    return ()


DETECTORS = made_of(_RULES, _find, _spoken)
