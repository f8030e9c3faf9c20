"""Walk a text that may be JSON down to its leaves.

Strings inside JSON that are JSON again are walked too. Keys are context for their values, and separate leaves
if they do not look like identifiers. orjson does the parsing; if its result may differ from the text (repeated
keys, lone surrogates), the
slower parser that keeps everything takes over. Text that is not JSON is one leaf. `splice` writes changed leaves back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final, cast

import orjson

from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.leaves.key_context import FIELD_VALUES, MIN_NUMBER, SPEAKS_FOR_PARENT, KeyContexts, field_name
from freezeframe_redaction.leaves.tables import MIN_ROWS, lines_of_json, tables_in
from freezeframe_redaction.leaves.tree import Channel, Columns, Leaf, SharedLeaves, Tree

DELTA_KEYS: Final = frozenset(
    "delta content text arguments partial_json thinking reasoning reasoning_content refusal transcript completion response"
    " input generated_text outputText summary_text yields".split()
)
"""Keys under which providers send text piece by piece, and the one under which a generator's items are recorded."""
_SHORT_PIECE: Final = 12
"""Mean length of the pieces of a model's stream, at most: each is a token or a few."""


def spell_one_text(items: list[Any]) -> bool:
    """Return whether yielded texts are pieces of one streamed text, and not separate values.

    Pieces contain the text's spaces. Lines do so as well, and short pieces with a line break; one line among longer
    texts is a value like them.
    """
    texts = [item for item in items if type(item) is str and item]
    for item in items:
        if type(item) is dict:
            texts += [text for name, text in item.items() if name in DELTA_KEYS and type(text) is str and text]
    seams = [one[-1] + next_[0] for one, next_ in pairwise(texts)]
    if any(" " in seam or "\t" in seam for seam in seams):
        return True
    spaced = sum(seam[0].isspace() or seam[1].isspace() for seam in seams)
    return spaced == len(seams) > 0 or (spaced > 0 and sum(map(len, texts)) <= _SHORT_PIECE * len(texts))


MAX_DEPTH: Final = 8
"""Depth of JSON in JSON: deeper text is scanned as text, so nothing is missed, but its escapes are not undone."""
_CHANNEL_IDS: Final = ("index", "item_id", "output_index", "content_index", "summary_index", "type", "object")
_HALVES: Final = {"first": "last", "last": "first", "given": "family", "family": "given"}
"""Keys that mean names only together."""
_YIELDS: Final = "yields"
_ROW_KEYS: Final = frozenset(["rows", "data", "values"])
"""Keys of the rows of a table, next to the key ``columns``."""
_SCALARS: Final = frozenset([str, int, float])
_JSON_BEGINS: Final = frozenset('{[" \t\r\n')
_JSON_ENDS: Final = frozenset('}]" \t\r\n')
_JSON_BRACKETS: Final = frozenset(["{}", "[]", '""'])
_MAX_WORD_LENGTH: Final = 24
_MAX_NAME_LENGTH: Final = 40
ASKS: Final = frozenset(["assistant", "model", "ai"])
"""Roles of models."""
_ANSWERS: Final = frozenset(["user", "human"])
_SAID: Final = frozenset(["content", "text"])
"""Keys of a message's text next to its role."""
_LAST_QUESTION: Final = re.compile(r"[^.!?？؟\n\x1f]{2,120}[?？؟][\"”»)*_]{0,3}\s{0,3}\Z")
_MAX_QUESTION_LENGTH: Final = 130
_MAX_ANSWER_LENGTH: Final = 80
_MAX_WORDS: Final = 20_000


def parse_tree(
    text: str,
    keys: KeyContexts,
    key: str = "",
    parent: str = "",
    *,
    stream: bool = False,
    deadline: Deadline = NEVER,
    shared: SharedLeaves | None = None,
) -> Tree:
    """Return the tree of the text found under the key.

    `stream` marks one event of a stream. `keys` gives the meaning of keys. `shared` are leaves that trees which
    are settled together have in common: what becomes of such a leaf becomes of its text everywhere.

    Raises:
        OutOfTimeError: the deadline has passed; it is checked every few kilobytes.
    """
    return _plant(text, keys, key, parent, 0, () if stream else None, deadline, shared=shared)


