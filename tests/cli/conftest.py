"""A small agent of two tools, recorded for real, as a project in a temporary folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from agent_folder import RECORD, Project

from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import Run, build_run

AGENT = '''"""Answers where an order is, and takes the wrong one."""

import freezeframe


@freezeframe.tool
def find_orders(name):
    return ["AC-1", "AC-2"]


@freezeframe.tool
def track(order):
    return {"order": order, "place": "Lyon"}


@freezeframe.run
def answer(question):
    orders = find_orders("keller")
    return f"it is in {track(orders[0])['place']}"
'''
FIX = ("orders[0]", "orders[1]")


def load_runs(file: Path) -> Sequence[Run]:
    """Return the runs of a file that `instrument(file=...)` wrote."""
    by_trace: dict[str, list[object]] = {}
    spans = [span for line in file.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))]
    for span in spans:
        by_trace.setdefault(span.trace_id, [])
    return [build_run(span for span in spans if span.trace_id == trace) for trace in by_trace]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """The agent's source and one recorded run of it."""
    root = tmp_path_factory.mktemp("recorded")
    (root / "agent.py").write_text(AGENT)
    done = Project(root=root).python("-c", RECORD, environ={"FREEZEFRAME_FILE": "spans.jsonl"})
    assert done.returncode == 0, done.stderr
    (run,) = load_runs(root / "spans.jsonl")
    return root, run


@pytest.fixture(scope="session")
def recorded_run(recorded: tuple[Path, Run]) -> Run:
    """The recorded run."""
    return recorded[1]


@pytest.fixture(scope="session")
def frozen(recorded_run: Run) -> Fixture:
    """The recorded run as a fixture."""
    return freeze(recorded_run)


@pytest.fixture
def project(recorded: tuple[Path, Run], frozen: Fixture, tmp_path: Path) -> Project:
    """A checkout of the agent, with the fixture in tests/late-order."""
    shutil.copy(recorded[0] / "agent.py", tmp_path / "agent.py")
    write_fixture(frozen, tmp_path / "tests" / "late-order")
    return Project(root=tmp_path)
