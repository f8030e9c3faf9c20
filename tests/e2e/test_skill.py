"""A coding agent debugs the example with `freezeframe mcp`: the official client, over a pipe, against the real store.

The text of `freezeframe mcp install` is enough: who does what it says, with what it names, finds, fixes, proves and locks in.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_client import Client, client_of
from order_shop import copy_example, fix
from theatre import Theatre

from freezeframe_replay.mcp.index import TOOLS
from freezeframe_replay.mcp.skill import skill_text

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

WRONG, RIGHT = "A-1057", "A-1042"
TOOL = re.compile(r"`([a-z_]+)`")
STEPS = dict(re.findall(r"^(\d|To try)\b(.*?)(?=^\d\. |^To try|^## )", skill_text(), flags=re.MULTILINE | re.DOTALL))
"""Number of a step, and what comes after them -> its words."""


class Reader:
    """A client that calls only what the step names that it is at."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._step = ""
        self.called: dict[str, set[str]] = {}

    def begin(self, step: str, *, does: str) -> None:
        """Go to a step, which is to say this."""
        assert does in STEPS[step]
        self._step = step

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Return the answer of a tool that the step names."""
        assert tool in TOOL.findall(STEPS[self._step]), (self._step, tool)
        self.called.setdefault(self._step, set()).add(tool)
        return await self._client.call(tool, **arguments)


async def test_the_skill_leads_from_a_word_of_the_wrong_answer_to_a_test(theatre: Theatre, tmp_path: Path) -> None:
    """Each tool is one that the step names, and each tool that a step names is called there."""
    bot, old = copy_example(tmp_path / "bot"), copy_example(tmp_path / "old")
    before = theatre.shop.calls()
    async with client_of(bot, theatre.data) as client:
        assert "untrusted" in client.instructions
        assert [tool.name for tool in (await client.session.list_tools()).tools] == [entry.name for entry in TOOLS]
        reader = Reader(client)
        reader.begin("1", does="a word of the wrong answer")
        run = theatre.runs["sync"].run.trace_id[:12]
        assert run in await reader.call("find_runs", text=WRONG)
        why = await reader.call("why_failed", run=run)
        assert "ok" in why, "a run can be wrong and still be ok"
        assert "step 7 (http GET /prices/PS-11) failed and was handled" in why
        assert "429" in why and f'transcript(run="{run}", step=7)' in why

        reader.begin("2", does="Look for the first step that is\n   wrong")
        said = await reader.call("transcript", run=run, budget=8000)
        assert said.index("step 2  tool lookup_orders") < said.index(f'"{WRONG}"')
        assert "keller" not in said.lower(), "the store has surrogates only"
        asked = f"SELECT count() AS calls FROM tool_calls WHERE trace_id LIKE '{run}%' AND tool = 'lookup_orders'"
        assert "calls\n1\n" in await reader.call("sql", query=asked)

        reader.begin("3", does="`replay` before you edit anything. `identical` means that this code has the bug.")
        assert "identical: 8 of 8 steps and the outcome" in await reader.call("replay", run=run)

        reader.begin("4", does="the frames of the code with their variables")
        stopped = await reader.call("stop_at_step", run=run, step=5)
        assert "stopped before step 5" in stopped and "result = " in stopped, "a variable of the agent"

        reader.begin("5", does="the cause in the code")
        fix(bot)

        reader.begin("6", does="The first divergence is the effect of the edit")
        proved = await reader.call("replay", run=run)
        assert "diverged at step 5" in proved
        assert f'- "{WRONG}"' in proved and f'+ "{RIGHT}"' in proved

        reader.begin("7", does="red on the old code and green on the")
        saved = "tests/regressions/wrong-order"
        assert f"pytest {saved}" in await reader.call("save_test", run=run, directory=saved)
        assert 'expect="identical"' in STEPS["7"]
        good = theatre.runs["async"].run.trace_id[:12]
        await reader.call("save_test", run=good, directory="tests/regressions/as-it-was", expect="identical")

        reader.begin("8", does="which other\n   recorded runs does the edit change?")
        await reader.call("save_dataset", directory="sets/week", since="3650d", limit=3)
        assert "changed" in await reader.call("experiment", dataset="sets/week", keep="right-order")
        assert "right-order" in await reader.call("experiment_results", dataset="sets/week")

        reader.begin("To try", does="`fork` the run with that answer and `replay` the fork")
        await reader.call("fork", run=run, directory="forks/none", step=2, result=[])
        assert "step" in await reader.call("replay", run="forks/none")
    no_tools = {"ok", "identical", "diverged", "incomparable", "keep"}
    named = {step: {*TOOL.findall(words)} - no_tools for step, words in STEPS.items()}
    assert reader.called == {step: tools for step, tools in named.items() if tools}
    assert theatre.shop.calls() == before, "no tool of the agent was called"
    (old / saved).parent.mkdir(parents=True, exist_ok=True)
    (bot / saved).rename(bot / "moved").rename(old / saved)
    assert is_green(old, saved) is False, "red on the old code"
    (old / saved).rename(bot / saved)
    assert is_green(bot, saved) is True, "green on the new one"


def is_green(folder: Path, tests: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 0


async def test_hostile_arguments_are_refused_with_what_is_wrong(theatre: Theatre, tmp_path: Path) -> None:
    """SQL that writes or reads files, paths out of the project, options and commands in place of names, huge limits."""
    bot = copy_example(tmp_path / "bot")
    (tmp_path / "outside").mkdir()
    (bot / "link").symlink_to(tmp_path / "outside")
    run = theatre.runs["async"].run.trace_id[:12]
    count = "SELECT count() FROM spans"
    async with client_of(bot, theatre.data) as client:
        held = await client.call("sql", query=count)
        for query in (
            "TRUNCATE TABLE span_rows",
            "SELECT * FROM file('/etc/passwd', 'LineAsString')",
            "SELECT 1; DROP TABLE spans",
        ):
            assert "root:" not in await client.refused("sql", query=query)
        assert (await client.call("sql", query=count)).splitlines()[2] == held.splitlines()[2]
        for directory in ("../outside/a", "/etc/a", "link/a", ".git/hooks", "--force", "examples\0", "."):
            assert "directory" in await client.refused("save_test", run=run, directory=directory)
        assert "is not empty" in await client.refused("fork", run=run, directory="tools.py", step=2, result=[])
        for name in ("../outside", "/etc/passwd", "--live=model", "", "link"):
            assert "run" in await client.refused("replay", run=name)
        assert "not in the store" in await client.refused("why_failed", run="no-such-run")
        assert "less than or equal to 100" in await client.refused("find_runs", limit=10**9)
        assert "less than or equal to 20000" in await client.refused("transcript", run=run, budget=10**9)
        for file in ("http://127.0.0.1:9/x", "../outside/run.jsonl", "/etc/run.jsonl", ".git/run.jsonl", "tools.py", "-"):
            assert "file" in await client.refused("export", run=run, format="otlp", file=file)
        assert '"@/etc/passwd"' in await client.call("fork", run=run, directory="made/fork", step=1, response="@/etc/passwd")
        assert "for example 15m" in await client.refused("find_runs", since="yesterday")
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (bot / "forks").exists()
