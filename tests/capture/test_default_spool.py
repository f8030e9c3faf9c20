"""With default settings nothing is lost while the collector is away if the spool can be sealed; else a message says so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_collector import CollectorProcess

from freezeframe import _instrument
from freezeframe._config import load_settings
from freezeframe._delivery_report import delivery_reports
from freezeframe.export.default_spool import spool_directory
from freezeframe.export.spool import Header, Spool

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # processes

AGENT = """
import sys
import freezeframe

@freezeframe.tool
def look(number):
    return f"Maria Keller {number}"

@freezeframe.run
def answer(calls):
    print("ready", flush=True)
    for number in range(calls):
        if number == calls // 2:
            sys.stdin.readline()
        look(number)
    print("done", flush=True)
    sys.stdin.readline()

freezeframe.instrument()
answer(int(sys.argv[1]))
"""
CALLS = 120
STEPS = CALLS + 2  # the lines that it reads are steps, too


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home, and a project in it."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "FREEZEFRAME_SPOOL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / "agent.py").write_text(AGENT)
    monkeypatch.chdir(project)
    return tmp_path / "home"


class Programs:
    """The agent's processes; all are ended with the test."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, url: str, calls: int) -> subprocess.Popen[str]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_"))}
        variables |= {"FREEZEFRAME_ENDPOINT": url, "FREEZEFRAME_SERVICE_NAME": str(calls)}
        process = subprocess.Popen(
            [sys.executable, "agent.py", str(calls)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        self.wait_for(process, "ready")
        return process

    def wait_for(self, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{line}\n"

    def go_on(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    def stop(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs()
    yield made
    made.stop()


def exchanges(collector: CollectorProcess, calls: int) -> list[list[object]]:
    collector.flush()
    return collector.rows(f"SELECT status, toUInt32(exchanges) FROM freezeframe.runs WHERE service = '{calls}'")


@pytest.mark.proof("law a killed collector costs no span")
def test_a_collector_that_is_killed_in_mid_run_costs_no_span(tmp_path: Path, home: Path, programs: Programs) -> None:
    collector = CollectorProcess(tmp_path / "collector")
    port = str(collector.ports["http"])
    try:
        agent = programs.start(collector.url, CALLS)
        until = time.monotonic() + 60
        while exchanges(collector, CALLS) != [["unfinished", CALLS // 2]]:
            assert time.monotonic() < until
    finally:
        collector.kill()
    programs.go_on(agent)
    programs.wait_for(agent, "done")
    programs.go_on(agent)
    assert agent.wait(300) == 0
    [directory] = (home / ".local" / "state" / "freezeframe" / "spool").iterdir()
    kept = list(directory.glob("*.batch"))
    assert kept
    assert directory.stat().st_mode & 0o777 == 0o700
    assert not any(b"Keller" in file.read_bytes() for file in kept)
    assert [path.name for path in Path.cwd().iterdir()] == ["agent.py"]

    collector = CollectorProcess(tmp_path / "collector", "--http-port", port)
    try:
        later = programs.start(collector.url, 2)
        until = time.monotonic() + 100
        while exchanges(collector, CALLS) != [["ok", STEPS]]:
            assert time.monotonic() < until, exchanges(collector, CALLS)
        assert later.poll() is None  # it delivers while it works, and no command was needed
        [[stored, once]] = collector.rows(
            f"SELECT count(), uniqExact(span_id) FROM freezeframe.spans WHERE service = '{CALLS}'"
        )
        assert stored == once == STEPS + 1
        assert list(directory.glob("*.batch")) == []
    finally:
        collector.kill()


@pytest.mark.proof
def test_one_word_switches_it_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in (load_settings({"spool": False}), load_settings({}, environ={"FREEZEFRAME_SPOOL": "off"})):
        exporter = _instrument.make_exporter(settings)
        assert not hasattr(exporter, "waiting")
        [report] = [item for item in delivery_reports(settings) if item.subject == "spool"]
        assert (report.ok, report.found) == (True, "off: spans are lost while the collector is down")
    assert not (home / ".local").exists()


def test_doctor_says_what_waits_and_where(home: Path) -> None:
    settings = load_settings({})
    directory = Path(spool_directory(settings))
    [report] = [item for item in delivery_reports(settings) if item.subject == "spool"]
    assert (report.ok, report.found) == (True, f"empty, in {directory}, protected by: encrypt")
    Spool(directory, limit_bytes=1000).put(Header(protection="encrypt", key="0", spans=1), b"x")
    [report] = [item for item in delivery_reports(settings) if item.subject == "spool"]
    assert (report.ok, report.found) == (False, f"batches waiting: 1, in {directory}, protected by: encrypt")


@pytest.mark.usefixtures("fresh_python")
def test_without_what_seals_it_doctor_and_a_warning_say_that_spans_are_lost(home: Path) -> None:
    (Path.cwd() / "sitecustomize.py").write_text(
        "import sys\nclass Hidden:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'cryptography':\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    code = (
        "import freezeframe; freezeframe.instrument()\n"
        "from freezeframe._delivery_report import delivery_reports\n"
        "print([item.found for item in delivery_reports() if item.subject == 'spool'])\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=400, check=False)
    missing = "spool: cryptography is not installed, and the spool never holds clear text"
    assert done.stdout == f"['off, so spans are lost while the collector is down: {missing}']\n"
    assert missing in done.stderr
    assert "spans are lost while the collector is down" in done.stderr
    assert not (home / ".local").exists()


@pytest.mark.proof
def test_what_was_recorded_for_one_collector_or_project_is_not_delivered_to_another(home: Path, tmp_path: Path) -> None:
    here = spool_directory(load_settings({}))
    assert spool_directory(load_settings({})) == here
    others = [
        load_settings({"endpoint": "https://collector.example.com"}),
        load_settings({"endpoint": "https://collector.example.com", "headers": {"authorization": "Bearer a"}}),
        load_settings({"endpoint": "https://collector.example.com", "headers": {"authorization": "Bearer b"}}),
    ]
    assert len({here, *map(spool_directory, others)}) == 4
    remote = spool_directory(others[0])
    (tmp_path / "another").mkdir()
    os.chdir(tmp_path / "another")
    assert spool_directory(load_settings({})) != here
    assert spool_directory(others[0]) == remote


def test_batches_that_are_too_old_are_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", limit_bytes=1000, limit_days=2)
    header = Header(protection="encrypt", key="0", spans=1)
    spool.put(header, b"young")
    [young] = spool.batches()
    (tmp_path / "spool" / f"{time.time_ns() - 3 * 86_400 * 10**9:020d}-1-0.batch").write_bytes(b"old")
    assert spool.expire() == 1
    assert spool.batches() == [young]
