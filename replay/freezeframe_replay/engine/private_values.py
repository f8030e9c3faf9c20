"""Private values: whether a live request or outcome has the private values of the recorded one.

Everything that a replay returns (input, answers, flags) holds surrogates, so a value that the program received
is compared unchanged. That leaves the program's own values (a constant, the environment, the caller's input):

- with the key of the recording, such a value is redacted and compared with the recorded surrogate;
- without it, it is only paired with a surrogate of its class. A pair is one to one and holds for the whole replay, in every
  lane and process. It is counted: the report shows how many values need the key to compare;
- a value that the program made from a surrogate (a part of it, or a text around it) cannot be compared either; it is counted,
  too;
- what it computed from one is not even certain to be that: if nothing else differs, the replay is incomparable.

The same applies to a name that redaction saw in only one of two texts: a word on one side, a surrogate on the
other. If the word is unlisted, and the key is missing, the step is `relaxed` as well.

Values that redaction misses in a live text are searched as second forms (`marks.marker`), and a text that a
program joined from surrogates is paired with the surrogate of the whole, because redaction read the original as
one value.

Not thread-safe: the session is. It is long because every reading of two texts needs the pairs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from freezeframe_replay.engine.compare import first_difference, hunks, texts_apart
from freezeframe_replay.engine.pairs import Pair, Settled, broken, is_one_to_one, touch
from freezeframe_schemas.divergence import BY_REDACTION, Uncompared, Why
from freezeframe_schemas.fixture import Redaction

if TYPE_CHECKING:
    from freezeframe_redaction.keyring.keys import TenantKey
    from freezeframe_redaction.marks.marker import Marker, Value


_WORD: Final = re.compile(r"[^\W\d_][\w'-]*")
_NAME: Final = "PERSON"
_OTHER: Final = "a private value that differs from the recorded one"
_REORDERED: Final = (
    "the recorded private values in a different order (if the program sorts by them: surrogates "
    "sort differently from their originals)"
)
_REST: Final = r"\w+|\s+|[^\w\s]"
_CODES: Final = r"[^\W\d_]+-\d+|" + _REST
"""A number inside a code, *PS-11*, does not count as computed: a program writes a computed number on its own."""
_JOINED: Final = r"[^\W\d_]\w*(?:['-]\w+)*|" + _REST
"""Words that may be names: *O'Brien*, *Anne-Marie*."""
_SLUGS: Final = r"[^\W_]+|_|\s+|[^\w\s]"
"""The words of *maria_keller*."""
_JOINTS: Final = re.compile("[-_.]")


_Place = tuple[str, str]
"""Class of a value, and its distinguishing part."""


