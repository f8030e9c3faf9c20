"""Marks: a text with each private value in it as a token, and the known facts about the value behind a token.

A recorded text contains surrogates; a live one contains surrogates that the replay handed out, and the
program's additions. Both are marked in the same way, so that texts that agree around their values can be
compared value by value (`freezeframe_replay` does). A token names its value: equal values have equal tokens, in
every text of one `Marker`.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from freezeframe_redaction.casts.book import NOTHING, Cast, Member
from freezeframe_redaction.casts.casting import Indexes, MakesSurrogates
from freezeframe_redaction.casts.forms import NAME
from freezeframe_redaction.detectors import encoded, line_breaks
from freezeframe_redaction.keyring.keys import TenantKey
from freezeframe_redaction.leaves import splice, tree, walk
from freezeframe_redaction.leaves.streams import gather, spelled
from freezeframe_redaction.maker import Maker
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.policies.actions import is_shared, may_stand_for
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.policies.custom import custom_replacement
from freezeframe_redaction.policies.policy import Policy
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.redacting import repeats
from freezeframe_redaction.scanner import Scanner, parts_of
from freezeframe_redaction.surrogates.make import number_for
from freezeframe_redaction.triggers.view import View

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_NAME_OF_SEVERAL: Final = re.compile(r"[^\W\d_]{2,}(?: [^\W\d_]{2,})+")


_SAME_SECRET_LENGTH: Final = 20
"""Characters that two surrogates of one secret share: they are drawn from the whole secret, whatever its kind."""


def is_same_secret(one: str, other: str) -> bool:
    """Return whether two surrogates are of one secret, which redaction read as two kinds: by its form and by its key."""
    drawn = [text[at : at + _SAME_SECRET_LENGTH] for text in (one, other) if (at := text.find("rDx")) >= 0]
    return len(drawn) == 2 and drawn[0] == drawn[1] and len(drawn[0]) == _SAME_SECRET_LENGTH


class Paired:
    """The surrogates that a replay without the key has paired with values, each with its class and text."""

    def __init__(self, surrogates: Mapping[tuple[str, str], str]) -> None:
        self._surrogates = surrogates

    def make(self, class_: str, kind: str, value: str) -> str:
        del kind
        return self._surrogates.get((class_, value), value)


class SecondForms:
    """Replaces forms of given values, each by the same form of the value's surrogate."""

    def __init__(self, maker: MakesSurrogates, *, by_key: frozenset[str] = frozenset()) -> None:
        """`by_key` are words of the run's surrogates, in lower case, if the maker has the key."""
        self._maker = maker
        self._by_key = by_key
        self._indexes = Indexes(maker)
        self._names = self._values = NOTHING

    def learn(self, names: Iterable[tuple[str, ...]], members: Iterable[Member] = ()) -> None:
        """Add values, and names as their words."""
        held = tuple(names)
        words = (Member(class_=NAME, spelling=word) for words in held for word in words)
        pairs = tuple(words for words in held if len(words) > 1)
        self._names = self._names.joined(Cast(pairs=pairs))
        self._values = self._values.joined(Cast(members=(*members, *words)))

    def replaced(self, live: str, recorded: str) -> str:
        """Return the live text with those forms replaced whose surrogate's form is in the recorded one."""
        if self._by_key:
            self._learn_by_key(live)
        for cast in (self._names, self._values):  # *jbrandt* may be taken for its own name, too
            live = self._with_forms_of(cast, live, recorded)
        return live

    def _with_forms_of(self, cast: Cast, live: str, recorded: str) -> str:
        made: list[str] = []
        past = 0
        for _, hits in self._indexes.of(cast).find([live], lambda _: ()):
            for hit in hits:
                if hit.made in recorded:
                    made += live[past : hit.start], hit.made
                    past = hit.end
        return "".join([*made, live[past:]])

    def _learn_by_key(self, text: str) -> None:
        """Add the words of the text whose surrogates by the key are words of the run's: only another text shows the names."""
        words = {word: self._maker.make(NAME, "", word).lower() in self._by_key for word in set(_WORD.findall(text))}
        names = (tuple(name.group().split()) for name in _NAME_OF_SEVERAL.finditer(text))
        self.learn(
            [
                *((word,) for word, is_name in words.items() if is_name),
                *(name for name in names if all(words.get(word, False) for word in name)),
            ]
        )


