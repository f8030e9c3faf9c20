"""Put changed leaves back into their text so that every other byte stays.

A change inside a JSON string is written where the string's own spelling puts it: escapes before and behind it stay as they are.
`walk` reads the leaves; both count strings and numbers in the same order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from freezeframe_redaction.walk import Leaf, Node, Span

_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*|NaN|-?Infinity', re.DOTALL)
"""A string or a number, with what Python's parser takes for one."""
_ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BETWEEN_STRINGS: Final = ",:[]{} \t\r\n0123456789+-.eEtrufalsnNIiy"
"""What may stand between the end of one JSON string and the beginning of the next."""
_spell_utf8: Final = json.JSONEncoder(ensure_ascii=False).encode
_spell_ascii: Final = json.JSONEncoder().encode
_NOT_OF_UTF8: Final = re.compile(r"\\(?:/|u(?!00[01])|u00(?:0[89acdACD]|[01][A-F]))")
_NOT_OF_ASCII: Final = re.compile(r"\x7f|\\(?:/|u(?:00[2-6]|007[^f]|00(?:0[89acdACD])|[0-9a-f]{0,3}[A-F]))")
"""What the two spellings above never write: with none of it in a JSON text, each of its strings has that spelling."""


def render(node: Node) -> str:
    """Return the node's text with the edits of its leaves in place; the same object where there are none."""
    return apply(node.raw, edits_of(node))


def apply(text: str, edits: Sequence[Span]) -> str:
    """Return the text with the edits made; the same object where there are none."""
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


def edits_of(node: Node) -> list[Span]:
    """Return all edits below the node as edits of its own text."""
    spell = _spell_ascii if node.raw.isascii() else _spell_utf8
    return _placed(node, lambda leaf: leaf.edits, lambda new: spell(new)[1:-1])


def findings_of(node: Node) -> list[Span]:
    """Return all findings below the node as spans of its own text."""
    return _placed(node, lambda leaf: leaf.findings, lambda note: note)


def _placed(node: Node, spans: Callable[[Leaf], Sequence[Span]], spell: Callable[[str], str]) -> list[Span]:
    if node.whole:
        return list(spans(node.leaves[0]))
    pending: list[tuple[Leaf, Sequence[Span]]] = []
    for leaf in node.leaves:
        own = spans(leaf) if leaf.child is None else _placed(leaf.child, spans, spell)
        if own:
            pending.append((leaf, own))
    if not pending:
        return []
    leaves = [leaf for leaf, _ in pending]
    places = _search(node.raw, leaves) or list(_count(node.raw, leaves))
    out: list[Span] = []
    for (leaf, own), (start, end) in zip(pending, places, strict=True):
        if leaf.is_number:
            out.extend((start + a, start + b, note) for a, b, note in own)
        else:
            offsets = _offsets(node.raw[start:end], own)
            out.extend((start + offsets[a], start + offsets[b], spell(note)) for a, b, note in own)
    return out


def _count(raw: str, leaves: Sequence[Leaf]) -> Iterator[tuple[int, int]]:
    """Yield where each leaf's string (with its quotes) or number stands: right for any JSON, but it reads all of the text."""
    tokens = enumerate(_TOKEN.finditer(raw))
    for leaf in leaves:
        yield next(match.span() for ordinal, match in tokens if ordinal == leaf.ordinal)


def _search(raw: str, leaves: Sequence[Leaf]) -> list[tuple[int, int]] | None:
    """Return where the leaves stand by searching for their spelling; None where that would leave a doubt.

    There is none where a text can be spelled in one way only, and that spelling stands in the raw text as often as leaves with
    it are wanted. (The law is `test_every_byte_that_is_no_finding_stays`.)
    """
    if any(leaf.is_number for leaf in leaves):
        return None
    spell = _speller(raw)
    if spell is None:
        return None
    spellings: dict[str, str] = {}
    for text, wanted in Counter(leaf.text for leaf in leaves).items():
        spelling = spellings[text] = spell(text)
        if raw.count(spelling) != wanted or not text.strip(_BETWEEN_STRINGS):
            return None
    places: list[tuple[int, int]] = []
    end = 0
    for leaf in leaves:
        spelling = spellings[leaf.text]
        start = raw.index(spelling, end)
        end = start + len(spelling)
        places.append((start, end))
    return places


def _speller(raw: str) -> Callable[[str], str] | None:
    """Return how every string of the JSON text is spelled, or None where there may be several ways."""
    if ("\\u" not in raw and "\\/" not in raw) or _NOT_OF_UTF8.search(raw) is None:
        return _spell_utf8
    return _spell_ascii if raw.isascii() and _NOT_OF_ASCII.search(raw) is None else None


def _offsets(token: str, spans: Sequence[Span]) -> dict[int, int]:
    """Return position in the text -> offset in the JSON string that spells it, quotes included, for the ends of the spans."""
    offsets: dict[int, int] = {}
    shift = 1
    escapes = _ESCAPE.finditer(token, 1, len(token) - 1) if "\\" in token else iter(())
    escape = next(escapes, None)
    for position in sorted({at for start, end, _ in spans for at in (start, end)}):
        while escape is not None and escape.start() - shift < position:
            shift += escape.end() - escape.start() - 1
            escape = next(escapes, None)
        offsets[position] = position + shift
    return offsets
