"""E-mail addresses as people write them to hide them: ``bob [at] gmail [dot] com``, ``john dot smith at gmail dot com``."""

from __future__ import annotations

import re

AT_SAID = r"(?:@|(?i:at|ät|ma[łl]pa|arroba|arobase|chiocciola|zavináč|apenstaartje|snabel-?a))"
_DOT_SAID = r"(?:\.|(?i:dot|punkt|punto|point|ponto|kropka|punt))"
AT = rf"(?:@|=40|\s?[\[({{<]\s?{AT_SAID}\s?[\])}}>]\s?)"
DOT = rf"(?:\.|=2E|\s?[\[({{<]\s?{_DOT_SAID}\s?[\])}}>]\s?)"
DOT_SPOKEN = re.compile(r"\.|\s(?:dot|punkt|punto|point|ponto|kropka|punt)\s", re.IGNORECASE)
MARK_SPOKEN = re.compile(r"\s(?:underscore|dash|minus)\s", re.IGNORECASE)
SPOKEN = re.compile(
    rf"(?<![\w@.])([\w+-]+(?:(?:{DOT_SPOKEN.pattern}|{MARK_SPOKEN.pattern})[\w+-]+){{0,4}})\s{AT_SAID}\s"
    rf"([\w-]+(?:(?:{DOT_SPOKEN.pattern})[\w-]+){{0,3}}(?:{DOT_SPOKEN.pattern})[a-z]{{2,8}})(?!\w)",
    re.IGNORECASE,
)
_AT_ONLY = re.compile(AT)
DOT_ONLY = re.compile(DOT)


def plain_address(value: str) -> str:
    """Return the address in lower case with its sign and dots in plain form."""
    spoken = SPOKEN.fullmatch(value)
    if spoken is not None:
        value = "@".join(DOT_SPOKEN.sub(".", MARK_SPOKEN.sub("-", part)) for part in spoken.groups())
    return DOT_ONLY.sub(".", _AT_ONLY.sub("@", value, count=1)).lower()
