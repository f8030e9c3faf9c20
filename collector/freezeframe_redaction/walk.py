"""Walk a text that may be JSON down to its leaves, and put changed leaves back so that every other byte stays.

Strings inside JSON that are JSON again are walked too. Keys are context for their values, and leaves of their own where they do
not look like identifiers. orjson does the parsing; where its view may differ from the text (repeated keys, lone surrogates) the
slower parser that keeps everything takes over. Text that is no JSON is one leaf.

It is long because reading a text into leaves and writing the changed leaves back must agree on every byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue] -- public in CPython, missing in typeshed
from typing import Any

import orjson

MAX_DEPTH = 8
"""JSON in JSON: deeper text is scanned as text, so nothing is missed, but its escapes are not undone."""
_LONG_NUMBER = 99_999_999_999
"""Below, a number is nothing without its key; above, it may be a card."""
_SENSITIVE = re.compile(
    r"name|phone|tel\b|mobil|cell|fax|mail|ssn|social|nation|passport|licen[cs]e|birth|dob\b|born|mrn|medic|patient|npi|mbi|dea\b|card|\bcc\b|pan\b|iban|account|acct|routing|token|secret|passw|pwd|api|auth|cred"
    r"|address|addr|street|customer|contact|assignee|author|owner|holder|cpf|nhs|bsn|tax|ssn|aadhaar|identi|\bid_?(?:no|num)|id_?number|nin\b|nir\b|dni|nie\b|nif|rut\b|pesel|tfn|sin\b|cpr|personn|member|insur|sender|recipient"
    r"|passenger|guest|employee|user|client|vorname|nachname|nombre|apellido|adresse|direcci|telef|geburt|naissance|nacimiento|nascimento|cookie|signature|key$|_key|ip$|mac$|[^\x00-\x7f]",
    re.IGNORECASE,
)
_GENERIC = frozenset(["number", "no", "num", "value", "id", "code", "nr", "type", "text", "content", "#"])
_CHANNEL_IDS = ("index", "item_id", "output_index", "content_index", "summary_index", "type", "object")
_DELTA_KEYS = frozenset(
    [
        "delta",
        "content",
        "text",
        "arguments",
        "partial_json",
        "thinking",
        "reasoning",
        "reasoning_content",
        "refusal",
        "transcript",
        "completion",
        "response",
        "input",
        "generated_text",
        "outputText",
        "summary_text",
    ]
)
"""Keys under which providers send text piece by piece."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.\-/:$ ]{0,40}$")
_PII_IN_KEY = re.compile(r"@|[0-9][0-9 .\-]{7}|[A-Z][a-z]+ [A-Z]|-----|eyJ|\.[0-9]{1,3}\.")


Channel = tuple[object, ...]
"""What tells the streams inside one answer apart: the indices and ids around a delta, and its keys."""
Span = tuple[int, int, str]
"""Start, end, and a note: the new text of an edit, or whatever belongs to a finding."""


class Leaf:
    """One string or long number of a document."""

    __slots__ = ("channel", "child", "edits", "findings", "is_number", "ordinal", "prefix", "text")

    def __init__(self, text: str, prefix: str, ordinal: int, is_number: bool) -> None:
        self.text = text
        self.prefix = prefix
        """Its key as context, ``"phone: "``, or nothing."""
        self.ordinal = ordinal
        """Its place among all strings and numbers of its document."""
        self.is_number = is_number
        self.child: Node | None = None
        self.channel: Channel | None = None
        """Which stream of deltas the text is a piece of, where it is one."""
        self.edits: Sequence[Span] = ()
        """What is replaced in the text, in order, without overlap."""
        self.findings: Sequence[Span] = ()
        """What was found in the text; the note is the redactor's."""


class Node:
    """A text and its leaves, in the order of the text."""

    __slots__ = ("leaves", "raw", "whole")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.leaves: list[Leaf] = []
        self.whole = False
        """The text is no JSON: its one leaf is all of it."""


_PREFIXES: dict[str, tuple[str, bool]] = {}
"""Key -> its prefix, and whether its parent may say more (``{"phone": {"number": ...}}``)."""
_SAYS_NOTHING = ("", False)


