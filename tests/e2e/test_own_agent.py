"""The README's way with an agent that is not the demo's: an openai-agents script with one line of freezeframe, or with none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from order_shop import serving

AGENT = '''
import sys
{line}
from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled

set_default_openai_api("chat_completions")
set_tracing_disabled(True)


@function_tool
def lookup_orders(name: str, email: str) -> str:
    """Look up the orders of a customer."""
    with open("calls", "a") as calls:
        calls.write("called\\n")
    return '[{{"order_id": "A-1", "item": "kettle", "status": "packed", "placed_on": "2026-11-01", "sku": "K-1"}}]'


agent = Agent(name="Support", instructions="Help the customer.", tools=[lookup_orders], model="gpt-4o-mini")
print(Runner.run_sync(agent, sys.argv[1]).final_output)
'''


@pytest.fixture(scope="module")
def provider() -> Iterator[dict[str, str]]:
    with serving("provider.py") as addresses:
        yield addresses


def call(*command: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_"))}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**kept, "OPENAI_API_KEY": "local", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("lines", ["import freezeframe; freezeframe.instrument()", ""], ids=["one line", "no line"])
def test_a_script_of_openai_agents_is_one_run_that_replays(lines: str, tmp_path: Path, provider: dict[str, str]) -> None:
    """Its framework loads half a web server (by way of mcp), but it is still a script."""
    (tmp_path / "agent.py").write_text(AGENT.format(line=lines))
    question = "Hi, this is Maria Keller (maria@keller.example). Where is my order?"
    launch = [] if lines else ["-m", "freezeframe._cli", "run", "--", sys.executable]
    environment = {**provider, "FREEZEFRAME_FILE": str(tmp_path / "spans.jsonl")}
    recorded = call(*launch, "agent.py", question, cwd=tmp_path, environment=environment)
    assert recorded.returncode == 0, recorded.stderr
    assert "A-1" in recorded.stdout

    replayed = call("-m", "freezeframe._cli", "replay", "spans.jsonl", cwd=tmp_path, environment={})
    assert "identical: 3 of 3 steps" in replayed.stdout, replayed.stdout + replayed.stderr
    assert replayed.returncode == 0
    assert (tmp_path / "calls").read_text() == "called\n"
