"""Runs that other instrumentations recorded, asked again by agents in JavaScript on the SDKs of npm, through the server.

Each multi-step run four times: whole, streamed, with the tools' results changed, and with one word of the question changed. The
golden file counts by instrumentation; ``docs/other-instrumentations.md`` has its table. To accept a change:
``python tests/replay/test_foreign_runs_in_node.py`` writes it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from node_packages import node_folder

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.reconstruct import can_be_reconstructed
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.wire_server import serve_wire
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.errors import RunError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden" / "foreign_runs_in_node.json"
WAYS = ("whole", "streamed", "changed result", "changed question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run that is asked again in one of the ways."""

    scenario: str
    way: str
    run: ServedRun

    @property
    def questions(self) -> list[dict[str, Any]]:
        """What each of the model calls says."""
        steps = self.run.fixture.steps
        return [json.loads(step.exchange.request.body) for step in steps if step.exchange.kind is Kind.MODEL]

    def job(self, url: str) -> dict[str, Any]:
        """Return what the agent in JavaScript is told."""
        from meaning_agents import reworded

        first, *others = self.questions
        if self.way == "changed question":
            first = reworded(first)
        api = self.scenario.split("-")[1]
        if self.scenario.startswith("smolagents"):  # puts calls and results into texts, and asks three times
            api = "told"
            if self.way == "changed result":
                others = json.loads(json.dumps(others).replace("50 degrees", "51 degrees"))
        return {
            "api": api,
            "streamed": self.way == "streamed",
            "spoiled": self.way == "changed result",
            "env": self.run.environment(f"{url}/-/run/{self.run.fixture.run_id}"),
            "system": first["system"],
            "messages": first["messages"],
            "questions": [first, *others],
        }

    def came_out(self, came: dict[str, str]) -> bool:
        """Return whether the way came out as it has to."""
        report = self.run.report()
        match self.way:
            case "changed question":
                return not report.served
            case "changed result":  # is named at the model call that was told of it
                named = report.first
                return named is not None and named.kind is DivergenceKind.REQUEST_CHANGED and "$.body.messages" in named.path
            case _:
                return verdict(report) is Verdict.SAME_IN_MEANING and self._last_answer() in (came.get("said") or came["error"])

    def _last_answer(self) -> str:
        calls = [step.exchange for step in self.run.fixture.steps if step.exchange.kind is Kind.MODEL]
        told = json.loads(calls[-1].response.body)
        return told.get("error") or "".join(part["content"] for part in told["parts"] if part["type"] == "text")


def multi_step_runs() -> Iterator[tuple[str, Fixture]]:
    for folder in sorted(path for path in (TESTS / "data" / "otlp").iterdir() if path.is_dir()):
        for run in filter(can_be_reconstructed, load_runs_of_file(folder)):
            try:
                fixture = freeze(run)
            except RunError:  # its spans hold no content
                continue
            if sum(step.exchange.kind is Kind.MODEL for step in fixture.steps) > 1:
                yield folder.name, fixture


def counted() -> dict[str, dict[str, int]]:
    """Ask all of them in one process of Node; return how many came out as they have to, by instrumentation and way."""
    asked = [(scenario, way, fixture) for scenario, fixture in multi_step_runs() for way in WAYS]
    all_ways = [
        Asked(scenario=scenario, way=way, run=ServedRun(replace(fixture, run_id=f"{number:032x}")))
        for number, (scenario, way, fixture) in enumerate(asked)
    ]
    with serve_wire([item.run for item in all_ways]) as url:
        jobs = json.dumps([item.job(url) for item in all_ways])
        program = ["node", str(node_folder() / "foreign.mjs")]
        done = subprocess.run(program, input=jobs, capture_output=True, text=True, timeout=400, check=True)
    found: dict[str, Counter[str]] = {}
    for item, came in zip(all_ways, json.loads(done.stdout), strict=True):
        row = found.setdefault(item.scenario.rpartition("-")[2], Counter(dict.fromkeys(("runs", *WAYS), 0)))
        row.update({"runs": int(item.way == "whole"), item.way: int(item.came_out(came))})
    return {name: dict(row) for name, row in sorted(found.items())}


def test_an_agent_in_javascript_re_enacts_each_multi_step_run_and_a_change_is_named() -> None:
    found = counted()
    assert found == json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert all(row[way] == row["runs"] for row in found.values() for way in WAYS)


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS / "support"))
    GOLDEN.write_text(json.dumps(counted(), indent=1) + "\n", encoding="utf-8")
