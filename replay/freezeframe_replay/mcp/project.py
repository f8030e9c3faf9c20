"""What the server was started with: the folder of the agent's code, its program, the store; and the commands it may run there.

The folder is the working directory. A tool's argument names runs and files of it, and is never a command, an option or a
file elsewhere.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import anyio
from anyio.abc import Process

from freezeframe_replay.local.home import STORE_VARIABLE
from freezeframe_replay.local.target import RunsPlace, is_fixture
from freezeframe_replay.mcp.answers import USUAL_TOKENS
from freezeframe_replay.sources.span_file import split_name
from freezeframe_schemas.data_directory import VARIABLE
from freezeframe_schemas.errors import ConfigError, ReplayError

WIDTH: Final = 160
"""Columns at which lines of a recording are cut."""
_MAX_OUTPUT_BYTES: Final = 30_000_000
_GRACE_S: Final = 20.0
"""How long a command that is interrupted may take to end the program that it started."""
_SPARE_S: Final = 60.0
"""How much longer than its program a command may take."""
_MAX_NAME_LENGTH: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that has ended."""

    line: str
    """The command line, as a person would type it."""
    code: int
    out: str
    """What it printed."""
    err: str
    """Warnings, and why it failed."""

    @property
    def text(self) -> str:
        """Return all of it, results first."""
        return self.out + self.err


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What the server was started with."""

    place: RunsPlace = field(default_factory=RunsPlace)
    program: tuple[str, ...] = ()
    """What a replay starts in place of the recorded entry point; empty for that."""
    timeout_s: float = 600.0
    budget: int = USUAL_TOKENS
    """Tokens of an answer whose call names no budget."""

    def run_name(self, text: str) -> str:
        """Return the name of a run, or of a fixture or a file of spans in the project.

        Raises:
            ConfigError: it is not a name, or leads out of the project.
        """
        named = _plain(text, "run")
        if is_fixture(named):
            _inside(Path(named), named, "run")
        elif (file := split_name(named)) is not None:
            _inside(file[0], named, "run")
        return named

    def fixture_path(self, text: str) -> str:
        """Return the path of a fixture or a dataset that the project has.

        Raises:
            ConfigError: it is not in the project.
        """
        path = _inside(Path(_plain(text, "directory")), text, "directory")
        if not path.is_dir():
            raise ConfigError(f"directory: found no directory {text!r} in the project")
        return text

    def new_directory(self, text: str) -> str:
        """Return the path of a directory that a command may create in the project.

        Raises:
            ConfigError: it leads out of the project, or holds files already.
        """
        path = _inside(Path(_plain(text, "directory")), text, "directory")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigError(f"directory: {text!r} exists and is not empty", do="name a new one, or remove it yourself")
        return text

    async def run(self, command: str, *words: str, program: bool = False) -> Ran:
        """Run a freezeframe command in the project; `program` adds the server's own, if it was started with one.

        Raises:
            ReplayError: it did not end in time.
        """
        line = [command, *words, *(["--", *self.program] if program and self.program else [])]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = await anyio.open_process(
                [sys.executable, "-m", "freezeframe._cli", *line],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment(),
            )
            try:
                with anyio.fail_after(self.timeout_s + _SPARE_S):
                    code = await process.wait()
            except TimeoutError:
                raise ReplayError(
                    f"freezeframe {command}: did not end within {self.timeout_s + _SPARE_S:.0f} s",
                    do="start the server with a larger --timeout if the program is only slow",
                ) from None
            finally:
                with anyio.CancelScope(shield=True):  # a client that cancels a call leaves nothing running
                    await _end(process)
            return Ran(line=_shown(line), code=code, out=_text(out), err=_text(err))

    def _environment(self) -> Mapping[str, str]:
        own = {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}
        if self.place.data is not None:
            own[VARIABLE] = str(self.place.data)
        if self.place.store is not None:  # not among the arguments, which every process of the machine may read
            own[STORE_VARIABLE] = self.place.store
        return {**os.environ, **own}


def option(name: str, value: str) -> str:
    """Return an option with its value as one word, so that no value is taken for an option.

    Raises:
        ConfigError: the value would be read from a file, or cannot be passed on.
    """
    if "\0" in value:
        raise ConfigError(f"{name.strip('-')}: must not contain a NUL character")
    if value.startswith("@"):
        raise ConfigError(f"{name.strip('-')}: must not begin with @, which names a file", do="give the text itself")
    return f"{name}={value}"


def _plain(text: str, what: str) -> str:
    if not text or text.startswith("-") or len(text) > _MAX_NAME_LENGTH or not text.isprintable():
        raise ConfigError(
            f"{what}: found {text[:80]!r}, expected a name of up to {_MAX_NAME_LENGTH} characters, without - in front"
        )
    return text


def _inside(path: Path, given: str, what: str) -> Path:
    """Return the path, all links followed, if it leads into the project and not into a hidden folder of it."""
    project = Path.cwd().resolve()
    found = (project / path).resolve()
    below = found.relative_to(project).parts if found.is_relative_to(project) else ()
    if not below or any(part.startswith(".") for part in below):
        raise ConfigError(
            f"{what}: {given!r} is not a folder or file of the project {project}", do="name one by its path from the project"
        )
    return found


async def _end(process: Process) -> None:
    """End a command that still runs: interrupted, it ends the program that it started, which is in another process group."""
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGINT)
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
        return
    process.kill()
    await process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_OUTPUT_BYTES).decode(errors="replace")


def _shown(words: Sequence[str]) -> str:
    return f"freezeframe {shlex.join(words)}"
