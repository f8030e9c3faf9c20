"""Check whether a run can be started again in another process: its entry point found by name, its input rebuilt.

Decided when a run is recorded, by the steps of a replay (`freezeframe_replay.process.child`): it imports the module, looks
the function up by its qualified name, and calls it with the decoded input. Each function is checked once as an entry point.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import itertools
import re
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import decode_source
from pathlib import Path
from typing import Any, Final

from freezeframe.context.accesses import UnrecordedAccess, shown_path
from freezeframe.context.parsing import parse
from freezeframe.context.program import SERVERS, is_worker, program_file, relative_path
from freezeframe_schemas import near_types, values
from freezeframe_schemas.gaps import NOT_REPEATED, OF_A_WORKER, Gap, GapKind
from freezeframe_schemas.rebuilding import is_fixed, is_plain, lost_in_rebuilding

_ITEM: Final = re.compile(r"\[[^\]]*\]")
"""An item in a path; its key may be a private value."""
_FIELD: Final = re.compile(r"\.\w+")
_MAX_LOST: Final = 50
"""Changed parts of an argument that are searched for one that cannot be rebuilt."""
_OWN_FILE: Final = "move it to a separate file, which a replay can import"
IN_KERNEL: Final = (
    "replay it in that kernel with %freezeframe_replay RUN, or move its code to a file, which a replay can import"
)
"""Hint for runs that began in a notebook."""


# -- the entry point ----------------------------------------------------------------------------------------------------


def is_nested(target: str) -> bool:
    """Return whether ``module:qualname`` names something inside a function, which no other process can look up."""
    return "<locals>" in target


def import_root(module: str, file: str) -> Path | None:
    """Return the directory from which an import of `module` finds `file`, or None."""
    path = Path(file).resolve().with_suffix("")
    if path.name == "__init__":
        path = path.parent
    parts = module.split(".")
    return path.parents[len(parts) - 1] if list(path.parts[-len(parts) :]) == parts else None


class Reach:
    """Check that another process can find and call a marked function. One object per function; its gaps are read per run."""

    __slots__ = ("_function", "_gaps", "_is_begun_outside", "_script", "in_trio", "marked", "takes_self")

    def __init__(self, function: Any, *, takes_self: bool, is_begun_outside: bool = False) -> None:
        self._function = function
        self._is_begun_outside = is_begun_outside
        """The run begins before the event loop: a worker starts one for a coroutine function."""
        self._gaps: tuple[Gap, ...] | None = None
        self._script: tuple[Path, str, str] | None = None
        self.marked: Any = None
        """The wrapper that `freezeframe.run` returned."""
        self.in_trio = False
        """It is a coroutine function that trio runs."""
        self.takes_self = takes_self

    def look(self) -> None:
        """Look the function up as a replay will, but while the program runs, because a script's module is cleared at exit."""
        if self._gaps is None:
            self._gaps = tuple(self._look())

    def gaps(self) -> tuple[Gap, ...]:
        """Return the obstacles to calling it in another process; on the exporter's thread, because it may read a script."""
        if self._script is not None:
            self._gaps = (*(self._gaps or ()), *_guarded(*self._script))
            self._script = None
        return self._gaps or ()

    def _look(self) -> Iterator[Gap]:
        function = inspect.unwrap(self._function)
        if not hasattr(self._function, "__qualname__") or not hasattr(function, "__code__"):
            kind = type(self._function).__qualname__
            yield _unreachable(f"the entry point is a {kind}, which has no name to find it by", "mark a function")
            return
        name = self._function.__qualname__
        is_foreign = not self._is_begun_outside and _is_in_a_foreign_loop(function)
        self.in_trio = is_foreign and "trio" in sys.modules and sys.modules["trio"].lowlevel.in_trio_run()
        if is_foreign and not self.in_trio:
            text = f"the entry point {name} ran in another event loop than asyncio's or trio's, {NOT_REPEATED}"
            yield _unreachable(text, "mark the function that starts the loop")
            return
        shown = f"the entry point {name} ({_place(function)})"
        if is_nested(name):
            outer = name.partition(".<locals>")[0]
            yield _unreachable(
                f"{shown} is nested in the function {outer}, so no other process can find it",
                f"define {name.rpartition('.')[2]} at the top level of its module",
            )
            return
        module_name = self._function.__module__
        module = sys.modules.get(module_name)
        file = _source(function)
        if module is None or file is None:
            yield _unreachable(f"{shown} was defined in an interactive session or in code that is not in a file", _own_file())
            return
        if module_name == "__main__":
            main = getattr(module, "__file__", None)
            spec = getattr(module, "__spec__", None)
            if main is None or Path(main).resolve() != Path(file).resolve():
                yield _unreachable(
                    f"{shown} is not in the file of the program, {_shown(main) if main else 'which has none'}", _OWN_FILE
                )
                return
            module_name = spec.name if spec is not None else ""
        if module_name and import_root(module_name, file) is None:
            yield _unreachable(
                f"{shown} is in the module {module_name}, which an import does not find in {_shown(file)}", _OWN_FILE
            )
            return
        found = _look_up(module, name)
        if not _leads_to(found, self.marked):
            yield _unreachable(
                f"{shown} is not what its module has under this name: found {_kind(found)}",
                "keep the marked function under its own name, with @freezeframe.run outermost",
            )
        elif self.takes_self and not inspect.ismethod(found):
            yield _unreachable(
                f"{shown} is a method, and the object that it is called on is not recorded",
                "mark a function that creates the object and calls the method",
            )
        elif self._function.__module__ == "__main__":
            self._script = (Path(file), name, shown)


