"""The words around a value that reveal its class (``rules/context.toml``).

A pattern is searched in the lower-cased text just before a value, within the same leaf; the key of a JSON value
appears there as ``key: ``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from freezeframe_redaction.rules.read import Rules

_RULES = Rules("context")
REACH = 56
"""Characters before a value in which a context word counts."""


def words(*alternatives: str) -> re.Pattern[str]:
    """Compile alternatives for lower-cased text; each is a regular expression without captures and without nested choices.

    Python's `re` tries alternatives one by one at every character. Those that begin a word are tried only at
    the start of words, and those with the same first letter only after that letter: five to fifteen times as
    fast as the plain alternation.
    """
    single = [one for alternative in alternatives for one in _CHOICE.split(alternative)]
    bound = _by_first_letter(one[2:] for one in single if one.startswith(r"\b"))
    free = _by_first_letter(one for one in single if not one.startswith(r"\b"))
    return re.compile("|".join(([rf"\b(?:{bound})"] if bound else []) + ([free] if free else [])))


_CHOICE = re.compile(r"\|(?![^(]*\))")
"""Between two alternatives, not inside a group."""


def _by_first_letter(alternatives: Iterable[str]) -> str:
    groups: dict[str, list[str]] = {}
    for one in alternatives:
        plain = one[0].isalpha() and one[1:2] not in ("?", "*", "+", "{")
        groups.setdefault(one[0] if plain else "", []).append(one[1:] if plain else one)
    return "|".join(f"{letter}(?:{'|'.join(rest)})" if letter else "|".join(rest) for letter, rest in groups.items())


_ASKED, _ANSWER, _PLEADS = map(_RULES.form, ("asked", "answer", "pleads"))
_MAX_QUESTION_LENGTH = 160
_LABEL_SIGNS = frozenset(":=>")
_LABEL_ENDS = "\n:=,;\x1f\"'("


def before(text: str, low: int, start: int, reach: int = REACH) -> str:
    """Return the lower-cased text before `start` that may reveal the value's class, within the leaf.

    A label right before the value (``"created": ``) counts alone. A line counts for its own values, and for the
    first of the next line. A question counts for the answer, whoever gives it: ``Agent: your phone?``,
    ``Caller: it's ...``.
    """
    near = text[max(low, start - reach) : start].lower()
    line = near.rfind("\n")
    if line >= 0 and (asked := _question(text, low, start)):
        return asked[-reach:].lower()
    if line >= 0 and near[line:].strip(" \t#*>-\n"):
        near = near[line + 1 :]
    named = near.rstrip(" \"'*(")
    if named and named[-1] in _LABEL_SIGNS:
        label = named.rstrip(":=> ").rstrip("\"'*) ")
        cut = max(map(label.rfind, _LABEL_ENDS))
        sentence = label.rfind(". ")
        return near[max(cut + 1, sentence + 2 if sentence >= 0 else 0) :]
    return near


def _may_ask(text: str, start: int, line: int) -> bool:
    """Return whether the line from `start` to `line` may be a question: a quick check, since most are not."""
    end = text[max(start, line - 5) : line]
    return "?" in end or "？" in end or "؟" in end or _PLEADS.search(text, start, line) is not None


def _question(text: str, low: int, start: int) -> str:
    """Return the question whose answer begins at `start`, or an empty result."""
    floor = max(low, start - _MAX_QUESTION_LENGTH)
    line = text.rfind("\n", floor, start)
    begin = max(floor, text.rfind("\n", floor, line) + 1)
    match = _ASKED.match(text, begin, start) if line > floor and _may_ask(text, begin, line) else None
    return match[1] if match else ""


def answer(text: str, at: int, high: int) -> int | None:
    """Return the start of the answer, if a question goes on at `at`."""
    line = text.find("\n", at, min(high, at + _MAX_QUESTION_LENGTH))
    match = _ANSWER.match(text, at, min(high, line + _MAX_QUESTION_LENGTH)) if line >= 0 and _may_ask(text, at, line) else None
    return match.end() if match else None


SSN_SAID = _RULES.text("ssn")
PHONE, CARD, SSN, _ORDER = (words(_RULES.text(name)) for name in ("phone", "card", "ssn", "order"))
_RIGHT_BEFORE = re.compile(rf"(?:{_ORDER.pattern})(?: #|[ _-]?(?:no|nr|number|id))?[-=:#.\"' _]{{0,4}}$")


def is_order(before: str) -> bool:
    """Return whether a word right before it shows that the number is not a person's."""
    return _RIGHT_BEFORE.search(before, max(0, len(before) - 32)) is not None


# -- hints -------------------------------------------------------------------------------------------------------------
# Python's `re` tries a hundred alternatives at every character; a look-up per word is twenty times cheaper. Hints say which
# families a text may name; only then is the family's pattern searched.

HINTS = {family: 1 << bit for bit, family in enumerate(_RULES.entries("stems"))}
HINT_PHONE, HINT_CARD, HINT_ORDER, HINT_NATIONAL = (HINTS[name] for name in ("phone", "card", "order", "national"))
HINT_ALL = (1 << len(HINTS)) - 1
_STEM_PATTERNS = tuple(
    (hint, re.compile("|".join(stem if len(stem) > 2 else f"{stem}$" for stem in stems.split())))
    for hint, stems in zip(HINTS.values(), _RULES.entries("stems").values(), strict=True)
)
_TOKEN = re.compile(r"[a-z]+")
_TOKEN_HINTS: dict[str, int] = {}


def hints(near: str) -> int:
    """Return which families may be named in lower-cased text, as bits; text beyond ASCII may name any."""
    if not near.isascii():
        return HINT_ALL
    found = 0
    for token in _TOKEN.findall(near):
        known = _TOKEN_HINTS.get(token)
        if known is None:
            if len(_TOKEN_HINTS) > 50_000:
                _TOKEN_HINTS.clear()
            known = sum(hint for hint, pattern in _STEM_PATTERNS if pattern.search(token))
            _TOKEN_HINTS[token] = known
        found |= known
    return found
