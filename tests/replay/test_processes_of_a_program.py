"""A program of several processes: forked workers answer from the recording, and none that it starts reaches the network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from capture_provider import Provider

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts processes

AGENT = """
import concurrent.futures, multiprocessing, os, sys
import freezeframe, httpx
freezeframe.instrument()

def ask(text):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}
    answer = httpx.post(os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions", json=body)
    return answer.json()["choices"][0]["message"]["content"]

@freezeframe.run
def answer(how, topics):
    context = multiprocessing.get_context("spawn" if how == "spawn" else "fork")
    if how == "pool":
        with context.Pool(2) as pool:
            parts = pool.map(ask, topics, chunksize=1)
    else:
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
            parts = list(executor.map(ask, topics))
    return ask("sum up " + " ".join(sorted(parts)))  # which of two equal requests came first is for the processes to race

if __name__ == "__main__":
    answer(sys.argv[1], ["a", "b", "c", "a"])
"""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as started:
        yield started


def record(folder: Path, provider: Provider, how: str) -> Fixture:
    (folder / "agent.py").write_text(AGENT)
    environ = {**os.environ, "PROVIDER_BASE_URL": provider.url, "FREEZEFRAME_FILE": str(folder / "spans.jsonl")}
    subprocess.run([sys.executable, "agent.py", how], cwd=folder, env=environ, timeout=400, check=True)
    return freeze(load_run_of_file(folder / "spans.jsonl", _trace_of(folder / "spans.jsonl")))


def _trace_of(spans: Path) -> str:
    named = next(json.loads(line) for line in spans.read_text().splitlines() if '"answer"' in line)
    return named["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]


@pytest.mark.proof
@pytest.mark.parametrize("how", ["executor", "pool"])
def test_forked_workers_answer_from_the_recording_each_step_once(how: str, provider: Provider, tmp_path: Path) -> None:
    """Whichever worker takes which task: equal requests of two workers are two steps."""
    fixture = record(tmp_path, provider, how)
    provider.stop()
    assert len(fixture.steps) == 5
    report = reenact(fixture, cwd=tmp_path, env={"PROVIDER_BASE_URL": provider.url}, timeout_s=60)
    assert verdict(report) is Verdict.IDENTICAL, report
    assert sorted(served.step for served in report.served) == [step.number for step in fixture.steps]
    assert sorted(made.step or 0 for made in report.made) == [step.number for step in fixture.steps]


@pytest.mark.parametrize("how", ["executor", "pool"])
def test_what_a_worker_asks_otherwise_is_the_divergence(how: str, provider: Provider, tmp_path: Path) -> None:
    """Even if the program waits for the worker for ever, like a pool."""
    fixture = record(tmp_path, provider, how)
    provider.stop()
    (tmp_path / "agent.py").write_text(AGENT.replace('"content": text', '"content": text.replace("b", "B")'))
    report = reenact(fixture, cwd=tmp_path, env={"PROVIDER_BASE_URL": provider.url}, timeout_s=60)
    assert {(item.kind, item.live) for item in report.divergences} == {(DivergenceKind.REQUEST_CHANGED, '"B"')}


TAKES_TURNS = """
import multiprocessing, os, sys
import freezeframe, agent

def work(topics):
    for topic in topics:
        agent.ask(topic)

@freezeframe.run
def answer():
    for topics in [["c", "b"], ["a"]] if "OTHERWISE" in os.environ else [["b", "c"], ["a"]]:
        worker = multiprocessing.get_context("fork").Process(target=work, args=(topics,))
        worker.start()
        worker.join()

if __name__ == "__main__":
    answer()
"""


def test_which_worker_takes_which_task_is_no_divergence(provider: Provider, tmp_path: Path) -> None:
    """A queue gives tasks to whoever is free, so a worker may get them in another order than the recorded one."""
    (tmp_path / "turns.py").write_text(TAKES_TURNS)
    (tmp_path / "agent.py").write_text(AGENT)
    environ = {**os.environ, "PROVIDER_BASE_URL": provider.url, "FREEZEFRAME_FILE": str(tmp_path / "spans.jsonl")}
    subprocess.run([sys.executable, "turns.py"], cwd=tmp_path, env=environ, timeout=400, check=True)
    fixture = freeze(load_run_of_file(tmp_path / "spans.jsonl", _trace_of(tmp_path / "spans.jsonl")))
    provider.stop()
    report = reenact(fixture, cwd=tmp_path, env={"PROVIDER_BASE_URL": provider.url, "OTHERWISE": "1"}, timeout_s=60)
    assert verdict(report) is Verdict.IDENTICAL, report


@pytest.mark.usefixtures("fresh_python")
def test_a_python_that_the_program_starts_is_in_the_replay_and_not_on_the_network(provider: Provider, tmp_path: Path) -> None:
    """Spawned workers are separate runs in the recording, so what they ask is not in this one."""
    fixture = record(tmp_path, provider, "spawn")
    asked = len(provider.requests)
    report = reenact(fixture, cwd=tmp_path, env={"PROVIDER_BASE_URL": provider.url}, timeout_s=60)
    assert len(provider.requests) == asked
    assert report.first is not None
    assert report.first.kind is DivergenceKind.REQUEST_CHANGED