def plant_number(value: float, keys: KeyContexts, key: str, parent: str = "") -> Tree | None:
    """Return the tree of a number found under the key, or None if it is too short to be private, or not whole."""
    if value < keys.least(key, parent) or not (isinstance(value, int) or value.is_integer()):
        return None
    text = str(int(value))
    return Tree(text, [Leaf(text, keys.prefix(key, parent), 0, is_number=True)], whole=True)


def looks_like_json(text: str) -> bool:
    """Return whether the text begins and ends like a JSON object, array or string that is worth parsing."""
    if len(text) < 5 or text[-1] not in _JSON_ENDS:
        return False
    bare = text.strip(" \t\r\n")
    return bare[:1] + bare[-1:] in _JSON_BRACKETS


def _plant(
    text: str,
    keys: KeyContexts,
    key: str,
    parent: str,
    depth: int,
    channel: Channel | None,
    deadline: Deadline,
    columns: Columns | None = None,
    shared: SharedLeaves | None = None,
) -> Tree:
    deadline.check_for(len(text))
    if depth < MAX_DEPTH and looks_like_json(text):
        for load in (orjson.loads, _load_pairs):
            if keys.paths:
                walk = _PathWalk(keys, depth, channel, deadline, columns, shared)
                walk.place = f"{parent}.{key}"
            else:
                walk = _Walk(keys, depth, channel, deadline, columns, shared)
            try:
                strings = walk.value(load(text), key, parent, 0) - walk.numbers
            except (ValueError, RecursionError):
                continue
            if load is _load_pairs or walk.saw_all(text, strings):
                return Tree(text, walk.leaves, ordinals=walk.ordinals)
    if depth < MAX_DEPTH and holds_events(text):
        lines = _plant_events(text, keys, key, parent, depth, deadline, {} if shared is None else shared)
        if lines is not None:
            return lines
    if text.count("\n") >= MIN_ROWS - 1:
        if depth < MAX_DEPTH and lines_of_json(text):
            return _plant_lines(text, keys, depth, deadline)
        rows = _plant_tables(text, keys)
        if rows is not None:
            return rows
    return Tree(text, [Leaf(text, keys.prefix(key, parent), 0)], whole=True)


def holds_events(text: str) -> bool:
    """Return whether the text may hold the lines of a stream, as someone pastes them or a tool prints them."""
    return "data: {" in text or '"delta":' in text


_EVENT = re.compile(r"^(?:data: ?)?(\{.*\})[ \t]*\r?$", re.MULTILINE)
_MIN_EVENTS: Final = 2
_NO_TEXT: Final = frozenset(["", "data:"])


def _plant_events(
    text: str, keys: KeyContexts, key: str, parent: str, depth: int, deadline: Deadline, shared: SharedLeaves
) -> Tree | None:
    """Return the tree of a text with several lines of JSON, whose deltas spell one text; None if it has no such lines."""
    events = list(_EVENT.finditer(text))
    if len(events) < _MIN_EVENTS:
        return None
    channel: Channel = (object(),)  # another dump of events in the same span is another stream
    leaves: list[Leaf] = []
    starts: list[int] = []

    def add(start: int, end: int, channel: Channel | None) -> None:
        leaf = Leaf(text[start:end], "", len(leaves))
        below = depth + 1 if channel else MAX_DEPTH
        leaf.child = _plant(leaf.text, keys, key, parent, below, channel, deadline, shared=shared)
        leaves.append(leaf)
        starts.append(start)

    last = 0
    for event in events:
        if text[last : event.start(1)].strip() not in _NO_TEXT:
            add(last, event.start(1), None)
        add(*event.span(1), channel)
        last = event.end(1)
    if text[last:].strip():
        add(last, len(text), None)
    return Tree(text, leaves, starts=starts)


