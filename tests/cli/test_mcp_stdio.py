"""`freezeframe mcp` over a pipe, without a store: answers about a long run are short, and a cancelled call leaves nothing."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from agent_folder import Project
from mcp_client import client_of

from freezeframe_replay.mcp.answers import MIN_TOKENS

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

STEPS = 300
LONG_AGENT = f"""
import freezeframe


@freezeframe.tool
def track(number):
    return {{"order": number, "place": "Lyon " * 20}}


@freezeframe.run
def answer(question):
    for number in range({STEPS}):
        place = track(number)["place"]
    return place
"""


async def test_answers_about_hundreds_of_steps_stay_within_their_budget(tmp_path: Path) -> None:
    """The client checks the length of each answer."""
    (tmp_path / "agent.py").write_text(LONG_AGENT)
    start = "import freezeframe; freezeframe.instrument(file='spans.jsonl'); import agent; agent.answer('where is it?')"
    done = Project(root=tmp_path).python("-c", start)
    assert done.returncode == 0, done.stderr
    run = "spans.jsonl"
    async with client_of(tmp_path, tmp_path / "data") as client:
        assert "characters are shown" in await client.call("why_failed", run=run)
        for budget in (MIN_TOKENS, 2000):
            said = await client.call("transcript", run=run, step=150, budget=budget)
            assert "\nstep 150  tool track" in said
            assert f'next: transcript(run="{run}", at=' in said
            assert f"identical: {STEPS} of {STEPS} steps" in await client.call("replay", run=run, budget=budget)
        stopped = await client.call("stop_at_step", run=run, step=200)
        assert "stopped before step 200" in stopped
        assert "number = 199" in stopped


async def test_the_new_code_of_a_tool_runs_if_the_client_names_it(tmp_path: Path) -> None:
    """A plain replay names the tool and the call that runs it; that call shows what it returned."""
    agent = tmp_path / "agent.py"
    agent.write_text(LONG_AGENT.replace(f"range({STEPS})", "range(2)"))
    start = "import freezeframe; freezeframe.instrument(file='spans.jsonl'); import agent; agent.answer('where is it?')"
    done = Project(root=tmp_path).python("-c", start)
    assert done.returncode == 0, done.stderr
    agent.write_text(agent.read_text().replace("Lyon", "Nice"))
    async with client_of(tmp_path, tmp_path / "data") as client:
        said = await client.call("replay", run="spans.jsonl")
        assert "incomparable: tool track (agent.py:" in said
        assert 'next: replay(run="spans.jsonl", run_tools=["track"]) runs the new code on the recorded calls' in said
        said = await client.call("replay", run="spans.jsonl", run_tools=["track"])
        assert "REPLAY-110 a tool that ran returned something else at step 1 (tool track" in said
        assert "Nice" in said


async def test_a_call_that_the_client_cancels_leaves_no_process(tmp_path: Path) -> None:
    """The replayed program, which waits for ever here, ends; and the server answers other calls, before and after."""
    code = "import freezeframe\n\n\n@freezeframe.run\ndef answer(question):\n    return freezeframe.tool(len)(question)\n"
    agent = tmp_path / "agent.py"
    agent.write_text(code)
    start = "import freezeframe; freezeframe.instrument(file='spans.jsonl'); import agent; agent.answer('where is it?')"
    done = Project(root=tmp_path).python("-c", start)
    assert done.returncode == 0, done.stderr
    waits = "import threading\n    threading.Event().wait()"
    agent.write_text(code.replace("    return", f"    {waits}\n    return"))
    pid = 0
    async with client_of(tmp_path, tmp_path / "data") as client:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.session.call_tool, "replay", {"run": "spans.jsonl"})
            pid = await replayed_in(tmp_path)
            assert "step 1  tool len" in await client.call("transcript", run="spans.jsonl"), "answered meanwhile"
            calls.cancel_scope.cancel()
        assert "step 1  tool len" in await client.call("transcript", run="spans.jsonl")
        with anyio.fail_after(120):
            while is_running(pid):
                await anyio.sleep(0.05)


async def replayed_in(folder: Path) -> int:
    """Wait for the process of a replayed program. Its writes do not reach the folder, so the system is asked."""
    while True:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if b"process.child" in (entry / "cmdline").read_bytes() and (entry / "cwd").readlink() == folder:
                    return int(entry.name)
            except OSError:  # it ended
                continue
        await anyio.sleep(0.05)


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not waited for yet has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False
