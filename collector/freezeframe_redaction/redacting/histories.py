"""Texts that grow: with every turn an agent sends the messages of the turn before again, and some more.

If a JSON text is an earlier one of its run with objects added after the last object of a list, only these are redacted; the
rest is taken from the earlier result. The result is the same as redacting the whole text, whatever is remembered (the law is
`test_a_history_that_grows_becomes_what_it_becomes_as_a_whole`): a list's objects do not depend on each other,
except that the next one may answer a question, and then the earlier result is not reused; and if a name found
in the new part also occurs in the
old part, the whole text is redacted (`SettledText.is_untouched_by`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any, Final, cast

import orjson

from freezeframe_redaction.casts.book import MAX_VALUE_LENGTH, NOTHING, Cast
from freezeframe_redaction.leaves import splice, tree, walk
from freezeframe_redaction.memory import Memory
from freezeframe_redaction.redacting.repeats import Repeats

_MAX_TEXTS_PER_RUN: Final = 4
"""Texts kept of one attribute of one run: agents that work in parallel each have their own history."""
_WHITE: Final = " \t\r\n"
_NOWHERE: Final = -1

_MAX_FORM_LENGTH: Final = 3 * MAX_VALUE_LENGTH
"""Characters: a value with each of its letters percent-encoded."""

MIN_HISTORY_LENGTH: Final = 400
"""Characters; reading a shorter text takes less time than comparing it."""


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Findings in the beginning of a history, or in one addition to it; each was read as a separate text."""

    edits: Sequence[tree.Span]
    """Replacements, in offsets of that text."""
    surrogates: Mapping[str, str]
    names: Mapping[str, str]
    """Words of names found in it, with their surrogates."""
    start: int = 0
    """Start in the history. Text after the list belongs to the beginning, whose start is 0."""


_EDITS: Final = attrgetter("edits")


@dataclass(frozen=True, slots=True)
class SettledText:
    """Result of redacting a whole text that nothing outside it affected."""

    text: str
    parts: tuple[HistoryPart, ...]
    cast: Cast = NOTHING
    """The cast used for it."""

    @property
    def has_edits(self) -> bool:
        """True if anything was replaced."""
        return any(map(_EDITS, self.parts))

    def surrogates(self) -> dict[str, str]:
        return {made: class_ for part in self.parts for made, class_ in part.surrogates.items()}

    def names(self) -> dict[str, str]:
        """Return the words of names found in it, with their surrogates."""
        return {word: made for part in self.parts for word, made in part.names.items()}

    def is_untouched_by(self, names: Repeats, original: str) -> bool:
        """Return whether the original text contains none of the names found next to it."""
        return all(any(word in part.names for part in self.parts) for word in names.may_contain_form(original))


@dataclass(frozen=True, slots=True)
class _Earlier:
    """An earlier text, and the end of its list, once known."""

    raw: str
    settled: SettledText
    rest: int = _NOWHERE
    """Characters from the end of the list's last object to the end of the text."""
    key: str = ""
    """The key of the list."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Relation of a text to an earlier one: a continuation, the same, or an earlier state of it."""

    earlier: _Earlier
    before: SettledText
    """The part that the text shares with the earlier one."""
    added: str
    """The added objects as a separate list: as long as the addition, plus one bracket. Empty without any."""
    key: str
    """The key of the list that they were added to."""
    original: str
    """The text of `before`."""

    def texts(self) -> Iterator[tuple[str, str | None]]:
        """Yield each part as it was read, and its key; None: the text's own."""
        parts, rest = self.before.parts, self.earlier.rest
        ends = [*(part.start for part in parts[1:]), len(self.original) - rest]
        yield self.original[: ends[0]] + self.original[-rest:], None
        for part, end in zip(parts[1:], ends[1:], strict=True):
            yield f"[{self.original[part.start + 1 : end]}]", self.key

    def after(self, text: str, fresh: Mapping[int, HistoryPart], cast: Cast) -> SettledText:
        """Return the redacted text, from new findings in its parts and in `added` as a further part, with the cast."""
        end = len(self.original) - self.earlier.rest
        parts = [replace(fresh[at], start=part.start) if at in fresh else part for at, part in enumerate(self.before.parts)]
        if len(parts) in fresh:
            parts.append(replace(fresh[len(parts)], start=end))
        first, later = parts[0], parts[1:]
        at = later[0].start if later else len(text)
        by = len(text) - self.earlier.rest - at
        made = [
            *(edit for edit in first.edits if edit[1] <= at),
            *((start + part.start, end + part.start, new) for part in later for start, end, new in part.edits),
            *((start + by, end + by, new) for start, end, new in first.edits if start >= at),
        ]
        return SettledText(splice.apply(text, made), tuple(parts), cast)


