"""Put changed leaves back into their text so that every other byte stays.

A change inside a JSON string is placed by the string's own spelling: escapes before and after it stay unchanged.
`walk` reads the leaves; both count strings and numbers in the same order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import orjson

from freezeframe_redaction.leaves.tree import Leaf, Span, Tree

_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*|NaN|-?Infinity', re.DOTALL)
"""A string or a number, including what Python's parser takes for one."""
_ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BETWEEN_STRINGS: Final = ",:[]{} \t\r\n0123456789+-.eEtrufalsnNIiy"
"""Text that may be between the end of one JSON string and the beginning of the next."""
_spell_ascii: Final = json.JSONEncoder().encode
_NOT_OF_UTF8: Final = re.compile(r"\\(?:/|u(?!00[01])|u00(?:0[89acdACD]|[01][A-F]))")
_NOT_OF_ASCII: Final = re.compile(r"\\(?:/|u(?:00[2-6]|007[^f]|00(?:0[89acdACD])|[0-9a-f]{0,3}[A-F]))")
"""Characters that the two spellings above never write: in a JSON text without them, each string has that spelling."""
_MAX_SEARCHED: Final = 64
"""Texts that are searched for one by one; for more, reading the JSON token by token costs less, at a constant cost."""

_Pending = tuple[Leaf, int, Sequence[Span]]
"""A leaf, its position among all strings and numbers, and its edits or findings."""


def render(node: Tree) -> str:
    """Return the node's text with the edits of its leaves in place, or the same object without edits."""
    return apply(node.raw, edits_of(node))


def as_number(made: str, value: float, surrogates: dict[str, str]) -> float:
    """Return the new number for `value`: an integer, or a float if that is one.

    A float that cannot hold all the digits is rounded, and its digits are the surrogate.
    """
    if isinstance(value, int):
        return int(made)
    number = float(made)
    if made in surrogates:
        surrogates.setdefault(str(int(number)), surrogates[made])
    return number


def apply(text: str, edits: Sequence[Span]) -> str:
    """Return the edited text, or the same object without edits."""
    if not edits:
        return text
    pieces: list[str] = []
    cursor = 0
    for start, end, new in edits:
        pieces.append(text[cursor:start])
        pieces.append(new)
        cursor = end
    pieces.append(text[cursor:])
    return "".join(pieces)


def edits_of(node: Tree) -> list[Span]:
    """Return all edits below the node as edits of the node's text."""
    spell = _spell_ascii if node.raw.isascii() else _spell_utf8
    return _placed(node, lambda leaf: leaf.edits, lambda new: spell(new)[1:-1], rest=".0")


def findings_of(node: Tree) -> list[Span]:
    """Return all findings below the node as spans of the node's text."""
    return _placed(node, lambda leaf: leaf.findings, lambda note: note)


def _placed(node: Tree, spans: Callable[[Leaf], Sequence[Span]], spell: Callable[[str], str], rest: str = "") -> list[Span]:
    """Return the spans of the leaves as spans of the node's text.

    `rest` follows the note of a number with an exponent (``4.1e15``), so that it stays a float.
    """
    if node.whole:
        return list(spans(node.leaves[0]))
    if node.starts:
        return [
            (start + a, start + b, note)
            for start, leaf in zip(node.starts, node.leaves, strict=True)
            for a, b, note in (spans(leaf) if leaf.child is None else _placed(leaf.child, spans, spell, rest))
        ]
    pending: list[_Pending] = []
    for leaf, ordinal in zip(node.leaves, node.ordinals, strict=True):
        own = spans(leaf) if leaf.child is None else _placed(leaf.child, spans, spell, rest)
        if own:
            pending.append((leaf, ordinal, own))
    if not pending:
        return []
    placed = _search(node.raw, pending)
    return [(start, end, spell(note)) for start, end, note in (_count(node.raw, pending, rest) if placed is None else placed)]


