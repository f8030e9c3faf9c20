"""What freezeframe starts ends with it, even if it is killed. The programs hold a pipe open as long as they live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call

from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas import genai, values
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.run import EntryKind, build_run

pytestmark = pytest.mark.long

LIVES = """
import os, signal
def live():
    alive = open(os.environ["ALIVE"], "w")
    alive.write("x")
    alive.flush()
    signal.pause()
"""
STARTS = """
import subprocess, sys
def start():
    subprocess.run([sys.executable, "-S", "-c", "import lives; lives.live()"], env={**os.environ, "PYTHONPATH": "."})
"""
AGENTS = {
    "a function": "lives.live()",
    "a thread of it": "threading.Thread(target=lives.live).start()",
    "a process that it started": "start()",
    "a fork of it": "os.fork() or lives.live()\n    time.sleep(1000)",
    "a process that ignores other signals": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 30)); lives.live()",
}
LIVE = [sys.executable, "-c", "import lives; lives.live()"]


def killed_while_alive(command: list[str], folder: Path) -> None:
    """Start freezeframe, kill it once its program is alive, and wait for the end of the program."""
    pipe = folder / "alive"
    os.mkfifo(pipe)
    (folder / "lives.py").write_text(LIVES)
    environment = {**os.environ, "ALIVE": str(pipe), "PYTHONPATH": str(folder)}
    started = subprocess.Popen(
        [sys.executable, "-m", "freezeframe._cli", *command], cwd=folder, env=environment, stdin=subprocess.PIPE
    )
    with started, pipe.open() as alive:
        assert alive.read(1) == "x"
        started.send_signal(signal.SIGKILL)
        assert alive.read() == ""  # the end: nobody holds it open for writing


@pytest.mark.parametrize("agent", AGENTS)
def test_a_replayed_program_ends_with_a_killed_replay(agent: str, tmp_path: Path) -> None:
    imports = "import os, signal, threading, time, freezeframe, lives\n"
    (tmp_path / "agent.py").write_text(f"{imports}{STARTS}\n@freezeframe.run\ndef answer(question):\n    {AGENTS[agent]}\n")
    write_fixture(freeze(build_run(make_run())), tmp_path / "fixture")
    killed_while_alive(["replay", "fixture"], tmp_path)


def test_a_replayed_command_ends_with_a_killed_replay(tmp_path: Path) -> None:
    write_fixture(freeze(build_run(make_run())), tmp_path / "fixture")
    killed_while_alive(["replay", "fixture", "--", *LIVE], tmp_path)


def test_a_replayed_program_of_another_language_ends_with_a_killed_replay(tmp_path: Path) -> None:
    entry, *rest = make_run(model_call("where?", "here"))
    (tmp_path / "program.py").write_text("import lives\n\nlives.live()\n")
    argv = [sys.executable, "program.py"]
    target = {genai.ENTRY_KIND: EntryKind.PROGRAM.value, genai.ENTRY_INPUT: values.encode({"argv": argv})}
    run = build_run([replace(entry, attributes={**entry.attributes, **target}), *rest])
    write_fixture(freeze(run), tmp_path / "fixture")
    killed_while_alive(["replay", "fixture"], tmp_path)


def test_a_recorded_program_ends_with_a_killed_recording(tmp_path: Path) -> None:
    killed_while_alive(["run", "--proxy", "--file", "spans.jsonl", "--", *LIVE], tmp_path)


def test_a_wrapped_mcp_server_ends_with_what_wraps_it(tmp_path: Path) -> None:
    """Even one that does not read its input."""
    killed_while_alive(["run", "--proxy", "--mcp", "--", *LIVE], tmp_path)
