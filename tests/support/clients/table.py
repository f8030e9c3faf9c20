"""The table: its rows, what became of them, and the page that is made from that.

python -m clients.table environments          the names of the environments that `make test-clients` makes
python -m clients.table requirements NAME     what one installs
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import clients.libraries
from clients.client import CORE, Client, Column, Trial
from clients.harness import Outcome, run_trial
from clients.own_sdks import SDKS
from clients.team import Team, all_teams

ROOT: Final = Path(__file__).parents[3]
TRAFFIC: Final = ROOT / "tests" / "data" / "clients" / "traffic.json"
STRUCTURE: Final = ROOT / "tests" / "data" / "clients" / "structure.json"
RESULTS: Final = ROOT / "tests" / "data" / "clients" / "results.json"
PAGE: Final = ROOT / "docs" / "coverage.md"

BESIDE: Final[Mapping[str, set[str]]] = {
    "airflow": {"apache-airflow", "httpx", "openai"},
    "neighbours": {
        *("ddtrace", "eventlet", "freezegun", "gevent", "logfire", "moto", "newrelic", "openai", "respx", "sentry-sdk"),
        *("openinference-instrumentation-openai", "time-machine", "traceloop-sdk", "vcrpy", "wrapt"),
        *(f"opentelemetry-instrumentation-{name}" for name in ("asyncio", "httpx", "threading", "urllib")),
    },
    "sdks": {"uvloop"},
    "vendors": {"langfuse", "logfire", "traceloop-sdk", "openai", "zstandard"},
}
"""Distributions that the other tests in tests/clients need."""

Cell = dict[str, Any]
"""``{"captured": true, "replayed": true}``, or ``{"why": "..."}`` if there is nothing to try."""
Row = dict[str, Any]
"""``{"version": "3.54.0", "environment": "core", "seams": ["httpx2"], "cells": {"sync": {...}}}``."""


@cache
def all_clients() -> tuple[Client, ...]:
    """Return every row, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(clients.libraries.__path__))
    found = [importlib.import_module(f"clients.libraries.{name}").CLIENT for name in names]
    return tuple(sorted(found, key=lambda client: client.name))


def environments() -> list[str]:
    """Return the environments besides the core."""
    of_teams = {team.environment for team in all_teams().values()}
    return sorted(({client.environment for client in all_clients()} | of_teams | BESIDE.keys()) - {CORE})


def requirements(environment: str) -> list[str]:
    """Return what an environment installs."""
    needed = {name for client in all_clients() if client.environment == environment for name in client.requires}
    needed |= BESIDE.get(environment, set())
    for team in all_teams().values():
        if team.environment == environment:
            needed |= {team.distribution, team.instrumentor, *team.requires}
    return sorted(needed | {sdk.name for sdk in SDKS.values() if sdk.environment == environment})


# -- running ------------------------------------------------------------------------------------------------------------


def try_column(client: Client, column: Column) -> tuple[Cell, Outcome]:
    """Run the trials of one cell; return it, with what went wrong."""
    trials = client.trials[column]
    if isinstance(trials, str):
        return {"why": trials}, Outcome()
    outcome = reduce(Outcome.merged, [_outcome(item, column) for item in trials])
    return {"captured": not outcome.not_captured, "replayed": not outcome.not_replayed}, outcome


def _outcome(trial: Trial, column: Column) -> Outcome:
    try:
        return run_trial(trial, column)
    except Exception as error:
        fault = f"{trial.name}: {type(error).__name__}: {error}"
        return Outcome(not_captured=(fault,), not_replayed=(fault,))


def load_results() -> dict[str, Row]:
    """Return the rows as they were last written, by client."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def write_cell(client: Client, column: Column, cell: Cell, seams: frozenset[str]) -> None:
    """Put one cell into the results."""
    rows = load_results()
    known = {item.name for item in all_clients()}
    row = rows.setdefault(client.name, {"seams": [], "cells": {}})
    row["version"] = version(client.distribution)
    row["environment"] = client.environment
    row["seams"] = sorted({*row["seams"], *seams})
    row["cells"][column.value] = cell
    ordered = {name: rows[name] for name in sorted(known & rows.keys())}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")


def load_structure() -> dict[str, Row]:
    """Return the agents that OpenInference's instrumentors named, by client."""
    return json.loads(STRUCTURE.read_text("utf-8")) if STRUCTURE.exists() else {}


def write_structure(team: Team, calls: int) -> None:
    """Put one team into it."""
    rows = load_structure()
    versions = {name: version(name) for name in (team.distribution, team.instrumentor)}
    rows[team.client] = {"versions": versions, "agents": sorted(set(team.agents)), "calls": calls}
    STRUCTURE.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", "utf-8")