_SALT: Final = secrets.token_hex(4)
"""Drawn by each process, so that no text already holds what looks like a token."""
TOKEN: Final = re.compile(f"<{_SALT}([A-Z_0-9]+):([0-9]+)>")
"""A token: the class, and the number of the value. In ASCII, so that no escape of JSON changes it."""
_RUN: Final = re.compile(r"[^\W_]+")
_MIN_PIECE_LENGTH: Final = 5
"""Letters and digits of the shortest part of a surrogate that reveals a value's origin."""
_COMMON_PIECES: Final = frozenset({"example", "com", "street"})
"""Parts that surrogates share with ordinary texts."""
_MARKS_OF_SECRETS: Final = ("rdx", "facade")
"""Marks of a secret's surrogate. Its other parts come from its kind: ``github_pat``, ``BEGIN PRIVATE KEY``."""
_NINES: Final = re.compile(r"9{3,4}")
_COARSE: Final = "DOB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One private value as it appears in a text. Its `repr` may be an original: it is never printed."""

    class_: str
    text: str
    kind: str = ""
    is_known: bool = False
    """It is one of the recording's surrogates."""

    @property
    def canonical(self) -> str:
        """Return the canonical form, equal for equal values of the class."""
        entry = CLASSES.get(self.class_)
        return entry.canonical(self.text, self.kind) if entry else self.text

    @property
    def is_shared(self) -> bool:
        """Return whether, as a surrogate, it covers several values: a code of nines, a year of birth, a mask."""
        return self.class_ == _COARSE or _NINES.fullmatch(self.text) is not None or is_shared(self.class_, self.text)

    def may_stand_for(self, original: Value) -> bool:
        """Return whether, shared as it is, it may stand for a value: a year can be compared, and what a mask shows."""
        if is_shared(self.class_, self.text):
            return may_stand_for(self.class_, self.text, original.text)
        return not self.text.strip("9") or self.canonical == original.canonical


@dataclass(frozen=True, slots=True)
class _Mark:
    start: int
    end: int
    value: Value


