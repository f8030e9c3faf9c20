"""Count what capture adds to acts that make no call: outside of runs and in one, in functions called more than without
it, and in instructions of all these acts together.

python tests/costs/host_costs.py      prints the counts as one JSON object
"""

from __future__ import annotations

import asyncio
import copy
import io
import json
import logging
import os
import pickle
import random
import secrets
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from counting import counted

HOOKS: Final[list[object]] = []
STATE: Final = {"messages": [{"role": "user", "content": ["word"] * 5, "n": [1, 2.5, None]} for _ in range(10)]}


async def nothing() -> None:
    """Do nothing."""


async def tasks() -> None:
    """Run ten tasks."""
    await asyncio.gather(*[nothing() for _ in range(10)])


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions it calls: the least of many counts, as some numbers are drawn twice."""
    counts: list[int] = []
    for _ in range(9):
        seen: list[str] = []
        sys.setprofile(lambda frame, event, argument, seen=seen: seen.append(event))
        act()
        sys.setprofile(None)
        counts.append(sum(event in ("call", "c_call") for event in seen))
    return min(counts)


def instructions_of(act: Callable[[], object]) -> int:
    """Return the least number of its bytecode instructions."""
    return min(counted(act, rounds=1)["instructions"] for _ in range(9))


def main() -> None:
    """Print the counts."""
    sys.addaudithook = HOOKS.append  # pyright: ignore[reportAttributeAccessIssue]  # Python could not remove one again
    log = logging.getLogger("host")
    log.addHandler(logging.StreamHandler(io.StringIO()))
    log.propagate = False
    loop = asyncio.new_event_loop()
    in_python: Any = pickle
    acts: dict[str, Callable[[], object]] = {
        "deepcopy": lambda: copy.deepcopy(STATE),
        "pickle": lambda: in_python._dumps(STATE),
        "log": lambda: log.warning("asked %s", 1),
        "open": lambda: open(__file__).close(),
        "listdir": lambda: os.listdir("."),
        "randint": lambda: random.randint(1, 6),
        "random": lambda: random.random(),
        "urandom": lambda: os.urandom(16),
        "token": lambda: secrets.token_hex(),
        "uuid4": lambda: uuid.uuid4(),
        "ten_tasks": lambda: loop.run_until_complete(tasks()),
    }

    def measure() -> dict[str, int]:
        calls = {name: calls_of(act) for name, act in acts.items()}
        return {**calls, "instructions": sum(map(instructions_of, acts.values()))}

    bare = measure()
    import freezeframe

    with tempfile.TemporaryDirectory() as folder:
        handle = freezeframe.instrument(file=str(Path(folder, "spans.jsonl")))
        run: Any = freezeframe.run(measure)
        for _ in range(1_000):
            uuid.uuid4()
        found = {"before_the_first_run": measure(), "in_a_run": run(), "after_it": measure()}
        handle.uninstrument()
        found["uninstrumented"] = measure()
    added = {f"host.{stage}": {name: row[name] - bare[name] for name in row} for stage, row in found.items()}
    print(json.dumps({**added, "host.process": {"audit_hooks": len(HOOKS)}}))


if __name__ == "__main__":
    main()
