"""A folder with an agent in it, and what is run there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMMAND_LINE: Final = "import sys; from freezeframe_replay.cli import main; sys.exit(main(sys.argv[1:]))"
EPHEMERAL: Final = ("--grpc-port", "0", "--http-port", "0", "--clickhouse-port", "0", "--replay-port", "0")
"""Options of `freezeframe up`: any free ports."""
RECORD: Final = "import freezeframe; freezeframe.instrument(); import agent; agent.answer('where is it?')"
"""Python that records a run of the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder with the agent in it."""

    root: Path

    def edit(self, old: str, new: str) -> None:
        """Change the agent's code."""
        source = self.root / "agent.py"
        text = source.read_text()
        assert old in text
        source.write_text(text.replace(old, new))

    def python(self, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python in the folder."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(environ or {})},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )


class Project(Folder):
    """A folder with the agent's fixture in it, too."""

    def freezeframe(self, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line in the folder."""
        return self.python("-c", COMMAND_LINE, *arguments, environ=environ)

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the folder's tests, without the plugins that they do not need."""
        return self.python(
            "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest", *arguments,
        )  # fmt: skip
