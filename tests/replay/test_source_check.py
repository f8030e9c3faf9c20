"""What the source alone names of what a recording names, on programs whose gaps are known, and nothing on hermetic ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from arbitrary_agents import make_agent
from known_gaps import EARLY, HEAD, LATE, PROGRAMS, REACHES, reaching_program

from freezeframe_replay.cli import main
from freezeframe_replay.local.source_check import SourceFinding, check_source
from freezeframe_schemas.gaps import GapKind

UNSEEN = {
    "in a console of the program's own": "its code is a text",
    "a command object": "the decorator is an object of the program's",
    "cancelled by the caller": "depends on time",
    "in another event loop than asyncio's": "the loop is the program's own",
    "a tool whose result comes back as plain data": "the class of a result",
    "a request of a web framework": "the class of an input",
    "a socket in a list": "the class of an input",
    "a class of a function's": "the class of an input",
    "a counter": "the class of an input",
}
"""Programs whose gap only a run shows -> the reason."""
IN_A_FILE = {name: program for name, program in PROGRAMS.items() if program.source}
STATE = """
import functools, freezeframe
history, orders, total = [], {}, 0

class Bot:
    def __init__(self):
        self.heard = []

    def hear(self, text):
        self.heard.append(text)

bot = Bot()

@functools.lru_cache
def translated(text):
    return text

@freezeframe.run
def answer(question):
    global total
    total += 1
    history.append(question)
    bot.hear(question)
    own = []
    own.append(question)
    return [translated(question), history, bot.heard, own]
"""
WITHOUT_MARKS = """
import os, secrets, subprocess, numpy as np, psycopg2, requests, torch
from pathlib import Path

def read_notes(folder: Path):
    return (folder / "notes.txt").read_text()

def ask(question):
    requests.post("https://api.openai.com/v1/chat/completions", json={})
    requests.get("https://prices.example.com/today")
    return [np.datetime64("no" "w"), np.datetime64("2026-11-21"), secrets.token_hex(), torch.rand(3), psycopg2.connect("db")]

if __name__ == "__main__":
    subprocess.run(["git", "status"])
    ask(read_notes(Path("x")))
"""


def checked(folder: Path, source: str) -> list[SourceFinding]:
    """Return the findings in a program in a repository."""
    for name, text in {"agent.py": source, "late.py": LATE, "early.py": EARLY, "prompt.txt": "be kind"}.items():
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    (folder / "orders.csv").write_text("AC-1,3\n")
    return [*check_source([folder / "agent.py"]).findings]


@pytest.mark.parametrize("name", IN_A_FILE)
def test_the_source_names_what_a_recording_names_and_no_other_gap(name: str, tmp_path: Path) -> None:
    """Of 30 programs with a gap, 21 are found; 21 hermetic programs get no finding, and no program a wrong one."""
    program = IN_A_FILE[name]
    found = {each.kind for each in checked(tmp_path, HEAD + program.source)}
    assert found == ({program.gap} if program.gap and name not in UNSEEN else set())


def test_each_way_to_reach_something_is_found_with_its_line(tmp_path: Path) -> None:
    source = HEAD + reaching_program()
    found = checked(tmp_path, source)
    starts = {name: 1 + source[: source.index(f"def {name}(")].count("\n") for name in REACHES}
    for name, expected in REACHES.items():
        lines = range(starts[name], starts[name] + 2 + expected.body.count("\n"))
        helper = "load_orders" in expected.body
        assert [each for each in found if each.kind is expected.gap and (helper or each.line in lines)], name
    assert all(each.do for each in found)


def test_state_that_runs_leave_behind_is_found(tmp_path: Path) -> None:
    found = checked(tmp_path, STATE)
    assert {each.kind for each in found} == {GapKind.CARRIED_OVER}
    assert [each.text.partition(",")[0].partition(" from ")[0] for each in found] == [
        "translated keeps its results",
        "answer changes the global total",
        "answer changes the global history",
        "answer changes the global bot",
    ]


def test_a_program_without_marks_is_one_run(tmp_path: Path) -> None:
    """A model's host and a fixed date are no gap."""
    found = checked(tmp_path, WITHOUT_MARKS)
    assert [each.kind.value for each in found] == [
        "file_read",
        "http_unrecorded",
        "clock_unrecorded",
        "connection",
        "random_unrecorded",
        "process",
    ]
    assert "prices" not in str(found), "no value of the program"