class Marker:
    """Marks texts under one policy and one set of known surrogates (a fixture's). Lives as long as one replay.

    It remembers every text and every leaf: a replay needs most texts twice, and agents send their history with every turn.
    """

    def __init__(self, policy: Policy, surrogates: Mapping[str, str], key: TenantKey | None = None) -> None:
        self._scanner = Scanner(policy, surrogates)
        self._surrogates = surrogates
        self._prf = None if key is None else Prf(key.secret)
        self._keyed = None if self._prf is None else SecondForms(Maker(self._prf), by_key=self.words)
        self._numbers: dict[Value, int] = {}
        self._values: list[Value] = []
        self._texts: dict[str, str] = {}
        self._marks: dict[tuple[str, str], Sequence[_Mark]] = {}
        self._derived: dict[str, bool] = {}
        self.own: dict[Member, None] = {}
        """The values in the texts that are not surrogates."""
        self.own_names: dict[tuple[str, ...], None] = {}
        """The words of each multi-word name among them."""

    @property
    def has_key(self) -> bool:
        """Return whether values can be compared, not only distinguished."""
        return self._prf is not None

    def mark(self, text: str) -> str:
        """Return the text with each finding and each known surrogate as a token."""
        held = self._texts.get(text)
        if held is None:
            held = self._texts[text] = self._mark_anew(text)
        return held

    def value(self, number: int) -> Value:
        """Return the value that a token's number refers to."""
        return self._values[number]

    def surrogate_of(self, value: Value) -> str | None:
        """Return the value's surrogate under the key; None without the key."""
        if self._prf is None:
            return None
        entry = CLASSES.get(value.class_)
        if entry is None:
            return custom_replacement(self._prf, value.class_, value.text)
        return entry.replace(self._prf, value.text, value.kind)

    def stands_for(self, surrogate: Value, original: Value) -> bool:
        """Return whether the key makes this surrogate from the original. Only with the key."""
        made = self.surrogate_of(original)
        if made is None or self._prf is None:
            return False
        if surrogate.text.isdigit() and original.text.isdigit() and not made.isdigit():  # a code that is a number in JSON
            made = number_for(self._prf, made, original.text)
        return made == surrogate.text or (
            surrogate.is_known
            and Value(class_=surrogate.class_, text=made, kind=surrogate.kind).canonical == surrogate.canonical
        )

    def is_derived(self, value: Value) -> bool:
        """Return whether a value other than a surrogate was derived from one: it contains a part of one, or is a part."""
        held = self._derived.get(value.text)
        if held is None:
            bare = _bare(value.text)
            whole, pieces = self._pieces
            held = self._derived[value.text] = len(bare) >= _MIN_PIECE_LENGTH and (
                any(bare in surrogate for surrogate in whole) or any(piece in bare for piece in pieces)
            )
        return held

    def address_of(self, house_number: str) -> Value | None:
        """Return the surrogate that begins with a house number; None also for a short one, which may be any number."""
        return self._addresses.get(house_number)

    @property
    def holds_addresses(self) -> bool:
        """Return whether `address_of` may find one."""
        return bool(self._addresses)

    def second_forms(self, paired: Mapping[tuple[str, str], str]) -> SecondForms:
        """Return the replacer of forms of the program's own values: by the key, or by the pairs without it.

        `paired` is class and text of a value -> its surrogate.
        """
        if self._keyed is not None:
            self._keyed.learn(self.own_names, self.own)
            return self._keyed
        forms = SecondForms(Paired(paired))
        forms.learn(
            (words for words in self.own_names if all((repeats.CLASS, word) in paired for word in words)),
            (one for one in self.own if (one.class_, one.spelling) in paired),
        )
        return forms

    def _is_known(self, class_: str, text: str) -> bool:
        """Return whether a value is a surrogate, or a word of one: *balomuzq_drikenoq* may be listed as a whole."""
        return self._surrogates.get(text) == class_ or (class_ == repeats.CLASS and text.lower() in self.words)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the surrogates of names, in lower case."""
        return frozenset(
            word
            for text, class_ in self._surrogates.items()
            if class_ == repeats.CLASS and not is_shared(class_, text)
            for word in _RUN.findall(text.lower())
        )

    @cached_property
    def _addresses(self) -> Mapping[str, Value]:
        found = (
            Value(class_=class_, text=text, is_known=True) for text, class_ in self._surrogates.items() if class_ == "ADDRESS"
        )
        return {number: one for one in found if (number := one.text.partition(" ")[0]).isdigit() and len(number) > 2}

    @cached_property
    def _pieces(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the letters and digits of all surrogates, and the parts that identify one inside another text."""
        whole: set[str] = set()
        runs: set[str] = set()
        for text, class_ in self._surrogates.items():
            own = [run for run in _RUN.findall(text.lower()) if run not in _COMMON_PIECES]
            if class_ == "SECRET":
                own = [run for run in own if any(mark in run for mark in _MARKS_OF_SECRETS)]
            if class_ != _COARSE and not is_shared(class_, text):
                whole.add("".join(own))
                runs.update(own)
        return frozenset(whole), frozenset(piece for piece in runs | whole if len(piece) >= _MIN_PIECE_LENGTH)

    # -- reading a text --------------------------------------------------------------------------------------------------

    def _token(self, value: Value) -> str:
        number = self._numbers.get(value)
        if number is None:
            number = len(self._values)
            self._values.append(value)  # first, so that every thread that sees the number finds the value
            self._numbers[value] = number
        return f"<{_SALT}{value.class_}:{number}>"

    def _mark_anew(self, text: str) -> str:
        node = walk.parse_tree(text, self._scanner.keys)
        leaves, streams = gather([node], self._scanner.keys)
        self._place_marks(leaves)
        joined = spelled(leaves, self._scanner.known_in)
        self._place_marks([one.node.leaves[0] for one in joined])
        for stream in streams:
            stream.distribute(cut=False)
        for one in joined:
            one.cross(cut=False)
        return splice.render(node)

    def _place_marks(self, leaves: Sequence[tree.Leaf]) -> None:
        for leaf, marks in zip(leaves, self._marks_in(leaves), strict=True):
            edits: list[tree.Span] = []
            for mark in marks:
                if mark.value.class_ == encoded.CLASS:
                    inner = self.mark(mark.value.text)
                    if inner != mark.value.text:
                        edits.append((mark.start, mark.end, f"<{encoded.CLASS} {inner}>"))
                else:
                    edits.append((mark.start, mark.end, self._token(mark.value)))
            leaf.edits = edits

    def _marks_in(self, leaves: Sequence[tree.Leaf]) -> list[Sequence[_Mark]]:
        """Return the marks of each leaf, in order: a name that was found once is marked wherever it is in the text."""
        unknown = list({key: None for leaf in leaves if (key := (leaf.text, leaf.prefix)) not in self._marks})
        fresh: dict[tuple[str, str], Sequence[_Mark]] = dict.fromkeys(unknown, ())
        for index, (view, found) in self._scanner.scan(unknown, report_known=True).items():
            fresh[unknown[index]] = [mark for candidate, _ in found for mark in self._marks_of(candidate, view)]
        self._marks.update(fresh)
        out = [self._marks[leaf.text, leaf.prefix] for leaf in leaves]
        names = {
            word: mark.value
            for leaf, marks in zip(leaves, out, strict=True)
            for mark in marks
            if mark.value.class_ == repeats.CLASS and repeats.is_telling(word := leaf.text[mark.start : mark.end])
        }
        if names:
            search = repeats.Repeats(names)
            for index, leaf in enumerate(leaves):
                more = [] if leaf.is_number else search.find(leaf.text, [(mark.start, mark.end, "") for mark in out[index]])
                if more:
                    extra = [_Mark(start, end, names[leaf.text[start:end]]) for start, end in more]
                    out[index] = sorted([*out[index], *extra], key=lambda mark: mark.start)
        return out

    def _marks_of(self, candidate: Candidate, view: View) -> list[_Mark]:
        """Return the values of a finding, in offsets of the leaf."""
        class_ = candidate.class_
        if class_ == encoded.CLASS:
            span = (candidate.start, candidate.end)
            inner = encoded.decode(view.text[slice(*span)]) or ""
            return [_Mark(*view.to_original(*span), Value(class_=class_, text=inner))]
        spans = parts_of(candidate, view.text)
        if candidate.joint:
            texts = (line_breaks.joined(view.text, candidate)[0],)
        else:
            texts = tuple(view.text[slice(*span)] for span in spans)
        values = [Value(class_=class_, text=text, kind=candidate.kind, is_known=self._is_known(class_, text)) for text in texts]
        own = [value for value in values if not value.is_known]
        self.own.update((Member(class_, value.text, value.kind), None) for value in own)
        if class_ == repeats.CLASS and len(own) == len(values) > 1:
            self.own_names[texts] = None
        return [_Mark(*view.to_original(*span), value) for span, value in zip(spans, values, strict=True)]


