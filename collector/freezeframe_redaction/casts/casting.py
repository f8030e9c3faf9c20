"""Replace the forms of a run's private values in leaves, each by the same form of the value's surrogate.

What a detector finds as well is merged with it: the longer span decides, so that nothing is cut out of a longer value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple, Protocol

from freezeframe_redaction.casts import glued
from freezeframe_redaction.casts.book import NOTHING, Cast, Member
from freezeframe_redaction.casts.forms import (
    NAME,
    Needles,
    forms_of,
    forms_of_name,
    hashes_of,
    is_needle,
    is_telling,
    last_four,
    longest_run,
    may_hold_a_hash,
    needle_of,
    shortest,
    speaks_of_an_end,
)
from freezeframe_redaction.detectors.lexicon import COMMON
from freezeframe_redaction.leaves import tree, walk
from freezeframe_redaction.leaves.key_context import KeyContexts
from freezeframe_redaction.memory import Memory

_RUN: Final = re.compile(r"[^\W_]+")
_BORDERS: Final = bytes(at if chr(at).isalnum() else 32 for at in range(256))
_MIN_LETTERS: Final = 3
_END: Final = 4
_KEPT: Final = 24_000_000
"""Bytes kept of forms, and as many of indexes of casts."""
_FORM: Final = 500
"""Bytes of a form."""


class Hit(NamedTuple):
    """The place of a form, and its replacement."""

    start: int
    end: int
    made: str
    class_: str


class MakesSurrogates(Protocol):
    """Makes surrogates: by a key (`Maker`), or from the pairs of a replay without a key."""

    def make(self, class_: str, kind: str, value: str) -> str:
        """Return the surrogate of a value; the value itself if it has none."""
        ...


_Blocked = Callable[[str], Sequence[tuple[int, int]]]
"""Returns the stretches of a text in which nothing is replaced."""
_NO_NEEDLES: Final = Needles(())


_Order = tuple[int | str, ...]
_Rank = tuple[int, _Order]
_WHOLE, _VALUE, _NAME = range(3)
"""A value itself, another form of one, a form of a name of several words: the first of them determines the replacement."""
_Places = tuple[tuple[int, int], ...]
"""Length of a form before its longest run of letters and digits, and length of the form."""


class _Form(NamedTuple):
    made: str
    class_: str
    rank: _Rank
    is_part: bool = False
    """The last four digits, a name cut at a length: a form only if the text speaks of an ending, or is nothing else."""


class _Forms:
    """The forms of one value, with their replacements."""

    def __init__(self, class_: str, order: _Order, kind: int, olds: Iterable[str], news: Iterable[str]) -> None:
        self.held: dict[str, _Form] = {}
        self.by_run: dict[str, _Places] = {}
        """Longest run of letters and digits -> the places of forms around it."""
        self._rank: _Rank = kind, order
        self._class = class_
        self.hashed: tuple[str, str] | None = None
        """The value and its surrogate, if programs make hashes of it."""
        self._needles = set[str]()
        # what a detector finds by itself has its own surrogate in whichever order spans come
        first = (_WHOLE, order) if kind == _VALUE else self._rank
        for old, new in zip(olds, news, strict=True):
            if len(old) >= _MIN_LETTERS and is_telling(class_, old):
                self._add(old, new, self._rank if self.held else first)
        self.plain: Final = [form for form in self.held if walk.is_plain(form) and form not in COMMON]
        """Forms that the walk drops if they are whole values; common words stay dropped."""

    def _add(self, old: str, new: str, rank: _Rank, *, is_part: bool = False) -> None:
        if not new or old == new or old in self.held:
            return
        run, before = (old, 0) if old.isalnum() else longest_run(old)
        if run:
            self.held[old] = _Form(new, self._class, rank, is_part)
            others = self.by_run.get(run, ())
            self.by_run[run] = *others, (before, len(old))
            if not others or not is_needle(old, run):
                self._needles.add(needle_of(old, run))

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Return texts, as few as possible, one of which is in any raw text with one of the forms."""
        return shortest(self._needles)

    def hashes(self) -> Iterator[tuple[str, _Form]]:
        """Yield the hashes of the value, each with its replacement."""
        if self.hashed is not None:
            old, new = (hashes_of(self._class, one) for one in self.hashed)
            yield from ((one, _Form(made, self._class, self._rank)) for one, made in zip(old, new, strict=True))

    def add_part(self, old: str, new: str) -> None:
        """Add a part of the value, as long as that of the surrogate."""
        if len(old) >= _END:
            self._add(old, new, self._rank, is_part=True)