@pytest.mark.parametrize(
    "app",
    ["from fastapi import FastAPI\napp = FastAPI()\n@app.post('/ask')\n", "import celery\napp = celery.Celery()\n@app.task\n"],
)
def test_what_a_server_or_a_worker_keeps_from_run_to_run_is_found(app: str, tmp_path: Path) -> None:
    """Its functions are runs, with nothing marked; in a script, the same code is one run."""
    body = "def ask(text):\n    history.append(text)\n    return history\n"
    (found,) = checked(tmp_path, f"history = []\n{app}{body}")
    assert (found.kind, found.line) == (GapKind.CARRIED_OVER, 1 + app.count("\n") + 2)
    assert checked(tmp_path, f"history = []\n{body}ask('a')\n") == []


def test_settings_close_their_gaps(tmp_path: Path) -> None:
    source = HEAD + "print(open('orders.csv').read(), sqlite3.connect('orders.db'))\n"
    assert {each.kind for each in checked(tmp_path, source)} == {GapKind.FILE_READ, GapKind.DATABASE}
    assert not checked(tmp_path, source.replace("instrument()", "instrument(record_files=True, record_databases=True)"))


def test_a_function_that_has_the_name_of_a_tool_is_told_from_it(tmp_path: Path) -> None:
    """By the import, as the example of the documentation does: a tool `file_note` calls `world.file_note`, which writes."""
    (tmp_path / "world.py").write_text("def file_note(text):\n    open('log', 'a').write(text)\n")
    tools = "import freezeframe, world\n@freezeframe.tool\ndef file_note(text):\n    return world.file_note(text)\n"
    (tmp_path / "tools.py").write_text(tools)
    agent = "import freezeframe\nfrom {} import file_note\n@freezeframe.run\ndef answer(text):\n    return file_note(text)\n"
    assert checked(tmp_path, agent.format("tools")) == []
    assert {each.kind for each in checked(tmp_path, agent.format("world"))} == {GapKind.FILE_WRITTEN}
    example = Path(__file__).parents[2] / "examples" / "order_lookup" / "agent.py"
    assert check_source([example]).findings == (), "its runs are hermetic"


@pytest.mark.parametrize("seed", range(40))
def test_an_arbitrary_program_gets_no_false_alarm(seed: int, tmp_path: Path) -> None:
    """What its grammar knows to be a gap aside."""
    source = make_agent(seed).source()
    known = {
        GapKind.RANDOM_UNRECORDED: "SystemRandom()." in source or "secrets." in source,
        GapKind.FILE_READ: 'open("notes' in source,
        GapKind.PROCESS: "subprocess.run" in source,
        GapKind.ENTRY_UNREACHABLE: make_agent(seed).entry in ("nested", "method"),
    }
    assert {each.kind for each in checked(tmp_path, source)} <= {kind for kind, is_there in known.items() if is_there}


@pytest.mark.proof("command doctor check")
def test_the_command_prints_line_kind_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text("import os\n\n\ndef start():\n    os.system('ls')\n\n\nstart()\n")
    assert main(["doctor", "check", "agent.py"]) == 3
    assert capsys.readouterr().out == (
        "agent.py:5: process: start starts a program by os.system\n"
        "  do: mark start with @freezeframe.tool\n"
        "1 finding in 1 file; nothing of the program was run\n"
    )
    (tmp_path / "agent.py").write_text("print('hello')\n")
    assert main(["doctor", "check", "."]) == 0
    assert main(["doctor", "check", "missing.py"]) == 1
    (tmp_path / "broken.py").write_text("print(\n")
    capsys.readouterr()
    assert main(["doctor", "check", "."]) == 3
    assert "broken.py: not read" in capsys.readouterr().out
    (tmp_path / "agent.py").write_text("print(\n")
    assert main(["doctor", "check", "agent.py"]) == 1
