"""Statement: what a candidate fixes and breaks among the runs, with intervals. Pure.

A run counts once, by the majority of its repeats; a tie counts against the candidate. The interval of a share is Wilson's, at
95 %, over runs: repeats of one run are not independent of each other. Fixed and broken runs are weighed by the exact sign test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

METHOD: Final = (
    "intervals: Wilson, 95 %, over runs; a run counts by most of its repeats; better, worse: exact sign test, p < 0.05"
)
_Z: Final = 1.959964
_LEVEL: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many runs, with the bounds of the interval, and the range over single repeats."""

    count: int
    of: int
    low: float
    high: float
    least: int
    """The fewest in any one repeat."""
    most: int

    def __str__(self) -> str:
        interval = f" ({self.low:.0%} to {self.high:.0%})".replace("%", " %") if self.of else ""
        spread = f", {self.least} to {self.most} in single repeats" if self.least != self.most else ""
        return f"{self.count} of {self.of}{interval}{spread}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A candidate's runs against what they are compared with."""

    fixes: Share
    """Of the runs that failed before."""
    breaks: Share
    """Of the runs that passed before."""
    changes: Share
    """Of all runs, those that did something else, passed or not."""
    unknown: int
    """Runs of which it is not known whether they pass, now or before."""
    unsteady: int
    """Runs whose repeats disagree."""
    p: float
    """Of the sign test: how likely so uneven a split of fixed and broken is, if the candidate makes no difference."""

    @property
    def word(self) -> str:
        """Return ``better``, ``worse``, or that no difference is shown."""
        if self.p >= _LEVEL:
            return "no difference is shown"
        return "better" if self.fixes.count > self.breaks.count else "worse"


def score(
    before: Mapping[str, bool | None],
    passed: Mapping[str, Sequence[bool | None]],
    changed: Mapping[str, Sequence[bool | None]],
) -> Score:
    """Return the score of one candidate.

    Args:
        before: name of a run -> whether it passed before.
        passed: name of a run -> whether it passes, in each repeat; one value if nothing in it varies.
        changed: likewise, whether it did something else.
    """
    now = {name: most_of(values) for name, values in passed.items()}
    known = [name for name in passed if now[name] is not None and before.get(name) is not None]
    failed, fine = ([name for name in known if before[name] is outcome] for outcome in (False, True))
    fixes, breaks = _share(failed, passed, wanted=True), _share(fine, passed, wanted=False)
    return Score(
        fixes=fixes,
        breaks=breaks,
        changes=_share([name for name, values in changed.items() if most_of(values) is not None], changed, wanted=True),
        unknown=len(passed) - len(known),
        unsteady=sum(len({*values} - {None}) > 1 for values in passed.values()),
        p=sign_test(fixes.count, breaks.count),
    )


def most_of(values: Sequence[bool | None]) -> bool | None:
    """Return whether most of the repeats are true; None if the unknown ones could change that."""
    if 2 * values.count(True) > len(values):
        return True
    return False if values and 2 * values.count(False) >= len(values) else None


def _share(names: Sequence[str], values: Mapping[str, Sequence[bool | None]], *, wanted: bool) -> Share:
    count = sum(most_of(values[name]) is wanted for name in names)
    repeats = max((len(values[name]) for name in names), default=1)
    # a run with one value has it in each repeat
    single = [sum(values[name][min(at, len(values[name]) - 1)] is wanted for name in names) for at in range(repeats)]
    low, high = wilson(count, len(names))
    return Share(count=count, of=len(names), low=low, high=high, least=min(single), most=max(single))


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return the bounds of Wilson's interval for a share, at 95 %."""
    if not of:
        return 0.0, 1.0
    share, weight = count / of, _Z * _Z / of
    middle = (share + weight / 2) / (1 + weight)
    half = _Z * math.sqrt(share * (1 - share) / of + weight / (4 * of)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def sign_test(one: int, other: int) -> float:
    """Return the two-sided probability of so uneven a split, if both sides are equally likely."""
    total = one + other
    tail = sum(math.comb(total, count) for count in range(min(one, other) + 1))
    return min(1.0, 2 * tail / 2**total)


def sentence(name: str, found: Score) -> str:
    """Return the statement about a candidate."""
    weighed = f": {found.word}, p = {found.p:.2g}" if found.fixes.count + found.breaks.count else ""
    unknown = f"; not known of {found.unknown}" if found.unknown else ""
    unsteady = f"; repeats disagree in {found.unsteady}" if found.unsteady else ""
    return f"{name}: fixes {found.fixes}, breaks {found.breaks}{weighed}; changes {found.changes}{unsteady}{unknown}"
