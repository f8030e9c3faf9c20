"""Results: an experiment as JSON, and the results that a dataset keeps, read back. Loading runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.experiments.experiment import Experiment, ExperimentResult, Kept
from freezeframe_replay.experiments.gates import Gate
from freezeframe_replay.experiments.rows import ExperimentVerdict, RowResult
from freezeframe_replay.experiments.statement import METHOD, Score, most_of, sentence
from freezeframe_replay.experiments.tool_policy import ToolUse
from freezeframe_schemas.errors import ConfigError, FixtureError
from freezeframe_schemas.records import from_json

FORMAT: Final = "freezeframe-experiment"
VERSION: Final = 1
_MAX_KEPT: Final = 12


def result_to_json(result: ExperimentResult) -> dict[str, Any]:
    """Return one candidate's result as a JSON value, with its format and version."""
    repeats: dict[str, list[RowResult]] = {}
    for cell in result.cells:
        repeats.setdefault(cell.name, []).append(cell)
    found = result.score
    return {
        "format": FORMAT,
        "version": VERSION,
        "dataset": result.dataset,
        "name": result.name,
        "candidate": result.candidate,
        "finding": result.finding.value,
        "statement": "" if found is None else sentence(result.name or "the candidate", found),
        "score": None if found is None else {**asdict(found), "word": found.word, "method": METHOD},
        "tools": [*map(asdict, result.tools)],
        "left": result.left,
        "gates": [asdict(gate) for gate in result.gates],
        "counts": {finding.value: count for finding, count in result.counts.items()},
        "rows": [{**asdict(row), "repeats": [*map(asdict, repeats.get(row.name, ()))]} for row in result.rows],
    }


def kept_to_json(experiment: Experiment, result: ExperimentResult) -> dict[str, Any]:
    """Return what a dataset keeps of one candidate: its result, and what it was made under."""
    return {**result_to_json(result), **_conditions_to_json(experiment)}


def _conditions_to_json(experiment: Experiment) -> dict[str, Any]:
    budget = experiment.budget
    return {
        "check": experiment.check,
        "against": experiment.against,
        "repeats": experiment.repeats,
        "budget": {"limit_usd": budget.limit, "spent_usd": budget.spent, "of_unknown_cost": budget.unknown},
        "resumed": experiment.resumed,
        "notes": list(experiment.notes),
    }


def experiment_to_json(experiment: Experiment) -> dict[str, Any]:
    """Return an experiment as a JSON value: that of its only candidate, if that has no name, or a list of them."""
    common = _conditions_to_json(experiment)
    results = [result_to_json(result) for result in experiment.results]
    if len(results) == 1 and not results[0]["name"]:
        return {**results[0], **common}
    return {
        "format": FORMAT,
        "version": VERSION,
        "dataset": experiment.dataset,
        "finding": experiment.finding.value,
        **common,
        "candidates": results,
    }


def kept_from_json(name: str, data: Any) -> Kept:
    """Return a kept result as what candidates are compared with.

    Raises:
        ConfigError: it does not say which runs passed.
    """
    rows: Any = data.get("rows") if isinstance(data, dict) else None
    if not isinstance(rows, list) or any("passed" not in row or "repeats" not in row for row in rows):
        raise ConfigError(f"--against {name}: does not say which runs passed", do="keep it again with --as")
    passed = {str(row["name"]): most_of([cell["passed"] for cell in row["repeats"]]) for row in rows}
    changed = frozenset(str(row["name"]) for row in rows if row["finding"] == ExperimentVerdict.CHANGED.value)
    return Kept(name=name, passed=passed, changed=changed)


# -- kept results, read back ----------------------------------------------------------------------------------------------


def result_files(directory: Path) -> Sequence[Path]:
    """Return the kept results of a dataset, at most 12, the newest last."""
    files = sorted((directory / "results").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return files[-_MAX_KEPT:]


def read_kept(path: Path) -> Mapping[str, Any]:
    """Return a kept result as JSON.

    Raises:
        FixtureError: it is not readable, or of a format or version that is unknown to this library.
    """
    try:
        result: Any = json.loads(path.read_bytes())
        if (result["format"], result["version"]) != (FORMAT, VERSION):
            raise FixtureError(f"{path}: format {result['format']!r} {result['version']}, expected {FORMAT!r} {VERSION}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FixtureError(f"{path}: not readable, {type(error).__name__}: {error}") from error
    return result


def kept_experiments(directory: Path, files: Sequence[Path]) -> Sequence[Experiment]:
    """Return kept results as candidates, by their names; those of equal conditions are one experiment.

    Raises:
        FixtureError: one is not readable.
        WireError: a field of one is not as an experiment writes it.
    """
    found: dict[tuple[str, str, int], list[ExperimentResult]] = {}
    for path in files:
        kept = read_kept(path)
        try:
            conditions = str(kept.get("check", "")), str(kept.get("against", "")), int(kept.get("repeats", 1))
            found.setdefault(conditions, []).append(_result_from_json(path, kept))
        except (AttributeError, TypeError, ValueError) as error:
            raise FixtureError(f"{path}: not readable, {type(error).__name__}: {error}") from error
    return [
        Experiment(dataset=str(directory), results=tuple(results), check=check, against=against, repeats=repeats)
        for (check, against, repeats), results in found.items()
    ]


def _result_from_json(path: Path, kept: Mapping[str, Any]) -> ExperimentResult:
    what = str(path)
    rows: Sequence[Mapping[str, Any]] = kept.get("rows") or ()
    score = {name: value for name, value in (kept.get("score") or {}).items() if name not in ("word", "method")}
    return ExperimentResult(
        dataset=str(kept.get("dataset", "")),
        candidate=str(kept.get("candidate", "")),
        name=path.stem,
        rows=tuple(_row(row, what) for row in rows),
        cells=tuple(_row(cell, what) for row in rows for cell in row.get("repeats", ())),
        gates=tuple(from_json(Gate, gate, what) for gate in kept.get("gates", ())),
        score=from_json(Score, score, what) if score else None,
        tools=tuple(from_json(ToolUse, tool, what) for tool in kept.get("tools", ())),
        left=int(kept.get("left", 0)),
    )


def _row(row: Mapping[str, Any], what: str) -> RowResult:
    return from_json(RowResult, {name: value for name, value in row.items() if name != "repeats"}, what)