class Casting:
    """The cast while one span is read: grows by the findings in it.

    `since` is the cast at the redaction of the span: with it, no detector runs, and only newer values are
    searched.
    """

    def __init__(self, cast: Cast, indexes: Indexes, *, since: Cast | None = None) -> None:
        self.cast = cast
        self.detects = since is None
        self._since = since
        self._indexes = indexes
        self._index: Index | None = None
        self._grown: Index | None = None
        """The index of the cast before it grew."""

    def learn(self, found: Iterable[Cast]) -> None:
        found = [one for one in found if one is not NOTHING]
        if not found:
            return
        members = tuple(chain.from_iterable(one.members for one in found))
        pairs = tuple(chain.from_iterable(one.pairs for one in found))
        unsure = tuple(chain.from_iterable(one.unsure for one in found))
        cast = self.cast.joined(Cast(members=members, pairs=pairs, unsure=unsure))
        if cast is not self.cast:
            self.cast, self._index, self._grown = cast, None, self._index or self._grown

    def may_contain_form(self, text: str) -> bool:
        """Return whether a form of a new value since the span was redacted may be in the raw text."""
        needles = None if self._since is None else self.needles(self._since)
        return needles is None or needles.occur_in(text)

    def needles(self, known: Cast) -> Needles | None:
        """Return the needles for a text already searched with the cast known then; None if this cast holds less."""
        if known is self.cast or known.key == self.cast.key:
            return _NO_NEEDLES
        return self._indexes.needles(known, self.cast)

    def plain_since(self, known: Cast) -> frozenset[str]:
        """Return the forms of values new since then that a walk drops if they are whole values."""
        return frozenset(chain.from_iterable(one.plain for one in self._indexes.forms_of_all(self.cast.beyond(known))))

    @property
    def index(self) -> Index:
        if self._index is None:
            self._index = self._indexes.of(self.cast, self._grown)
        return self._index


class Indexes:
    """The indexes of the latest casts: a run has the same cast for many spans. Safe to share between threads."""

    def __init__(self, maker: MakesSurrogates) -> None:
        self._maker = maker
        self._kept = Memory[bytes, Index](_KEPT)
        self._needles = Memory[bytes, tuple[Needles | None]](_KEPT)
        self._forms = Memory[Member, _Forms](_KEPT)
        self._names = Memory[tuple[str, ...], _Forms](_KEPT)

    def of(self, cast: Cast, before: Index | None = None) -> Index:
        """Return the index of a cast; `before` is that of the cast from which it has grown, if known."""
        index = self._kept.get(cast.key)
        if index is None:
            index = Index(cast, self, before)
            self._kept.put({cast.key: index}, _FORM * len(index))
        return index

    def needles(self, known: Cast, cast: Cast) -> Needles | None:
        """Return the needles for a text already searched with the cast known then; None if this cast holds less."""
        place = known.key + cast.key
        held = self._needles.get(place)
        if held is None:
            fresh, loses = cast.beyond(known), _loses(known, cast)
            forms = self.forms_of_all(fresh)
            needles = Needles(
                chain.from_iterable(one.needles for one in forms), lambda: (old for one in forms for old, _ in one.hashes())
            )
            held = (None if loses else needles,)
            self._needles.put({place: held}, _FORM * len(fresh.members))
        return held[0]

    def forms_of_all(self, cast: Cast) -> list[_Forms]:
        forms = [self.forms_of(one) for one in cast.members if one.spreads]
        return [*forms, *map(self.forms_of_name, cast.pairs)]

    def forms_of(self, one: Member) -> _Forms:
        """Return the forms of a value, with their replacements."""
        forms = self._forms.get(one)
        if forms is None:
            class_, old = one.class_, one.spelling
            new = self._maker.make(class_, one.kind, old)
            forms = _Forms(class_, (len(old), class_, old), _VALUE, forms_of(class_, old), forms_of(class_, new))
            forms.add_part(last_four(class_, old), last_four(class_, new))
            forms.hashed = None if class_ == NAME else (old, new)
            self._forms.put({one: forms}, _FORM * len(forms.held))
        return forms

    def forms_of_name(self, words: tuple[str, ...]) -> _Forms:
        """Return the forms of a name of several words, with their replacements."""
        forms = self._names.get(words)
        if forms is None:
            made = tuple(self._maker.make(NAME, "", word) for word in words)
            forms = _Forms(NAME, (0, *words), _NAME, forms_of_name(words), forms_of_name(made))
            name, new = forms.hashed = " ".join(words), " ".join(made)
            for length in range(len(words[0]) + 1, len(name)):  # cut in the first word it may be any word
                forms.add_part(name[:length], new[:length])
            self._names.put({words: forms}, _FORM * len(forms.held))
        return forms


