"""The entry point of a run: found again under its recorded name, in the process that replays it.

A recording names its entry point; it does not decide what runs. Only objects that the program itself marks are
called: a function with
`freezeframe.run`, an application, a task. Its module is the program's own (`own_code`), or an installed one that uses
freezeframe; that is checked before it is imported. `entry_kinds` decides about the object.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from freezeframe.runs.reach import import_root, is_nested
from freezeframe.seams.functions.marked import Binder
from freezeframe_replay.process.child_task import is_called
from freezeframe_replay.process.entry_kinds import is_entry_point, made_by_the_framework, may_be_made
from freezeframe_replay.process.own_code import OwnCode, is_installed_here, own_code
from freezeframe_replay.process.recorded_command import TYPE_IT, find_below, places_below
from freezeframe_replay.process.tasks import DAGS, dags_of
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Entry, EntryKind

Loading = Callable[[], AbstractContextManager[None]]
_IMPORTED: Final = {ast.dump(ast.Name("__name__", ast.Load())): ast.Constant("__mp_main__")}
_TO_MARK: Final[dict[EntryKind | None, str]] = {
    EntryKind.REQUEST: "make the application a global of its module",
    EntryKind.TASK: "register it with its framework; for RQ and arq queue it in the code of this folder, or mark it with @job",
}
_OURS: Final = re.compile(r"freezeframe(_\w+)?")
_DAG: Final = re.compile(r"\(\s*'([^'\\]*)'\s*,\s*'([^'\\]*)'\s*\)")
"""Pattern of the text after `DAGS` in a target."""


def find_entry_point(fixture: Fixture, loading: Loading = contextlib.nullcontext) -> Any:
    """Return the object to call: an entry point of the program in the current folder, with the recorded name.

    Args:
        fixture: the run.
        loading: a script runs within it.

    Raises:
        ReplayError: it is not the program's, is not an entry point, cannot be imported, no longer exists, or cannot be called
            from outside.
    """
    entry = fixture.entry
    if not is_called(fixture) or not entry.target:
        raise ReplayError(
            f"run {fixture.run_id}: its entry point cannot be called (found: {entry.kind or 'none recorded'})", do=TYPE_IT
        )
    if is_nested(entry.target):
        raise ReplayError(
            f"run {fixture.run_id}: entry point {entry.target!r:.200} is nested in a function, so no other process can find it",
            do="define it at the top level of its module and record again, or name a command: freezeframe replay RUN -- CMD",
        )
    own = own_code(Path.cwd())
    module_name, _, qualname = entry.target.partition(":")
    name, is_made, rest = qualname.partition("(")  # of "create_app()" or "Shop().answer"
    made = made_by_the_framework(entry.target, own) if is_made else None
    if made is not None:
        return made()
    if entry.kind is EntryKind.FUNCTION:
        sys.argv = [entry.file or entry.target, *_arguments_of_the_script(entry)]
    load = partial(_load_module, module_name, entry.file, own, loading)
    if name == DAGS and entry.kind is EntryKind.TASK:
        match = _DAG.fullmatch(f"({rest}")
        found = dags_of(load)(*match.groups()) if match else None
        is_entry = True  # Airflow's DAG has it as a task
    else:
        module = load()
        found = _look_up(module, name)
        if is_made and found is not None:
            arguments, _, rest = rest.partition(")")
            rest = rest.removeprefix(".")
            if arguments or not may_be_made(found, rest, entry, own):
                raise _not_an_entry_point(fixture)
            found = _look_up(found(), rest)
        is_entry = found is not None and is_entry_point(found, entry, own)
    if found is None:
        raise ReplayError(
            f"run {fixture.run_id}: entry point {entry.target!r:.200} no longer exists",
            do="check out the recorded commit, or name a command: freezeframe replay RUN -- CMD",
        )
    if "." in qualname and inspect.isfunction(found) and Binder(found).drops_self:
        raise ReplayError(
            f"run {fixture.run_id}: entry point {entry.target!r:.200} is a method, and its object was not recorded",
            do="mark a function that creates the object and record again, or name a command: freezeframe replay RUN -- CMD",
        )
    if not is_entry:
        raise _not_an_entry_point(fixture)
    return found


def _not_an_entry_point(fixture: Fixture) -> ReplayError:
    return ReplayError(
        f"run {fixture.run_id}: its recording names {fixture.entry.target!r:.200}, which this program does not mark as an "
        "entry point; a recording does not decide what runs",
        do=f"{_TO_MARK.get(fixture.entry.kind, 'mark it with @freezeframe.run')}; or {TYPE_IT}",
    )


def _look_up(found: Any, path: str) -> Any:
    """Return the definition under a dotted name of a module or an object: no computed attribute, and no import."""
    for name in path.split(".") if path else ():
        if isinstance(found, ModuleType):
            found = vars(found).get(name)
            if isinstance(found, ModuleType):
                return None
        else:
            defined = inspect.getattr_static(found, name, None)
            found = None if defined is None or isinstance(defined, property) else getattr(found, name, None)
    return found


def _arguments_of_the_script(entry: Entry) -> list[str]:
    """Return what ``sys.argv`` held after the script's name; empty if a recording holds anything but a list of texts."""
    with contextlib.suppress(ValueError):
        recorded: Any = json.loads(entry.argv or "[]")
        if isinstance(recorded, list) and all(isinstance(word, str) for word in recorded):
            return recorded
    return []


