"""What capture costs code that makes no call: ratios within one process, before `instrument()` and after it.

Each act is timed in the same process, bare, then outside of any run (before the first one and after it), and in a run. The
least of many repeats counts, since what disturbs a repeat only ever adds to it. Three kinds of program: a server, a script that
marks its runs, and a script that marks none, all of which is one run: there is no outside.

    python tests/benchmarks/bench_host.py [--repeats 30] [--kinds server,marked,script] [--exit]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

ACTS: Final = {
    "copy.deepcopy": ("copy.deepcopy(state)", 3, 1.03, 1.03),
    "pickle in Python": ("pickle._dumps(state)", 1, 1.03, 1.03),
    "log line": ("log.info('asked %s', 1)", 100, 1.03, 1.03),
    "open, close": ("open(file).close()", 100, 1.03, 1.03),
    "random.randint": ("random.randint(1, 6)", 3000, 1.1, 2),
    "random.random": ("random.random()", 3000, 1.1, None),
    "os.urandom": ("os.urandom(16)", 1000, 1.1, 2),
    "uuid.uuid4": ("uuid.uuid4()", 1000, 1.1, 2),
    "create_task": ("loop(tasks)", 2, 1.1, 2),
    "gathered sleep(0)": ("loop(gathered)", 2, 1.1, 2),
    "10,000 tasks": ("loop(many)", 1, None, 2),
}
"""Act -> how it is written, how often in a repeat, and the goals outside of runs and in one."""
KINDS: Final = ("server", "marked", "script")
STAGES: Final = ("before the first run", "in a run", "after it")
_PROGRAM: Final = """
import asyncio, copy, json, logging, os, pickle, random, sys, timeit, uuid
acts, repeats, kind, file, spans = json.loads(sys.argv[1])
state = {"messages": [{"role": "user", "content": "word " * 5, "n": [1, 2.5, None]} for _ in range(100)]}
log = logging.getLogger("bench")
log.addHandler(logging.StreamHandler(open(os.devnull, "w")))
log.setLevel("INFO")
log.propagate = False

async def nothing():
    pass

async def made(count):
    for task in [asyncio.create_task(nothing()) for _ in range(count)]:
        await task

def tasks():
    return made(100)

async def gathered():
    await asyncio.gather(*[asyncio.sleep(0) for _ in range(100)])

async def waits():
    await asyncio.sleep(0.001)

async def many():
    await asyncio.gather(*[waits() for _ in range(10_000)])

runner = asyncio.Runner()
def loop(make):
    runner.run(make())

names = dict(globals())
def measure():
    found = []
    for text, number in acts:
        few = 4 if "many" in text else repeats * (10 if number < 200 else 1)
        found.append(min(timeit.repeat(text, globals=names, number=number, repeat=few)) / number * 1e6)
    return found

rows = [measure()]
import freezeframe
handle = freezeframe.instrument(endpoint=None, file=spans, root=False if kind == "server" else None)
run = freezeframe.run(measure) if kind != "script" else None
if kind == "script":
    rows.append(measure())
else:
    rows.append(measure())
    rows.append(run())
    rows.append(measure())
print(json.dumps(rows))
"""
_EXIT: Final = """
import sys, time
import freezeframe
if sys.argv[1] != "bare":
    freezeframe.instrument(endpoint=sys.argv[1])
    with freezeframe.run("one"):
        pass
"""


def measure(kind: str, repeats: int) -> list[list[float]]:
    """Return, for each stage, microseconds per act; bare first."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "read.txt")
        file.write_text("x")
        given = [[act[:2] for act in ACTS.values()], repeats, kind, str(file), str(Path(folder, "spans.jsonl"))]
        program = Path(folder, "program.py")
        program.write_text(_PROGRAM)
        command = [sys.executable, str(program), json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            raise RuntimeError(done.stderr)
        rows: list[list[float]] = json.loads(done.stdout)
        return rows


def exit_seconds(address: str) -> float:
    """Return how long a program of one run takes; "bare": without capture."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(_EXIT)
        environ = {**os.environ, "XDG_STATE_HOME": folder}
        began_s = time.monotonic()
        subprocess.run([sys.executable, str(program), address], check=True, env=environ, cwd=folder, capture_output=True)
        return time.monotonic() - began_s


def report(kind: str, rows: list[list[float]]) -> list[dict[str, Any]]:
    """Print a table; return its figures."""
    stages = ("in the run that it is",) if kind == "script" else STAGES
    print(f"\n{kind:20}{'bare, us':>12}" + "".join(f"{stage:>24}" for stage in stages))
    found: list[dict[str, Any]] = []
    for number, (name, (_, _, outside, inside)) in enumerate(ACTS.items()):
        bare = rows[0][number]
        line = f"{name:20}{bare:12.2f}"
        for stage, row in zip(stages, rows[1:], strict=True):
            goal = inside if stage.startswith("in ") else outside
            value = row[number] / bare
            met = goal is None or value <= goal
            line += f"{value:22.2f}x{' ' if met else '!'}"
            found.append({"name": f"{kind}.{name}.{stage}", "value": round(value, 3), "unit": "x", "goal": goal, "met": met})
        print(line)
    return found


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30, help="of each act (default: 30)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of program (default: all)")
    parser.add_argument("--exit", action="store_true", help="also time the exit with the collector down")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in given.kinds.split(","):
        rows += report(kind, measure(kind, given.repeats))
    if given.exit:
        bare = min(exit_seconds("bare") for _ in range(5))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            for name, address in (("refuses", "http://127.0.0.1:9"), ("never answers", silent_url)):
                added = min(exit_seconds(address) for _ in range(5)) - bare
                print(f"\na program of one run, the collector {name}: {added:.2f} s longer than {bare:.2f}")
                rows.append({"name": f"exit.{name}", "value": round(added, 2), "unit": "s", "goal": 1.0, "met": added <= 1})
    print(json.dumps({"bench": "host", "rows": rows}))


if __name__ == "__main__":
    main()
