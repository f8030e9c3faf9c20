"""Keyless matching: a text with every personal value replaced by what it is and which one it is.

``mail jane@corp.com or j.doe@x.io`` and its redacted form both become ``mail <EMAIL#1> or <EMAIL#2>``, so a replay on a machine
without the key finds the recording of a request that has an original value hard-coded.

Law (held by a property test): ``alias(redact(t).value) == alias(t)``, built with ``redact(t).surrogates``.

A live text may mix both forms: the customer's own name from the input, its surrogate from a recorded answer. `bind` learns
from one pair of equal texts which original stands for which surrogate, and from then on they count as one value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from freezeframe_redaction import encoded, repeats, splice, walk
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.policy import Policy
from freezeframe_redaction.scanner import Scanner, parts_of
from freezeframe_redaction.streams import gather
from freezeframe_redaction.surrogates import CLASSES
from freezeframe_redaction.view import View

Canonical = tuple[str, str]
"""Class and canonical value; of a blob of base64, the text that it spells."""
_Mark = tuple[int, int, Canonical]
"""Start and end in the leaf, and the value that stands there."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the aliaser made of one text."""

    alias: str
    values: tuple[Canonical, ...]
    """In the order of their first occurrence."""
    words: Mapping[str, Canonical]
    """Words of names in the text that can be looked for by themselves."""


class Aliaser:
    """Aliases texts under one policy and one set of known surrogates (a fixture's). Lives as long as one replay.

    It remembers every text and every leaf: a replay asks for most texts twice, and agents send their history with every turn.
    """

    def __init__(self, policy: Policy, surrogates: Mapping[str, str]) -> None:
        self._scanner = Scanner(policy, surrogates)
        self._bound: dict[Canonical, Canonical] = {}
        self._bound_words: dict[str, Canonical] = {}
        self._readings: dict[str, _Reading] = {}
        self._marks: dict[tuple[str, str], Sequence[_Mark]] = {}

    def alias(self, text: str) -> str:
        """Return the text with each finding and each known surrogate as ``<CLASS#n>``, n by first occurrence of its value."""
        return self._read(text).alias

    def bind(self, recorded: str, live: str) -> None:
        """Learn which originals in `live` stand for which surrogates in `recorded`, from two texts with equal aliases."""
        if recorded == live:
            return
        was, now = self._read(recorded), self._read(live)
        if was.alias != now.alias:
            return
        bound = self._bound | {new: old for old, new in zip(was.values, now.values, strict=True) if old != new}
        words = {word: bound.get(value, value) for word, value in now.words.items()}
        bound_words = self._bound_words | {word: value for word, value in words.items() if value in was.values}
        if (bound, bound_words) != (self._bound, self._bound_words):
            self._bound, self._bound_words = bound, bound_words
            self._readings.clear()

    def _read(self, text: str) -> _Reading:
        held = self._readings.get(text)
        if held is None:
            held = self._readings[text] = self._read_anew(text)
        return held

    def _read_anew(self, text: str) -> _Reading:
        node = walk.plant(text, self._scanner.keys)
        leaves, streams = gather([node], self._scanner.keys)
        numbers: dict[Canonical, str] = {}
        counts: dict[str, int] = {}
        words: dict[str, Canonical] = {}
        for leaf, marks in zip(leaves, self._marks_in(leaves), strict=True):
            edits: list[walk.Span] = []
            for start, end, value in marks:
                class_ = value[0]
                if class_ == encoded.CLASS:
                    aliased = self.alias(value[1])
                    if aliased != value[1]:
                        edits.append((start, end, f"<{class_} {aliased}>"))
                    continue
                name = numbers.get(value)
                if name is None:
                    counts[class_] = counts.get(class_, 0) + 1
                    name = numbers[value] = f"<{class_}#{counts[class_]}>"
                edits.append((start, end, name))
                if class_ == repeats.CLASS and repeats.is_telling(word := leaf.text[start:end]):
                    words[word] = value
            leaf.edits = edits
        for stream in streams:
            stream.distribute(cut=False)
        return _Reading(splice.render(node), tuple(numbers), words)

    def _marks_in(self, leaves: Sequence[walk.Leaf]) -> list[Sequence[_Mark]]:
        """Return what stands in each leaf, in order: what was learnt counts as one value, and names wherever they stand."""
        unknown = list({key: None for leaf in leaves if (key := (leaf.text, leaf.prefix)) not in self._marks})
        fresh: dict[tuple[str, str], Sequence[_Mark]] = dict.fromkeys(unknown, ())
        for index, (view, found) in self._scanner.scan(unknown, report_known=True).items():
            fresh[unknown[index]] = [mark for candidate, _ in found for mark in _marks_of(candidate, view)]
        self._marks.update(fresh)
        bound = self._bound
        names = dict(self._bound_words)
        out: list[Sequence[_Mark]] = []
        for leaf in leaves:
            marks = [(start, end, bound.get(value, value)) for start, end, value in self._marks[leaf.text, leaf.prefix]]
            for start, end, value in marks:
                if value[0] == repeats.CLASS and repeats.is_telling(word := leaf.text[start:end]):
                    names[word] = value
            out.append(marks)
        if names:
            search = repeats.Repeats(names)
            for index, leaf in enumerate(leaves):
                if not leaf.is_number:
                    more = search.find(leaf.text, [(start, end, "") for start, end, _ in out[index]])
                    out[index] = sorted([*out[index], *((start, end, names[leaf.text[start:end]]) for start, end in more)])
        return out


def _marks_of(candidate: Candidate, view: View) -> list[_Mark]:
    """Return the values of a finding, in offsets of the leaf."""
    class_, kind = candidate.class_, candidate.kind
    if class_ == encoded.CLASS:
        inner = encoded.decode(view.text[candidate.start : candidate.end]) or ""
        return [(*view.to_original(candidate.start, candidate.end), (class_, inner))]
    entry = CLASSES.get(class_)
    values = [(span, view.text[slice(*span)]) for span in parts_of(candidate, view.text)]
    return [(*view.to_original(*span), (class_, entry.canonical(value, kind) if entry else value)) for span, value in values]
