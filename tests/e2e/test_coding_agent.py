"""A coding agent debugs the example with `freezeframe mcp`: the official client, over a pipe, against the real store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mcp_client import client_of
from order_shop import copy_example, fix
from theatre import Theatre

from freezeframe_replay.mcp.index import TOOLS

pytestmark = pytest.mark.long

WRONG, RIGHT = "A-1057", "A-1042"


async def test_a_coding_agent_finds_reproduces_fixes_and_locks_in_the_wrong_order(theatre: Theatre, tmp_path: Path) -> None:
    """From a word of the wrong answer to a green test, with tools alone and one edit of the code."""
    bot = copy_example(tmp_path / "bot")
    run = theatre.runs["sync"].run.trace_id[:12]
    before = theatre.shop.calls()
    async with client_of(bot, theatre.data) as client:
        assert "untrusted" in client.instructions
        assert [tool.name for tool in (await client.session.list_tools()).tools] == [entry.name for entry in TOOLS]

        assert run in await client.call("find_runs", text=WRONG)

        why = await client.call("why_failed", run=run)
        assert "first failed step: step 7 (http GET /prices/PS-11)" in why
        assert "429" in why
        assert f'transcript(run="{run}", step=7)' in why

        said = await client.call("transcript", run=run, budget=8000)
        assert "step 2  tool lookup_orders" in said
        assert WRONG in said
        assert "keller" not in said.lower(), "the store has surrogates only"

        again = await client.call("replay", run=run)
        assert "identical: 8 of 8 steps and the outcome" in again

        stopped = await client.call("stop_at_step", run=run, step=5)
        assert "stopped before step 5" in stopped
        assert "result = " in stopped, "a variable of the agent"

        fix(bot)  # what the coding agent edits
        fixed = await client.call("replay", run=run)
        assert "diverged at step 5" in fixed
        assert f'- "{WRONG}"' in fixed
        assert f'+ "{RIGHT}"' in fixed

        saved = await client.call("save_test", run=run, directory="tests/regressions/wrong-order")
        assert "pytest tests/regressions/wrong-order" in saved
    test = bot / "tests" / "regressions" / "wrong-order" / "test_wrong_order.py"
    green = subprocess.run([sys.executable, "-m", "pytest", "-q", test], cwd=bot, capture_output=True, text=True)
    assert green.returncode == 0, green.stdout
    assert theatre.shop.calls() == before, "no tool of the agent was called"


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
        assert (await client.call("sql", query=count)).splitlines()[2:4] == held.splitlines()[2:4]
        for directory in ("../outside/a", "/etc/a", "link/a", ".git/hooks", "--force", "examples\0", "."):
            assert "directory" in await client.refused("save_test", run=run, directory=directory)
        assert "is not empty" in await client.refused("fork", run=run, directory="tools.py", step=2, result=[])
        for name in ("../outside", "/etc/passwd", "--live=model", "", "link"):
            assert "run" in await client.refused("replay", run=name)
        assert "not in the store" in await client.refused("why_failed", run="no-such-run")
        assert "less than or equal to 100" in await client.refused("find_runs", limit=10**9)
        assert "less than or equal to 20000" in await client.refused("transcript", run=run, budget=10**9)
        assert "@" in await client.refused("fork", run=run, directory="forks/a", step=1, response="@/etc/passwd")
        assert "for example 15m" in await client.refused("find_runs", since="yesterday")
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (bot / "forks").exists()
