"""What capture costs code that makes no call, in calls of functions: nothing outside of runs, and little in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = pytest.mark.long  # starts processes

PROGRAM: Final = """
import asyncio, copy, io, json, logging, os, pickle, random, secrets, subprocess, sys, tempfile, uuid
hooks = []
add, sys.addaudithook = sys.addaudithook, hooks.append
state = {"messages": [{"role": "user", "content": ["word"] * 5, "n": [1, 2.5, None]} for _ in range(10)]}
log = logging.getLogger("host")
log.addHandler(logging.StreamHandler(io.StringIO()))
log.propagate = False
loop = asyncio.new_event_loop()

async def nothing():
    pass

async def tasks():
    await asyncio.gather(*[nothing() for _ in range(10)])

def counted(act):
    counts = []
    for _ in range(9):  # some numbers are drawn twice
        seen = []
        sys.setprofile(lambda frame, event, argument: seen.append(event))
        act()
        sys.setprofile(None)
        counts.append(sum(event in ("call", "c_call") for event in seen))
    return min(counts)

ACTS = {
    "deepcopy": lambda: copy.deepcopy(state),
    "pickle": lambda: pickle._dumps(state),
    "log": lambda: log.warning("asked %s", 1),
    "open": lambda: open(__file__).close(),
    "listdir": lambda: os.listdir("."),
    "randint": lambda: random.randint(1, 6),
    "random": lambda: random.random(),
    "urandom": lambda: os.urandom(16),
    "token": lambda: secrets.token_hex(),
    "uuid4": lambda: uuid.uuid4(),
    "ten tasks": lambda: loop.run_until_complete(tasks()),
}

def measure():
    return {name: counted(act) for name, act in ACTS.items()}

bare = measure()
import freezeframe
handle = freezeframe.instrument(file=sys.argv[1])

@freezeframe.run
def run():
    return measure()

for _ in range(1_000):
    uuid.uuid4()
found = {"before": measure(), "inside": run(), "after": measure()}
handle.uninstrument()
found["ended"] = measure()
more = {stage: {name: count - bare[name] for name, count in counts.items()} for stage, counts in found.items()}
print(json.dumps([len(hooks), more]))
"""
BUDGET: Final = {
    "before": {"open": 20, "listdir": 20, "ten tasks": 12},
    "inside": {"open": 3, "listdir": 12, "randint": 8, "random": 6, "uuid4": 16, "ten tasks": 170},
    "after": {"listdir": 2, "ten tasks": 12},
    "ended": {},
}
"""Stage -> act -> how many more functions it may call than without capture. What is not named calls none."""


@cache
def found() -> tuple[int, dict[str, dict[str, int]]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FREEZEFRAME_")}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(PROGRAM)
        command = [sys.executable, str(program), str(Path(folder, "spans.jsonl"))]
        done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=100, check=True)
    hooks, more = json.loads(done.stdout)
    return hooks, more


def test_no_audit_hook_is_added() -> None:
    """Python cannot remove one, and calls it for each `id()`."""
    assert found()[0] == 0


@pytest.mark.parametrize("stage", BUDGET)
def test_an_act_calls_few_functions_more_than_without_capture(stage: str) -> None:
    over: dict[str, Any] = {name: count for name, count in found()[1][stage].items() if count > BUDGET[stage].get(name, 0)}
    assert over == {}, "what this costs the program has grown: see docs/costs.md"
