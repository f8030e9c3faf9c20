"""The tools of the demo's story: headings, commands as a person would type them, their output, and claims.

A claim that is false ends the demo with an error; every process that the stage started is ended, whatever happens.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, cast

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
_WIDTH = max(72, min(100, shutil.get_terminal_size((96, 24)).columns))


class ClaimError(Exception):
    """A claim of the demo is false."""


class Stage:
    """A terminal, an environment for the commands, and the servers behind the scenes. Use it as a context manager."""

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        self.environment = {**environment, "COLUMNS": str(_WIDTH - 2)}
        self.directory = directory
        """The directory in which commands run."""
        self.claims = 0
        self._servers: list[subprocess.Popen[str]] = []
        self._coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end_servers()

    # -- words ---------------------------------------------------------------------------------------------

    def heading(self, text: str) -> None:
        """Begin a part of the story."""
        print(f"\n{self._paint(f'━━ {text} '.ljust(_WIDTH, '━'), 'bold', 'cyan')}", flush=True)

    def say(self, text: str) -> None:
        """Print a paragraph."""
        print(f"\n{textwrap.fill(' '.join(text.split()), _WIDTH)}", flush=True)

    def claim(self, text: str, holds: bool, found: str = "") -> None:
        """State a claim after checking it.

        Raises:
            ClaimError: the claim is false; the message shows the actual text.
        """
        if not holds:
            raise ClaimError(f"{text}: not so{f', found: {found}' if found else ''}")
        self.claims += 1
        print(self._paint(f"✓ {text}", "green"), flush=True)

    # -- commands ------------------------------------------------------------------------------------------

    def type(self, *command: str, exits: int = 0, more: Mapping[str, str] | None = None) -> str:
        """Run a command visibly: print it, its output as it arrives (cut at the width) and its exit code if not 0.

        Raises:
            ClaimError: it exits with a different code than expected.
        """
        print(f"\n{self._paint('$', 'dim')} {self._paint(self._typed(command), 'bold')}", flush=True)
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            env={**self.environment, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines: list[str] = []
        with process:
            for line in process.stdout or ():
                lines.append(line)
                self._show(line.rstrip("\n"), wrap=command[0] == "python")
        code = f"exit code {process.returncode}, " if process.returncode else ""
        print(self._paint(f"  ({code}{time.monotonic() - started:.1f} s)", "dim"), flush=True)
        output = "".join(lines)
        if process.returncode != exits:
            raise ClaimError(f"{shlex.join(command)}: exit code {process.returncode}, expected {exits}\n{output}")
        return output

    def read(self, *command: str) -> str:
        """Run a command silently and return its standard output.

        Raises:
            ClaimError: it fails.
        """
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise ClaimError(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def read_json(self, *command: str) -> object:
        """Run a command silently and return the JSON that it prints."""
        return cast("object", json.loads(self.read(*command)))

    # -- servers -------------------------------------------------------------------------------------------

    def serve(self, *command: str, cwd: Path) -> None:
        """Start a server whose first line of output is a JSON object of variables for the commands' environment.

        Raises:
            ClaimError: it ends before it listens.
        """
        server = subprocess.Popen(command, cwd=cwd, env=self.environment, stdout=subprocess.PIPE, text=True)
        self._servers.append(server)
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            raise ClaimError(f"{shlex.join(command)}: ended before it listened")
        variables = cast("dict[str, str]", json.loads(line))
        self.environment |= variables
        for name, value in variables.items():
            print(self._paint(f"  {name}={value}", "dim"), flush=True)

    def end_servers(self) -> None:
        """Stop every server that was started here."""
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            with server:
                server.wait()
        self._servers.clear()

    # -- looks ---------------------------------------------------------------------------------------------

    def _typed(self, command: Sequence[str]) -> str:
        """Return a command line as a person would type it, wrapped at the width."""
        words = [f'"{word}"' if " " in word and '"' not in word else shlex.quote(word) for word in command]
        wrapped = textwrap.wrap(" ".join(words), _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
        return " \\\n    ".join(wrapped) if not any(" " in word for word in command) else "\n    ".join(wrapped)

    def _show(self, line: str, *, wrap: bool) -> None:
        if wrap:
            shown = textwrap.fill(line, _WIDTH - 2, initial_indent="  ", subsequent_indent="  ")
        else:
            shown = f"  {line}" if len(line) <= _WIDTH - 2 else f"  {line[: _WIDTH - 3]}…"
        if re.match(r"\s*(- |-[^-])", line):
            shown = self._paint(shown, "red")
        elif re.match(r"\s*(\+ |\+[^+])", line):
            shown = self._paint(shown, "green")
        print(shown, flush=True)

    def _paint(self, text: str, *looks: str) -> str:
        if not self._coloured:
            return text
        return f"\033[{';'.join(_COLOURS[look] for look in looks)}m{text}\033[0m"