class Index:
    """Every form of a cast's values, with its replacement."""

    def __init__(self, cast: Cast, indexes: Indexes, before: Index | None = None) -> None:
        """`before` is the index of a cast from which this one has grown: only new values are added to it."""
        known = NOTHING if before is None else before.cast
        if before is not None and _loses(known, cast):
            known, before = NOTHING, None
        self.cast: Final = cast
        self._indexes = indexes
        self._held: dict[str, _Form] = {} if before is None else before._held.copy()
        self._by_run: dict[str, _Places] = {} if before is None else before._by_run.copy()
        self.plain: Final = set[str]() if before is None else before.plain.copy()
        """Forms that the walk drops if they are whole values."""
        self._keys: tuple[KeyContexts, KeyContexts] | None = None
        self._has_hashes = False
        for forms in indexes.forms_of_all(cast.beyond(known)):
            self._add(forms)

    def keys(self, keys: KeyContexts) -> KeyContexts:
        """Return the same keys for a walk that also sees forms that are plain words."""
        if not self.plain:
            return keys
        if self._keys is None or self._keys[0] is not keys:
            self._keys = keys, keys.wanting(frozenset(self.plain))
        return self._keys[1]

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, text: str) -> bool:
        return text in self._held

    def without_forms(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the names, with their surrogates, except those that are replaced as forms anyway.

        Forms in scripts without spaces are not left out: they have other borders.
        """
        held = self._held
        return {word: made for word, made in names.items() if word not in held or held[word].made != made or not word.isascii()}

    def _add(self, forms: _Forms) -> None:
        """Add forms. The owner of a form shared by two values does not depend on their order of discovery."""
        self.plain.update(forms.plain)
        held = self._held
        stay = {old: held[old] for old in held.keys() & forms.held.keys() if held[old].rank <= forms.held[old].rank}
        held.update(forms.held)
        held.update(stay)
        for run, places in forms.by_run.items():
            others = self._by_run.get(run)
            self._by_run[run] = places if others is None else tuple(dict.fromkeys((*others, *places)))

    def _add_hashes(self) -> None:
        """Add the hashes of the values, which few texts contain. Idempotent."""
        for forms in self._indexes.forms_of_all(self.cast):
            for old, new in forms.hashes():
                if old not in self._held:
                    self._held[old], self._by_run[old] = new, ((0, len(old)),)
        self._has_hashes = True

    def find(self, texts: Sequence[str], blocked: _Blocked) -> Iterator[tuple[int, list[Hit]]]:
        """Yield the hits of whole forms in the texts, leftmost and longest, with the number of the text.

        All texts are read together, at a fraction of the cost of one by one. A hit that overlaps the next one
        covers both. In order, without overlap, outside the `blocked` stretches of a text.
        """
        joined = "\0".join(texts)
        if not self._has_hashes and may_hold_a_hash(joined):
            self._add_hashes()
        known = self._by_run.keys()
        places = [(at, word) for word in known & _runs_in(joined) for at in _places(word, joined)]
        places += [(at, word) for word in known & glued.words_in(joined) for at in glued.places(word, joined)]
        if not places:
            return
        places.sort()
        begin, number = 0, 0
        end = len(texts[0])
        begins: list[tuple[int, str]] = []
        for at, word in places:
            if at > end and begins:
                if hits := self._hits(texts[number], begins, blocked):
                    yield number, hits
                begins = []
            while at > end:
                begin, number = end + 1, number + 1
                end = begin + len(texts[number])
            begins.append((at - begin, word))
        if hits := self._hits(texts[number], begins, blocked):
            yield number, hits

    def _hits(self, text: str, begins: Sequence[tuple[int, str]], blocked: _Blocked) -> list[Hit]:
        hits = self._hits_outside(text, begins, ())
        blocked_spans = blocked(text) if hits else ()
        return self._hits_outside(text, begins, blocked_spans) if blocked_spans else hits

    def _hits_outside(self, text: str, begins: Sequence[tuple[int, str]], blocked: Sequence[tuple[int, int]]) -> list[Hit]:
        matches: list[tuple[int, int, _Form]] = []
        in_words: list[tuple[str, tuple[int, int, _Form]]] = []
        of_code = set[str]()
        for at, word in begins:
            for before, length in self._by_run[word]:
                start = at - before
                end = start + length
                new = self._held.get(text[start:end]) if start >= 0 and end <= len(text) else None
                if new is None:
                    continue
                if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
                    matches.append((start, -end, new))
                elif new.class_ == NAME and not new.is_part and (around := glued.run_around(text, start, end)):
                    run = text[slice(*around)]
                    in_words.append((run, (start, -end, new)))
                    if glued.is_called_by_code(text, *around):
                        of_code.add(run)
        matches += [match for run, match in in_words if run not in of_code]
        matches.sort()
        found: list[Hit] = []
        past = 0
        for start, minus_end, new in matches:
            end = -minus_end
            if end <= past:
                continue
            if blocked and any(start < last and first < end for first, last in blocked):
                continue
            if new.is_part and not (end - start in (len(text), _END) and speaks_of_an_end(text, start, end)):
                continue
            if start >= past:
                found.append(Hit(start, end, new.made, new.class_))
            else:
                found[-1] = found[-1]._replace(end=end)
            past = end
        return found


def _loses(known: Cast, cast: Cast) -> bool:
    """Return whether a cast lacks a known value of the run."""
    gone = known.beyond(cast)
    return bool(gone.pairs) or any(one.spreads for one in gone.members)


def _runs_in(text: str) -> list[str]:
    """Return the runs of letters and digits."""
    return text.encode().translate(_BORDERS).decode().split() if text.isascii() else _RUN.findall(text)


def _places(word: str, text: str) -> Iterator[int]:
    size = len(word)
    at = text.find(word)
    while at >= 0:
        if not (text[at - 1 : at].isalnum() or text[at + size : at + size + 1].isalnum()):
            yield at
        at = text.find(word, at + size)


def merged(edits: Sequence[tree.Span], hits: Sequence[Hit]) -> list[tree.Span]:
    """Return the edits with the hits. A hit replaces the edits that it covers; if it sticks out of one, that one grows."""
    left = sorted(edits)
    own = set(left)
    made: list[tree.Span] = []
    at = 0
    for hit in [hit for hit in hits if hit[:3] not in own]:
        while at < len(left) and left[at][1] <= hit.start:
            made.append(left[at])
            at += 1
        over: list[tree.Span] = []
        while made and made[-1][1] > hit.start:  # it has grown
            over.insert(0, made.pop())
        while at < len(left) and left[at][0] < hit.end:
            over.append(left[at])
            at += 1
        if all(hit.start <= start and end <= hit.end for start, end, _ in over):
            made.append((hit.start, hit.end, hit.made))
        else:
            starts = [min(over[0][0], hit.start), *(start for start, _, _ in over[1:])]
            ends = [*starts[1:], max(over[-1][1], hit.end)]
            made += [(start, end, new) for start, end, (_, _, new) in zip(starts, ends, over, strict=True)]
    return [*made, *left[at:]]
