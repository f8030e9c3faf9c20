"""Tasks that are recorded under a worker in its own process, which asks a provider on loopback."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from races import Provider

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import Verdict, verdict

ASK = """
import os

import freezeframe

freezeframe.instrument()

import httpx


def ask(prompt):
    asked = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
    answer = httpx.post(os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions", json=asked, timeout=200)
    return answer.json()["choices"][0]["message"]["content"]
"""
"""The start of a module of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """Tasks that a worker did, and the runs that they left."""

    folder: Path
    runs: tuple[Run, ...]

    def of(self, name: str) -> list[Run]:
        """Return the runs of a name."""
        return [run for run in self.runs if run.entry.name == name]

    def input(self, run: Run) -> dict[str, Any]:
        """Return what a run was given."""
        return values.decode(run.entry.input or "")


@contextmanager
def recorded(folder: Path, source: str, **environment: str) -> Generator[Callable[[], Worked]]:
    """Write the tasks, start a provider, and set the environment of a worker; yield what reads the runs once it has ended."""
    (folder / "tasks.py").write_text(source)
    spans = folder / "spans.jsonl"
    with pytest.MonkeyPatch.context() as patch, Provider({}) as provider:
        for name, value in {"PROVIDER_BASE_URL": provider.url, "FREEZEFRAME_FILE": str(spans), **environment}.items():
            patch.setenv(name, value)

        def runs() -> Worked:
            patch.delenv("FREEZEFRAME_FILE")
            return Worked(folder=folder, runs=tuple(load_runs_of_file(spans)))

        yield runs


def replays(worked: Worked, run: Run) -> bool:
    """Return whether a run replays identically by itself, without trying the network."""
    report = reenact(freeze(run), cwd=worked.folder)
    return (report.divergences, report.sockets_tried, verdict(report)) == ((), 0, Verdict.IDENTICAL)
