"""Senders of spans as they are today: each call is stored once, with its tokens, and asked again from the store.

`make test-senders` installs them; elsewhere these tests are skipped. FREEZEFRAME_UPDATE_GOLDEN=1 writes the results, from
which ``docs/other-instrumentations.md`` is made.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_collector import CollectorProcess
from senders.asking import DONE
from senders.provider import REFUSED, Recorded
from senders.results import load_results, write_result
from senders.table import SENDERS

from freezeframe_replay.local.target import RunsPlace, load_as_fixture
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.wire_server import serve_wire
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import verdict

ROOT = Path(__file__).parents[2]
QUESTION = "What's the weather in Florence, Italy?"
ANOTHER = "What's the weather in Florence, Spain?"
UPDATE = "FREEZEFRAME_UPDATE_GOLDEN"
CHOSEN = os.environ.get("FREEZEFRAME_SENDERS", "").split()
HERE = [name for name, sender in SENDERS.items() if not CHOSEN or sender.environment in CHOSEN]
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    running = CollectorProcess(tmp_path_factory.mktemp("collector") / "data")
    yield running
    running.kill()


class Agent:
    """A sender's agent in its own environment, which asks one question after another."""

    def __init__(self, name: str, variables: dict[str, str], log: Path) -> None:
        environment = ROOT / ".venv-senders" / SENDERS[name].environment
        if not (environment / "bin" / "python").exists():
            pytest.skip(f"no {environment.name} in .venv-senders: make test-senders")
        self.log = log
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                [str(environment / "bin" / "python"), "-m", "senders.asking", name],
                env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support"), **SENDERS[name].variables, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def ask(self, question: str, **variables: str) -> str:
        """Return what the agent came to."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"question": question, "variables": variables}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(DONE):
                return json.loads(line.removeprefix(DONE))
        raise AssertionError(self.log.read_text()[-3000:])

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def asked_again(agent: Agent, fixture: Fixture, question: str) -> tuple[str, int]:
    """Let the agent ask what was stored; return the verdict, and how many of its calls got an answer."""
    answering = ServedRun(fixture)
    with serve_wire([answering]) as url:
        agent.ask(question, **answering.environment(f"{url}/-/run/{fixture.run_id}"))
    report = answering.report()
    return verdict(report).value, len(report.served)


def found_of(name: str, agent: Agent, collector: CollectorProcess, provider: Recorded) -> dict[str, Any]:
    """Return what becomes of a sender's spans."""
    assert "40" in (answer := agent.ask(QUESTION)), answer
    cost = sorted(provider.tokens, key=str)
    agent.ask(f"What's the weather in {REFUSED}?")
    collector.flush()

    def rows(columns: str, view: str) -> list[list[Any]]:
        return collector.rows(f"SELECT {columns} FROM {view} WHERE service = '{name}' ORDER BY start_time")

    calls = rows("trace_id, status, error_type, [input_tokens, output_tokens], agent", "model_calls")
    answered = [call for call in calls if call[1] == "ok"]
    found: dict[str, Any] = {
        "calls": f"{len(answered)} of {len(cost)}",
        "tokens": sorted((call[3] for call in answered), key=str) == cost,
        "tool": bool(rows("tool", "tool_calls")),
        "agent": any(call[4] for call in calls),
        "error": ", ".join(sorted({call[2] or "without a class" for call in calls if call[1] == "error"})),
    }
    if not answered:
        return {**found, "re-enacted": "", "answered if changed": 0}
    try:
        fixture = load_as_fixture(RunsPlace(store=collector.store_url), answered[0][0])
    except FreezeframeError as error:
        refused = str(error).replace(answered[0][0], "RUN")
        return {**found, "re-enacted": f"refused: {refused}", "answered if changed": 0}
    found["re-enacted"], _ = asked_again(agent, fixture, QUESTION)
    _, found["answered if changed"] = asked_again(agent, fixture, ANOTHER)
    return found


@pytest.mark.parametrize("name", HERE)
def test_a_sender_is_stored_as_written_down_and_a_changed_question_gets_no_answer(
    name: str, collector: CollectorProcess, tmp_path: Path
) -> None:
    if name not in load_results() and not os.environ.get(UPDATE):
        pytest.skip(f"not tried so far: {UPDATE}=1 make test-senders writes what is found")
    with Recorded() as provider:
        variables = {
            **provider.variables(),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": name,
            "OTEL_METRICS_EXPORTER": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        with Agent(name, variables, tmp_path / "log.txt") as agent:
            found = found_of(name, agent, collector, provider)
    if os.environ.get(UPDATE):
        write_result(name, found)
    assert found["answered if changed"] == 0
    assert load_results()[name]["found"] == found
