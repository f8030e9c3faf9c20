"""The test session's own promise: whatever a test starts ends with it. Shown by separate sessions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="what the session sees of processes, it sees in /proc"),
]

CONFTEST = """
import signal
from started_processes import StartedProcesses

def pytest_configure(config):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background ignores
    config.pluginmanager.register(StartedProcesses(ending_s=0))
"""
STARTS = """
import os, pathlib, signal, subprocess, sys
import pytest

def start(how=""):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    if how == "daemon":  # of a shell that is gone, in a session of its own
        shell = ["sh", "-c", 'setsid "$0" -c "$1" & wait $!; true', sys.executable, code]
        process = subprocess.Popen(shell, stdout=subprocess.PIPE, start_new_session=True)
        pid = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    elif how == "fork":
        pid = os.fork() or signal.pause()
    else:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        pid = int(process.stdout.readline())
    with open("pids", "a") as pids:
        pids.write(f"{pid}\\n")
    return pid

@pytest.fixture
def started():
    start()

@pytest.fixture
def ended():
    pid = start()
    yield
    os.kill(pid, signal.SIGKILL)

@pytest.fixture
def broken():
    start()
    raise RuntimeError("a fixture with a fault")
"""


class Session:
    """A folder with tests, and what a run of them left."""

    def __init__(self, folder: Path, tests: str) -> None:
        self.folder = folder
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_it.py").write_text(STARTS + tests)
        (folder / "pytest.ini").write_text("[pytest]\ntimeout_method = thread\n")
        self._support = str(Path(__file__).parents[1] / "support")

    def start(self) -> subprocess.Popen[str]:
        """Start pytest in the folder."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "test_it.py"]
        environment = {**os.environ, "PYTHONPATH": self._support, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self) -> str:
        """Run the tests and return what pytest says."""
        with self.start() as process:
            return process.communicate()[0]

    def alive(self) -> list[int]:
        """Return which of the processes that the tests started are alive."""
        return [pid for pid in map(int, (self.folder / "pids").read_text().split()) if is_there(pid)]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["", "daemon", "fork"])
def test_a_test_that_leaves_a_process_fails_and_the_process_is_ended(tmp_path: Path, how: str) -> None:
    session = Session(tmp_path, f"def test_careless():\n    start({how!r})\n\ndef test_next():\n    pass\n")
    said = session.run()
    assert "2 passed, 1 error" in said
    assert "left running, and now killed: process" in said
    assert "test_it.py::test_careless" in said
    assert session.alive() == []


def test_a_test_that_fails_or_errs_in_setup_leaves_no_process(tmp_path: Path) -> None:
    """And what a fixture ends counts against no test."""
    fails = "def test_fails():\n    start()\n    assert False\n\n"
    errs = "def test_errs(broken):\n    pass\n\n"
    tests = f"{fails}{errs}def test_is_neat(ended):\n    pass\n"
    session = Session(tmp_path, tests)
    said = session.run()
    assert "1 failed, 1 passed" in said
    assert "started in the setup of test_it.py::test_errs" in said
    assert session.alive() == []


def test_what_a_fixture_leaves_is_told_at_the_end_with_its_test(tmp_path: Path) -> None:
    session = Session(tmp_path, "def test_first(started):\n    pass\n\ndef test_last():\n    pass\n")
    assert "started in the setup of test_it.py::test_first" in session.run()
    assert session.alive() == []


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "pytest.exit('as on Ctrl-C')", "signal.pause()"])
def test_a_session_that_is_killed_interrupted_or_out_of_time_leaves_no_process(tmp_path: Path, end: str) -> None:
    """The last one waits until pytest-timeout ends the whole session, as it does by its method ``thread``."""
    session = Session(tmp_path, f"@pytest.mark.timeout(1)\ndef test_it():\n    start('daemon')\n    {end}\n")
    session.run()
    while session.alive():  # the reaper works once pytest is gone; the test's own time limit bounds it
        os.sched_yield()


def test_a_session_that_is_interrupted_from_the_keyboard_leaves_no_process(tmp_path: Path) -> None:
    session = Session(
        tmp_path,
        "def test_it():\n    start()\n    print('started', file=sys.__stderr__)\n    while True: os.sched_yield()\n",
    )
    # it does not pause: a signal that comes right before would not wake it
    with session.start() as process:
        assert process.stdout is not None
        while not (tmp_path / "pids").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said = process.communicate()[0]
    assert "KeyboardInterrupt" in said
    while session.alive():
        os.sched_yield()
