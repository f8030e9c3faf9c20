"""What a worker process records without a marked function: a run that says that it is a worker's, and has an end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas import genai, values
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import SpanRecord

pytestmark = pytest.mark.long  # starts Python several times

PROGRAM = """
import concurrent.futures, multiprocessing, freezeframe
freezeframe.instrument()

@freezeframe.tool
def square(x):
    return x * x

def fails(x):
    square(x)
    raise ValueError(x)

@freezeframe.run
def marked(x):
    return square(x)

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as pool:
        pool.map(square, [1, 2])
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        pool.map(square, [3])
        pool.close()
        pool.join()
    for context in (spawn, multiprocessing.get_context("forkserver")):
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            list(pool.map(square, [4]))
    for target in (square, fails):
        process = spawn.Process(target=target, args=(5,))
        process.start()
        process.join()
    with spawn.Pool(1) as pool:
        pool.map(marked, [6])
"""


def test_the_run_of_a_worker_says_so_and_is_not_replayed(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(PROGRAM)
    environ = {**os.environ, "FREEZEFRAME_FILE": str(tmp_path / "spans.jsonl")}
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=tmp_path, env=environ, capture_output=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    spans = defaultdict[str, list[SpanRecord]](list)
    for line in (tmp_path / "spans.jsonl").read_text().splitlines():
        for span in spans_from_otlp_json(json.loads(line)):
            spans[span.trace_id].append(span)
    runs = [build_run(each) for each in spans.values()]
    of_workers = [run for run in runs if run.entry.name != "marked"]
    assert len(of_workers) == 6
    for run in of_workers:
        assert run.status is not RunStatus.UNFINISHED
        assert GapKind.WORKER in {gap.kind for gap in run.gaps}
        assert readiness(run).level == 2
        with pytest.raises(ReplayError, match="is what a worker process did"):
            reenact(freeze(run), cwd=tmp_path)
    [marked] = [run for run in runs if run.entry.name == "marked"]
    assert reenact(freeze(marked), cwd=tmp_path).divergences == ()


PARENT = """
import concurrent.futures, multiprocessing, sys, freezeframe
freezeframe.instrument()

def square(x):
    return x * x

@freezeframe.run
def answer(method, way):
    context = multiprocessing.get_context(method)
    if way == "pool":
        with context.Pool(1) as pool:
            return pool.map(square, [1, 2])
    if way == "executor":
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return list(pool.map(square, [4]))
    process = context.Process(target=square, args=(5,))
    process.start()
    process.join()

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        for way in ("pool", "executor", "process"):
            answer(method, way)
"""


def test_a_run_that_starts_a_python_process_names_it_unless_it_is_forked(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(PARENT)
    environ = {**os.environ, "FREEZEFRAME_FILE": str(tmp_path / "spans.jsonl")}
    subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=environ, capture_output=True, timeout=400, check=True)
    lines = (tmp_path / "spans.jsonl").read_text().splitlines()
    spans = [span for line in lines for span in spans_from_otlp_json(json.loads(line)) if span.name == "answer"]
    runs = [build_run([span]) for span in spans if span.attributes.get(genai.ENTRY_OUTPUT)]
    named = {run.entry.input: [gap.text for gap in run.gaps if gap.kind is GapKind.PROCESS] for run in runs}
    assert len(named) == 9
    for given, texts in named.items():
        method = values.decode(str(given))["kwargs"]["method"]
        expected = [] if method == "fork" else [f"starts a Python process (multiprocessing, {method})"]
        assert [text.partition(") ")[2].partition(", outside")[0] for text in texts] == expected