def _key_says(key: str) -> tuple[str, bool]:
    held = _PREFIXES.get(key)
    if held is None:
        if len(_PREFIXES) > 20_000:
            _PREFIXES.clear()
        sayable = len(key) <= 64 and "\n" not in key
        held = _PREFIXES[key] = (
            f"{key}: " if sayable and _SENSITIVE.search(key) else "",
            sayable and (key.lower() in _GENERIC or key.lower() == "name"),
        )
    return held


def prefix_of(key: str, parent: str = "") -> str:
    """Return how a key stands before its value as context: ``"phone: "``, or nothing where it says nothing."""
    prefix, generic = _key_says(key)
    return f"{parent} {key}: " if generic and parent and _key_says(parent)[0] else prefix


_WORDS: set[str] = set()
"""Values seen that are words like ``assistant``: they hold nothing, unless their key makes them a name or a password."""
_PLAIN_KEYS: dict[str, bool] = {}


def _is_plain_key(name: str) -> bool:
    """Whether a key is an identifier, which names a field and holds nobody's data."""
    plain = _PLAIN_KEYS.get(name)
    if plain is None:
        if len(_PLAIN_KEYS) > 20_000:
            _PLAIN_KEYS.clear()
        plain = _PLAIN_KEYS[name] = (
            (len(name) <= 4 and '"' not in name)
            or (name.isidentifier() and name.isascii())
            or (_PII_IN_KEY.search(name) is None and _IDENTIFIER.match(name) is not None)
        )
    return plain


def plant(text: str, key: str = "", parent: str = "", *, stream: bool = False, telling: frozenset[str] = frozenset()) -> Node:
    """Return the tree of the text found under the key.

    `stream` marks one event of a stream. `telling` are keys of the policy's own that say what their value is.
    """
    return _plant(text, key, parent, 0, stream=stream, telling=telling)


def _plant(
    text: str, key: str, parent: str, depth: int, *, stream: bool = False, telling: frozenset[str] = frozenset()
) -> Node:
    node = Node(text)
    if looks_like_json(text) and depth < MAX_DEPTH:
        try:
            value: Any = orjson.loads(text)
            gatherer = _Gatherer(node, depth, stream, telling)
            gatherer.walk(value, key, parent)
            if gatherer.is_complete():
                return node
        except (orjson.JSONDecodeError, RecursionError):
            pass
        node.leaves.clear()
        try:
            pairs: Any = json.loads(text, object_pairs_hook=tuple)
            gatherer = _Gatherer(node, depth, stream, telling)
            gatherer.walk(pairs, key, parent)
        except (ValueError, RecursionError):
            node.leaves.clear()
        else:
            return node
    node.whole = True
    node.leaves.append(Leaf(text, f"{key}: " if key in telling else prefix_of(key, parent), 0, False))
    return node


def looks_like_json(text: str) -> bool:
    """Whether the text begins and ends like a JSON object, array or string that is worth parsing."""
    if len(text) < 5:
        return False
    first = text[0]
    if first in " \t\r\n":
        text = text.strip()
        first = text[:1]
    return (
        (first == "{" and text[-1] in "} \n\t\r")
        or (first == "[" and text[-1] in "] \n\t\r")
        or (first == '"' and text[-1] == '"')
    )


