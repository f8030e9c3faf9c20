"""Replace the forms of a run's private values in leaves, each by the same form of the value's surrogate.

What a detector finds as well is merged with it: the longer span decides, so that nothing is cut out of a longer value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from freezeframe_redaction import walk
from freezeframe_redaction.cast import Cast, Member
from freezeframe_redaction.detectors.lexicon import COMMON
from freezeframe_redaction.forms import NAME, Form, forms_of, forms_of_name
from freezeframe_redaction.key_context import KeyContexts
from freezeframe_redaction.maker import Maker
from freezeframe_redaction.memory import Memory

_RUN: Final = re.compile(r"[^\W_]+")
_LEAST: Final = 3
_MOST_FORMS: Final = 50_000
"""Forms kept of all casts, each some 500 bytes."""


class Hit(NamedTuple):
    """Where a form stands, and what replaces it."""

    start: int
    end: int
    made: str
    class_: str
    form: str


class Casting:
    """The cast while one span is read: grows by what is found in it. `detects` is False to rewrite what was redacted before."""

    def __init__(self, cast: Cast, indexes: Indexes, *, detects: bool = True) -> None:
        self.cast = cast
        self.detects = detects
        self._indexes = indexes
        self._index: Index | None = None

    @property
    def key(self) -> str:
        """Return what tells this cast from any other one: under it, texts are remembered."""
        return blake2b(self.cast.to_bytes(), digest_size=16).hexdigest() if self.cast else "empty"

    def learn(self, found: Cast) -> None:
        """Add what was found."""
        cast = self.cast.joined(found)
        if cast is not self.cast:
            self.cast, self._index = cast, None

    def hits(self, text: str, blocked: Sequence[tuple[int, int]] = ()) -> list[Hit]:
        """Return where forms stand in the text, in order, without overlap, outside what is blocked."""
        return self.index.hits(text, blocked)

    @property
    def index(self) -> Index:
        """Return the forms of the cast."""
        if self._index is None:
            self._index = self._indexes.of(self)
        return self._index

    def keys(self, keys: KeyContexts) -> KeyContexts:
        """Return the same for a walk that shall see the forms that are plain words."""
        return self.index.keys(keys) if self.cast else keys


class Indexes:
    """The indexes of the casts that were met last: a run has the same cast for many spans. Safe to share between threads."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._kept = Memory[str, Index](_MOST_FORMS)

    def of(self, casting: Casting) -> Index:
        """Return the index of a cast."""
        key = casting.key
        index = self._kept.get(key)
        if index is None:
            index = Index(casting.cast, self._maker)
            self._kept.put({key: index}, len(index) + 1)
        return index


class Index:
    """Every form of a cast's values, with what replaces it."""

    def __init__(self, cast: Cast, maker: Maker) -> None:
        self._held: dict[str, Hit] = {}
        self._keys: tuple[KeyContexts, KeyContexts] | None = None
        self._by_run: dict[str, set[tuple[int, int]]] = {}
        spreading = {one.spelling for one in cast.members if one.spreads and one.class_ == NAME}
        for one in sorted((one for one in cast.members if one.spreads), key=_order):
            made = maker.make(one.class_, one.kind, one.spelling)
            self._add(one.class_, forms_of(one.class_, one.spelling), forms_of(one.class_, made))
        for words in cast.pairs:
            if spreading.issuperset(words):
                made = tuple(maker.make(NAME, "", word) for word in words)
                self._add(NAME, forms_of_name(words), forms_of_name(made))
        self.plain: Final = frozenset(form for form in self._held if walk.is_plain(form) and form not in COMMON)
        """Forms that the walk drops where they are whole values; common words stay dropped."""

    def keys(self, keys: KeyContexts) -> KeyContexts:
        """Return the same for a walk that sees `plain`."""
        if not self.plain:
            return keys
        if self._keys is None or self._keys[0] is not keys:
            self._keys = keys, keys.wanting(self.plain)
        return self._keys[1]

    def __len__(self) -> int:
        return len(self._held)

    def _add(self, class_: str, olds: Iterable[Form], news: Iterable[Form]) -> None:
        for (name, old), (_, new) in zip(olds, news, strict=True):
            run = _RUN.search(old)
            if old == new or len(old) < _LEAST or run is None or old in self._held:
                continue
            self._held[old] = Hit(0, 0, new, class_, name)
            self._by_run.setdefault(run.group(), set()).add((run.start(), len(old)))

    def hits(self, text: str, blocked: Sequence[tuple[int, int]] = ()) -> list[Hit]:
        """Return where forms stand by themselves, leftmost and longest; one that another one runs into covers both."""
        found: list[Hit] = []
        if self._by_run.keys().isdisjoint(_RUN.findall(text)):  # most texts: at a tenth of what looking at each run costs
            return found
        past = 0
        for run in _RUN.finditer(text):
            for before, length in sorted(self._by_run.get(run.group(), ()), reverse=True):
                start = run.start() - before
                end = start + length
                held = self._held.get(text[start:end]) if start >= 0 and past < end <= len(text) else None
                if held is None or text[start - 1 : start].isalnum() or text[end : end + 1].isalnum():
                    continue
                if any(start < last and first < end for first, last in blocked):
                    continue
                if start >= past:
                    found.append(held._replace(start=start, end=end))
                else:
                    found[-1] = found[-1]._replace(end=end)
                past = end
                break
        return found


def _order(one: Member) -> tuple[int, str, str]:
    return len(one.spelling), one.class_, one.spelling


def merged(edits: Sequence[walk.Span], hits: Sequence[Hit]) -> list[walk.Span]:
    """Return the edits with the hits. A hit replaces the edits that it covers; where it sticks out of one, that one grows."""
    if not hits:
        return list(edits)
    left = sorted(edits)
    for hit in hits:
        over = [edit for edit in left if edit[0] < hit.end and hit.start < edit[1]]
        if all(hit.start <= start and end <= hit.end for start, end, _ in over):
            grown = [(hit.start, hit.end, hit.made)]
        else:
            starts = [min(over[0][0], hit.start), *(start for start, _, _ in over[1:])]
            ends = [*starts[1:], max(over[-1][1], hit.end)]
            grown = [(start, end, new) for start, end, (_, _, new) in zip(starts, ends, over, strict=True)]
        left = sorted([*(edit for edit in left if edit not in over), *grown])
    return left