_LINE: Final = re.compile("[^\n]+")


def _plant_lines(text: str, keys: KeyContexts, depth: int, deadline: Deadline) -> Tree:
    """Return the tree of a text whose lines are JSON objects; any other line is read as a text."""
    leaves: list[Leaf] = []
    starts: list[int] = []
    columns: Columns | None = None
    for line in _LINE.finditer(text):
        leaf = Leaf(line.group(), "", len(leaves))
        try:
            held: Any = orjson.loads(leaf.text)
        except ValueError:
            held = None
        if type(held) is dict:
            columns = Columns(tuple(cast("dict[str, Any]", held))) if columns is None else columns
            child = _plant(leaf.text, keys, "", "", depth + 1, None, deadline, columns if is_record(held) else None)
            leaf.child = None if child.whole else child
        leaves.append(leaf)
        starts.append(line.start())
    return Tree(text, leaves, starts=starts)


def _plant_tables(text: str, keys: KeyContexts) -> Tree | None:
    """Return the tree of a text with tables of many rows, each cell a value of its heading; None if it has none."""
    leaves: list[Leaf] = []
    starts: list[int] = []

    def add(start: int, end: int, prefix: str = "") -> Leaf:
        leaf = Leaf(text[start:end], prefix, len(leaves))
        leaves.append(leaf)
        starts.append(start)
        return leaf

    past = 0
    for table in tables_in(text):
        columns = Columns(table.headings)
        add(past, table.begin)
        keyed = [(_key_of(heading, keys), columns[heading, ""]) for heading in table.headings]
        for row in table.rows:
            for (start, end), (key, column) in zip(row, keyed, strict=True):
                cell, prefix = text[start:end], keys.prefix(key, "")
                if not cell or (not prefix and (is_plain(cell) or len(cell) < _MIN_CELL_LENGTH) and cell not in keys.wanted):
                    continue
                leaf = add(start, end, prefix)
                leaf.column = column
                leaf.is_nobodys = len(cell) < _MAX_NAME_LENGTH and keys[key].is_nobodys
        past = table.end
    if not starts:
        return None
    if text[past:].strip():
        add(past, len(text))
    return Tree(text, leaves, starts=starts)


_MIN_CELL_LENGTH: Final = 3


def _key_of(heading: str, keys: KeyContexts) -> str:
    """Return the key for a heading: ``First Name`` is ``first_name``."""
    return heading if keys.is_told(heading) else heading.replace(" ", "_")


_MESSAGE_KEYS: Final = frozenset(["role", "content", "parts", "call_id", "tool_calls", "summary", "arguments"])


def is_record(item: Any) -> bool:
    """Return whether an object is a record of data, and not (part of) a message, as in growing `histories`."""
    return type(item) is dict and _MESSAGE_KEYS.isdisjoint(cast("dict[str, Any]", item))


def _load_pairs(text: str) -> Any:
    """Parse JSON with each object as a tuple of pairs, repeated keys and all.

    Raises:
        ValueError: the text is not JSON.
    """
    return json.loads(text, object_pairs_hook=tuple)


_words: set[str] = set()
"""Values seen that are words like ``assistant``: they are not private, unless their key makes them a name or a password."""


