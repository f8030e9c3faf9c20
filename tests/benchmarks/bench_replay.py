"""What recording adds to a call and what a replayed call takes, beside vcrpy and replay tools from PyPI, in one run.

    python tests/benchmarks/bench_replay.py [--rounds 3] [--runs 20] [--peers DIR] [--no-peers]

Each tool runs in a process of its own against the same provider on loopback, with the same openai SDK. Times are CPU
milliseconds of the calling thread: the median of a round, and of the rounds, in which the tools take turns, the least, because
the machine may be busy. Peers are installed into a virtual environment of their own (``--peers``, default
``.bench/replay-peers``); those that do not install are named. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from figures import Figure, print_figures
from loopback import QuietHandler, listening, send_json

HERE = Path(__file__).parent
PEERS = {"vcrpy": "vcrpy", "cassetter": "cassetter[httpx2]", "replex": "replex"}
"""Tool -> what to install."""
SIZES = (50, 200, 1000)
SHAPES = ("small", "large", "stream")
RIVAL_MS = 0.86
"""The fastest peer that goes through the real SDK, as measured once on an idle machine."""


@contextmanager
def provider() -> Generator[str]:
    """A chat provider that never gives the same answer twice."""
    numbers = itertools.count(1)

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            number = next(numbers)
            if asked.get("stream"):
                self.send_response_only(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for event in _events(number):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
                self.wfile.write(b"0\r\n\r\n")
                return
            send_json(self, json.dumps(_completion(number)).encode())

    with listening(Handler) as url:
        yield url


def _completion(number: int) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": f"Answer {number}."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }


def _events(number: int) -> Generator[bytes]:
    for piece in [f"Answer {number}", *(f" word{place}" for place in range(10))]:
        chunk = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-4o",
            "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}],
        }
        yield b"data: " + json.dumps(chunk).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def install(folder: Path) -> tuple[Path, dict[str, str]]:
    """Install every peer that can be installed; return their Python and what went wrong with the others."""
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    pip = (
        [str(uv), "pip", "install", "-q", "--python", str(python)]
        if uv.exists()
        else [str(python), "-m", "pip", "install", "-q"]
    )
    failed: dict[str, str] = {}
    for name, requirement in PEERS.items():
        wanted = [requirement, f"openai=={version('openai')}", f"httpx2=={version('httpx2')}"]
        done = subprocess.run([*pip, *wanted], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            failed[name] = "does not install"
    return python, failed


def measured(python: Path | str, tool: str, url: str, sizes: Sequence[int]) -> dict[str, float] | str:
    """Return a tool's figures of one round, or the last line of its error."""
    with tempfile.TemporaryDirectory(prefix="bench-replay-") as folder:
        done = subprocess.run(
            [python, HERE / "replay_peers.py", tool, url, folder, ",".join(map(str, sizes))],
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no word"])[-1][:200]
    return json.loads(done.stdout.splitlines()[-1])


def best_of(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the least of each figure, and what recording adds to a call of each shape."""
    found = {name: min(figures[name] for figures in rounds) for name in rounds[0]}
    recorded = [shape for shape in SHAPES if f"recorded {shape}" in found]
    added = {f"record {shape}": found[f"recorded {shape}"] - found[f"bare {shape}"] for shape in recorded}
    return {**found, **added}


def rows_of(found: dict[str, dict[str, float]]) -> list[Figure]:
    """Return the table: every tool next to the others, then the goals."""
    own, floor = found["freezeframe"], found["bare"]
    peers = {name: figures for name, figures in found.items() if name not in ("freezeframe", "bare")}
    exact = {name: figures for name, figures in peers.items() if name != "vcrpy"}
    rows: list[Figure] = []
    for shape in SHAPES:
        added = own[f"record {shape}"]
        rows.append(Figure(f"record adds, {shape}: freezeframe", added, "ms", "<= 0.1", added <= 0.1))
        rows += [Figure(f"record adds, {shape}: {name}", figures[f"record {shape}"], "ms") for name, figures in peers.items()]
    for shape in SHAPES:
        label = f"replay {shape}"
        rows.append(Figure(f"replayed call, {shape}: the SDK alone", floor[label], "ms"))
        fastest = min((figures[label] for figures in exact.values()), default=None)
        goal = "" if fastest is None else f"<= {fastest:.3f}"
        met = None if fastest is None else own[label] <= fastest
        rows.append(Figure(f"replayed call, {shape}: freezeframe", own[label], "ms", goal, met))
        rows += [Figure(f"replayed call, {shape}: {name}", figures[label], "ms") for name, figures in peers.items()]
    everyone = ("freezeframe", *peers)
    for shape in SHAPES:
        rows += [Figure(f"recording, {shape}: {name}", found[name][f"bytes {shape}"], "B/call") for name in everyone]
    for size in SIZES:
        for name in everyone:
            if f"replay at {size}" in found[name]:
                rows.append(Figure(f"replayed call of {size:,}: {name}", found[name][f"replay at {size}"], "ms"))
                rows.append(Figure(f"load {size:,}: {name}", found[name][f"load {size}"], "ms"))
    growth = own[f"replay at {SIZES[-1]}"] / own[f"replay at {SIZES[0]}"]
    rows.append(
        Figure(f"freezeframe, a call of {SIZES[-1]:,} against one of {SIZES[0]}", growth, "times", "<= 1.25", growth <= 1.25)
    )
    if "vcrpy" in peers:
        times = peers["vcrpy"]["replay at 200"] / own["replay at 200"]
        rows.append(Figure("freezeframe against vcrpy at 200 calls", times, "times", ">= 15", times >= 15))
    best = own["replay small"]
    rows.append(Figure("replayed call, small: against the best ever measured", best, "ms", f"<= {RIVAL_MS}", best <= RIVAL_MS))
    return rows


def airline(count: int) -> list[Figure]:
    """Replay recorded agent runs, redacted, from their files."""
    sys.path.insert(0, str(HERE.parent / "support"))
    from airline import KEY, numbered, record, redacted, replay

    from freezeframe import seams
    from freezeframe_redaction import Redactor, load_policy
    from freezeframe_replay.engine.freeze import freeze
    from freezeframe_schemas.errors import ReplayMiss
    from freezeframe_schemas.fixture import load_fixture, write_fixture
    from freezeframe_schemas.run import build_run

    recorded, url = record(numbered(0, count))
    redactor = Redactor(load_policy("strict"), KEY)
    steps = diverged = 0
    with tempfile.TemporaryDirectory(prefix="bench-replay-") as folder:
        for played in recorded:
            write_fixture(freeze(build_run(redacted(played, redactor))), Path(folder) / str(played.number))
        cpu, wall = time.process_time(), time.perf_counter()
        for played in recorded:
            try:
                report, _ = replay(load_fixture(Path(folder) / str(played.number)), played, url)
            except ReplayMiss as miss:
                print(f"airline run {played.number}: {miss}", file=sys.stderr)
                diverged += 1
                continue
            steps += len(report.served)
            diverged += bool(report.divergences)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    seams.uninstall()
    return [
        Figure(f"tau-bench, {count} redacted runs: that diverge", diverged, "runs", "0", diverged == 0),
        Figure(f"tau-bench, {count} redacted runs: loaded and replayed", count / cpu, "runs per CPU second"),
        Figure(f"tau-bench, {count} redacted runs: loaded and replayed, by the clock", count / wall, "runs/s"),
        Figure("tau-bench: a step", cpu / max(steps, 1) * 1000, "ms"),
    ]


def main() -> None:
    """Print the table, then the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=20, help="how many of the 200 tau-bench runs")
    parser.add_argument("--peers", type=Path, default=Path(".bench/replay-peers"), help="virtual environment of the peers")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    arguments = parser.parse_args()
    python, failed = ("", {}) if arguments.no_peers else install(arguments.peers)
    rounds: dict[str, list[dict[str, float]]] = {}
    with provider() as url:
        tools: list[tuple[str, Path | str]] = [("bare", sys.executable), ("freezeframe", sys.executable)]
        tools += [] if arguments.no_peers else [(name, python) for name in PEERS if name not in failed]
        for _ in range(arguments.rounds):
            for tool, interpreter in tools:
                if tool in failed:
                    continue
                # vcrpy reads through its list for each call: it gets the sizes that it can finish
                answer = measured(interpreter, tool, url, SIZES[:2] if tool == "vcrpy" else SIZES)
                if isinstance(answer, dict):
                    rounds.setdefault(tool, []).append(answer)
                else:
                    failed[tool] = answer
    found = {tool: best_of(figures) for tool, figures in rounds.items() if tool not in failed}
    for tool in ("bare", "freezeframe"):
        if tool not in found:
            sys.exit(f"{tool}: {failed[tool]}")
    for name, why in failed.items():
        print(f"{name}: not measured: {why}", file=sys.stderr)
    rows = [*rows_of(found), *airline(arguments.runs)]
    print_figures("replay", rows)


if __name__ == "__main__":
    main()