def _unreachable(text: str, do: str) -> Gap:
    return Gap(kind=GapKind.ENTRY_UNREACHABLE, text=text, do=do)


def _own_file() -> str:
    return IN_KERNEL if hasattr(builtins, "__IPYTHON__") else _OWN_FILE


def _source(function: Any) -> str | None:
    """Return the file of the function's code, if there is one."""
    file = function.__code__.co_filename
    return file if Path(file).is_file() else None


def _place(function: Any) -> str:
    return f"{_shown(function.__code__.co_filename)}:{function.__code__.co_firstlineno}"


def _shown(file: str) -> str:
    """Return the file relative to the working directory, else only its name: a path may hold a person's name."""
    inside = relative_path(file)
    return Path(file).name if Path(inside).is_absolute() else inside


def _look_up(module: Any, qualname: str) -> Any:
    found = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _is_in_a_foreign_loop(function: Any) -> bool:
    """Return whether a coroutine function is run by something other than asyncio, which then sees no running loop."""
    if not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function):
        return False
    import asyncio

    return asyncio._get_running_loop() is None


def _leads_to(found: Any, marked: Any) -> bool:
    """Return whether calling `found` calls `marked`: it is the same function, or a decorator's wrapper of it."""
    for _ in range(50):
        if found is marked:
            return True
        inner = getattr(found, "__func__", None) or getattr(found, "__wrapped__", None)
        if inner is None or not callable(found):
            return False
        found = inner
    return False


def _kind(found: Any) -> str:
    return "nothing" if found is None else "another function" if inspect.isroutine(found) else f"a {type(found).__qualname__}"


def _guarded(file: Path, name: str, shown: str) -> Iterator[Gap]:
    """Yield names that the entry point needs from a script's main guard, which a replay does not run."""
    try:
        source = decode_source(file.read_bytes())
        tree, scopes = parse(source), symtable.symtable(source, str(file), "exec").get_children()
    except (OSError, SyntaxError, ValueError):
        return
    guards = _guards(tree)
    guarded = {bound for guard in guards for inner in guard.body for bound in _bound(inner)}
    open_ = {bound for statement in tree.body if statement not in guards for bound in _bound(statement)}
    used = {each for scope in scopes if not _holds(guards, scope.get_lineno()) for each in _globals_of(scope)}
    if name.partition(".")[0] in guarded - open_:
        yield _unreachable(f"{shown} is defined under the main guard, which a replay does not enter", f"define {name} above it")
    elif needed := sorted((guarded - open_) & used):
        yield Gap(
            kind=GapKind.MAIN_GUARD,
            text=f"the program sets {', '.join(needed)} under its main guard, which a replay does not enter",
            do=f"set {', '.join(needed)} above it",
        )


def _guards(tree: ast.Module) -> list[ast.If]:
    """Return the main guards of a script."""
    found = (each for each in tree.body if isinstance(each, ast.If))
    return [each for each in found if "__name__" in {node.id for node in ast.walk(each.test) if isinstance(node, ast.Name)}]


def _holds(guards: Iterable[ast.If], line: int) -> bool:
    return any(each.lineno <= line <= (each.end_lineno or line) for each in guards)


def _globals_of(scope: symtable.SymbolTable) -> Iterator[str]:
    """Yield the globals that a function, and the functions defined in it, reads."""
    yield from (each.get_name() for each in scope.get_symbols() if each.is_global() and each.is_referenced())
    for inner in scope.get_children():
        yield from _globals_of(inner)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds in its module, without names local to functions."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


_WORKER: Final = Gap(
    kind=GapKind.WORKER,
    text=OF_A_WORKER,
    do="mark the function that the worker calls with @freezeframe.run, or use threads",
)


