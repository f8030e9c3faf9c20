"""Runs can be listed, shown and asked for in SQL while their collector is down."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running_collector import CollectorProcess, span

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]


def freezeframe(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "freezeframe._cli", *words, "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with seven spans of one run, whose collector was stopped."""
    data = tmp_path_factory.mktemp("stopped") / "data"
    collector = CollectorProcess(data)
    assert collector.post([span(number) for number in range(7)]).status_code == 200
    collector.flush()
    assert collector.stop() == 0
    return data


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sql", "SELECT count() FROM spans", "--format", "csv"), "7"),
        (("runs",), f"{1:032x}"[:12]),
        (("show", f"{1:032x}"), "span-3"),
    ],
)
def test_a_store_is_read_while_its_collector_is_down(stopped: Path, words: tuple[str, ...], expected: str) -> None:
    done = freezeframe(stopped, *words)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    assert done.stderr.count(f"no collector is running for {stopped}, reading its files\n") == 1


def test_what_a_killed_collector_had_not_stored_is_named(tmp_path: Path) -> None:
    collector = CollectorProcess(tmp_path / "data")
    assert collector.post([span(number) for number in range(7)]).status_code == 200
    collector.kill()
    done = freezeframe(tmp_path / "data", "sql", "SELECT count() FROM spans", "--format", "csv")
    assert done.returncode == 0, done.stderr
    stored = int(done.stdout.splitlines()[-1])
    assert stored == 7 or "in its log are not stored yet, so not shown" in done.stderr


def test_the_reading_program_ends_with_the_command(stopped: Path) -> None:
    """Its standard input closes however the command ends; a password keeps other users of the machine out."""
    command = [sys.executable, "-m", "freezeframe_collector", "--read", "--data", str(stopped)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        about = json.loads(program.stdout.readline())
        import httpx

        assert httpx.get(f"http://127.0.0.1:{about['port']}/?query=SELECT+1", timeout=400).status_code == 401
        program.stdin.close()
        assert program.wait(300) == 0
