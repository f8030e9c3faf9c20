"""Plan: the cells of an experiment in the order in which they run, and what a live one may cost. Pure.

A cell is one candidate on one run, once. What needs no live call comes first, and once: nothing in it varies. Live cells go
repeat by repeat, each over all runs and candidates, so that an experiment that stops early has compared the same runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_MARGIN: Final = 2.0
"""A live cell may cost so many times its recorded run, until one of the candidate has been made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One candidate on one run, once."""

    candidate: int
    row: int
    repeat: int = 1
    live: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Return candidate and run."""
        return self.candidate, self.row


def offline_cells(candidates: Sequence[bool], rows: int) -> Iterator[Cell]:
    """Yield the offline part. `candidates`: for each, whether an offline replay can say something about it."""
    for row in range(rows):
        for number, has_part in enumerate(candidates):
            if has_part:
                yield Cell(candidate=number, row=row)


def live_cells(candidates: Sequence[bool], rows: int, repeats: int) -> Iterator[Cell]:
    """Yield the live part. `candidates`: for each, whether it may make live calls."""
    for repeat in range(1, repeats + 1):
        for row in range(rows):
            for number, goes_live in enumerate(candidates):
                if goes_live:
                    yield Cell(candidate=number, row=row, repeat=repeat, live=True)


@dataclass(slots=True, kw_only=True)
class Budget:
    """Limit and sum of the costs of live cells, in US dollars."""

    limit: float | None = None
    spent: float = 0.0
    unknown: int = 0
    """Cells of unknown cost: their estimates are in `spent`."""
    _running: dict[Cell, float] = field(default_factory=dict[Cell, float])
    _dearest: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    _factor: dict[int, float] = field(default_factory=dict[int, float])

    def estimate(self, cell: Cell, like_recorded: float) -> float:
        """Return what a cell may cost: its dearest repeat, or its recording times what others cost against theirs."""
        return max(self._dearest.get(cell.place, 0.0), like_recorded * self._factor.get(cell.candidate, _MARGIN))

    def allows(self, cell: Cell, like_recorded: float) -> bool:
        """Return whether a cell can be made within the limit."""
        promised = self.spent + sum(self._running.values())
        return self.limit is None or promised + self.estimate(cell, like_recorded) <= self.limit

    def begin(self, cell: Cell, like_recorded: float) -> None:
        """Note that a cell runs."""
        self._running[cell] = self.estimate(cell, like_recorded)

    def end(self, cell: Cell, like_recorded: float, cost: float | None) -> None:
        """Note what a cell cost: the estimate if that is not known."""
        expected = self._running.pop(cell, None)
        if cost is None:
            self.spent += self.estimate(cell, like_recorded) if expected is None else expected
            self.unknown += 1
            return
        self.spent += cost
        self._dearest[cell.place] = max(self._dearest.get(cell.place, 0.0), cost)
        if like_recorded:
            self._factor[cell.candidate] = max(self._factor.get(cell.candidate, 0.0), cost / like_recorded)
