"""Agreement of a judge with labels by hand: how often, beyond chance (Cohen's kappa), and where they differ. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

GOOD: Final = "good"
BAD: Final = "bad"
_GOOD_WORDS: Final = frozenset("good pass passed correct yes true up ok success relevant factual".split())
_BAD_WORDS: Final = frozenset("bad fail failed incorrect no false down wrong failure irrelevant hallucinated".split())

Target = tuple[str, int]
"""Trace id and step; step 0 is the run as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A judge's classes next to those by hand, for what both judged."""

    judge: str
    counts: Mapping[tuple[str, str], int]
    """(class by hand, class by the judge) -> targets."""
    differ: Sequence[Target]
    """Targets to which they gave different classes."""

    @property
    def compared(self) -> int:
        """Return the number of targets that both judged."""
        return sum(self.counts.values())

    @property
    def agreed(self) -> int:
        """Return the number of targets to which both gave the same class."""
        return self.compared - len(self.differ)

    @property
    def kappa(self) -> float | None:
        """Return Cohen's kappa: 1 is perfect, 0 is chance; None without data, or if both gave one class only."""
        total = self.compared
        by_hand, by_judge = Counter[str](), Counter[str]()
        for (hand, judge), count in self.counts.items():
            by_hand[hand] += count
            by_judge[judge] += count
        expected = sum(by_hand[each] * by_judge[each] for each in by_hand)  # times total squared
        return (self.agreed * total - expected) / (total * total - expected) if total * total != expected else None

    @property
    def classes(self) -> list[str]:
        """Return the classes, good and bad first."""
        found = {each for pair in self.counts for each in pair}
        return [*(each for each in (GOOD, BAD) if each in found), *sorted(found - {GOOD, BAD})]


def class_of(label: str, value: float | None, *, passes_from: float, high_is_bad: bool = False) -> str:
    """Return the class of a verdict: good, bad, or its own word. A word that is neither yields to a number."""
    word = label.strip().lower()
    if word in _GOOD_WORDS or word in _BAD_WORDS:
        return GOOD if word in _GOOD_WORDS else BAD
    if value is not None:
        return GOOD if (value >= passes_from) != high_is_bad else BAD
    return word


def agreement(judge: str, by_hand: Mapping[Target, str], by_judge: Mapping[Target, str]) -> Agreement:
    """Compare the classes of the targets that both have."""
    both = [(target, by_hand[target], by_judge[target]) for target in sorted(by_hand) if target in by_judge]
    return Agreement(
        judge=judge,
        counts=Counter((hand, judged) for _, hand, judged in both),
        differ=[target for target, hand, judged in both if hand != judged],
    )
