"""Payloads as texts and templates: each text is stored once per run, however often it is quoted.

A tool's result appears as its return value, in the next request, in the attributes of the conventions, and again in each turn
after that. The long strings of such a JSON document, and the tools that a request offers, are its pieces, the same wherever
they appear; the rest is its template, a short text with a hole for each piece, which stays with the span::

    {"role":"user","content":"<several sentences>"}  ->  {"role":"user","content":"␀"}  and one piece

The template with its holes filled in order is the value, byte for byte, whatever it holds: cuts are only places, and nothing is
parsed or rewritten. A streamed answer is folded (`streams`), with a hole for the contents of its events if they are long.
A value that would make a poor template (not JSON, bytes, a long history of short messages) has none, and is
stored as its pieces (`pieces`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from freezeframe_schemas import genai
from freezeframe_schemas.tables.columns import PIECE_LIMIT
from freezeframe_schemas.tables.pieces import SplitMemory, piece_hash, split
from freezeframe_schemas.tables.streams import FOLDED, MARKS, fold, is_stream, unfold

HOLE: Final = "\0"
BETWEEN: Final = "\1"
"""Separates the templates of one span. Valid JSON holds neither it nor `HOLE` unescaped; a value with one gets no template."""
_HOLE: Final = HOLE.encode()
_BETWEEN: Final = BETWEEN.encode()
_JSON: Final = (b"{", b"[", b'"')
_MIN_BYTES: Final = 128
"""Bytes. A shorter string stays in the template: its name and its row would be larger than the string."""
_GAP_LIMIT: Final = 2048
"""Bytes between two long strings above which the part between is cut into pieces as well."""
_TEMPLATE_LIMIT: Final = 16 << 10
"""Bytes. A template is stored again with each turn, and a long one costs more than the names of the pieces that replace it."""
_WORTH_REMEMBERING: Final = 2048
"""Bytes. Cutting a shorter value again takes less time than looking it up and comparing."""
_START_BYTES: Final = 16
_TOOLS_START_BYTES: Final = 128
_TOOLS_REMEMBERED: Final = 64
_ESCAPED: Final = rb"(?:(?<=[^\\]\\)|(?<=[^\\]\\{3})|(?<=[^\\]\\{5})|(?<=[^\\]\\{7}))"
"""After an odd number of backslashes. Looking back from quotes is twice as fast as stepping over each escape; more than seven
would only be a cut in an odd place."""
_STRING: Final = rb'"([^"]*+(?:' + _ESCAPED + rb'"[^"]*+)*+)"?+'
"""A JSON string. An unterminated one matches too, here and below, so no byte is searched twice."""
_SHORT: Final = rb'"(?!tools":)[^"\\]{0,%d}+"' % (_MIN_BYTES - 1)
_NEXT: Final = re.compile(rb'[^"]*+(?:' + _SHORT + rb'[^"]*+)*+(?:"tools":\s?+(\[)|' + _STRING + rb")?+")
"""Past short strings, to the start of a request's tools or to a string that may be long."""
_STRINGS: Final = re.compile(_STRING)
_BRACKET: Final = re.compile(rb"[\[\]]")


_EndOfArray = Callable[[bytes, int], int]


class Cut(NamedTuple):
    """A value taken apart."""

    template: str
    """With `HOLE` in place of each piece; empty if the pieces joined are the value."""
    pieces: Sequence[bytes]
    hashes: Sequence[bytes]


class _Texts(NamedTuple):
    """Texts cut out of a value, without the quotes or brackets around them: place, bytes and name of each.

    Parallel lists: a tuple for each text would be one more object for the garbage collector, and `CutMemory` holds many.
    """

    starts: list[int]
    ends: list[int]
    pieces: list[bytes]
    hashes: list[bytes]

    def add(self, raw: bytes, start: int, end: int) -> None:
        piece = raw[start:end]
        self.starts.append(start)
        self.ends.append(end)
        self.pieces.append(piece)
        self.hashes.append(piece_hash(piece))


class _Remembered(NamedTuple):
    raw: bytes
    texts: _Texts
    cut: Cut | None


