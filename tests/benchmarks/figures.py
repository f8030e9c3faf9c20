"""The figures of a benchmark: a table for people and, as the last line, one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure with its goal; `met` is None if there is no goal."""

    name: str
    value: float | None
    unit: str
    goal: str = ""
    met: bool | None = None


def print_figures(bench: str, figures: Sequence[Figure]) -> None:
    width, unit = (max(len(getattr(row, field)) for row in figures) for field in ("name", "unit"))
    for row in figures:
        verdict = "" if row.met is None else "met" if row.met else "MISSED"
        value = "" if row.value is None else f"{row.value:10.3f}"
        print(f"{row.name:{width}s}  {value} {row.unit:{unit}s} {row.goal:9s} {verdict}")
    print(json.dumps({"bench": bench, "rows": [asdict(row) for row in figures]}))