class _Gatherer:
    __slots__ = ("channel", "depth", "node", "ordinal", "quotes", "stream", "strings", "telling")

    def __init__(self, node: Node, depth: int, stream: bool, telling: frozenset[str]) -> None:
        self.telling = telling
        self.stream = stream
        self.channel: Channel | None = () if stream else None
        self.node = node
        self.depth = depth
        self.ordinal = 0
        self.strings = 0
        self.quotes = 0

    def is_complete(self) -> bool:
        """Whether every string of the text was seen: repeated keys would leave quotation marks over."""
        raw = self.node.raw
        return raw.count('"') - self.quotes == 2 * self.strings and (self.quotes == 0 or "\\u0022" not in raw)

    def walk(self, value: Any, key: str, parent: str) -> None:
        kind = type(value)
        if kind is str:
            self._string(value, key, parent)
        elif kind is dict:
            if self.stream or "delta" in value:
                self._event(value.items(), value, key)
                return
            if "value" in value:
                key = _field_name(value, key)
            # Written out rather than called: three in four strings of an agent's JSON are keys and words like ``assistant``.
            quiet, telling = self.channel is None, self.telling
            for name, item in value.items():
                self.strings += 1
                if not _PLAIN_KEYS.get(name):
                    self._key(name)
                self.ordinal += 1
                if type(item) is str:
                    if quiet and item in _WORDS and _PREFIXES.get(name) == _SAYS_NOTHING and name not in telling:
                        self.strings += 1
                        self.ordinal += 1
                    else:
                        self._string(item, name if name != "value" else key or name, key)
                elif item is None or item is True or item is False:
                    continue
                else:
                    self.walk(item, name, key)
        elif kind is list:
            if (
                len(value) == 2
                and type(value[0]) is str
                and type(value[1]) is str
                and value[0].isascii()
                and len(value[0]) < 40
            ):
                # A pair, as headers are kept: the first names the second.
                self._string(value[0], key, parent)
                self._string(value[1], value[0], key)
                return
            for item in value:
                self.walk(item, key, parent)
        elif kind is tuple:
            if self.stream or any(name == "delta" for name, _ in value):
                self._event(value, dict(value), key)
                return
            for name, item in value:
                self.strings += 1
                self._key(name)
                self.ordinal += 1
                self.walk(item, name, key)
        elif kind is int:
            if value > _LONG_NUMBER or (value > 9999 and self._prefix(key, parent)):
                self.node.leaves.append(Leaf(str(value), self._prefix(key, parent), self.ordinal, True))
            self.ordinal += 1
        elif kind is float:
            self.ordinal += 1

    def _event(self, pairs: Iterable[tuple[str, Any]], held: Mapping[str, Any], key: str) -> None:
        """Walk an object that holds a delta, or any object of a stream: pieces of text get the channel that they belong to."""
        outer = self.channel
        ids = tuple(str(held[name]) for name in _CHANNEL_IDS if name in held)
        within = outer if outer is not None else ()
        for name, item in pairs:
            self.strings += 1
            self._key(name)
            self.ordinal += 1
            if name == "delta" or outer is not None:
                self.channel = (*within, *ids, name) if name == "delta" or self.stream or ids else (*within, name)
            if type(item) is str:
                self._string(item, name, key)
            else:
                self.walk(item, name, key)
            self.channel = outer

    def _key(self, name: str) -> None:
        if '"' in name:
            self.quotes += name.count('"')
        if not _is_plain_key(name):
            self.node.leaves.append(Leaf(name, "", self.ordinal, False))

    def _prefix(self, key: str, parent: str) -> str:
        return f"{key}: " if key in self.telling else prefix_of(key, parent)

    def _string(self, text: str, key: str, parent: str) -> None:
        self.strings += 1
        if '"' in text:
            self.quotes += text.count('"')
        if self.channel is None and (
            len(text) < 3 or (len(text) < 24 and text.islower() and text.isidentifier() and text.isascii())
        ):
            if len(_WORDS) > 20_000:
                _WORDS.clear()
            if '"' not in text:
                _WORDS.add(text)
            prefix = self._prefix(key, parent)
            if len(text) > 2 and prefix:
                self.node.leaves.append(Leaf(text, prefix, self.ordinal, False))
        elif text:
            leaf = Leaf(text, self._prefix(key, parent), self.ordinal, False)
            if self.channel is not None and (key in _DELTA_KEYS):
                leaf.channel = (*self.channel, key)
            elif (text[0] in '{["' or text[0].isspace()) and looks_like_json(text):
                child = _plant(text, key, parent, self.depth + 1, telling=self.telling)
                if not child.whole:
                    leaf.child = child
            self.node.leaves.append(leaf)
        self.ordinal += 1


def _field_name(value: Mapping[str, Any], key: str) -> str:
    """Return what a ``{"name": "email", "value": ...}`` field calls its value."""
    for name in ("name", "key", "field", "label"):
        held = value.get(name)
        if type(held) is str and len(held) < 40:
            return held
    return key


