"""Replace the forms of a run's private values in leaves, each by the same form of the value's surrogate.

What a detector finds as well is merged with it: the longer span decides, so that nothing is cut out of a longer value.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

from freezeframe_redaction.casts.book import NOTHING, Cast, Member
from freezeframe_redaction.casts.forms import (
    NAME,
    Needles,
    forms_of,
    forms_of_name,
    hashes_of,
    is_telling,
    last_four,
    may_hold_a_hash,
    needles_of,
    speaks_of_an_end,
)
from freezeframe_redaction.detectors.lexicon import COMMON
from freezeframe_redaction.leaves import walk
from freezeframe_redaction.leaves.key_context import KeyContexts
from freezeframe_redaction.maker import Maker
from freezeframe_redaction.memory import Memory

_RUN: Final = re.compile(r"[^\W_]+")
_BORDERS: Final = bytes(at if chr(at).isalnum() else 32 for at in range(256))
_LEAST: Final = 3
_END: Final = 4
_KEPT: Final = 24_000_000
"""Bytes kept of forms, and as many of indexes of casts."""
_FORM: Final = 500
"""Bytes of a form."""


class Hit(NamedTuple):
    """The place of a form, and what replaces it."""

    start: int
    end: int
    made: str
    class_: str


_NO_NEEDLES: Final = Needles(())


class _Forms:
    """The forms of one value, with what replaces them."""

    __slots__ = ("end", "held", "needles", "plain", "whole")

    def __init__(self, class_: str, olds: Iterable[str], news: Iterable[str]) -> None:
        self.held: dict[str, tuple[str, int, tuple[str, str]]] = {}
        """Form -> its first run of letters and digits, how much is before that, and what replaces it, with its class."""
        for old, new in zip(olds, news, strict=True):
            if old == new or not new or len(old) < _LEAST or old in self.held or not is_telling(class_, old):
                continue
            run, before = (old, 0) if old.isalnum() else _first_run(old)
            if run:
                self.held[old] = run, before, (new, class_)
        self.plain: Final = [form for form in self.held if walk.is_plain(form) and form not in COMMON]
        """Those that the walk drops where they are whole values; common words stay dropped."""
        self.whole: Final = list(self.held)[:1]
        """The value itself."""
        self.needles = needles_of(self.held)
        self.end = ""
        """The last four digits: a form where the text speaks of an end."""

    def add_end(self, class_: str, old: str, new: str) -> None:
        """Add the last four digits."""
        if len(old) == len(new) == _END and old != new and old not in self.held:
            self.end = old
            self.held[old] = old, 0, (new, class_)
            self.needles = (*self.needles, old)


class Casting:
    """The cast while one span is read: grows by what is found in it.

    `since` is what the cast was when the span was redacted: then no detector runs, and only what is new is looked for.
    """

    def __init__(self, cast: Cast, indexes: Indexes, *, since: Cast | None = None) -> None:
        self.cast = cast
        self.detects = since is None
        self._since = since
        self._indexes = indexes
        self._index: Index | None = None

    def learn(self, found: Iterable[Cast]) -> None:
        """Add what was found."""
        found = [one for one in found if one is not NOTHING]
        if not found:
            return
        members = tuple(chain.from_iterable(one.members for one in found))
        cast = self.cast.joined(Cast(members=members, pairs=tuple(chain.from_iterable(one.pairs for one in found))))
        if cast is not self.cast:
            self.cast, self._index = cast, None

    def may_stand_in(self, text: str) -> bool:
        """Return whether a form of what is new since the span was redacted may be in the raw text."""
        needles = None if self._since is None else self.needles(self._since)
        return needles is None or needles.occur_in(text)

    def needles(self, known: Cast) -> Needles | None:
        """Return what a text is searched for that was searched with the cast known then; None if this one holds less."""
        if known is self.cast or known.key == self.cast.key:
            return _NO_NEEDLES
        return self._indexes.needles(known, self.cast)

    def plain_since(self, known: Cast) -> set[str]:
        """Return the forms that a walk drops, of what is new since then."""
        return self.index.plain - self._indexes.of(known).plain

    @property
    def index(self) -> Index:
        """Return the forms of the cast."""
        if self._index is None:
            self._index = self._indexes.of(self.cast)
        return self._index

    def keys(self, keys: KeyContexts) -> KeyContexts:
        """Return the same for a walk that shall see the forms that are plain words."""
        return self.index.keys(keys) if self.cast else keys


class Indexes:
    """The indexes of the casts that were met last: a run has the same cast for many spans. Safe to share between threads."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._kept = Memory[bytes, Index](_KEPT)
        self._needles = Memory[bytes, tuple[Needles | None]](_KEPT)
        self._forms = Memory[Member, _Forms](_KEPT)

    def of(self, cast: Cast) -> Index:
        """Return the index of a cast."""
        index = self._kept.get(cast.key)
        if index is None:
            index = Index(cast, self)
            self._kept.put({cast.key: index}, _FORM * len(index))
        return index

    def needles(self, known: Cast, cast: Cast) -> Needles | None:
        """Return what a text is searched for that was searched with the cast known then; None if this one holds less."""
        place = known.key + cast.key
        held = self._needles.get(place)
        if held is None:
            fresh, gone = cast.beyond(known), known.beyond(cast)
            loses = gone.pairs or any(one.spreads for one in gone.members)
            forms = [self.forms_of(one) for one in fresh.members if one.spreads]
            hashed = [(one.class_, one.spelling) for one in fresh.members if one.spreads and one.class_ != NAME]
            hashed += [(NAME, " ".join(words)) for words in fresh.pairs]
            held = (None if loses else Needles(chain.from_iterable(one.needles for one in forms), hashed),)
            self._needles.put({place: held}, _FORM * len(fresh.members))
        return held[0]

    def forms_of(self, one: Member) -> _Forms:
        """Return the forms of a value, with what replaces them."""
        forms = self._forms.get(one)
        if forms is None:
            made = self._maker.make(one.class_, one.kind, one.spelling)
            forms = _Forms(one.class_, forms_of(one.class_, one.spelling), forms_of(one.class_, made))
            forms.add_end(one.class_, last_four(one.class_, one.spelling), last_four(one.class_, made))
            self._forms.put({one: forms}, _FORM * len(forms.held))
        return forms

    def hashes_of(self, one: Member) -> Iterator[tuple[str, str]]:
        """Yield the hashes of a value, each with what replaces it."""
        made = self._maker.make(one.class_, one.kind, one.spelling)
        return zip(hashes_of(one.class_, one.spelling), hashes_of(one.class_, made), strict=True)

    def hashes_of_name(self, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield the hashes of a name of several words, each with what replaces it."""
        made = (self._maker.make(NAME, "", word) for word in words)
        return zip(hashes_of(NAME, " ".join(words)), hashes_of(NAME, " ".join(made)), strict=True)

    def forms_of_name(self, words: tuple[str, ...]) -> _Forms:
        """Return the forms of a name of several words, with what replaces them."""
        made = tuple(self._maker.make(NAME, "", word) for word in words)
        return _Forms(NAME, forms_of_name(words), forms_of_name(made))


class Index:
    """Every form of a cast's values, with what replaces it."""

    def __init__(self, cast: Cast, indexes: Indexes) -> None:
        self._held: dict[str, tuple[str, str]] = {}
        self.plain: Final = set[str]()
        """Forms that the walk drops where they are whole values."""
        self._ends = set[str]()
        self._keys: tuple[KeyContexts, KeyContexts] | None = None
        self._by_run: dict[str, list[tuple[int, int]]] = {}
        spreading = {one.spelling for one in cast.members if one.spreads and one.class_ == NAME}
        every = [indexes.forms_of(one) for one in sorted((one for one in cast.members if one.spreads), key=_order)]
        for forms in every:  # what a detector finds by itself has its own surrogate in whichever order spans come
            self._add(forms, forms.whole)
        for forms in every:
            self._add(forms, forms.held)
        self._pairs = [words for words in cast.pairs if spreading.issuperset(words)]
        for words in self._pairs:
            forms = indexes.forms_of_name(words)
            self._add(forms, forms.held)
        for places in self._by_run.values():
            places.sort(reverse=True)
        self._cast = cast
        self._indexes = indexes
        self._has_hashes = False

    def keys(self, keys: KeyContexts) -> KeyContexts:
        """Return the same for a walk that sees `plain`."""
        if not self.plain:
            return keys
        if self._keys is None or self._keys[0] is not keys:
            self._keys = keys, keys.wanting(frozenset(self.plain))
        return self._keys[1]

    def __len__(self) -> int:
        return len(self._held)

    def _add(self, forms: _Forms, olds: Iterable[str]) -> None:
        self.plain.update(forms.plain)
        for old in olds:
            run, before, new = forms.held[old]
            if self._held.setdefault(old, new) is new:
                self._by_run.setdefault(run, []).append((before, len(old)))
                if old == forms.end:
                    self._ends.add(old)

    def _add_hashes(self) -> None:
        """Add the hashes of the values, which few texts hold: once it is done twice, nothing changes."""
        hashes = [
            (one.class_, self._indexes.hashes_of(one)) for one in self._cast.members if one.spreads and one.class_ != NAME
        ]
        hashes += [(NAME, self._indexes.hashes_of_name(words)) for words in self._pairs]
        for class_, pairs in hashes:
            for old, new in pairs:
                self._held.setdefault(old, (new, class_))
                self._by_run.setdefault(old, [(0, len(old))])
        self._has_hashes = True

    def begin_in(self, texts: Sequence[str]) -> dict[int, list[tuple[int, str]]]:
        """Return where forms may begin in each of the texts: all are read together, which costs a fraction of one by one."""
        joined = "\0".join(texts)
        if not self._has_hashes and may_hold_a_hash(joined):
            self._add_hashes()
        words = self._by_run.keys() & _runs_in(joined)
        found: dict[int, list[tuple[int, str]]] = {}
        if words:
            starts = [0, *accumulate(len(text) + 1 for text in texts)]
            for place, word in sorted((place, one) for one in words for place in _places(one, joined)):
                at = bisect_right(starts, place) - 1
                found.setdefault(at, []).append((place - starts[at], word))
        return found

    def hits(self, text: str, begins: Iterable[tuple[int, str]], blocked: Sequence[tuple[int, int]] = ()) -> list[Hit]:
        """Return where forms are by themselves, leftmost and longest; one that another one runs into covers both.

        In order, without overlap, outside what is blocked. `begins` is what `begin_in` says of the text.
        """
        found: list[Hit] = []
        past = 0
        for at, word in begins:
            for before, length in self._by_run[word]:
                start = at - before
                end = start + length
                held = self._held.get(text[start:end]) if start >= 0 and past < end <= len(text) else None
                if held is None or text[start - 1 : start].isalnum() or text[end : end + 1].isalnum():
                    continue
                if any(start < last and first < end for first, last in blocked):
                    continue
                if text[start:end] in self._ends and not speaks_of_an_end(text, start, end):
                    continue
                if start >= past:
                    found.append(Hit(start, end, *held))
                else:
                    found[-1] = found[-1]._replace(end=end)
                past = end
                break
        return found


def _first_run(text: str) -> tuple[str, int]:
    run = _RUN.search(text)
    return ("", 0) if run is None else (run[0], run.start())


def _runs_in(text: str) -> list[str]:
    """Return the runs of letters and digits."""
    return text.encode().translate(_BORDERS).decode().split() if text.isascii() else _RUN.findall(text)


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            yield at
        at = text.find(word, end)


def _order(one: Member) -> tuple[int, str, str]:
    return len(one.spelling), one.class_, one.spelling


def merged(edits: Sequence[walk.Span], hits: Sequence[Hit]) -> list[walk.Span]:
    """Return the edits with the hits. A hit replaces the edits that it covers; an edit that it overlaps in part grows."""
    if not hits or [hit[:3] for hit in hits] == list(edits):
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