class _Walk:
    """One pass over a parsed document. Each method takes the ordinal of the first string or number and returns the next one."""

    __slots__ = (
        "_asked", "_channel", "_columns", "_deadline", "_depth", "_keys", "_pieces", "_quotes", "_role", "_shared", "_stream",
        "leaves", "numbers", "ordinals",
    )  # fmt: skip

    def __init__(
        self,
        keys: KeyContexts,
        depth: int,
        channel: Channel | None,
        deadline: Deadline,
        columns: Columns | None,
        shared: SharedLeaves | None,
    ) -> None:
        self._keys = keys
        self._columns = columns
        self._shared = shared
        self._deadline = deadline
        self._depth = depth
        self._stream = channel is not None
        self._channel = channel
        self._pieces: Channel | None = None
        self._quotes = 0
        self._role = self._asked = ""
        self.leaves: list[Leaf] = []
        self.ordinals: list[int] = []
        self.numbers = 0

    def saw_all(self, raw: str, strings: int) -> bool:
        """Return whether every string of the text was seen: repeated keys would leave quotation marks over."""
        return raw.count('"') - self._quotes == 2 * strings and (self._quotes == 0 or "\\u0022" not in raw)

    def value(self, value: Any, key: str, parent: str, ordinal: int) -> int:
        """Walk any value."""
        kind = type(value)
        if kind is str:
            return self._text(value, self._keys.prefix(key, parent), key, parent, ordinal)
        if kind is list:
            return self._list(value, key, parent, ordinal)
        if kind is dict:
            return self._object(value.items(), value, key, ordinal)
        if kind is tuple:
            return self._object(value, dict(value), key, ordinal)
        if kind is int or (kind is float and value.is_integer()):  # a data frame makes every number a float
            self._number(int(value), key, parent, ordinal)
        if kind is int or kind is float:
            self.numbers += 1
            return ordinal + 1
        return ordinal

    def _object(self, pairs: Iterable[tuple[str, Any]], held: Mapping[str, Any], key: str, ordinal: int) -> int:
        if self._stream or "delta" in held:
            return self._event(pairs, held, key, ordinal)
        keys = self._keys
        wanted = keys.wanted
        if "role" in held:
            self._role = str(held["role"])
        if not FIELD_VALUES.isdisjoint(held):
            key = field_name(held, key, keys)
        around, of_things = keys[key].prefix, keys[key].is_nobodys
        quiet = self._channel is None and self._pieces is None
        shared = self._shared if quiet and self._columns is None else None
        # Most of an agent's JSON is plain keys, words like ``assistant`` and lists of objects: these take no call of a method.
        for name, item in pairs:
            prefix, defers, plain, _, nobodys = keys[name]
            if not plain:
                self._key(name, ordinal)
            ordinal += 1
            kind = type(item)
            if kind is str:
                if defers and (around or of_things):
                    prefix = around if name in SPEAKS_FOR_PARENT else f"{key} {name}: "
                    nobodys = of_things
                if prefix or (self._role and name in _SAID):
                    if name in _HALVES and _HALVES[name] in held:
                        prefix = f"{name}_name: "
                    ordinal = self._text(item, prefix, name, key, ordinal)
                elif item in _words and quiet and item not in wanted:
                    ordinal += 1
                elif shared and not nobodys and item in shared:
                    self.leaves.append(shared[item])
                    self.ordinals.append(ordinal)
                    ordinal += 1
                else:
                    ordinal = self._text(item, prefix, name, key, ordinal)
            elif kind is dict:
                ordinal = self._object(item.items(), item, name, ordinal)
            elif kind is list:
                if name in _ROW_KEYS and "columns" in held:
                    ordinal = self._rows(item, held["columns"], name, key, ordinal)
                else:
                    ordinal = self._list(item, name, key, ordinal)
            elif item is not None and item is not True and item is not False:
                ordinal = self.value(item, name, key, ordinal)
        return ordinal

    def _rows(self, rows: list[Any], columns: Any, key: str, parent: str, ordinal: int) -> int:
        """Walk rows whose columns are named once: ``{"columns": ["id", "ssn"], "rows": [[1, "536-22-8713"]]}``."""
        if type(columns) is not list or not all(type(column) is str for column in cast("list[Any]", columns)):
            return self._list(rows, key, parent, ordinal)
        outer = self._columns
        if outer is None and len(rows) >= MIN_ROWS:
            self._columns = Columns(cast("list[str]", columns))
        for row in rows:
            if type(row) is list and len(cast("list[Any]", row)) == len(cast("list[Any]", columns)):
                for column, cell in zip(cast("list[str]", columns), cast("list[Any]", row), strict=True):
                    ordinal = self.value(cell, column, key, ordinal)
            else:
                ordinal = self.value(row, key, parent, ordinal)
        self._columns = outer
        return ordinal

    def _list(self, items: list[Any], key: str, parent: str, ordinal: int) -> int:
        if len(items) == 2 and key != _YIELDS and type(items[0]) is str and type(items[1]) is str and self._is_name(items[0]):
            # A pair, as headers are kept: the first names the second.
            return self.value(items[1], items[0], key, self.value(items[0], key, parent, ordinal))
        if self._columns is None and len(items) >= MIN_ROWS and is_record(items[0]):
            self._columns = Columns(tuple(items[0]))
            ordinal = self._list(items, key, parent, ordinal)
            self._columns = None
            return ordinal
        outer, around = self._channel, self._pieces
        if key == _YIELDS and outer is None and around is None and len(items) > 1:
            ours = (object(),)  # what another generator yielded is another text
            if spell_one_text(items):
                self._channel = ours
            self._pieces = ours
        for at, item in enumerate(items):
            if around is not None:
                self._pieces = (*around, at)  # a tuple has its text in one place
            if type(item) is dict:
                ordinal = self._object(item.items(), item, key, ordinal)
            else:
                ordinal = self.value(item, key, parent, ordinal)
        self._channel, self._pieces = outer, around
        return ordinal

    def _is_name(self, text: str) -> bool:
        return len(text) < _MAX_NAME_LENGTH and text.isascii() and self._keys[text].prefix != ""

    def _event(self, pairs: Iterable[tuple[str, Any]], held: Mapping[str, Any], key: str, ordinal: int) -> int:
        """Walk an object that holds a delta, or any object of a stream: pieces of text get the channel that they belong to."""
        keys, outer = self._keys, self._channel
        shared = self._shared if self._columns is None and self._pieces is None else None
        ids: Channel | None = None
        for name, item in pairs:
            prefix, defers, plain, _, nobodys = keys[name]
            if not plain:
                self._key(name, ordinal)
            ordinal += 1
            if item is None or item is True or item is False:
                continue
            # Channels are for pieces and for what may contain pieces; most of an event is neither.
            if (name == "delta" or outer is not None) and (name in DELTA_KEYS or type(item) not in _SCALARS):
                if ids is None:
                    ids = tuple([str(held[part]) for part in _CHANNEL_IDS if part in held])
                self._channel = (*(outer or ()), *ids, name)
                ordinal = self.value(item, name, key, ordinal)
                self._channel = outer
            elif not prefix and type(item) is str and (not defers or not keys.prefix(name, key)):
                if item in _words and self._is_nothing(item):
                    ordinal += 1
                elif shared and not nobodys and item in shared and not (self._role and name in _SAID):
                    self.leaves.append(shared[item])
                    self.ordinals.append(ordinal)
                    ordinal += 1
                else:
                    ordinal = self._text(item, "", name, key, ordinal)
            else:
                ordinal = self.value(item, name, key, ordinal)
        return ordinal

    def _is_nothing(self, word: str) -> bool:
        return self._pieces is None and word not in self._keys.wanted

    def _key(self, name: str, ordinal: int) -> None:
        """Keep a key that may hold private data."""
        self._quotes += name.count('"')
        self._add(Leaf(name, "", ordinal), ordinal)

    def _add(self, leaf: Leaf, ordinal: int) -> None:
        self.leaves.append(leaf)
        self.ordinals.append(ordinal)

    def _number(self, value: int, key: str, parent: str, ordinal: int) -> None:
        if value >= MIN_NUMBER and value >= self._keys.least(key, parent):
            self._add(Leaf(str(value), self._keys.prefix(key, parent), ordinal, is_number=True), ordinal)

    def _turn(self, text: str) -> str:
        """Return the question as context, if the text is a user's answer to a model's question."""
        asked, self._asked = self._asked, ""
        if self._role in ASKS and (question := _LAST_QUESTION.search(text, max(0, len(text) - _MAX_QUESTION_LENGTH))):
            self._asked = f"{question.group().strip()}\nA: "
        return asked if self._role in _ANSWERS and len(text) <= _MAX_ANSWER_LENGTH else ""

    def _text(self, text: str, prefix: str, key: str, parent: str, ordinal: int) -> int:
        if self._role and key in _SAID:
            prefix = self._turn(text) or prefix
        is_piece = self._channel is not None and key in DELTA_KEYS
        if '"' in text:
            self._quotes += text.count('"')
        elif len(text) < _MAX_WORD_LENGTH and not is_piece and self._pieces is None and _is_word(text):
            if (prefix and (len(text) > 2 or self._keys.is_told(key))) or text in self._keys.wanted:
                leaf = Leaf(text, prefix, ordinal)
                if self._columns is not None:
                    leaf.column = self._columns[key, parent]
                self._add(leaf, ordinal)
            return ordinal + 1
        if not text:
            return ordinal + 1
        leaf = Leaf(text, prefix, ordinal)
        if len(text) < _MAX_NAME_LENGTH and self._keys.is_nobodys(key, parent):
            leaf.is_nobodys = True
        if is_piece and self._channel is not None:
            leaf.channel = (*self._channel, key)
        elif self._pieces is not None and not (looks_like_json(text) or holds_events(text)):
            leaf.piece_of = (*self._pieces, parent, key)
        elif (text[0] in _JSON_BEGINS and looks_like_json(text)) or holds_events(text):
            child = _plant(text, self._keys, key, parent, self._depth + 1, None, self._deadline, shared=self._shared)
            if not child.whole:
                leaf.child = child
        elif self._columns is not None:
            leaf.column = self._columns[key, parent]
        elif self._shared is not None and not prefix and not leaf.is_nobodys and '"' not in text:
            leaf = self._shared.setdefault(text, leaf)
        self._add(leaf, ordinal)
        return ordinal + 1


