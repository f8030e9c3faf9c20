"""Redact the body of an exchange: compressed or plain, whole or streamed, with the borders of its chunks.

A streamed answer is redacted as the text that its deltas spell, so a value split over ten events gets the surrogate that it has
everywhere else; the surrogate is split again at the same places. Bytes around a change stay, and so do the borders.
"""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, cast

import orjson

from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.leaves import splice, tree, walk
from freezeframe_redaction.leaves.key_context import KeyContexts
from freezeframe_schemas.body_text import read_text, write_text
from freezeframe_schemas.decompression import CutShortError, decompressed
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.wire import eventstream

_MAX_DECODED = 64_000_000
_COMPRESSED = ((b"\x1f\x8b\x08", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
"""First bytes of compressed bodies, for those without a header, such as uploads."""


@dataclass(frozen=True, slots=True)
class RedactedBody:
    """A redacted body; `omitted` is the reason for a missing one."""

    body: str | bytes
    sizes: tuple[int, ...] = ()
    omitted: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A body in progress: its parts to settle with the rest of the span, and the function to finish it."""

    nodes: tuple[tree.Tree, ...]
    """The trees of the text, if it is a stream or came in chunks."""
    finish: Callable[[str], RedactedBody]
    """Makes the body from the settled nodes and the redacted text."""
    text: str = ""
    """The whole body, if it is one text."""


def plan_body(
    keys: KeyContexts,
    body: str | bytes,
    sizes: tuple[int, ...],
    headers: str,
    deadline: Deadline = NEVER,
    shared: tree.SharedLeaves | None = None,
) -> Plan:
    """Return the plan of a body: settle its nodes and text, then `finish` gives the redacted body and its chunks' sizes."""
    encoding = header(headers, "content-encoding").lower()
    if isinstance(body, bytes) and header(headers, "content-type").lower().startswith(eventstream.CONTENT_TYPE):
        return _plan_frames(keys, body, sizes, deadline, shared)
    encoding = encoding if encoding != "identity" else ""
    if isinstance(body, bytes) and not encoding:
        encoding = next((name for mark, name in _COMPRESSED if body.startswith(mark)), "")
    content_type = header(headers, "content-type")
    if isinstance(body, str) or not encoding:
        return _plan_plain(keys, body, sizes, content_type, deadline, shared)
    decoded = decode(body, encoding)
    if decoded is None:
        reason = f"cannot be redacted: content-encoding {encoding[:40]}, {len(body)} bytes"
        return Plan((), lambda _: RedactedBody(b"", (), reason))
    inner = _plan_plain(keys, decoded, (), content_type, deadline, shared)

    def finish(text: str) -> RedactedBody:
        plain = inner.finish(text)
        if plain.body is decoded:
            return RedactedBody(body, sizes)
        made = plain.body.encode() if isinstance(plain.body, str) else plain.body
        again = encode(made, encoding)
        if again is None:
            return RedactedBody(
                b"", (), f"cannot be re-encoded after redaction: content-encoding {encoding[:40]}, {len(body)} bytes"
            )
        # The old borders cut the old compressed bytes; the new ones cut at the same proportions, so a stream stays a stream.
        return RedactedBody(again, _shift(sizes, [(0, sum(sizes), len(again))]))

    return Plan(inner.nodes, finish, inner.text)


def header(headers: str, name: str) -> str:
    """Return the value of a header in JSON ``[[name, value], ...]``, or nothing."""
    try:
        pairs: Any = orjson.loads(headers) if headers else []
    except orjson.JSONDecodeError:
        return ""
    for pair in cast("list[Any]", pairs) if isinstance(pairs, list) else []:
        if isinstance(pair, list) and len(cast("list[Any]", pair)) == 2:
            key, value = cast("list[Any]", pair)
            if str(key).lower() == name:
                return str(value)
    return ""


def decode(body: bytes, encoding: str) -> bytes | None:
    """Undo a content-encoding (several are separated by commas, the last applied first); None if that is not possible."""
    for step in reversed([part.strip() for part in encoding.split(",") if part.strip() not in ("", "identity")]):
        made = _decode_one(body, step)
        if made is None:
            return None
        body = made
    return body


def _decode_one(body: bytes, encoding: str) -> bytes | None:
    """Return the content of a body, as far as it arrived; None if there is more that cannot be read."""
    out = bytearray()
    try:
        for piece in decompressed(body, encoding, _MAX_DECODED):
            out += piece
    except CutShortError:
        pass
    except WireError:
        return None
    return bytes(out)


def encode(body: bytes, encoding: str) -> bytes | None:
    """Apply content-encodings in order."""
    for step in [part.strip() for part in encoding.split(",") if part.strip() not in ("", "identity")]:
        if step in ("gzip", "x-gzip"):
            body = gzip.compress(body, mtime=0)
        elif step == "deflate":
            body = zlib.compress(body)
        elif step == "zstd":
            import zstandard

            body = zstandard.ZstdCompressor().compress(body)
        elif step == "br":
            import brotli  # pyright: ignore[reportMissingImports] -- `decode` has imported it before

            body = cast("bytes", brotli.compress(body))
        else:
            return None
    return body


def _plan_plain(
    keys: KeyContexts,
    body: str | bytes,
    sizes: tuple[int, ...],
    content_type: str,
    deadline: Deadline,
    shared: tree.SharedLeaves | None,
) -> Plan:
    text, codec = (body, "utf-8") if isinstance(body, str) else read_text(body, content_type)
    lines = _stream_lines(text)
    if lines is None and not sizes:
        return Plan((), lambda made: RedactedBody(body if made == text else _like(body, made, codec)), text)
    if lines is None:
        placed = [(0, walk.parse_tree(text, keys, deadline=deadline, shared=shared))]
    else:
        placed = [
            (start, walk.parse_tree(text[start:end], keys, stream=True, deadline=deadline, shared=shared))
            for start, end in lines
        ]

    def finish(_: str) -> RedactedBody:
        edits = [(start + a, start + b, new) for start, node in placed for a, b, new in splice.edits_of(node)]
        if not edits:
            return RedactedBody(body, sizes)
        made = splice.apply(text, edits)
        return RedactedBody(_like(body, made, codec), _move_borders(sizes, text, edits, codec))

    return Plan(tuple(node for _, node in placed), finish)


def _like(body: str | bytes, made: str, codec: str) -> str | bytes:
    return made if isinstance(body, str) else write_text(made, codec)


def _plan_frames(
    keys: KeyContexts, body: bytes, sizes: tuple[int, ...], deadline: Deadline, shared: tree.SharedLeaves | None
) -> Plan:
    """Return the plan of a binary event stream: its payloads spell one answer; frames get new lengths and checksums."""
    messages = eventstream.parse(body)
    rest = body[messages[-1].end :] if messages else body
    if not eventstream.is_cut(rest):
        return Plan((), lambda _: RedactedBody(b"", (), f"cannot be redacted: broken event stream, {len(body)} bytes"))
    payloads = [_Payload(keys, message.payload, deadline, shared) for message in messages]
    # What is left of an incomplete frame cannot be checked anyway; it is read as text.
    tail = _Payload(keys, rest, deadline, shared) if rest else None

    def finish(_: str) -> RedactedBody:
        parts: list[bytes] = []
        moved: list[tuple[int, int, int]] = []
        for message, payload in zip(messages, payloads, strict=True):
            part = body[message.start : message.end]
            made = payload.finish()
            if made is not message.payload:
                part = eventstream.with_payload(part, made)
                moved.append((message.start, message.end, len(part)))
            parts.append(part)
        last = tail.finish() if tail else b""
        if last is not rest and tail:
            moved.append((len(body) - len(rest), len(body), len(last)))
        if not moved:
            return RedactedBody(body, sizes)
        return RedactedBody(b"".join([*parts, last]), _shift(sizes, moved))

    return Plan(tuple(payload.node for payload in [*payloads, *([tail] if tail else [])]), finish)


class _Payload:
    """The payload of one frame: JSON, or JSON that holds the event's JSON in base64 (``{"bytes": "..."}``)."""

    __slots__ = ("_inner", "_raw", "_text", "node")

    def __init__(self, keys: KeyContexts, raw: bytes, deadline: Deadline, shared: tree.SharedLeaves | None) -> None:
        self._raw = raw
        try:
            self._text = raw.decode()
        except UnicodeDecodeError:
            self._text = raw.decode("latin-1")
        self._inner = _inner_event(raw)
        text = self._inner[1] if self._inner else self._text
        self.node = walk.parse_tree(text, keys, stream=True, deadline=deadline, shared=shared)

    def finish(self) -> bytes:
        made = splice.render(self.node)
        if made is self.node.raw:
            return self._raw
        if self._inner is None:
            return made.encode("utf-8" if self._text.encode() == self._raw else "latin-1")
        blob = self._inner[0]
        return self._raw.replace(blob, base64.b64encode(made.encode()), 1)


def _inner_event(raw: bytes) -> tuple[bytes, str] | None:
    """Return the base64 of the event inside a payload, and the text that it spells."""
    match = _INNER.search(raw)
    if match is None:
        return None
    try:
        return match.group(1), base64.b64decode(match.group(1), validate=True).decode()
    except ValueError:
        return None


_INNER = re.compile(rb'^\{[^{}]{0,200}"bytes" ?: ?"([A-Za-z0-9+/=]+)"')


def _stream_lines(text: str) -> list[tuple[int, int]] | None:
    """Return the spans of the lines of a server-sent or newline-delimited stream; None if the text is not one.

    Every line with text is returned, comments and unknown fields too, so that nothing is skipped.
    """
    head = text[:64].lstrip("\ufeff\r\n ")
    sse = head.startswith(("data:", "event:", "id:", "retry:", ":"))
    if not sse and not (head.startswith("{") and "}\n{" in text):
        return None
    out: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        start, end = line.span()
        if text.startswith("data:", start):
            start += 6 if text.startswith("data: ", start) else 5
        if end > start:
            out.append((start, end))
    return out


_LINE = re.compile(r"[^\r\n]+")
"""`str.splitlines` knows more line ends, which JSON strings may hold unescaped (U+2028)."""


def _move_borders(sizes: tuple[int, ...], text: str, edits: Sequence[tree.Span], codec: str) -> tuple[int, ...]:
    """Return the sizes of the chunks after the edits; a border inside an edit moves in proportion.

    Sizes count bytes of the text's encoding; they add up to the new length.
    """
    if not sizes:
        return ()
    moved: list[tuple[int, int, int]] = []
    byte_position, char_position = 0, 0
    for start, end, new in edits:
        byte_start = byte_position + len(write_text(text[char_position:start], codec))
        byte_end = byte_start + len(write_text(text[start:end], codec))
        moved.append((byte_start, byte_end, len(write_text(new, codec))))
        byte_position, char_position = byte_end, end
    return _shift(sizes, moved)


def _shift(sizes: tuple[int, ...], moved: Sequence[tuple[int, int, int]]) -> tuple[int, ...]:
    """Return the sizes of the chunks after spans of bytes (start, end) got new lengths."""
    if not sizes:
        return ()
    borders: list[int] = []
    shift, index = 0, 0
    for border in accumulate(sizes):
        while index < len(moved) and moved[index][1] <= border:
            shift += moved[index][2] - (moved[index][1] - moved[index][0])
            index += 1
        if index < len(moved) and moved[index][0] < border:
            start, end, length = moved[index]
            borders.append(start + shift + (border - start) * length // (end - start))
        else:
            borders.append(border + shift)
    return tuple(end - start for start, end in zip([0, *borders[:-1]], borders, strict=True))
