"""Keyless aliases: a text with every private value replaced by what it is and which one it is.

``mail jane@corp.com or j.doe@x.io`` and its redacted form both become ``mail <EMAIL#1> or <EMAIL#2>``, so runs under different
keys can be laid side by side. An alias does not say which value it stands for: a replay compares values (`marker`).

Law (held by a property test): ``alias(redact(t).value) == alias(t)``, built with ``redact(t).surrogates``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from freezeframe_redaction.marks.marker import Marker, with_texts
from freezeframe_redaction.policies.policy import Policy


class Aliaser:
    """Aliases texts under one policy and one set of known surrogates (a fixture's). Remembers every text."""

    def __init__(self, policy: Policy, surrogates: Mapping[str, str]) -> None:
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
