"""Keyless matching: a text with every personal value replaced by what it is and which one it is.

``mail jane@corp.com or j.doe@x.io`` and its redacted form both become ``mail <EMAIL#1> or <EMAIL#2>``, so a replay on a machine
without the key finds the recording of a request that has an original value hard-coded.

Law (held by a property test): ``alias(redact(t).value) == alias(t)``, built with ``redact(t).surrogates``.

A live text may mix both forms: the customer's own name from the input, its surrogate from a recorded answer. `bind` learns
from one pair of equal texts which original stands for which surrogate, and from then on they count as one value.
"""

from __future__ import annotations

from collections.abc import Mapping

from freezeframe_redaction import encoded, walk
from freezeframe_redaction.policy import Policy
from freezeframe_redaction.redactor import Scanner, parts_of
from freezeframe_redaction.streams import gather
from freezeframe_redaction.surrogates import CLASSES

Canonical = tuple[str, str]
"""Class and canonical value."""


class Aliaser:
    """Aliases texts under one policy and one set of known surrogates (a fixture's). Lives as long as one replay."""

    def __init__(self, policy: Policy, surrogates: Mapping[str, str]) -> None:
        self._scanner = Scanner(policy, surrogates)
        self._surrogates = dict(surrogates)
        self._bound: dict[Canonical, Canonical] = {}

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

    def _alias(self, text: str) -> tuple[str, list[Canonical]]:
        """Return the aliased text, and its values in the order of their first occurrence."""
        node = walk.plant(text, telling=self._scanner.telling)
        leaves, streams = gather([node], self._scanner.telling)
        numbers: dict[Canonical, str] = {}
        counts: dict[str, int] = {}
        scanned = self._scanner.scan([(leaf.text, leaf.prefix) for leaf in leaves], report_known=True)
        for index, (view, spans) in sorted(scanned.items()):
            leaf = leaves[index]
            edits: list[walk.Span] = []
            for candidate, _ in spans:
                class_, kind = candidate.class_, candidate.kind
                if class_ == encoded.CLASS:
                    inner = encoded.decode(view.text[candidate.start : candidate.end]) or ""
                    aliased = self.alias(inner)
                    if aliased != inner:
                        edits.append((*view.to_original(candidate.start, candidate.end), f"<{class_} {aliased}>"))
                    continue
                for start, end in parts_of(candidate, view.text):
                    value = view.text[start:end]
                    entry = CLASSES.get(class_)
                    canonical = (class_, entry.canonical(value, kind) if entry else value)
                    canonical = self._bound.get(canonical, canonical)
                    name = numbers.get(canonical)
                    if name is None:
                        counts[class_] = counts.get(class_, 0) + 1
                        name = numbers[canonical] = f"<{class_}#{counts[class_]}>"
                    edits.append((*view.to_original(start, end), name))
            leaf.edits = edits
        for stream in streams:
            stream.distribute(cut=False)
        return walk.render(node), list(numbers)
