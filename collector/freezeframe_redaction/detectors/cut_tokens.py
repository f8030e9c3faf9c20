"""Keys and tokens that a line break cuts in two: which breaks may do so, and whether what is found across one is a value.

A terminal, a mail or a shell breaks a token in the middle, and then the next line begins with the rest of it: random letters and
digits, with nothing of a line of its own behind them. Bodies in base64 and lists of hashes have such lines, but no name before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.rules.vendors import HEADS

CLASSES: Final = frozenset(["SECRET", "URL_CRED"])
_FORMS = Rules("cut_tokens").forms
_REACH: Final = 1100
"""Characters of each line that are read."""
_WHOLE: Final = 20
"""Characters of the shortest token that is cut without a sign of it: shorter ones are moved to the next line."""
_REST, _UNNAMED_REST = 6, 8
"""Characters of the shortest rest of a token whose form is known, and of any other."""
_SIGNED: Final = frozenset(["jwt", "authorization", *HEADS])
"""Kinds of secrets that show by themselves that they are one."""
_CHANGES: Final = re.compile("(?=[a-z][A-Z]|[A-Z][a-z])")


def breaks(text: str, bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, tuple[int, int], str, str]]:
    """Yield leaf, break, and the text before and behind it, for the breaks that may cut a token in the leaves ``text[low:high]``."""
    for pattern in (_FORMS.between_lines, _FORMS.escaped_break) if "\\n" in text else (_FORMS.between_lines,):
        index = 0
        for match in pattern.finditer(text):
            while match.start() >= bounds[index][1]:
                index += 1
            low, high = bounds[index]
            if match.start() < low:
                continue
            ended = _FORMS.ends.search(text, max(low, match.start() - 12), match.start())
            if ended is None:
                continue
            start, end = ended.start() + 1, match.end()
            left = _line_before(text, low, start)
            right = _FORMS.line.match(text, end, min(high, end + _REACH))
            form = _FORMS.rest_of_jwt if "eyJ" in left else _FORMS.rest
            if left and right is not None and (form.match(text, end, high) is not None or text[start] == "\\"):
                yield index, (start, end), left, right.group()


def _line_before(text: str, low: int, start: int) -> str:
    """Return the line up to `start`, with the one above if a token is all that it holds; empty within lines of such tokens."""
    line = _begin_of_line(text, low, start)
    if _FORMS.token.fullmatch(text, line, start) is None:
        return text[line:start]
    above = _begin_of_line(text, low, line - 1) if line > low else low
    if _FORMS.token.fullmatch(text, above, max(above, line - 1)) is not None:
        return ""
    return text[above:start]


def _begin_of_line(text: str, low: int, end: int) -> int:
    floor = max(low, end - _REACH)
    escaped = text.rfind("\\n", floor, end)
    return max(floor, text.rfind("\n", floor, end) + 1, escaped + 2 if escaped >= 0 else 0)


def holds(text: str, cut: int, between: str, found: Candidate, *, is_next: bool) -> bool:
    """Return whether a finding in the line ``text`` is one value that a break cuts.

    The break was at `cut`, and `between` is what stood there; `is_next` if a value of its own begins behind it.
    """
    left, right = text[found.start : cut], text[cut : found.end]
    if found.class_ == "URL_CRED":
        return not left.rpartition(":")[2].isdigit()  # the port of a host
    if is_next:
        return False
    if between.startswith("\\") and not between.startswith(("\\n", "\\r")):
        return True
    form = _FORMS.rest_of_jwt if left.startswith("eyJ") else _FORMS.rest
    rest = form.match(text, cut)
    if rest is None or len(left) + len(right) < _WHOLE or cut + len(rest.group().rstrip(".")) < found.end:
        return False
    is_signed = found.kind in _SIGNED
    if len(right) < (_REST if is_signed else _UNNAMED_REST):
        return False
    mixed = _kinds(right)
    if is_signed:
        return len(mixed) > 1 and ("digit" in mixed or len(_CHANGES.findall(right)) >= len(right) // 3)
    ends_line = not text[rest.end() :].strip("\"'`,;)>}] ")
    return mixed == {"digit", "lower", "upper"} or ("digit" in mixed and ends_line and mixed == _kinds(left) and len(mixed) > 1)


def _kinds(text: str) -> set[str]:
    """Return which kinds of characters the text has."""
    held = {"digit": str.isdigit, "lower": str.islower, "upper": str.isupper}
    return {name for name, is_one in held.items() if any(map(is_one, text))}