class Histories:
    """The latest texts of each attribute of each run. Safe to share between threads."""

    def __init__(self, characters: int) -> None:
        """`characters` bounds the kept texts."""
        self._kept = Memory[tuple[str, str], tuple[_Earlier, ...]](characters)

    def recall(self, run: str, name: str, text: str) -> SettledText | None:
        """Return the result for exactly this text, if it is kept under the name."""
        for earlier in self._kept.get((run, name)) or ():
            if earlier.raw == text:
                return earlier.settled
        return None

    def grown(self, run: str, name: str, text: str, key: str) -> Growth | None:
        """Return the way in which the text, found under the key, continues or repeats one kept under the name, or None."""
        for earlier in self._kept.get((run, name)) or ():
            growth = _growth(earlier, text, key)
            if growth is not None:
                return growth
        return None

    def keep(self, run: str, name: str, text: str, settled: SettledText, growth: Growth | None) -> None:
        """Keep a text, in place of the one that it continues."""
        before = self._kept.get((run, name)) or ()
        if growth is None:
            if any(earlier.raw == text and earlier.settled.cast is settled.cast for earlier in before):
                return
            entry = _Earlier(text, settled)
            before = tuple(earlier for earlier in before if earlier.raw != text)
        elif len(text) < len(growth.earlier.raw):
            return
        else:
            entry = _Earlier(text, settled, growth.earlier.rest, growth.key)
            before = tuple(earlier for earlier in before if earlier.raw is not growth.earlier.raw)
        kept = (entry, *before[: _MAX_TEXTS_PER_RUN - 1])
        self._kept.put({(run, name): kept}, sum(2 * len(earlier.raw) for earlier in kept))


def _growth(earlier: _Earlier, text: str, key: str) -> Growth | None:
    raw = earlier.raw
    if text[:64] != raw[:64]:
        return None
    if len(text) <= len(raw):
        return _repeated(earlier, text)
    known = earlier.rest != _NOWHERE
    at = len(raw) - earlier.rest if known else _common(raw, text)
    if not 0 < at < len(raw) or raw[at - 1] != "}" or text[at] != ",":
        return None
    if known and not text.startswith(raw[:at]):
        return None
    rest = raw[at:]
    if not text.endswith(rest) or _may_end_with_question(raw, at):
        return None
    if not known:
        found = _key_of_list(raw, at, key)
        if found is None:
            return None
        earlier = _Earlier(raw, earlier.settled, len(rest), found)
    added = f"[{text[at + 1 : len(text) - len(rest)]}]"
    return Growth(earlier, earlier.settled, added, earlier.key, raw) if _holds_objects(added) else None


_ASKING: Final = re.compile(rf'"role"\s*:\s*"(?:{"|".join(sorted(walk.ASKS))})"')


def _may_end_with_question(text: str, end: int) -> bool:
    """Return whether the objects that end at `end` may end with a model's question, which the next object may answer."""
    role = text.rfind('"role"', 0, end)
    if role < 0 or _ASKING.match(text, role, end) is None:
        return False
    # The role may come before or after the text.
    return any(mark in text[max(0, text.rfind('"role"', 0, role)) : end] for mark in "?？؟")


def _repeated(earlier: _Earlier, text: str) -> Growth | None:
    """Return the text as an earlier or the present state of the earlier one."""
    settled, raw = earlier.settled, earlier.raw
    at = len(text) - earlier.rest
    starts = [part.start for part in settled.parts[1:]]
    if earlier.rest == _NOWHERE or at not in (*starts, len(raw) - earlier.rest):
        return None
    if text[:at] != raw[:at] or text[at:] != raw[-earlier.rest :]:
        return None
    count = starts.index(at) + 1 if at in starts else len(settled.parts)
    return Growth(earlier, replace(settled, parts=settled.parts[:count]), "", earlier.key, text)


def _common(one: str, other: str) -> int:
    """Return how many characters the texts have in common from the beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if other.startswith(one[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def beyond(text: str, other: str) -> str:
    """Return the text from its first difference to the other one, with the length of a form before that."""
    return text[max(0, _common(text, other) - _MAX_FORM_LENGTH) :]


def _key_of_list(raw: str, at: int, key: str) -> str | None:
    """Return the key of the list that ends at the offset of the JSON text; None if it is not the text or a field of it."""
    rest = raw[at:].strip(_WHITE)
    if rest == "]":
        return key
    if rest[0] != "]":
        return None
    # If the bracket were inside a string, an odd number of quotation marks would follow it, and `behind` would not parse.
    try:
        behind: Any = orjson.loads('{"":[' + rest)
        whole: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(behind, dict) or not isinstance(whole, dict):
        return None
    # The text after the list has the remaining keys, in their order; repeated keys would not match.
    later = list(islice(cast("dict[str, Any]", behind), 1, None))
    keys = list(cast("dict[str, Any]", whole))
    place = len(keys) - len(later) - 1
    return keys[place] if place >= 0 and keys[place + 1 :] == later else None


def _holds_objects(added: str) -> bool:
    try:
        items: Any = orjson.loads(added)
    except orjson.JSONDecodeError:
        return False
    # Records of data are judged together with those before them (`columns`).
    return bool(items) and all(isinstance(item, dict) and not walk.is_record(item) for item in items)
