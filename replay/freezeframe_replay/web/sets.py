"""The pages of datasets: their list, and one as a grid of its runs by the candidates that experiments tried. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from freezeframe_replay.report.render import cost, duration
from freezeframe_replay.report.spent import Spent
from freezeframe_replay.web.markup import render, words_apart

_MARKS: Final = {"same": "good", "changed": "bad", "incomparable": "warn"}
_MAX_ROWS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """One run of a dataset."""

    name: str
    run_id: str
    note: str = ""
    entry: str = ""
    """Its input as a call."""
    recorded: Spent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInList:
    name: str
    runs: int
    chosen_by: str
    candidates: Sequence[str]


def sets_page(found: Sequence[SetInList], *, folder: str) -> str:
    return render("sets.html", found=[(item, f"/sets/{quote(item.name)}") for item in found], folder=folder)


def set_page(
    name: str,
    rows: Sequence[SetRow],
    results: Mapping[str, Mapping[str, Any]],
    *,
    only_changed: bool,
    chosen_by: str,
) -> str:
    """Return the grid. `results`: name of a candidate -> its result, as `experiment` writes it."""
    by_row = {candidate: _rows_of(result) for candidate, result in results.items()}
    lines: list[dict[str, Any]] = [
        {"row": row, "cells": [_cell(found.get(row.name)) for found in by_row.values()]} for row in rows
    ]
    changed = [line for line in lines if any(cell and cell["finding"] != "same" for cell in line["cells"])]
    path = f"/sets/{quote(name)}"
    shown = changed if only_changed else lines
    return render(
        "set.html",
        name=name,
        chosen_by=chosen_by,
        lines=shown[:_MAX_ROWS],
        left_out=max(len(shown) - _MAX_ROWS, 0),
        candidates=[_candidate(candidate, result) for candidate, result in results.items()],
        counts=(len(lines), len(changed)),
        only_changed=only_changed,
        links={
            "all": path,
            "changed": f"{path}?changed=1",
            **{
                form: f"{path}?{urlencode({'as': form, **({'changed': '1'} if only_changed else {})})}"
                for form in ("csv", "json")
            },
        },
    )


def grid_values(
    rows: Sequence[SetRow], results: Mapping[str, Mapping[str, Any]], *, only_changed: bool
) -> list[dict[str, Any]]:
    """Return the grid as plain values, one for each run and candidate."""
    by_row = {candidate: _rows_of(result) for candidate, result in results.items()}
    changed = {row.name for row in rows if any(found.get(row.name, {}).get("finding") != "same" for found in by_row.values())}
    return [
        {
            "run": row.run_id,
            "candidate": candidate,
            "finding": one.get("finding"),
            "why": one.get("why"),
            "recorded_ms": (one.get("recorded") or {}).get("ms"),
            "ms": (one.get("spent") or {}).get("ms"),
            "recorded_usd": (one.get("recorded") or {}).get("usd"),
            "usd": (one.get("spent") or {}).get("usd"),
            "judged": (one.get("judgement") or {}).get("reason"),
        }
        for row in rows
        if row.name in changed or not only_changed
        for candidate, found in by_row.items()
        if (one := found.get(row.name)) is not None
    ]


def _rows_of(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(row["name"]): row for row in result.get("rows", ())}


def _candidate(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    gates = [
        {**gate, "word": "passed" if gate["passed"] else "not known" if gate["passed"] is None else "exceeded"}
        for gate in result.get("gates", ())
    ]
    counts = ", ".join(f"{count} {finding}" for finding, count in result.get("counts", {}).items() if count)
    return {"name": name, "label": result.get("candidate", ""), "counts": counts, "gates": gates}


def _cell(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    spent, recorded = found.get("spent"), found.get("recorded")
    differs: Any = found.get("outcome") or found.get("first") or {}
    sides = (str(differs.get("recorded") or ""), str(differs.get("live") or ""))
    same = found["finding"] == "same"
    return {
        "finding": found["finding"],
        "mark": _MARKS.get(found["finding"], "warn"),
        "why": found.get("why", ""),
        "judged": (found.get("judgement") or {}).get("reason", ""),
        "cost": _delta(spent, recorded, "usd", cost),
        "time": _delta(spent, recorded, "ms", duration),
        "sides": words_apart(*sides) if not same and any(sides) else None,
    }


def _delta(spent: Any, recorded: Any, name: str, shown: Any) -> str:
    """Return the difference from the recording in words; empty if unknown."""
    if not spent or not recorded or (name == "usd" and (spent["unknown"] or recorded["unknown"])):
        return ""
    change = spent[name] - recorded[name]
    return "" if abs(change) < 1e-9 else f"{'+' if change > 0 else '−'}{shown(abs(change))}"
