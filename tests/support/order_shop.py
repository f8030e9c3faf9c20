"""The order-lookup example, started as a person starts it: every part a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

EXAMPLE = Path(__file__).parents[2] / "examples" / "order_lookup"
MESSAGE = (
    "Hi, this is Maria Keller. Where is my order, can I still send it back, and what does it cost today?"
    " You can reach me at maria.keller@northbay-mail.com or +1 415 555 2671."
    " If there is a fee, take it from my card 4539 1488 0343 6467."
)


@contextmanager
def serving(script: str, *arguments: str) -> Generator[dict[str, str]]:
    """Run one of the example's servers; yield the addresses that it prints."""
    process = subprocess.Popen([sys.executable, EXAMPLE / script, *arguments], stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            yield cast("dict[str, str]", json.loads(process.stdout.readline()))
        finally:
            process.terminate()


@dataclass(frozen=True, kw_only=True, slots=True)
class Shop:
    """A world of its own with its pricing API, and the agent's door to it."""

    directory: Path
    environment: Mapping[str, str]

    def set(self, state: str) -> None:
        """Put the world into a state."""
        self._world("set", state)

    def calls(self) -> dict[str, int]:
        """Return how often each part of the world was called."""
        return cast("dict[str, int]", json.loads(self._world("calls")))

    def ask(self, message: str = MESSAGE, *, variant: str = "sync", example: Path = EXAMPLE) -> str:
        """Return what the agent answers."""
        command = [sys.executable, str(example / "agent.py"), "--variant", variant, message]
        done = subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _world(self, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLE / "world.py"), str(self.directory), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
