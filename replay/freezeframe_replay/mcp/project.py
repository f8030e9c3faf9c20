"""Project: the folder of the agent's code, its program and the store that the server was started with.

The folder is the working directory. A tool's argument names runs and files of it, and is never a command, an option or a
file elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_replay.local.target import RunsPlace, is_fixture
from freezeframe_replay.mcp.answers import USUAL_TOKENS
from freezeframe_replay.sources.span_file import split_name
from freezeframe_schemas.errors import ConfigError

WIDTH: Final = 160
"""Columns at which lines of a recording are cut."""
_MAX_NAME_LENGTH: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Options with which the server was started."""

    place: RunsPlace = field(default_factory=RunsPlace)
    program: tuple[str, ...] = ()
    """Program that a replay starts in place of the recorded entry point; empty for the entry point."""
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

    def folder(self, text: str) -> Path:
        """Return the path of a fixture or a dataset that the project has.

        Raises:
            ConfigError: it is not in the project.
        """
        path = _inside(Path(_plain(text, "directory")), text, "directory")
        if not path.is_dir():
            raise ConfigError(f"directory: found no directory {text!r} in the project")
        return Path(text)

    def new_directory(self, text: str) -> Path:
        """Return the path of a directory that a tool may create in the project.

        Raises:
            ConfigError: it leads out of the project, or holds files already.
        """
        path = _inside(Path(_plain(text, "directory")), text, "directory")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigError(f"directory: {text!r} exists and is not empty", do="name a new one, or remove it yourself")
        return Path(text)

    def new_file(self, text: str) -> str:
        """Return the path of a file, or of a directory, that a tool may make in the project; never an address.

        Raises:
            ConfigError: it leads out of the project, or exists.
        """
        if "://" in text:
            raise ConfigError(f"file: found the address {text[:80]!r}, expected a path", do="send it yourself")
        path = _inside(Path(_plain(text, "file")), text, "file")
        if path.exists():
            raise ConfigError(f"file: {text!r} exists", do="name a new one, or remove it yourself")
        return str(Path(text))


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