@functools.cache
def command_gaps() -> tuple[Gap, ...]:
    """Return the obstacles to starting this process again by its command line."""
    typed = hasattr(sys, "ps1") or sys.flags.interactive or hasattr(builtins, "__IPYTHON__")
    has_program = program_file() is not None or {"-c", "-m"}.intersection(sys.orig_argv[1:])
    if is_worker():
        return (_WORKER,)
    if typed or not has_program:
        return (_unreachable("the run began in an interactive session, or in a program read from standard input", _OWN_FILE),)
    if SERVERS.intersection(sys.modules):
        return (
            _unreachable(
                "the run is part of a server process, which a replay cannot start for one run",
                "mark the function that does the work with @freezeframe.run",
            ),
        )
    return ()


# -- its modules ---------------------------------------------------------------------------------------------------------


_READS_AGAIN: Final = "and a replay reads what is there then"
_IN_A_TOOL: Final = "{} in a function marked with @freezeframe.tool"
_ON_IMPORT: Final = {
    GapKind.FILE_READ: (_READS_AGAIN, _IN_A_TOOL.format("commit the file, or read it")),
    GapKind.DATABASE: (_READS_AGAIN, _IN_A_TOOL.format("ask it")),
    GapKind.RANDOM_UNRECORDED: (NOT_REPEATED, "call random.seed before, or draw in the run"),
}
"""An import's action -> the difference in a replay, and the remedy."""


def import_gaps(loaded: Iterable[UnrecordedAccess]) -> Iterator[Gap]:
    """Yield the gaps of reads during imports, which a replay repeats, except under a script's main guard."""
    for access in loaded:
        if access.imported is None or (access.imported[0] == "__main__" and _is_under_guard(*access.imported[1:])):
            continue
        what = shown_path(access.what) if access.kind in (GapKind.FILE_READ, GapKind.DATABASE) else access.what
        again, do = _ON_IMPORT.get(access.kind, (NOT_REPEATED, _IN_A_TOOL.format("do that")))
        text = f"the import of {_shown(access.imported[1])} {access.verb} {what} ({access.where}), {again}"
        yield Gap(kind=access.kind, text=text, do=do)


@functools.cache
def _is_under_guard(file: str, line: int) -> bool:
    """Return whether a replay skips a line of the program's file; True in a notebook, which has no file."""
    try:
        return _holds(_guards(parse(Path(file).read_bytes())), line)
    except (OSError, SyntaxError, ValueError):
        return True


# -- the input ----------------------------------------------------------------------------------------------------------


def input_gaps(arguments: Mapping[str, object], *, is_passed: bool = True) -> Iterator[Gap]:
    """Yield the parts of the input that cannot be rebuilt unchanged, by argument and type, never by value.

    `is_passed`: a replay calls the entry point with it. Else the program builds it again, and it is only compared.
    """
    for name, value in arguments.items():
        # one gap per argument: a list of a thousand requests has one cause
        found = list(itertools.islice(lost_in_rebuilding(value), _MAX_LOST))
        lost = next((each for each in found if each.opaque), found[0] if found else None)
        if lost is None:
            continue
        fields = "".join(_FIELD.findall(_ITEM.sub("", lost.path)))
        part = f"the field {fields[1:]}" if fields else "a part"
        what = f"{part} of the argument {name}" if lost.path else f"the argument {name}"
        if lost.class_name in near_types.SECRETS:
            yield Gap(
                kind=GapKind.INPUT_CHANGED,
                text=f"{what}, a {lost.class_name}, is recorded masked: a replay passes {near_types.MASKED}",
                do="nothing, unless the program's requests are made of it: then pass it as text",
            )
        elif lost.opaque and is_passed:
            yield Gap(
                kind=GapKind.INPUT_OPAQUE,
                text=f"{what}, a {lost.class_name}, cannot be rebuilt",
                do="mark a function that takes plain data: JSON types, dataclasses, pydantic models",
            )
        else:
            yield Gap(
                kind=GapKind.INPUT_CHANGED,
                text=f"{what}, a {lost.class_name}, is recorded as plain data, or was too large to be checked",
                do="pass plain data: JSON types, dataclasses, pydantic models",
            )


def left_open(positional: list[Any], named: dict[str, Any], before: str, result: object) -> Iterator[str]:
    """Yield, in words, effects of a marked function that are not in its output; `before`: its input, tagged JSON."""
    can_change = not all(is_fixed(value) for value in (*positional, *named.values())) and not values.is_opaque(before)
    if can_change and values.encode({"args": positional, "kwargs": named}) != before:
        yield "what the entry point changed in its arguments"
    yield from lost_of_outcome(result)


def lost_of_outcome(result: object) -> Iterator[str]:
    """Yield, in words, the parts of a result that tagged JSON loses."""
    lost = None if is_plain(result) else next((each for each in lost_in_rebuilding(result) if not each.opaque), None)
    if lost is not None:
        yield f"what the outcome holds of {lost.class_name} besides plain data and fields"