class PrivateValues:
    """The private values of one replay: compared ones, and ones only paired."""

    def __init__(self, redaction: Redaction, key: TenantKey | None = None) -> None:
        self._redaction = redaction
        self._key = key
        self._made: Marker | None = None
        self._taken_over: list[str] = []
        self._computed = Computed(redaction.surrogates)
        self._by_original: dict[_Place, Pair] = {}
        self._by_surrogate: dict[_Place, Pair] = {}
        """The pairs that are one to one."""
        self._paired: dict[tuple[str, str], str] = {}
        """See `Settled.paired`; only of this process."""
        self._uncompared: dict[tuple[str, str, str], Pair] = {}
        """Class, original and surrogate -> every pair that was assumed."""

    @property
    def are_redacted(self) -> bool:
        """Return whether the run is redacted: else every text is compared unchanged."""
        return bool(self._redaction.policy)

    @property
    def _marker(self) -> Marker | None:
        """Return the finder of private values, created on first use: loading its rules takes half a second."""
        if self._made is None and self._redaction.policy:
            from freezeframe_redaction.marks.marker import TOKEN, Marker
            from freezeframe_replay.engine.freeze import policy_of

            self._made = Marker(policy_of(self._redaction), self._redaction.surrogates, self._key)
            self._token = TOKEN
            self._parts = [re.compile(f"{TOKEN.pattern}|{rest}") for rest in (_CODES, _REST, _JOINED, _SLUGS)]
            self._names = re.compile(f"{TOKEN.pattern}(?: {TOKEN.pattern})+")
            while self._taken_over:
                self.mark(self._taken_over.pop(0))
        return self._made

    def take_over(self, text: str) -> None:
        """Note a text equal to the recorded one: it needs no comparison, but shows which values are in use."""
        if self._made is not None:
            self.mark(text)
        elif self._redaction.policy:
            self._taken_over.append(text)

    # -- texts -----------------------------------------------------------------------------------------------------------

    def mark(self, text: str) -> str:
        """Return the text with each private value as a token (see `marker`)."""
        if self._marker is None:
            return text
        marked = self._marker.mark(text)
        for name in self._names.finditer(marked):
            self._computed.add(self._with_texts(name[0], lambda value: value.text), _NAME)
        return marked

    def shape(self, text: str) -> str:
        """Return the text with each private value as its class: equal for texts that agree around their values."""
        return self._marked(text, lambda value: f"<{value.class_}>")

    def show(self, text: str) -> str:
        """Return the text for a report: surrogates unchanged, the program's own values as surrogate or class."""
        return self._marked(text, self._shown)

    def show_tree(self, tree: Any) -> Any:
        """Return a marked JSON value for a report."""
        if self._marker is None:
            return tree
        if isinstance(tree, dict):
            return {self.show_tree(name): self.show_tree(item) for name, item in tree.items()}
        if isinstance(tree, list):
            return [self.show_tree(item) for item in tree]
        return self._with_texts(tree, self._shown) if isinstance(tree, str) else tree

    def _marked(self, text: str, text_of: Callable[[Value], str]) -> str:
        return text if self._marker is None else self._with_texts(self._marker.mark(text), text_of)

    def _with_texts(self, marked: str, text_of: Callable[[Value], str]) -> str:
        marker = self._marker
        assert marker is not None
        return self._token.sub(lambda token: text_of(marker.value(int(token[2]))), marked)

    def _shown(self, value: Value) -> str:
        assert self._marker is not None
        if value.is_known:
            return value.text
        pair = self._by_original.get((value.class_, _digest(value)))
        return pair.surrogate if pair is not None else self._marker.surrogate_of(value) or f"<{value.class_}>"

    # -- comparing -------------------------------------------------------------------------------------------------------

    def settle(self, recorded: Any, live: Any, *, with_computed: bool = False) -> Settled:
        """Compare two marked JSON values; `with_computed` accepts values that may be computed from surrogates.

        Shape: JSON values in which each text went through `mark`, for example ``{"messages": [{"content": "<...>"}]}``.
        """
        made = Settled(tree=live, with_computed=with_computed)
        if self.are_redacted and recorded != live:
            made.tree = self._value(recorded, live, made)
            was, now = ([pair[side].text for pair in made.exchanged] for side in (0, 1))
            if now and Counter(was) == Counter(now):
                made.conflict = _REORDERED
                if with_computed and is_sorted(now):
                    made.conflict = ""
                    made.tree = self._value(recorded, live, made)
        made.agrees = not made.conflict and first_difference(recorded, made.tree) is None
        return made

    def note(self, recorded: Any, settled: Settled) -> str:
        """Return why a live value differs from the recorded one, as far as private values are the reason; else empty."""
        if settled.conflict or self._marker is None:
            return settled.conflict
        was, now = next(texts_apart(recorded, settled.tree), ("", ""))
        parts = ([match.group() for match in self._parts[0].finditer(text)] for text in (was, now))
        by_redaction = any(self._is_in_one(old, new) for old, new in hunks(*parts)) or self._is_wrapped(was, now)
        return BY_REDACTION if by_redaction else ""

    def _is_wrapped(self, was: str, now: str) -> bool:
        """Return whether two texts with private values differ only in whitespace: a surrogate is not as long as its value."""
        bare = ["".join(self._with_texts(text, lambda value: value.text).split()) for text in (was, now)]
        return self._token.search(now) is not None and self.settle(*map(self.mark, bare)).agrees

    def _is_in_one(self, was: Sequence[str], now: Sequence[str]) -> bool:
        """Return whether only one of two differing texts has a private value, and the other another text in its place."""
        old, new = ([self._token.fullmatch(part) is not None for part in parts] for parts in (was, now))
        return bool(old) and bool(new) and (any(old) != any(new) or any(map(self._has_surrogate, now)))

    def _has_surrogate(self, part: str) -> bool:
        """Return whether a live word was made from a surrogate of any class: recorded was what redaction left of the value."""
        from freezeframe_redaction.marks.marker import Value

        assert self._marker is not None
        value = self._value_of(part) or Value(class_="", text=part)
        return not value.is_known and self._marker.is_derived(value)

    def _value(self, recorded: Any, live: Any, made: Settled) -> Any:
        if isinstance(recorded, dict) and isinstance(live, dict):
            names = self._names_of(recorded, live, made)
            return {
                names[name]: self._value(recorded[names[name]], item, made) if names[name] in recorded else item
                for name, item in live.items()
            }
        if isinstance(recorded, list) and isinstance(live, list):
            rest = live[len(recorded) :]
            return [*(self._value(was, now, made) for was, now in zip(recorded, live, strict=False)), *rest]
        if isinstance(recorded, str) and isinstance(live, str) and recorded != live:
            return self._text(recorded, live, made)
        return live

    def _names_of(self, recorded: Mapping[str, Any], live: Mapping[str, Any], made: Settled) -> dict[str, str]:
        """Return name in the live object -> its name in the recorded one: keys may be private values as well."""
        names = {name: name for name in live}
        left = [name for name in recorded if name not in live]
        own = [name for name in live if name not in recorded]
        if left and len(left) == len(own):
            names |= {now: self._text(was, now, made) for was, now in zip(left, own, strict=True)}
        return names

    def _text(self, recorded: str, live: str, made: Settled) -> str:
        marker = self._marker
        assert marker is not None
        has_values = self._token.search(recorded) is not None or self._token.search(live) is not None
        is_glued = any(surrogate in live or surrogate in recorded for surrogate in self._redaction.surrogates)
        if not (has_values or is_glued or marker.holds_addresses or made.with_computed):
            return live
        for read in (self._part_by_part, self._second_forms, self._aligned):
            trial = made.copy()
            left = read(recorded, live, trial)
            if left == recorded:
                made.take(trial)
                return recorded
        left = self._part_by_part(recorded, live, made)
        return recorded if made.with_computed and self._is_cut(recorded, live, made) else left

    def _part_by_part(self, recorded: str, live: str, made: Settled) -> str:
        """Return the live text with the parts that agree as recorded, if both fall into as many parts."""
        for parts in self._parts:
            was, now = ([match.group() for match in parts.finditer(text)] for text in (recorded, live))
            if len(was) == len(now):
                return self._pairwise(was, now, made)
        return live

    def _pairwise(self, was: Sequence[str], now: Sequence[str], made: Settled) -> str:
        pairs = zip(was, now, strict=True)
        return "".join(one if one == other or self._same(one, other, made) else other for one, other in pairs)

    def _second_forms(self, recorded: str, live: str, made: Settled) -> str:
        """Return the recorded text if the live one equals it once the forms of the program's own values are replaced.

        Those of the recording were, even in texts in which redaction alone sees no value. With the key, that is
        certain; without it, the values must be paired.
        """
        marker = self._marker
        assert marker is not None
        forms = marker.second_forms(self._paired | made.paired)
        was, now = (self._with_texts(text, lambda value: value.text) for text in (recorded, live))
        return recorded if forms.replaced(now, was) == was else live

    def _aligned(self, recorded: str, live: str, made: Settled) -> str:
        """Return the live text with the agreeing parts as recorded, even if the texts have different parts.

        A program joins values, and redaction reads the result as one value, or as values other than surrogates.
        """
        was, now = ([match.group() for match in self._parts[0].finditer(text)] for text in (recorded, live))
        left: list[str] = []
        for old, new in hunks(was, now):
            trial = made.copy()
            both = self._pairwise(old, new, trial) if len(old) == len(new) else None
            agree = both == "".join(old)
            if agree:
                made.take(trial)
            left += old if agree or self._are_joined(old, new, made) else (both or new)
        return self._second_forms(recorded, "".join(left), made)

    def _are_joined(self, was: Sequence[str], now: Sequence[str], made: Settled) -> bool:
        """Return whether one recorded surrogate may be that of a text that the program joins from surrogates."""
        assert self._marker is not None
        values = [self._value_of(part) for part in was if part[0].isalnum() or self._token.fullmatch(part)]
        whole = values[0] if len(values) == 1 else None
        if whole is None or not whole.is_known:
            return False
        words = [part for part in now if part[0].isalnum() or self._token.fullmatch(part)]
        surrogate_parts = [part for part in words if self._is_of_surrogate(part, whole.class_)]
        if not surrogate_parts or (len(words) == 1 == len(surrogate_parts) and self._token.fullmatch(surrogate_parts[0])):
            return False
        if len(surrogate_parts) < len(words) and not made.with_computed:
            return False
        joined = replace(whole, text=self._with_texts("".join(now), lambda value: value.text), is_known=False)
        return self._note(
            made, whole, joined, Why.DERIVED if len(surrogate_parts) == len(words) else Why.COMPUTED, is_whole=True
        )

    def _value_of(self, part: str) -> Value | None:
        assert self._marker is not None
        token = self._token.fullmatch(part)
        return None if token is None else self._marker.value(int(token[2]))

    def _is_of_surrogate(self, part: str, class_: str) -> bool:
        """Return whether a part of a live text is a surrogate of the class, or made from a surrogate."""
        from freezeframe_redaction.marks.marker import Value

        assert self._marker is not None
        value = self._value_of(part)
        if value is not None and value.is_known:
            return value.class_ == class_
        return self._marker.is_derived(value or Value(class_=class_, text=part))

    def _same(self, was: str, now: str, made: Settled) -> bool:
        old, new = self._token.fullmatch(was), self._token.fullmatch(now)
        assert self._marker is not None
        if old is None and new is None:
            is_value = self._is_house_number(was, now, made) or self._is_glued(was, now, made)
            return is_value or (made.with_computed and self._is_computed(was, now, made))
        if old is not None and new is not None:
            return self._values(self._marker.value(int(old[2])), self._marker.value(int(new[2])), made)
        token, word = (old, now) if old is not None else (new, was)
        assert token is not None
        return self._is_named(self._marker.value(int(token[2])), word, made)

    def _is_named(self, value: Value, word: str, made: Settled) -> bool:
        """Return whether a word in which redaction saw no name may be the name that it is compared with.

        A listed name counts as a private value like any other: redaction saw it elsewhere in the run.
        """
        if value.class_ != _NAME:
            return False
        if value.text == word:
            return True
        old, new = _JOINTS.split(value.text), _JOINTS.split(word)
        if len(old) == len(new) > 1:
            return all(self._is_named(replace(value, text=one), other, made) for one, other in zip(old, new, strict=True))
        from freezeframe_redaction.casts.spreading import names_in
        from freezeframe_redaction.marks.marker import Value

        marker = self._marker
        assert marker is not None
        names = list(names_in(word))
        if not (_WORD.fullmatch(word) and (word[0].isupper() or (names and value.text.islower()))):
            return False
        made.has_words = made.has_words or not (names or marker.has_key)
        for name in names if marker.has_key else ():
            if "".join(marker.surrogate_of(Value(class_=_NAME, text=part)) or "" for part in name) == value.text:
                return True
        other = Value(class_=_NAME, text=word)
        return self._stands_for(value, other, made) if value.is_known else self._clash(made, _OTHER)

    def _is_house_number(self, was: str, now: str, made: Settled) -> bool:
        """Return whether two numbers may be that of an address and of its surrogate, which a program split into words."""
        assert self._marker is not None
        address = self._marker.address_of(now) if was.isdigit() else None
        if address is None:
            return False
        from freezeframe_redaction.marks.marker import Value

        return self._note(made, address, Value(class_=address.class_, text=was), Why.DERIVED)

    def _is_glued(self, was: str, now: str, made: Settled) -> bool:
        """Return whether one word is a surrogate joined with letters, and the other the value itself with these.

        In a live word the program has joined them, in a recorded one redaction has replaced a known name.
        """
        from freezeframe_redaction.marks.marker import Value

        marker = self._marker
        assert marker is not None
        for text, class_ in self._redaction.surrogates.items():
            for joined, word in ((now, was), (was, now)):
                before, found, after = joined.partition(text)
                original = word[len(before) : len(word) - len(after)]
                if not (found and (before or after) and original and word == before + original + after):
                    continue
                surrogate, value = Value(class_=class_, text=text, is_known=True), Value(class_=class_, text=original)
                if joined is was:
                    return self._is_named(surrogate, original, made)
                if not marker.has_key or marker.stands_for(surrogate, value):
                    return self._note(made, surrogate, value, Why.DERIVED)
        return False

    def _is_computed(self, was: str, now: str, made: Settled) -> bool:
        """Return whether a number, or a month, may be computed from a surrogate."""
        return self._note_computed(self._computed.source_of(was, now), was, made) or self._is_cut(was, now, made)

    def _is_cut(self, was: str, now: str, made: Settled) -> bool:
        """Return whether only the beginning or end of a surrogate differs, which a program cut off."""
        was, now = (self._with_texts(text, lambda value: value.text) for text in (was, now))
        return self._note_computed(self._computed.cut_of(was, now) or self._computed.mailbox_of(was, now), was, made)

    def _note_computed(self, source: tuple[str, str] | None, was: str, made: Settled) -> bool:
        if source is None:
            return False
        from freezeframe_redaction.marks.marker import Value

        text, class_ = source
        return self._note(made, Value(class_=class_, text=text), Value(class_=class_, text=was), Why.COMPUTED)

    def _values(self, recorded: Value, live: Value, made: Settled) -> bool:
        if recorded.class_ != live.class_:
            return False
        if recorded.text == live.text:
            return True
        if recorded.is_known and live.is_known:
            from freezeframe_redaction.marks.marker import is_same_secret

            if is_same_secret(recorded.text, live.text):
                return True
            if made.exchanged and not made.conflict:  # the second look, at what was sorted
                return self._note(made, live, recorded, Why.COMPUTED)
            made.exchanged.append((recorded, live))
            return self._clash(made, _OTHER)
        if live.is_known:
            return self._stands_for(live, recorded, made)
        if recorded.is_known or recorded.is_shared:
            return self._stands_for(recorded, live, made)
        return self._clash(made, _OTHER)

    def _stands_for(self, surrogate: Value, original: Value, made: Settled) -> bool:
        """Return whether a surrogate may be that of an original, and note the pair that this requires."""
        marker = self._marker
        assert marker is not None
        if surrogate.is_shared:
            if not surrogate.may_stand_for(original):
                return self._clash(made, _OTHER)
            return self._note(made, surrogate, original, Why.SHARED)
        if marker.has_key and marker.stands_for(surrogate, original):
            return True
        if marker.is_derived(original):
            return self._note(made, surrogate, original, Why.DERIVED)
        if marker.has_key:
            return self._clash(made, _OTHER)
        return self._note(made, surrogate, original, Why.KEY)

    def _note(self, made: Settled, surrogate: Value, original: Value, why: Why, *, is_whole: bool = False) -> bool:
        pair = Pair(
            class_name=original.class_,
            original=_digest(original),
            surrogate=surrogate.text,
            canonical=surrogate.canonical,
            why=why,
            is_whole=is_whole,
        )
        if why is Why.KEY:
            made.paired[original.class_, original.text] = surrogate.text
        if is_one_to_one(pair):
            known = [*self._known(pair), *(one for one in made.pairs if is_one_to_one(one) and touch(one, pair))]
            for one in known:
                if (one.original, one.canonical) != (pair.original, pair.canonical):
                    return self._clash(made, broken(one, pair))
            if known:
                return True
        made.pairs.append(pair)
        return True

    def _known(self, pair: Pair) -> Iterator[Pair]:
        for known in (
            self._by_original.get((pair.class_name, pair.original)),
            self._by_surrogate.get((pair.class_name, pair.canonical)),
        ):
            if known is not None:
                yield known

    @staticmethod
    def _clash(made: Settled, why: str) -> bool:
        made.conflict = made.conflict or why
        return False

    # -- the account -----------------------------------------------------------------------------------------------------

    def assume(self, settled: Settled, *, step: int | None = None, is_input: bool = False) -> list[Pair]:
        """Adopt the assumptions of a comparison; return the new ones."""
        self._paired |= settled.paired
        return self.learn(replace(pair, step=step, why=Why.INPUT if is_input else pair.why) for pair in settled.pairs)

    def learn(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Adopt pairs, also those of another process; return the new ones."""
        new: list[Pair] = []
        for pair in pairs:
            place = (pair.class_name, pair.original, pair.canonical)
            if place in self._uncompared:
                continue
            self._uncompared[place] = pair
            new.append(pair)
            if is_one_to_one(pair):
                self._by_original.setdefault((pair.class_name, pair.original), pair)
                self._by_surrogate.setdefault((pair.class_name, pair.canonical), pair)
        return new

    @property
    def uncompared(self) -> tuple[Uncompared, ...]:
        """Return every value that was only paired, in the order in which they appeared."""
        return tuple(
            Uncompared(class_name=pair.class_name, surrogate=pair.surrogate, why=pair.why, step=pair.step)
            for pair in self._uncompared.values()
        )


def _digest(value: Value) -> str:
    return hashlib.sha256(f"{value.class_}\x1f{value.canonical}".encode("utf-8", "surrogatepass")).hexdigest()


# -- What a program computed from a surrogate where the recorded program had the original ------------------------------
# No key can compare that.
# A length, a sum of digits, the month of a date of birth, a cut-off part: a live text can be shown to be
# computed from a surrogate of the run. The recorded text in its place is then computed from the original, or
# from something else.


_MIN_LENGTH: Final = 4
"""Minimum characters of a cut-off part; a shorter one may be anything, unless it is a code's (``rVhm0``)."""
_DATE: Final = "DOB"
_DAY: Final = ("01", "January", "Jan")
"""Month and day of every surrogate of a date of birth."""


class Computed:
    """Values that may have been computed from the surrogates of one run."""

    def __init__(self, surrogates: Mapping[str, str]) -> None:
        """`surrogates` are surrogate -> class."""
        self._sources = dict(surrogates)
        self._results: dict[str, tuple[str, str]] | None = None

    def add(self, name: str, class_: str) -> None:
        """Add a text that consists of several surrogates: a name of two words."""
        if name not in self._sources:
            self._sources[name] = class_
            self._results = None

    def source_of(self, was: str, now: str) -> tuple[str, str] | None:
        """Return the surrogate from which a live number or month is computed, with its class, or None.

        `was` is the recorded text in its place, which must be of the same kind.
        """
        if was.isdigit() != now.isdigit() or max(len(was), len(now)) > 9:
            return None
        if self._results is None:
            self._results = {}
            for source, class_ in self._sources.items():
                for result in _results(source, class_):
                    self._results.setdefault(result, (source, class_))
        return self._results.get(now)

    def cut_of(self, was: str, now: str) -> tuple[str, str] | None:
        """Return the surrogate with its class, if a live text differs only in that surrogate's beginning or end.

        The end of a name is a name as well.
        """
        for back in (1, -1):
            old, new = was[::back], now[::back]
            same = _in_common(old, new)
            end = len(new) - _in_common(old[same:][::-1], new[same:][::-1])
            for source, class_ in self._sources.items():
                if back < 0 and class_ == _NAME:
                    continue
                least = _MIN_LENGTH - (source.isalnum() and not source.isalpha())
                for length in range(len(source) - 1, max(least, end - same) - 1, -1):
                    if new.endswith(source[::back][:length], 0, end):
                        return source, class_
        return None

    def mailbox_of(self, was: str, now: str) -> tuple[str, str] | None:
        """Return the surrogate of a mail, with its class, whose local part is recorded for a name joined by dots.

        The original was both: a name with dots, and the local part of a mail address.
        """
        words = {word.lower() for source, class_ in self._sources.items() if class_ == _NAME for word in source.split()}
        name = now.split(".")
        return self.cut_of(now, was) if len(name) > 1 and words.issuperset(name) else None


def is_sorted(texts: Iterable[str]) -> bool:
    """Return whether texts are in an order that sorting may have given them; two texts always are, so they do not count."""
    held = list(texts)
    return len(held) > 2 and held in (sorted(held), sorted(held, reverse=True))


def _results(source: str, class_: str) -> Iterator[str]:
    if class_ == _DATE:
        yield from _DAY
    digits = [int(char) for char in source if char in "0123456789"]
    for number in (len(source), sum(digits)):
        if number > 9:  # a single digit is too often something else
            yield str(number)


def _in_common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (first, second) in pairs if first != second), min(len(one), len(other)))