class CutMemory:
    """Last cut by run and attribute: the next turn's value mostly begins, and often ends, the same way.

    Only saves work: cuts are the same without it. Not thread-safe.
    """

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self.joined = SplitMemory(limit_bytes)
        """For values without a template."""
        self._limit = limit_bytes
        self._size = 0
        self._tools: dict[bytes, bytes] = {}
        self._tool_cuts: dict[bytes, Cut] = {}
        self._last: OrderedDict[tuple[str, bytes], _Remembered] = OrderedDict()

    def cut(self, trace_id: str, attribute: str, raw: bytes) -> Cut:
        """Return `raw` taken apart."""
        if attribute == genai.TOOL_DEFINITIONS and raw.startswith(b"[") and raw.endswith(b"]"):
            return self._cut_tools(raw)
        if len(raw) < _WORTH_REMEMBERING:
            return cut(raw)
        if not _may_have_template(raw):
            return _cut_stream(raw) or Cut("", *self.joined.split(trace_id, attribute, raw))
        # a request begins like the one before it, and a result is the same in two attributes
        key = (trace_id, raw[:_START_BYTES])
        before = self._last.pop(key, None)
        if before is not None:
            self._size -= len(before.raw)
        if before is None:
            texts = _texts(raw, self._end_of_array)
            made = _from_texts(raw, texts)
        elif before.raw == raw:
            texts, made = before.texts, before.cut
        else:
            texts = _texts_like(raw, before.raw, before.texts, self._end_of_array)
            made = _from_texts(raw, texts)
        self._last[key] = _Remembered(raw, texts, made)
        self._size += len(raw)
        while self._size > self._limit:
            _, oldest = self._last.popitem(last=False)
            self._size -= len(oldest.raw)
        return made or Cut("", *self.joined.split(trace_id, attribute, raw))

    def _cut_tools(self, raw: bytes) -> Cut:
        """Return an array of tools as one piece: each turn of each run of an agent sends the same array."""
        start = raw[:_TOOLS_START_BYTES]
        known = self._tool_cuts.get(start)
        if known is not None and len(known.pieces[0]) + 2 == len(raw) and raw.startswith(known.pieces[0], 1):
            return known
        piece = raw[1:-1]
        made = self._tool_cuts[start] = Cut("[\0]", [piece], [piece_hash(piece)])
        if len(self._tool_cuts) > _TOOLS_REMEMBERED:
            del self._tool_cuts[next(iter(self._tool_cuts))]
        return made

    def _end_of_array(self, raw: bytes, at: int) -> int:
        """Like `_end_of_array`, for the tools seen last: the next run of an agent has the same ones."""
        start = raw[at : at + _TOOLS_START_BYTES]
        known = self._tools.get(start)
        if known is not None and raw.startswith(known, at):
            return at + len(known) - 1
        end = _end_of_array(raw, at)
        if end < len(raw):
            self._tools[start] = raw[at : end + 1]
            if len(self._tools) > _TOOLS_REMEMBERED:
                del self._tools[next(iter(self._tools))]
        return end


def cut(raw: bytes) -> Cut:
    """Return `raw` taken apart, so that `fill` can rebuild it."""
    if _may_have_template(raw):
        made = _without_pieces(raw) if len(raw) <= _MIN_BYTES else _from_texts(raw, _texts(raw, _end_of_array))
        if made is not None:
            return made
    elif made := _cut_stream(raw):
        return made
    pieces = split(raw)
    return Cut("", pieces, [*map(piece_hash, pieces)])


def fill(template: str, hashes: Sequence[bytes], bodies: Mapping[bytes, bytes]) -> bytes:
    """Return the value of a template whose pieces have `hashes`; without a template, the pieces joined.

    Raises:
        KeyError: a piece is not among `bodies`; the argument is its hash.
        ValueError: there are more or fewer pieces than holes.
    """
    pieces = [bodies[digest] for digest in hashes]
    if not template:
        return b"".join(pieces)
    around = template.encode().split(_HOLE)
    if len(around) != len(pieces) + 1:
        raise ValueError(f"found {len(pieces)} pieces, expected {len(around) - 1}, one for each hole of the template")
    parts = [b""] * (2 * len(pieces) + 1)
    parts[::2], parts[1::2] = around, pieces
    filled = b"".join(parts)
    return unfold(filled) if around[0].startswith(FOLDED) else filled


def _cut_stream(raw: bytes) -> Cut | None:
    """Return a streamed answer folded, or as it is; None for any other value, and for one that is too large or holds a mark."""
    if not is_stream(raw) or len(raw) > PIECE_LIMIT or any(mark in raw for mark in MARKS):
        return None
    folded = fold(raw)
    if folded is None:
        return _without_pieces(raw)
    parts: list[bytes] = []
    pieces: list[bytes] = []
    for frame, text, is_noise in zip(folded.frames, folded.texts, folded.is_noise, strict=True):
        if len(text) < _MIN_BYTES or is_noise:
            parts += (frame, text)
        else:
            parts += (frame, _HOLE)
            pieces.append(text)
    try:
        return Cut(b"".join(parts).decode(), pieces, [*map(piece_hash, pieces)])
    except UnicodeDecodeError:  # a value of bytes
        return None


def _without_pieces(raw: bytes) -> Cut | None:
    """Return a value as a template alone, or None if it is not text."""
    try:
        return Cut(raw.decode(), (), ())
    except UnicodeDecodeError:  # a value of bytes
        return None


