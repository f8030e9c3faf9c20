"""The entry point of a run: found again under its recorded name, in the process that replays it."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, Final

from freezeframe.runs.reach import import_root, is_nested
from freezeframe.seams.functions.marked import Binder
from freezeframe_replay.process.tasks import DAGS, dags_of
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture

Loading = Callable[[], AbstractContextManager[None]]
_IMPORTED: Final = {ast.dump(ast.Name("__name__", ast.Load())): ast.Constant("__mp_main__")}


def is_called(fixture: Fixture) -> bool:
    """Return whether a replay calls the entry point; a command is started instead."""
    return fixture.entry.kind is not None and fixture.entry.kind.is_called


def find_entry_point(fixture: Fixture, loading: Loading = contextlib.nullcontext) -> Any:
    """Return what to call, imported under the name that was recorded; a script runs within `loading`.

    Raises:
        ReplayError: it cannot be imported, no longer exists, or cannot be called from outside.
    """
    entry = fixture.entry
    if not is_called(fixture) or not entry.target:
        raise ReplayError(
            f"run {fixture.run_id}: its entry point cannot be called (found: {entry.kind or 'none recorded'})",
            do="name the command that starts it: freezeframe replay RUN -- CMD",
        )
    if is_nested(entry.target):
        raise ReplayError(
            f"run {fixture.run_id}: entry point {entry.target!r} is nested in a function, so no other process can find it",
            do="define it at the top level of its module and record again, or name a command: freezeframe replay RUN -- CMD",
        )
    module_name, _, qualname = entry.target.partition(":")
    load = partial(_load_module, module_name, entry.file, loading)
    name, is_made, rest = qualname.partition("(")  # of "create_app('chat')" or "Shop().answer"
    found = dags_of(load) if name == DAGS else _look_up(load(), name)
    if is_made and callable(found):
        arguments, _, rest = rest.rpartition(")")
        found = _look_up(found(*ast.literal_eval(f"[{arguments}]")), rest.removeprefix("."))
    if found is None or not (is_made or callable(found)):
        raise ReplayError(
            f"run {fixture.run_id}: entry point {entry.target!r} no longer exists",
            do="check out the recorded commit, or name a command: freezeframe replay RUN -- CMD",
        )
    if "." in qualname and inspect.isfunction(found) and Binder(found).drops_self:
        raise ReplayError(
            f"run {fixture.run_id}: entry point {entry.target!r} is a method, and its object was not recorded",
            do="mark a function that creates the object and record again, or name a command: freezeframe replay RUN -- CMD",
        )
    return found


def _look_up(found: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        found = getattr(found, name, None)
    return found


def _load_module(module_name: str, file: str | None, loading: Loading) -> Any:
    """Import the module of the entry point. A script's is ``__main__``, as in the run, but its main guard is not entered."""
    if module_name == "__main__":
        if file is None or not Path(file).is_file():
            raise ReplayError(
                f"the script of the entry point, {file!r}, is not in {Path.cwd()}"
                if file
                else "the entry point was defined in an interactive session or in code that is not in a file",
                do="run the replay from the directory in which the agent was started"
                if file
                else "in a notebook, replay it in its kernel with %freezeframe_replay RUN; else move it to a file and "
                "record again, or name a command: freezeframe replay RUN -- CMD",
            )
        sys.path.insert(0, str(Path(file).resolve().parent))
        module = sys.modules["__main__"] = type(sys)("__main__")
        if "__mp_main__" in sys.modules:  # multiprocessing was imported: its name for the same module
            sys.modules["__mp_main__"] = module
        module.__file__ = str(Path(file).absolute())
        module.__loader__ = SourceFileLoader("__main__", module.__file__)
        with loading():
            exec(_unguarded(module.__file__), vars(module))  # noqa: S102 - the user's own script
        return module
    for root in _import_roots(module_name, file):
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise ReplayError(
            f"the module of the entry point, {module_name}, cannot be imported: {error}",
            do="run the replay where the agent's code is importable, or name a command: freezeframe replay RUN -- CMD",
        ) from error


def _unguarded(file: str) -> CodeType:
    """Return a script's code in which a comparison with its name finds the one that multiprocessing's spawn gives it.

    The name itself stays: caches and pickles of the program hold it.
    """
    tree = ast.parse(Path(file).read_bytes(), file)
    for compared in [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]:
        sides = [_IMPORTED.get(ast.dump(side), side) for side in (compared.left, *compared.comparators)]
        compared.left, *compared.comparators = (ast.copy_location(side, compared) for side in sides)
    return compile(tree, file, "exec", dont_inherit=True)


def _import_roots(module_name: str, file: str | None) -> list[Path]:
    """Return the directories from which `module_name` is importable: the current one, and the one above the recorded file."""
    root = None if file is None else import_root(module_name, file)
    return [Path.cwd()] if root is None else [root, Path.cwd()]
