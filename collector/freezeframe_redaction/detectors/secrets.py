"""Credentials that are recognisable by themselves: the keys of vendors (`vendors`), JWT, PEM blocks, SSH keys."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.checks import value
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import CLAIM, EXAMINED, Candidate, Detector, Example, Find
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.rules.vendors import VENDORS, Vendor
from freezeframe_redaction.surrogates.marks import is_marked_secret

CLASS = "SECRET"
_RULES = Rules("secrets")
_FORMS = _RULES.forms

_BEHIND = 72
"""A key may begin this many characters before the end of a trigger."""
_MAX_LENGTH = 2100


def _finder(name: str, head: str, form: str) -> Find:
    begins, whole = re.compile(head), re.compile(form)

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        floor = max(low, at - _BEHIND)
        if head:
            # The head takes long to search for, and the key takes long to read: each is tried only where it may be.
            starts = [one.start() for one in begins.finditer(text, floor, at)]
            matches = (whole.match(text, start, min(high, start + _MAX_LENGTH)) for start in starts)
        else:
            matches = whole.finditer(text, floor, min(high, at + 440))
        for match in matches:
            if match is None or match.end() < at:
                continue
            start, end = match.span()
            if start > at or (start > low and text[start - 1].isalnum() and text[start - 1] != "n"):
                return ()
            value = match.group()
            if start > low and text[start - 1] in "+/-_n" and _is_in_blob(text, low, high, start, end):
                return ()
            if is_marked_secret(value):
                return (Candidate(start, end, CLAIM),)
            if _is_sample(value, begins.sub("", value, count=1) if head else value):
                return (Candidate(start, end, EXAMINED),)
            return (Candidate(start, end, CLASS, name),)
        return ()

    return find


_BLOB = 600
"""Length of a base64 run that counts as a picture, a vector or a signature, in which any prefix of a key occurs by chance."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="


def _is_in_blob(text: str, low: int, high: int, start: int, end: int) -> bool:
    before = text[max(low, start - _BLOB) : start]
    behind = _FORMS.run_of_letters.match(text, end, min(high, end + _BLOB))
    return len(before) - len(before.rstrip(_LETTERS)) + (behind.end() - end if behind else 0) >= _BLOB


def _is_sample(value: str, tail: str) -> bool:
    """Return whether it is an example from documentation: ``AKIAIOSFODNN7EXAMPLE``, ``ghp_your_token_here``."""
    if value.endswith("EXAMPLE") or len(set(tail)) < 4:
        return True
    lowered = value.lower()
    if any(word in lowered for word in ("your-", "your_", "-here", "_here", "placeholder", "example")):
        return True
    # One random token in half a million has four in a row, and then few others.
    if "xxxx" in lowered and 4 * lowered.count("x") >= len(lowered):
        return True
    # Words (``sk-learn-contrib-project-name``) hold no digit and no capital; random text of this length does.
    return tail.islower() and not any(map(str.isdigit, tail))


_MAX_LINES = 64
_SIGNATURES = frozenset([43, 64, 86, 128, 176, 342, 512, 683])
"""Characters of a signature by HMAC, ECDSA, EdDSA or RSA. Source: RFC 7518, sections 3.2 to 3.4; RFC 8037."""


def _jwt(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    start = text.rfind("eyJ", max(low, at - 18), at)
    if start < 0 or (start > low and (text[start - 1].isalnum() or text[start - 1] in "_-+/")):
        return ()
    match = _FORMS.jwt.match(text, start, high)
    in_parts = _FORMS.jwt_in_parts.match(text, start, high)
    if in_parts is not None and "\n" in in_parts.group():
        end = in_parts.end()
    else:
        end = _end_of_wrapped(text, start, high) or (match.end() if match else start)
    if end == start:
        return ()
    marked = ".eyJyZHgiOi" in "".join(text[start:end].split())
    return (Candidate(start, end, CLAIM if marked else CLASS, "jwt"),)


def _end_of_wrapped(text: str, start: int, high: int) -> int | None:
    """Return the end of a token at this place that a mail or a terminal broke into lines of one length, if it is one."""
    line = _FORMS.jwt_line.match(text, start, high)
    lines = [line.group()] if line else []
    end = line.end() if line else start
    while 0 < len(lines) < _MAX_LINES and len(lines[-1]) == len(lines[0]):
        gap = _FORMS.line_break.match(text, end, high)
        line = _FORMS.jwt_line.match(text, gap.end(), high) if gap else None
        if line is None or len(line.group()) > len(lines[0]):
            break
        lines.append(line.group())
        end = line.end()
    parts = "".join(lines).split(".")
    return end if len(lines) > 1 and len(parts) == _PARTS and len(parts[-1]) in _SIGNATURES else None


_PARTS = 3


def _pem(begin: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    # Cut-off blocks have no END: take the lines of base64 as far as they go.
    text, limit = begin.string, min(high, begin.end() + 16000)
    end_marker = f"-----END {begin[1]}-----"
    end = text.find(end_marker, begin.end(), limit)
    second = text.find("-----BEGIN ", begin.end(), end if end >= 0 else limit)
    if end >= 0 and second < 0:
        stop = end + len(end_marker)
    else:
        lines = _FORMS.pem_lines.match(text, begin.end(), second if second >= 0 else limit)
        stop = lines.end() if lines else begin.end()
        while stop > begin.end() and not (text[stop - 1].isalnum() or text[stop - 1] in "+/="):
            stop -= 1
    body = text[begin.end() : stop]
    if sum(map(str.isalnum, body)) < 20:
        return (Candidate(*begin.span(), EXAMINED),)
    return (Candidate(begin.start(), stop, CLAIM if "rDxrDx" in body[:40] else CLASS, "pem"),)


def _putty(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """The lines after ``Private-Lines: 1``. Source: PuTTY, "Format of the PuTTY private key file", C.1."""
    lines = _FORMS.base64_line.finditer(match.string, *match.span(1))
    return tuple(found for line in lines for found in value(line, CLASS, "generic", 0))


def _detector(vendor: Vendor) -> Detector:
    match = re.search(vendor.form, vendor.example)
    return Detector(
        name=f"secret: {vendor.name}",
        class_=CLASS,
        triggers=(vendor.trigger,),
        find=_finder(vendor.name, vendor.head, vendor.form),
        row=f"rules/vendors.toml: head = {vendor.head}; tail = {vendor.tail}",
        examples=(Example(text=f"use {vendor.example} for auth", value=match.group() if match else ""),),
    )


def _named(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``WEAVIATE = a1B2...``: only the vendor's name shows that it is a key."""
    key, what = match["value"], match["what"]
    if is_marked_secret(key):
        return value(match, CLASS, group="value")
    if match.string[match.end("what") : match.start("value")].isspace() and not _FORMS.its_key.search(what):
        return ()
    random = sum(map(str.isdigit, key)) >= 3 and any(map(str.isalpha, key)) and len(set(key)) > 9
    return (
        value(match, CLASS, "generic", "value")
        if random and not _FORMS.not_its_key.search(what) and not _is_sample(key, key)
        else ()
    )


DETECTORS = (*map(_detector, VENDORS), *made_of(_RULES, _named, _jwt, _putty, _pem))