def leaves_of(node: Node) -> Iterator[Leaf]:
    """Yield the leaves that hold text or numbers, in order, through all depths."""
    for leaf in node.leaves:
        if leaf.child is None:
            yield leaf
        else:
            yield from leaves_of(leaf.child)


def render(node: Node) -> str:
    """Return the node's text with the edits of its leaves in place, every other byte as it was."""
    if node.whole:
        return apply(node.raw, node.leaves[0].edits)
    changed: list[tuple[Leaf, str]] = []
    for leaf in node.leaves:
        if leaf.child is not None:
            new = render(leaf.child)
            if new is not leaf.text:
                changed.append((leaf, new))
        elif leaf.edits:
            changed.append((leaf, apply(leaf.text, leaf.edits)))
    if not changed:
        return node.raw
    if len(changed) <= _FEW:
        quick = _splice_quickly(node.raw, changed)
        if quick is not None:
            return quick
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
    return _placed(node, lambda leaf: leaf.edits, lambda new: json.dumps(new, ensure_ascii=False)[1:-1])


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
    out: list[Span] = []
    if not pending:
        return out
    queue = iter(pending)
    leaf, own = next(queue)
    for ordinal, (start, end) in enumerate(tokens(node.raw)):
        if ordinal != leaf.ordinal:
            continue
        if leaf.is_number:
            out.extend((start + a, start + b, note) for a, b, note in own)
        else:
            offsets = raw_offsets(node.raw[start:end])
            for a, b, note in own:
                left, right = (offsets[a], offsets[b]) if offsets else (a + 1, b + 1)
                out.append((start + left, start + right, spell(note)))
        following = next(queue, None)
        if following is None:
            break
        leaf, own = following
    return out


_FEW = 64
"""Changed leaves for which searching the text is cheaper than reading it token by token."""


def _splice_quickly(raw: str, changed: Sequence[tuple[Leaf, str]]) -> str | None:
    """Replace each leaf where its encoding stands in the text; None where that place is in doubt.

    It is beyond doubt where the encoding occurs as often as leaves with that text are to be changed.
    """
    encodings: dict[str, tuple[Callable[[str], str], str]] = {}
    wanted: dict[str, int] = {}
    for leaf, _ in changed:
        wanted[leaf.text] = wanted.get(leaf.text, 0) + 1
    for text, count in wanted.items():
        if text[0] in ":,{}[] \t\r\n":
            return None
        for encode in (_encode_utf8, _encode_ascii):
            old = encode(text)
            found = raw.count(old)
            if found:
                break
        else:
            return None
        if found != count:
            return None
        encodings[text] = encode, old
    pieces: list[str] = []
    cursor = 0
    for leaf, new in changed:
        encode, old = encodings[leaf.text]
        at = raw.find(old, cursor)
        if leaf.is_number or at < 0 or (at and raw[at - 1] == "\\"):
            return None
        pieces.append(raw[cursor:at])
        pieces.append(encode(new))
        cursor = at + len(old)
    pieces.append(raw[cursor:])
    return "".join(pieces)


def _encode_utf8(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except orjson.JSONEncodeError:
        return json.dumps(text, ensure_ascii=False)


def _encode_ascii(text: str) -> str:
    return json.dumps(text)


_TOKEN = re.compile(r'"|-?[0-9][0-9.eE+-]*')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)


def tokens(raw: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every string (with its quotes) and number of a JSON text, in order."""
    position = 0
    scan: Callable[[str, int, bool], tuple[str, int]] = scanstring
    while (match := _TOKEN.search(raw, position)) is not None:
        start = match.start()
        if raw[start] == '"':
            position = scan(raw, start + 1, False)[1]
        else:
            position = match.end()
        yield start, position


def raw_offsets(token: str) -> list[int] | None:
    """Return, for each character of the string that a JSON token spells and for its end, the offset in the token.

    None where every character stands for itself (offset + 1).
    """
    if "\\" not in token:
        return None
    offsets: list[int] = []
    position = 1
    last = len(token) - 1
    for match in _ESCAPE.finditer(token, 1, last):
        offsets.extend(range(position, match.start()))
        offsets.append(match.start())
        position = match.end()
    offsets.extend(range(position, last + 1))
    return offsets
