"""The order-lookup example, started as a user starts it: every part in a separate process."""

import json
import os
import shutil
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


def copy_example(directory: Path) -> Path:
    """Copy the agent's code, to change it; return where it is."""
    shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def fix(directory: Path) -> None:
    """Apply the fix that comes with the example to a copy of it."""
    # The ceiling keeps git from taking a copy inside a work tree for a part of that.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(directory.parent)}
    subprocess.run(["git", "apply", "fix.patch"], cwd=directory, env=environment, check=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shop:
    """A separate world with its pricing API, and the agent's access to it."""

    directory: Path
    environment: Mapping[str, str]

    def set(self, state: str) -> None:
        """Put the world into a state."""
        self._world("set", state)

    def calls(self) -> dict[str, int]:
        """Return how often each part of the world was called."""
        return cast("dict[str, int]", json.loads(self._world("calls")))

    def ask(self, message: str = MESSAGE, *, variant: str = "sync", example: Path = EXAMPLE, spans: Path | None = None) -> str:
        """Return what the agent answers; its spans go into a file if one is named, else nowhere."""
        command = [sys.executable, "agent.py", "--variant", variant, message]
        environment = {**os.environ, **self.environment}
        if spans is not None:
            environment["FREEZEFRAME_FILE"] = str(spans)
        done = subprocess.run(command, env=environment, cwd=example, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _world(self, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLE / "world.py"), str(self.directory), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def open_shop(directory: Path, provider: Mapping[str, str]) -> Generator[Shop]:
    """Open a shop at 3 PM with its world in `directory`; the agent's spans go nowhere."""
    subprocess.run([sys.executable, EXAMPLE / "world.py", directory, "set", "3pm"], check=True)
    with serving("pricing_api.py", str(directory)) as addresses:
        environment = {
            **provider,
            **addresses,
            "ORDER_WORLD": str(directory),
            "OPENAI_API_KEY": "local",
            "ANTHROPIC_API_KEY": "local",
            "FREEZEFRAME_FILE": os.devnull,
        }
        yield Shop(directory=directory, environment=environment)