def _load_module(module_name: str, file: str | None, own: OwnCode, loading: Loading) -> Any:
    """Import the module of the entry point. A script's is ``__main__``, as in the run, but its main guard is not entered."""
    if module_name == "__main__":
        found = None if file is None else own.find(file)
        if file is None or found is None or not found.is_file():
            raise ReplayError(
                f"the script of the entry point, {file!r:.200}, is not in {own.folder}"
                if file
                else "the entry point was defined in an interactive session or in code that is not in a file",
                do="run the replay from the directory in which the agent was started"
                if file
                else "in a notebook, replay it in its kernel with %freezeframe_replay RUN; else move it to a file and "
                "record again, or name a command: freezeframe replay RUN -- CMD",
            )
        if found.suffix not in (".py", ".pyw"):
            raise ReplayError(f"the script of the entry point, {file!r:.200}, is not a Python file by its name", do=TYPE_IT)
        sys.path.insert(0, str(found.parent))
        module = sys.modules["__main__"] = type(sys)("__main__")
        if "__mp_main__" in sys.modules:  # multiprocessing was imported: its name for the same module
            sys.modules["__mp_main__"] = module
        module.__file__ = str(Path(file).absolute())
        module.__loader__ = SourceFileLoader("__main__", module.__file__)
        with loading():
            exec(_unguarded(module.__file__), vars(module))  # noqa: S102 - the user's own script
        return module
    for root in _import_roots(module_name, file, own):
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
    place = _place_of(module_name)
    is_pythons = place is None and module_name.partition(".")[0] in sys.stdlib_module_names
    if is_pythons or (place is not None and not own.holds(place.resolve()) and not _may_mark(module_name, place, own)):
        raise ReplayError(
            f"the module of the entry point, {module_name!r:.200}, is not in {own.folder} and does not use freezeframe; "
            "a recording does not decide what runs",
            do=f"start in the folder of the agent's code; or {TYPE_IT}",
        )
    try:
        if place is None:
            raise ImportError(f"No module named {module_name!r:.200}")
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ReplayError(
            f"the module of the entry point, {module_name}, cannot be imported: {error}",
            do="run the replay where the agent's code is importable, or name a command: freezeframe replay RUN -- CMD",
        ) from error
    if Path(module.__file__ or "").resolve() != place.resolve():
        raise ReplayError(f"the module of the entry point, {module_name}, is another one here: {module.__file__}", do=TYPE_IT)
    return module


def _unguarded(file: str) -> CodeType:
    """Return a script's code in which a comparison with its name sees the name given by multiprocessing's spawn.

    The name itself stays: caches and pickles of the program hold it.
    """
    tree = ast.parse(Path(file).read_bytes(), file)
    for compared in [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]:
        sides = [_IMPORTED.get(ast.dump(side), side) for side in (compared.left, *compared.comparators)]
        compared.left, *compared.comparators = (ast.copy_location(side, compared) for side in sides)
    return compile(tree, file, "exec", dont_inherit=True)


def _import_roots(module_name: str, file: str | None, own: OwnCode) -> list[Path]:
    """Return the directories from which `module_name` is importable: the current one, and the one above the recorded file."""
    found = None if file is None else own.find(file)
    root = None if found is None else import_root(module_name, str(found))
    return [own.folder] if root is None or not root.is_relative_to(own.folder) else [root, own.folder]


def _place_of(module_name: str) -> Path | None:
    """Return the file that an import of a module would run last, without importing anything; None if it would find none."""
    parts = module_name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    spec: ModuleSpec | None = None
    for part in parts:
        try:
            # of a name without dots, `importlib` imports nothing
            spec = importlib.util.find_spec(part) if spec is None else find_below(part, places_below(spec))
        except ValueError:
            return None
        if spec is None:
            return None
    return Path(spec.origin).absolute() if spec is not None and spec.has_location and spec.origin else None


def _may_mark(module_name: str, place: Path, own: OwnCode) -> bool:
    """Return whether an installed module may mark an entry point: its source names us, and it is neither ours nor Python's."""
    top = module_name.partition(".")[0]
    if top in sys.stdlib_module_names or _OURS.fullmatch(top) or place.suffix != ".py":
        return False
    is_installed = is_installed_here(place) or not place.is_relative_to(
        own.folder
    )  # and nothing else of the folder, nor by a link
    return is_installed and b"freezeframe" in place.read_bytes()