def without_values(marked: str) -> str:
    """Return a marked text with its tokens by class only: the same for all texts that agree around their values."""
    return TOKEN.sub(r"<\1>", marked)


def with_texts(marked: str, text_of: Callable[[int], str]) -> str:
    """Return a marked text with the caller's text for each token."""
    return TOKEN.sub(lambda token: text_of(int(token[2])), marked)


def _bare(text: str) -> str:
    return "".join(_RUN.findall(text)).lower()


class Aliaser:
    """Keyless aliases: texts with every private value replaced by its class and number, for comparison.

    ``mail jane@corp.com or j.doe@x.io`` and its redacted form both become ``mail <EMAIL#1> or <EMAIL#2>``. An
    alias does not identify its value: a replay compares values (`Marker`). Remembers every text.

    Law (held by a property test): ``alias(redact(t).value) == alias(t)``, built with ``redact(t).surrogates``.
    """

    def __init__(self, policy: Policy, surrogates: Mapping[str, str]) -> None:
        """`surrogates` are the known ones (a fixture's)."""
        self._marker = Marker(policy, surrogates)

    def alias(self, text: str) -> str:
        """Return the text with each finding and each known surrogate as ``<CLASS#n>``, n by first occurrence of its value."""
        names: dict[tuple[str, str], str] = {}
        counts: Counter[str] = Counter()

        def name(number: int) -> str:
            value = self._marker.value(number)
            held = names.get(which := (value.class_, value.canonical))
            if held is None:
                counts[value.class_] += 1
                held = names[which] = f"<{value.class_}#{counts[value.class_]}>"
            return held

        return with_texts(self._marker.mark(text), name)
