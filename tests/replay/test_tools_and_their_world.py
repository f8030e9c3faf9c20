"""A tool that a replay runs: databases, files and MCP servers answer it from the recording, and what does not is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from any_provider import AnyProvider

from freezeframe.context.current import MAX_INSIDE
from freezeframe_replay.cli import main
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas.exchange import Kind

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

HEAD = """
import json, random, sqlite3, sys, uuid
import freezeframe
from openai import OpenAI

freezeframe.instrument()


def ask(text):
    answer = OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content

"""
TAIL = """

@freezeframe.run
def answer(article):
    return ask(f"There are {stock(article)} left. Say so.")


if __name__ == "__main__":
    answer("kettle")
"""
SQLITE = """
@freezeframe.tool
def stock(article):
    with sqlite3.connect("shop.db") as db:
        [pieces] = db.execute("SELECT pieces FROM stock WHERE article = ?", (article,)).fetchone()
        db.execute("UPDATE stock SET pieces = ? WHERE article = ?", (pieces - 1, article))
    return pieces - 1
"""
FILE = """
@freezeframe.tool
def stock(article):
    with open("stock.json") as file:
        return json.load(file)[article]
"""


def database(folder: Path, pieces: int) -> Path:
    """Make a shop's database."""
    import sqlite3

    path = folder / "shop.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE IF NOT EXISTS stock(article TEXT, pieces INT)")
        db.execute("DELETE FROM stock")
        db.execute("INSERT INTO stock VALUES ('kettle', ?)", (pieces,))
    return path


def in_stock(path: Path) -> int:
    import sqlite3

    with sqlite3.connect(path) as db:
        return db.execute("SELECT pieces FROM stock").fetchone()[0]


