"""A coding agent takes three bugs over MCP, from the failure to a diff: in a tool, in a prompt, in a loop.

A scripted client of the official SDK does what the answers name as next; the agents are those of docs/guides/prove-a-fix.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from any_provider import AnyProvider
from mcp_client import Client, client_of
from running_collector import CollectorProcess

from freezeframe_schemas.otlp.json_form import spans_from_otlp_json

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each bug is recorded, replayed and tested

PAGE = Path(__file__).parents[2] / "docs/guides/prove-a-fix.md"
SAVED = "tests/regressions/bug"
NEXT_REPLAY = re.compile(r'next: replay\(run="([^"]+)", run_tools=(\[[^\]]+\])\)')
BUGS = {
    "A tool that raised": ("failures", ["ac-1", "ac-1", "AC-1"]),
    "A prompt": ("a word of the run", ["where is my order?", "when does it come?"]),
    "A loop": ("a word of the run", []),
}
"""Heading on the page -> the way to the run, and inputs of the runs; the page's own call if there are none."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    made = CollectorProcess(tmp_path_factory.mktemp("taken") / ".freezeframe")
    yield made
    made.stop()


def example(heading: str) -> tuple[str, str, str]:
    """Return an agent of the page, and its fix."""
    first, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (section,) = [each for each in sections if each.startswith(f"{heading}\n")]
    code = re.findall(r"```python\n(.*?)```", first + section, re.DOTALL)
    fix = re.search(r"Fix: `([^`]+)` becomes `([^`]+)`", section)
    assert fix is not None
    return "\n".join(code), fix[1], fix[2]


def record(folder: Path, inputs: list[str], collector: CollectorProcess) -> None:
    """Run the agent once for each input, and send what was recorded."""
    start = ["agent.py"]
    if inputs:
        start = [
            "-c",
            f"import agent, contextlib\nfor each in {inputs}:\n with contextlib.suppress(Exception): agent.answer(each)",
        ]
    with AnyProvider() as provider:
        variables = {**os.environ, **provider.variables(), "FREEZEFRAME_FILE": "spans.jsonl"}
        subprocess.run([sys.executable, *start], cwd=folder, env=variables, capture_output=True, timeout=400, check=False)
    file = folder / "spans.jsonl"
    spans = [span for line in file.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))]
    file.unlink()
    assert collector.post(spans).status_code == 200
    collector.flush()


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


async def found(client: Client, way: str, collector: CollectorProcess) -> str:
    """Return the run that a person would point to: one of the newest group of failures, or the newest run."""
    if way == "failures":
        groups = await client.call("failures")
        (line,) = [line for line in groups.splitlines() if "KeyError" in line]
        run = line.split()[-1]
        assert "KeyError" in await client.call("why_failed", run=run)
        return run
    (newest,) = collector.rows("SELECT trace_id FROM runs ORDER BY start_time DESC LIMIT 1")
    run = str(newest[0])[:12]
    assert run in await client.call("find_runs", text="", limit=5)
    return run


@pytest.mark.parametrize("heading", BUGS)
async def test_a_bug_is_reproduced_fixed_proven_on_its_neighbours_and_locked_in(
    heading: str, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Only the agent's file and the new test are in the diff."""
    way, inputs = BUGS[heading]
    code, old, new = example(heading)
    agent = tmp_path / "agent.py"
    agent.write_text(code)
    (tmp_path / ".gitignore").write_text("__pycache__/\nsets/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Add the agent")
    record(tmp_path, inputs, collector)
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    async with client_of(tmp_path, collector.data) as client:
        run = await found(client, way, collector)
        assert "step 1" in await client.call("transcript", run=run)
        assert "identical" in await client.call("replay", run=run), "reproduced"
        await client.call("save_dataset", directory="sets/neighbours", where=f"commit = '{commit}'")
        before = await client.call("experiment", dataset="sets/neighbours")
        assert "changed" not in before.partition("next:")[0].lower().replace("0 changed", "")

        agent.write_text(code.replace(old, new))  # the edit, which is the client's own

        proved, tools = await client.call("replay", run=run), []
        if (again := NEXT_REPLAY.search(proved)) is not None:
            tools = json.loads(again[2])
            assert "incomparable: tool total" in proved, "not a bare identical"
            proved = await client.call("replay", run=run, run_tools=tools)
        assert "REPLAY-1" in proved, "the effect of the edit"
        over_all = await client.call("experiment", dataset="sets/neighbours", **({"run_tools": tools} if tools else {}))
        assert "changed" in over_all
        await client.call("save_test", run=run, directory=SAVED)
    assert is_green(tmp_path) is True, "green on the new code"
    assert {line[3:] for line in git(tmp_path, "status", "--porcelain").splitlines()} == {"agent.py", "tests/"}
    assert git(tmp_path, "diff", "--shortstat").startswith(" 1 file changed, 1 insertion(+), 1 deletion(-)")
    agent.write_text(code)
    assert is_green(tmp_path) is False, "red on the old code"


def is_green(folder: Path) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", SAVED],
        cwd=folder, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 0
