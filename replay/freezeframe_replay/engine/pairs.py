"""Pairs of a program's own values and recorded surrogates, and the result of a comparison that assumes some."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from freezeframe_schemas.divergence import Why

if TYPE_CHECKING:
    from freezeframe_redaction.marks.marker import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One of the program's own values, and the surrogate in its place in the recording."""

    class_name: str
    original: str
    """A digest of the value: the processes of a replay do not exchange values."""
    surrogate: str
    """The surrogate as recorded."""
    canonical: str
    """Canonical form of equal surrogates."""
    why: Why
    step: int | None = None
    is_whole: bool = False
    """The original is joined from surrogates by the program, and the surrogate covers all of it."""


@dataclass(slots=True)
class Settled:
    """The result of comparing two marked JSON values."""

    tree: Any
    """The live value, with the parts that agree as in the recorded one."""
    agrees: bool = False
    """Only private values differ, and they may be the same."""
    pairs: list[Pair] = field(default_factory=list[Pair])
    """New assumptions of this comparison."""
    has_words: bool = False
    """A name was paired with an unlisted word."""
    conflict: str = ""
    """Reason why the first two incompatible values cannot be the same."""
    exchanged: list[tuple[Value, Value]] = field(default_factory=list["tuple[Value, Value]"])
    """Surrogates that differ: recorded, live."""
    with_computed: bool = False
    """Values that may be computed from surrogates count as computed from them."""
    paired: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Class and text of a value that was paired -> its surrogate."""

    def copy(self) -> Settled:
        """Return a copy to try a reading of one text with."""
        lists = {"pairs": [*self.pairs], "exchanged": [*self.exchanged], "paired": {**self.paired}}
        return replace(self, **lists)

    def take(self, trial: Settled) -> None:
        """Take over the assumptions of a reading."""
        self.pairs, self.exchanged, self.paired = trial.pairs, trial.exchanged, trial.paired
        self.has_words, self.conflict = trial.has_words, trial.conflict


def is_one_to_one(pair: Pair) -> bool:
    """Return whether no other value may be paired with the surrogate, and no other surrogate with the value."""
    return pair.is_whole or pair.why in (Why.KEY, Why.INPUT)


def touch(one: Pair, other: Pair) -> bool:
    """Return whether two pairs have the value or the surrogate in common."""
    same_class = one.class_name == other.class_name
    return same_class and (one.original == other.original or one.canonical == other.canonical)


def broken(known: Pair, pair: Pair) -> str:
    """Return, in words, the known pair that rules a pair out."""
    place = "" if known.step is None else f" at step {known.step}"
    if known.original == pair.original:
        return f"one value of the program stands for {known.surrogate}{place} and for {pair.surrogate} here"
    return f"{pair.surrogate} stands for one value of the program{place or ' before'} and for another one here"
