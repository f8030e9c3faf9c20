"""Keyless matching: a text with every personal value replaced by what it is and which one it is.

``mail jane@corp.com or j.doe@x.io`` and its redacted form both become ``mail <EMAIL#1> or <EMAIL#2>``, so a replay on a machine
without the key finds the recording of a request that has an original value hard-coded.

Law (held by a property test): ``alias(redact(t).value) == alias(t)``, built with ``redact(t).surrogates``.

A live text may mix both forms: the customer's own name from the input, its surrogate from a recorded answer. `bind` learns
from one pair of equal texts which original stands for which surrogate, and from then on they count as one value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from freezeframe_redaction import encoded, repeats, splice, walk
from freezeframe_redaction.policy import Policy
from freezeframe_redaction.scanner import Scanner, parts_of
from freezeframe_redaction.streams import gather
from freezeframe_redaction.surrogates import CLASSES

Canonical = tuple[str, str]
"""Class and canonical value."""
_Mark = tuple[int, int, Canonical | str]
"""Start, end, and the value that stands there, or the text to put there."""


class Aliaser:
    """Aliases texts under one policy and one set of known surrogates (a fixture's). Lives as long as one replay."""

    def __init__(self, policy: Policy, surrogates: Mapping[str, str]) -> None:
        self._scanner = Scanner(policy, surrogates)
        self._surrogates = dict(surrogates)
        self._bound: dict[Canonical, Canonical] = {}
        self._bound_words: dict[str, Canonical] = {}

    def alias(self, text: str) -> str:
        """Return the text with each finding and each known surrogate as ``<CLASS#n>``, n by first occurrence of its value."""
        return self._alias(text)[0]

    def bind(self, recorded: str, live: str) -> None:
        """Learn which originals in `live` stand for which surrogates in `recorded`, from two texts with equal aliases."""
        if recorded == live:
            return
        (recorded_alias, recorded_values), (live_alias, live_values) = self._alias(recorded), self._alias(live)
        if recorded_alias != live_alias:
            return
        for was, now in zip(recorded_values, live_values, strict=True):
            if was != now:
                self._bound[now] = was
        self._bound_words.update((word, was) for word, was in self._words_of(live).items() if was in set(recorded_values))

    def _words_of(self, text: str) -> dict[str, Canonical]:
        """Return the words of names in a text that can be looked for by themselves."""
        leaves, _ = gather([walk.plant(text, self._scanner.keys)], self._scanner.keys)
        return {
            word: value
            for index, found in self._marks(leaves).items()
            for start, end, value in found
            if not isinstance(value, str) and value[0] == repeats.CLASS
            if repeats.is_telling(word := leaves[index].text[start:end])
        }

    def _alias(self, text: str) -> tuple[str, list[Canonical]]:
        """Return the aliased text, and its values in the order of their first occurrence."""
        node = walk.plant(text, self._scanner.keys)
        leaves, streams = gather([node], self._scanner.keys)
        marks = self._marks(leaves)
        numbers: dict[Canonical, str] = {}
        counts: dict[str, int] = {}
        for index, found in sorted(marks.items()):
            edits: list[walk.Span] = []
            for start, end, value in sorted(found):
                if isinstance(value, str):
                    edits.append((start, end, value))
                    continue
                name = numbers.get(value)
                if name is None:
                    class_ = value[0]
                    counts[class_] = counts.get(class_, 0) + 1
                    name = numbers[value] = f"<{class_}#{counts[class_]}>"
                edits.append((start, end, name))
            leaves[index].edits = edits
        for stream in streams:
            stream.distribute(cut=False)
        return splice.render(node), list(numbers)

    def _marks(self, leaves: Sequence[walk.Leaf]) -> dict[int, list[_Mark]]:
        """Return leaf index -> what is replaced in it: a value to be numbered, or (for a blob of base64) its alias."""
        marks: dict[int, list[_Mark]] = {}
        names = dict(self._bound_words)
        scanned = self._scanner.scan([(leaf.text, leaf.prefix) for leaf in leaves], report_known=True)
        for index, (view, spans) in scanned.items():
            held = marks.setdefault(index, [])
            for candidate, _ in spans:
                class_, kind = candidate.class_, candidate.kind
                if class_ == encoded.CLASS:
                    inner = encoded.decode(view.text[candidate.start : candidate.end]) or ""
                    aliased = self.alias(inner)
                    if aliased != inner:
                        held.append((*view.to_original(candidate.start, candidate.end), f"<{class_} {aliased}>"))
                    continue
                for start, end in parts_of(candidate, view.text):
                    value = view.text[start:end]
                    entry = CLASSES.get(class_)
                    canonical = (class_, entry.canonical(value, kind) if entry else value)
                    canonical = self._bound.get(canonical, canonical)
                    left, right = view.to_original(start, end)
                    held.append((left, right, canonical))
                    word = leaves[index].text[left:right]
                    if class_ == repeats.CLASS and repeats.is_telling(word):
                        names[word] = canonical
        search = repeats.Repeats(names)
        for index, leaf in enumerate(leaves if names else ()):
            taken = sorted((start, end, "") for start, end, _ in marks.get(index, ()))
            for start, end in () if leaf.is_number else search.find(leaf.text, taken):
                marks.setdefault(index, []).append((start, end, names[leaf.text[start:end]]))
        return marks