def load_traffic() -> dict[str, Row]:
    """Return the outcomes of the recorded exchanges asked through the providers' own SDKs, by provider."""
    return json.loads(TRAFFIC.read_text("utf-8")) if TRAFFIC.exists() else {}


def write_traffic(provider: str, sdk: str, counts: Mapping[str, int]) -> None:
    """Put one provider into it."""
    rows = load_traffic()
    rows[provider] = {"sdk": sdk, "version": version(sdk), **counts}
    TRAFFIC.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", "utf-8")


# -- the page -----------------------------------------------------------------------------------------------------------


_NO_AGENTS: Final = "a client of models or tools, without agents"
END: Final = "\n## Recorded traffic through the openai and anthropic SDKs\n"
"""End of this part of the page; `recorded_traffic` makes the rest."""


def page(rows: Mapping[str, Row], traffic: Mapping[str, Row], structure: Mapping[str, Row]) -> str:
    """Return the first part of the page, up to `END`: what is captured and replayed of which client."""
    reasons: list[str] = []
    lines = [_line(client, rows[client.name], structure, reasons) for client in all_clients() if client.name in rows]
    cells = [cell for row in rows.values() for cell in row["cells"].values() if "why" not in cell]
    good = sum(cell["captured"] and cell["replayed"] for cell in cells)
    notes = [f"* {', '.join(names)}: {note}" for note, names in _notes().items()]
    return "\n".join(
        [
            "# What was tried",
            "",
            "Real client libraries, recorded traffic of providers, and thirty situations in which replays are",
            "known to break. Tests write this page.",
            "",
            "## Clients",
            "",
            "Each cell is one or several uses of the real library against recorded provider answers. A mark",
            "means **captured byte-exact**, each attempt and cut answer included, and **replayed equal**, with the",
            f"provider gone and no tool called. {good} of {len(cells)} cells have it. A number says why there is none.",
            "",
            f"| client | version | {' | '.join(column.value for column in Column)} | structure | through |",
            f"|---|---|{'---|' * (len(Column) + 1)}---|",
            *lines,
            "",
            *[f"{number}. {reason}" for number, reason in enumerate(reasons, 1)],
            "",
            "*structure*: a team of agents with OpenInference's instrumentor; each call is recorded once and names its",
            f"agent ({_tried(structure)}). *errors*: a recorded",
            "refusal, a cut answer, a cut stream. *tools* of a framework: a call that works and one that raises.",
            "",
            *notes,
            "",
            "**Not captured:** model calls over gRPC as model calls (Vertex AI, Gemini, x.ai: recorded as plain",
            "calls), gRPC on asyncio with interceptors, WebSocket sessions, pycurl: [what to do](capture.md#what-is-not).",
            "",
            "## Recorded traffic through the providers' own SDKs",
            "",
            "Every recorded exchange of these providers, whole conversations in order, asked through the SDK.",
            "Of so many the SDK makes the same in a replay as of the original bytes:",
            "",
            *[
                f"* {provider}: {row['equal']} of {row['exchanges']}, {row['sdk']} {row['version']}"
                for provider, row in sorted(traffic.items())
            ],
            "",
        ]
    )


def _notes() -> Mapping[str, list[str]]:
    """Return the clients that share a note, by note."""
    notes: dict[str, list[str]] = {}
    for client in all_clients():
        for note in client.note.split("; ") if client.note else ():
            notes.setdefault(note, []).append(client.name)
    return notes


def _tried(structure: Mapping[str, Row]) -> str:
    versions = {name: text for row in structure.values() for name, text in row["versions"].items()}
    return ", ".join(f"{name} {text}" for name, text in sorted(versions.items()) if name.startswith("openinference"))


def _line(client: Client, row: Row, structure: Mapping[str, Row], reasons: list[str]) -> str:
    cells = [_mark(row["cells"].get(column.value), reasons) for column in Column]
    cells.append("✓" if client.name in structure else _mark({"why": client.structure or _NO_AGENTS}, reasons))
    return f"| {client.name} | {row['version']} | {' | '.join(cells)} | {', '.join(row['seams'])} |"


def _mark(cell: Cell | None, reasons: list[str]) -> str:
    if cell is None:
        return "not run"
    if "why" not in cell:
        marks = ["✓" if cell[half] else "✗" for half in ("captured", "replayed")]
        return "✓" if "✗" not in marks else " ".join(marks)
    if cell["why"] not in reasons:
        reasons.append(cell["why"])
    return f"({reasons.index(cell['why']) + 1})"


def main(arguments: list[str]) -> int:
    """Print what `make test-clients` asks for."""
    match arguments:
        case ["environments"]:
            print(*environments(), sep="\n")
        case ["requirements", name] if name in environments():
            print(*requirements(name), sep="\n")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