class _PathWalk(_Walk):
    """A walk for a policy that names paths of keys: a value at one has the path as its key."""

    __slots__ = ("place",)

    place: str
    """The keys around the value at hand, joined by dots."""

    def _object(self, pairs: Iterable[tuple[str, Any]], held: Mapping[str, Any], key: str, ordinal: int) -> int:
        place, in_event = self.place, self._stream or "delta" in held
        for name, item in pairs:
            self.place = f"{place}.{name}"
            if type(item) is str and self._keys.path_of(self.place) and not (in_event and name in DELTA_KEYS):
                if not self._keys[name].plain:
                    self._key(name, ordinal)
                ordinal = self._text(item, "", name, key, ordinal + 1)
            else:
                ordinal = super()._object(((name, item),), held, key, ordinal)
        self.place = place
        return ordinal

    def _text(self, text: str, prefix: str, key: str, parent: str, ordinal: int) -> int:
        path = self._keys.path_of(self.place)
        return super()._text(text, f"{path}: " if path else prefix, key, parent, ordinal)

    def _number(self, value: int, key: str, parent: str, ordinal: int) -> None:
        path = self._keys.path_of(self.place)
        super()._number(value, path or key, "" if path else parent, ordinal)


def is_plain(text: str) -> bool:
    """Return whether the text is a lower-case word, as programs use them: as a whole value it is not private on its own."""
    return text.islower() and text.isidentifier() and text.isascii()


def _is_word(text: str) -> bool:
    if text in _words:
        return True
    if len(text) > 2 and not is_plain(text):
        return False
    if len(_words) >= _MAX_WORDS:
        _words.clear()
    _words.add(text)
    return True