def _may_have_template(raw: bytes) -> bool:
    return (len(raw) < _MIN_BYTES or raw.startswith(_JSON)) and _HOLE not in raw and _BETWEEN not in raw and raw[:1] != FOLDED


def _from_texts(raw: bytes, texts: _Texts) -> Cut | None:
    """Return the cut around `texts`, or None if a template would not be useful."""
    if not texts.starts and len(raw) <= _GAP_LIMIT:
        return _without_pieces(raw)
    around = [raw[start:end] for start, end in zip([0, *texts.ends], [*texts.starts, len(raw)], strict=True)]
    pieces, hashes = texts.pieces, texts.hashes
    template = _HOLE.join(around)
    if len(template) > _GAP_LIMIT and max(map(len, around)) > _GAP_LIMIT:
        around, pieces, hashes = _with_gaps_cut(around, pieces, hashes)
        template = _HOLE.join(around)
    if len(template) > _TEMPLATE_LIMIT:
        return None
    try:
        return Cut(template.decode(), pieces, hashes)
    except UnicodeDecodeError:  # a value of bytes
        return None


def _with_gaps_cut(
    around: Sequence[bytes], pieces: Sequence[bytes], hashes: Sequence[bytes]
) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the parts of a value with long parts of its template made pieces too."""
    left: list[bytes] = []
    all_pieces: list[bytes] = []
    all_hashes: list[bytes] = []
    for index, gap in enumerate(around):
        if len(gap) > _GAP_LIMIT:
            cuts = split(gap)
            left += [b""] * (len(cuts) + 1)
            all_pieces += cuts
            all_hashes += map(piece_hash, cuts)
        else:
            left.append(gap)
        all_pieces += pieces[index : index + 1]
        all_hashes += hashes[index : index + 1]
    return left, all_pieces, all_hashes


def _texts(raw: bytes, end_of_array: _EndOfArray) -> _Texts:
    texts = _Texts([], [], [], [])
    for start, end in _places(raw, 0, end_of_array):
        texts.add(raw, start, end)
    return texts


def _places(
    raw: bytes, at: int, end_of_array: _EndOfArray, meeting: Container[int] = frozenset[int]()
) -> Iterator[tuple[int, int]]:
    """Yield the places of texts, from a position outside any string; stop after the first that starts at one of `meeting`."""
    while at >= 0:
        start, at = at, -1
        for match in _NEXT.finditer(raw, start):
            group = match.lastindex
            if group is None:  # the end
                return
            start, end = match.span(group)
            if group == 1:
                start = end
                if start in meeting:
                    yield start, start
                    return
                at = end_of_array(raw, start)
                if at - start <= PIECE_LIMIT:
                    yield start, at
                break
            if _MIN_BYTES <= end - start <= PIECE_LIMIT:
                yield start, end


def _end_of_array(raw: bytes, at: int) -> int:
    """Return the end of the array that begins before `at`: the place of its bracket, or the end of the value."""
    depth = 1
    strings = (match.span() for match in _STRINGS.finditer(raw, at))
    for start, end in chain(strings, [(len(raw), len(raw))]):
        for bracket in _BRACKET.finditer(raw, at, start):
            depth += 1 if bracket[0] == b"[" else -1
            if not depth:
                return bracket.start()
        at = end
    return len(raw)


def _texts_like(raw: bytes, like: bytes, known: _Texts, end_of_array: _EndOfArray) -> _Texts:
    """Return `_texts` of a value that begins, and perhaps ends, like a previous one: only the part between is examined."""
    # a text is in both values if they agree up to its closing quote or bracket
    kept = agreed = 0
    while kept < len(known.ends) and (end := known.ends[kept] + 1) <= len(like) and raw.startswith(like[agreed:end], agreed):
        kept, agreed = kept + 1, end
    # from the opening of a text on, if both have all that follows, they continue alike
    first = bisect_left(known.starts, True, kept, key=lambda start: raw.endswith(like[start - 1 :]))
    shift = len(raw) - len(like)
    meeting = {known.starts[index] + shift: index for index in range(first, len(known.starts))}
    texts = _Texts(known.starts[:kept], known.ends[:kept], known.pieces[:kept], known.hashes[:kept])
    for start, end in _places(raw, texts.ends[-1] + 1 if kept else 0, end_of_array, meeting):
        index = meeting.get(start)
        if index is None:
            texts.add(raw, start, end)
            continue
        texts.starts.extend([place + shift for place in known.starts[index:]])
        texts.ends.extend([place + shift for place in known.ends[index:]])
        texts.pieces.extend(known.pieces[index:])
        texts.hashes.extend(known.hashes[index:])
        break
    return texts