def _count(raw: str, pending: Sequence[_Pending], rest: str) -> Iterator[Span]:
    """Yield the spans of the leaves as spans of the raw text: right for any JSON, but reads all of it token by token."""
    tokens = enumerate(_TOKEN.finditer(raw))
    for leaf, place, own in pending:
        token = next(match for ordinal, match in tokens if ordinal == place)
        start = token.start()
        if leaf.is_number and not token.group().startswith(leaf.text):
            yield start, token.end(), own[0][2] + rest  # ``4.1e15``, as Java writes it: what was found is all of it
            continue
        offsets = {at: at for at in _ends(own)} if leaf.is_number else _offsets_by_escapes(token.group(), _ends(own))
        for a, b, note in own:
            yield start + offsets[a], start + offsets[b], note


def _search(raw: str, pending: Sequence[_Pending]) -> list[Span] | None:
    """Return the same by searching for the spelling of each leaf, or None if that is ambiguous.

    It is unambiguous if a text has only one spelling, which occurs in the raw text as often as it is wanted.
    (The law is `test_searching_and_counting_agree`.)
    """
    spell = _speller(raw)
    if spell is None:
        return None
    spellings: dict[str, str] = {}
    wanted: dict[str, int] = {}
    for leaf, _, _ in pending:
        if leaf.is_number or not leaf.text.strip(_BETWEEN_STRINGS):
            return None
        if leaf.text not in spellings:
            spellings[leaf.text] = spell(leaf.text)
        wanted[leaf.text] = wanted.get(leaf.text, 0) + 1
        if len(wanted) > _MAX_SEARCHED:
            return None
    places: dict[str, Iterator[int]] = {}
    for text, count in wanted.items():
        starts = _starts(raw, spellings[text], count)
        if len(starts) != count:
            return None
        places[text] = iter(starts)
    out: list[Span] = []
    for leaf, _, own in pending:
        spelling, start = spellings[leaf.text], next(places[leaf.text])
        if len(spelling) == len(leaf.text) + 2:
            out.extend((start + 1 + a, start + 1 + b, note) for a, b, note in own)
        else:
            offsets = _offsets_by_spelling(leaf.text, _ends(own), spell)
            out.extend((start + offsets[a], start + offsets[b], note) for a, b, note in own)
    return out


def _starts(raw: str, spelling: str, most: int) -> list[int]:
    """Return the places of the spelling in the text, without overlap: up to one more than `most`."""
    starts: list[int] = []
    at = raw.find(spelling)
    while at >= 0 and len(starts) <= most:
        starts.append(at)
        at = raw.find(spelling, at + len(spelling))
    return starts


def _speller(raw: str) -> Callable[[str], str] | None:
    """Return the spelling of every string of the JSON text, or None if there may be several."""
    if ("\\u" not in raw and "\\/" not in raw) or _NOT_OF_UTF8.search(raw) is None:
        return _spell_utf8
    if not raw.isascii() or "\x7f" in raw:
        return None
    return _spell_ascii if _NOT_OF_ASCII.search(raw) is None else None


def _spell_utf8(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except orjson.JSONEncodeError:  # lone surrogates
        return json.dumps(text, ensure_ascii=False)


def _ends(spans: Sequence[Span]) -> list[int]:
    return sorted({at for start, end, _ in spans for at in (start, end)})


def _offsets_by_spelling(text: str, positions: Sequence[int], spell: Callable[[str], str]) -> dict[int, int]:
    """Return position in the text -> offset in the JSON string that spells it, quotes included."""
    offsets: dict[int, int] = {}
    at, offset = 0, 1
    for position in positions:
        offset += len(spell(text[at:position])) - 2
        at = position
        offsets[position] = offset
    return offsets


def _offsets_by_escapes(token: str, positions: Sequence[int]) -> dict[int, int]:
    """Return the same for a string whose characters may be spelled in several ways."""
    offsets: dict[int, int] = {}
    shift = 1
    escapes = _ESCAPE.finditer(token, 1, len(token) - 1)
    escape = next(escapes, None)
    for position in positions:
        while escape is not None and escape.start() - shift < position:
            shift += escape.end() - escape.start() - 1
            escape = next(escapes, None)
        offsets[position] = position + shift
    return offsets
