"""Each benchmark starts on a fresh install, as `make bench-NAME` starts it, and ends what it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BENCHMARKS = sorted(path.stem for path in HERE.glob("bench_*.py"))
SMALLEST = {
    "bench_casts": ["--runs", "1"],
    "bench_host": ["--repeats", "1", "--kinds", "script"],
    "bench_replay": ["--no-peers", "--rounds", "1", "--runs", "1"],
    "bench_requests": ["--rounds", "2"],
    "bench_start": ["--here", "--no-demo", "--runs", "1"],
}
"""Benchmarks that measure something within seconds -> their smallest size. Others need peers, a browser or a data set."""

pytestmark = pytest.mark.long


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark in the environment of `make`, which sets no path of modules."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    return subprocess.run(
        command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, timeout=500, check=False
    )


def test_the_benchmarks_find_their_modules() -> None:
    done = run(BENCHMARKS[0], "--help")
    assert (done.returncode, done.stderr) == (0, "")
    program = f"import runpy\nfor name in {BENCHMARKS[1:]}: runpy.run_path(f'tests/benchmarks/{{name}}.py')"
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    subprocess.run([sys.executable, "-c", program], cwd=HERE.parents[1], env=environment, check=True, timeout=500)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if name == "bench_replay" else ()) for name in SMALLEST]
)
def test_a_benchmark_of_the_smallest_size_prints_its_figures(name: str) -> None:
    done = run(name, *SMALLEST[name])
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])


def test_a_peer_that_is_stopped_leaves_nothing_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its children nor theirs, in sessions of their own; killed, they could not end them."""
    monkeypatch.syspath_prepend(HERE)
    from bench_collector import stop
    from collector_peers import Peer

    wait = "import signal; signal.pause()"
    starts = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {!r}], start_new_session=True); "
    second = f"{starts.format(wait)}print(flush=True); {wait}"
    first = f"{starts.format(second)}{wait}"

    class Started(Peer):
        name = "started"

    peer = Started()
    process = subprocess.Popen([sys.executable, "-c", first], stdout=subprocess.PIPE)
    peer.processes = [process]
    assert process.stdout is not None
    process.stdout.readline()
    stop(peer, lambda one: one.send_signal(signal.SIGKILL))  # pyright: ignore[reportArgumentType]  # it is only ended
    assert process.stdout.read() == b""  # the end: nobody is left who holds it
