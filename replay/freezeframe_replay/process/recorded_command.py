"""The command line of a recorded program. It comes from a stranger, so it may only select a script of the program."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.process.own_code import OwnCode
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import EntryKind

TYPE_IT: Final = "name the command that starts it: freezeframe replay RUN -- CMD"
_PYTHON: Final = re.compile(r"python(3(\.\d+)?)?")
_RUNS_A_SCRIPT: Final = frozenset({"node", "bun", "ruby", "php", "perl", "sh", "bash"})
"""Programs whose first argument is a script, if it names a file."""
_WITH_VALUE: Final = "WX"


@dataclass(slots=True, kw_only=True)
class _Line:
    """Parts of a command line of Python."""

    options: list[str] = field(default_factory=list[str])
    module: str | None = None
    script: str | None = None
    text: str | None = None
    """Of ``-c``, or of the standard input."""
    arguments: list[str] = field(default_factory=list[str])


def recorded_command(
    fixture: Fixture, own: OwnCode, python: str, path: Sequence[str] = sys.path
) -> tuple[list[str], tuple[str, ...]]:
    """Return the command that starts the recorded program, and the omitted options of Python.

    Args:
        fixture: a run whose entry point is a command or a program.
        own: the program's code.
        python: the Python that runs a recorded script.
        path: the module search path of this Python.

    Raises:
        ReplayError: none was recorded, or it is not a script of the program.
    """
    argv = argv_of(fixture)
    if fixture.entry.kind is EntryKind.COMMAND:
        return _python_command(fixture, argv, own, python, path)
    if "/" in argv[0] and is_script(own, argv[0], must_be_executable=True):
        return argv, ()
    name = Path(argv[0]).name  # of a program that is found here, wherever it was there
    if _PYTHON.fullmatch(name):
        return _python_command(fixture, argv, own, python, path)
    is_named = name in _RUNS_A_SCRIPT and len(argv) > 1 and not argv[1].startswith("-")
    _check(fixture, " ".join(argv[:2]), is_named and Path(argv[1]).suffix != "" and is_script(own, argv[1]))
    return [name, *argv[1:]], ()


def argv_of(fixture: Fixture) -> list[str]:
    """Return the recorded command line.

    Raises:
        ReplayError: none was recorded.
    """
    is_command = fixture.entry.kind in (EntryKind.COMMAND, EntryKind.PROGRAM)
    payload: Any = values.decode(fixture.entry.input) if is_command and fixture.entry.input else None
    argv = payload.get("argv") if isinstance(payload, dict) else None
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise ReplayError(
            f"run {fixture.run_id}: no function, request or command was recorded as its entry point",
            do="mark it with @freezeframe.run, or name the command to start: freezeframe replay RUN -- CMD",
        )
    return argv


def is_script(own: OwnCode, named: str, *, must_be_executable: bool = False) -> bool:
    found = own.find(named)
    return found is not None and found.is_file() and (not must_be_executable or os.access(found, os.X_OK))


def _python_command(
    fixture: Fixture, argv: list[str], own: OwnCode, python: str, path: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    line = _read(argv)
    left_out = tuple(line.options)
    if line.text is not None:
        raise _refused(fixture, f"the code of the program in its arguments or its input ({line.text})")
    if line.module is not None:
        _check(fixture, f"-m {line.module}", is_own_module(own, line.module, path))
        return [python, "-m", line.module, *line.arguments], left_out
    _check(fixture, line.script or "nothing", line.script is not None and _is_python_script(own, line.script))
    return [python, line.script or "", *line.arguments], left_out


def _is_python_script(own: OwnCode, named: str) -> bool:
    found = own.find(named)
    if found is not None and found.is_dir():
        return is_script(own, f"{named}/__main__.py")
    return found is not None and is_script(own, named, must_be_executable=found.suffix not in (".py", ".pyw"))


def is_own_module(own: OwnCode, name: str, path: Sequence[str]) -> bool:
    """Return whether ``python -m NAME`` runs a module of the program."""
    spec = find_spec(name, [str(own.folder), *path])
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__", [str(own.folder), *path])
    return spec is not None and spec.origin is not None and own.holds(Path(spec.origin).resolve())


def find_spec(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """Return the spec with which an import finds a module, without importing the packages around it."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    spec: ModuleSpec | None = None
    for part in parts:
        spec = find_below(part, path if spec is None else places_below(spec))
        if spec is None:
            return None
    return spec


def find_below(part: str, places: Sequence[str]) -> ModuleSpec | None:
    """Return the module of this name in one of the places. A name with dots would import the packages around it."""
    return PathFinder.find_spec(part, [*places])


def places_below(spec: ModuleSpec) -> Sequence[str]:
    """Return the folders of a package's modules; empty for a module that is not a package."""
    found = spec.submodule_search_locations
    return [*getattr(found, "_path", found or ())]  # that of a namespace asks for the package around it, which is not imported


def _read(argv: Sequence[str]) -> _Line:
    """Read a command line as Python does. Source: https://docs.python.org/3/using/cmdline.html."""
    line, rest = _Line(), list(argv[1:])
    while rest:
        word = rest.pop(0)
        if word == "-" or not word.startswith("-"):
            line.text, line.script = ("-", None) if word == "-" else (None, word)
            break
        if word.startswith("--"):
            line.options.append(word)
            del rest[: word == "--check-hash-based-pycs"]
            continue
        for at, letter in enumerate(word[1:], 1):
            if letter in f"cm{_WITH_VALUE}":
                value = word[at + 1 :] or (rest.pop(0) if rest else "")
                if letter == "c":
                    line.text = "-c"
                elif letter == "m":
                    line.module = value
                else:
                    line.options.append(f"-{letter} {value}")
                break
            line.options.append(f"-{letter}")
        if line.text or line.module is not None:
            break
    else:
        line.text = "-"
    line.arguments = rest
    return line


def _check(fixture: Fixture, named: str, is_own: bool) -> None:
    if not is_own:
        raise _refused(fixture, named)


def _refused(fixture: Fixture, named: str) -> ReplayError:
    return ReplayError(
        f"run {fixture.run_id}: its recording names {named!r:.200}, which is not a script of this folder; "
        "a recording does not decide what runs",
        do=f"start in the folder of the agent's code; or {TYPE_IT}",
    )