class Agent:
    """An agent in a folder, recorded once."""

    def __init__(self, folder: Path, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._file = folder / "agent.py"
        self._capsys = capsys
        self.code = HEAD + tool + TAIL
        self._file.write_text(self.code)

    def record(self, **variables: str) -> None:
        import os

        with AnyProvider() as provider:
            given = {**os.environ, **provider.variables(), "FREEZEFRAME_FILE": "spans.jsonl", **variables}
            done = subprocess.run(
                [sys.executable, "agent.py"],
                cwd=self._folder,
                env=given,
                capture_output=True,
                text=True,
                timeout=400,
                check=False,
            )
        assert done.returncode == 0, done.stderr

    def replay(self, old: str = "", new: str = "", *, quiet: bool = True) -> tuple[int, str]:
        """Change the code, and replay with the tool run; return the exit code and the line."""
        assert old in self.code
        self._file.write_text(self.code.replace(old, new) if old else self.code)
        self._capsys.readouterr()
        status = main(["replay", "spans.jsonl", "--run-tool", "stock", *(["--quiet"] if quiet else [])])
        return status, self._capsys.readouterr().out


@pytest.fixture
def agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Agent:
    monkeypatch.chdir(tmp_path)
    return Agent(tmp_path, request.param, capsys)


RECORDS = {"FREEZEFRAME_RECORD_DATABASES": "1", "FREEZEFRAME_RECORD_FILES": "1"}


@pytest.mark.parametrize("agent", [SQLITE], indirect=True)
def test_statements_of_a_tool_are_answered_from_the_recording(agent: Agent, tmp_path: Path) -> None:
    """The same code is identical with the database gone; a change is the difference; nothing real is written."""
    path = database(tmp_path, 7)
    agent.record(**RECORDS)
    path.unlink()
    status, line = agent.replay()
    assert (status, line[:68]) == (0, "identical, except commits and rollbacks (not recorded): 2 of 2 steps"), line
    database(tmp_path, 50)
    status, line = agent.replay("return pieces - 1", "return pieces")
    assert (status, line[:56]) == (3, "REPLAY-110 a tool that ran returned something else at st"), line
    status, line = agent.replay("(pieces - 1, article)", "(pieces - 2, article)")
    assert (status, "sqlite UPDATE" in line) == (3, True), line
    assert in_stock(path) == 50


@pytest.mark.parametrize("agent", [SQLITE], indirect=True)
def test_a_database_that_was_not_recorded_is_read_as_it_is_and_named(agent: Agent, tmp_path: Path) -> None:
    path = database(tmp_path, 7)
    agent.record()
    database(tmp_path, 7)
    status, line = agent.replay()
    assert (status, "tool stock queries shop.db as it is now (not recorded)" in line) == (0, True), line
    status, line = agent.replay("return pieces - 1", "return pieces")
    assert (status, "; tool stock queries shop.db as it is now (not recorded), run" in line) == (3, True), line
    assert in_stock(path) == 7


MANY = SQLITE.replace("        db.execute", "        for _ in range(300):\n            db.execute")


@pytest.mark.parametrize("agent", [MANY], indirect=True)
def test_of_what_a_tool_asks_a_part_is_recorded_and_the_rest_is_named(agent: Agent, tmp_path: Path) -> None:
    database(tmp_path, 7)
    agent.record(**RECORDS)
    [run] = load_runs_of_file(tmp_path / "spans.jsonl")
    assert sum(exchange.kind is Kind.DATABASE for exchange in run.exchanges) == MAX_INSIDE
    status, text = agent.replay(quiet=False)
    later = f"{MAX_INSIDE} calls are recorded, and this is a later one"
    assert (status, later in " ".join(text.split())) == (3, True), text


@pytest.mark.parametrize("agent", [FILE], indirect=True)
def test_a_file_that_a_tool_reads_is_answered_from_the_recording(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "stock.json").write_text('{"kettle": 7}')
    agent.record(**RECORDS)
    (tmp_path / "stock.json").unlink()
    status, line = agent.replay()
    assert (status, line[:43]) == (0, "identical: 2 of 2 steps and the outcome (to"), line
    status, line = agent.replay("[article]", "[article] + 1")
    assert (status, line[:10]) == (3, "REPLAY-110"), line
    (tmp_path / "other.json").write_text("{}")
    status, line = agent.replay('open("stock.json")', 'open("other.json")')
    assert (status, "file open" in line) == (3, True), line


@pytest.mark.parametrize("agent", [FILE], indirect=True)
def test_a_file_that_was_not_recorded_is_read_as_it_is_and_named(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "stock.json").write_text('{"kettle": 7}')
    agent.record()
    status, line = agent.replay()
    assert (status, "except tool stock reads stock.json as it is now (not recorded): 2 of 2" in line) == (0, True), line


DRAWS = """
@freezeframe.tool
def stock(article):
    return str(uuid.uuid4())
"""


@pytest.mark.parametrize("agent", [DRAWS], indirect=True)
def test_what_a_tool_draws_is_answered_or_named(agent: Agent) -> None:
    agent.record()
    status, line = agent.replay()
    assert (status, line[:43]) == (0, "identical: 2 of 2 steps and the outcome (to"), line
    status, line = agent.replay("return str(uuid.uuid4())", "return str(uuid.uuid4()) and str(uuid.uuid4())")
    assert (status, line.count("; tool stock draws a UUID (not recorded), run")) == (3, 1), line
    status, line = agent.replay("return str(uuid.uuid4())", "return str(uuid.uuid4())[random.randrange(3) * 0 :]")
    assert (status, line.count("except tool stock draws random numbers (not recorded):")) == (0, 1), line


MCP = """
import asyncio
from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client

SERVER = '''
from mcp.server.mcpserver import MCPServer
server = MCPServer("shop")


@server.tool()
def pieces(article: str) -> int:
    open("calls.txt", "a").write(article)
    return 7


server.run("stdio")
'''


async def look(article):
    parameters = StdioServerParameters(command=sys.executable, args=["-c", SERVER])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        found = await session.call_tool("pieces", {"article": article})
        return int(found.content[0].text)


@freezeframe.tool
def stock(article):
    return asyncio.run(look(article))
"""


@pytest.mark.parametrize("agent", [MCP], indirect=True)
def test_an_mcp_server_that_a_tool_asks_is_answered_from_the_recording(agent: Agent, tmp_path: Path) -> None:
    agent.record()
    status, line = agent.replay()
    assert (status, line[:43]) == (0, "identical: 2 of 2 steps and the outcome (to"), line
    status, line = agent.replay('{"article": article}', '{"article": article.upper()}')
    assert (status, "mcp tools/call" in line) == (3, True), line
    assert (tmp_path / "calls.txt").read_text() == "kettle"
