"""A replay that is ended from outside takes the program with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # starts the program twice

AGENT = """
import os, signal
import freezeframe
freezeframe.instrument()

@freezeframe.run
def answer():
    if os.path.exists("pipe"):
        pipe = open("pipe", "w")
        print("here", file=pipe, flush=True)
        while True:
            signal.pause()

if __name__ == "__main__":
    answer()
"""


@pytest.mark.proof
@pytest.mark.parametrize("command", [[], ["--", sys.executable, "agent.py"]], ids=["entry point", "program"])
def test_a_signal_to_the_command_ends_the_program_that_it_replays(tmp_path: Path, command: list[str]) -> None:
    """The program holds a pipe open until it is gone, and would wait forever if it were left behind."""
    (tmp_path / "agent.py").write_text(AGENT)
    recording = {**os.environ, "FREEZEFRAME_FILE": "run.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=recording, check=True, timeout=300)
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    replay = [str(Path(sys.executable).with_name("freezeframe")), "replay", "run.jsonl", *command]
    with subprocess.Popen(replay, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            happens = select.poll()
            happens.register(pipe, select.POLLIN)
            assert happens.poll(60_000)
            assert os.read(pipe, 99) == b"here\n"
            process.terminate()
            assert happens.poll(60_000) == [(pipe, select.POLLHUP)]
            assert process.wait(300) == 128 + signal.SIGTERM
        finally:
            process.kill()
            os.close(pipe)
