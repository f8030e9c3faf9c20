"""Recognise entry points that a program marks, by kind: a function, an application, or a task.

A module of the program also contains imported and other functions, which must not be called because a recording
names them. For unmarked tasks and factories, the program's own code shows their purpose.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from freezeframe.hosts.applications import application_names, is_application
from freezeframe.hosts.grpc_server import METHOD
from freezeframe.runs.run import is_marked
from freezeframe_replay.process.own_code import OwnCode
from freezeframe_schemas import values
from freezeframe_schemas.run import Entry, EntryKind

_MAKERS: Final = {
    "functions_framework:create_app": ("functions_framework", "create_app"),
    "functions_framework.aio:create_asgi_app": ("functions_framework.aio", "create_asgi_app"),
}
"""Factory of applications in Google's framework: from a function's name, its file, and the signature's type."""
_SIGNATURES: Final = frozenset({"http", "event", "cloudevent", "typed"})
_CONTEXTS: Final = frozenset({"context", "ctx", ""})
"""Usual names of the context parameter of functions for events or requests; also ``_``."""
_MAX_FILES: Final = 5_000


def is_entry_point(found: Any, entry: Entry, own: OwnCode) -> bool:
    """Return whether the program marks an object as the entry point of a run of this kind."""
    if entry.kind is EntryKind.FUNCTION:
        return is_marked(found)
    if entry.kind is EntryKind.REQUEST:
        return _is_servicer(found, entry, own) if _argument(entry, "method") == METHOD else is_application(found)
    by = _argument(entry, "by")
    return by in _TASKS and _TASKS[by](found, own)


def may_be_made(maker: Any, attribute: str, entry: Entry, own: OwnCode) -> bool:
    """Return whether calling `maker` without arguments creates an entry point, or an object that has one under `attribute`."""
    if not _is_defined_in(maker, own) or not _needs_no_arguments(maker):
        return False
    if inspect.isclass(maker):
        if entry.kind is EntryKind.REQUEST and not attribute:
            return _argument(entry, "method") == METHOD and _is_servicer(maker, entry, own)
        method = inspect.getattr_static(maker, attribute, None) if attribute.isidentifier() else None
        return entry.kind is EntryKind.TASK and method is not None and is_entry_point(method, entry, own)
    return entry.kind is EntryKind.REQUEST and not attribute and inspect.isfunction(maker) and _makes_an_application(maker)


def made_by_the_framework(target: str, own: OwnCode) -> Callable[[], Any] | None:
    """Return the factory for the application of a function under Google's framework; None for any other target."""
    maker, _, rest = target.partition("(")
    try:
        arguments = ast.literal_eval(f"[{rest.removesuffix(')')}]") if maker in _MAKERS else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if len(arguments) != 3 or not all(isinstance(word, str) for word in arguments):
        return None
    name, file, signature = arguments
    found = own.find(file)
    if found is None or found.suffix != ".py" or signature not in _SIGNATURES or name not in _functions_of(found):
        return None

    def make() -> Any:
        module, function = _MAKERS[maker]
        return getattr(__import__(module, fromlist=[function]), function)(name, file, signature)

    return make


def _argument(entry: Entry, name: str) -> Any:
    """Return a text argument of the recorded input, found as in the call, or None."""
    arguments: Any = values.decode(entry.input or "{}")
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else None


def _needs_no_arguments(maker: Any) -> bool:
    try:
        inspect.signature(maker).bind()
    except (TypeError, ValueError):
        return False
    return True


def _is_defined_in(found: Any, own: OwnCode) -> bool:
    """Return whether a class or function was defined in a module of the program, and not only imported there."""
    if inspect.isfunction(found):
        file = inspect.unwrap(found).__code__.co_filename
    elif inspect.isclass(found):
        file = getattr(sys.modules.get(found.__module__), "__file__", None)
    else:
        return False
    return file is not None and own.holds(Path(file).resolve())


def _function_of(found: Any) -> Any:
    """Return the function below decorators; None if it is something else. Reads no attribute that an object computes."""
    found = found.__func__ if inspect.ismethod(found) else found
    function = inspect.unwrap(found) if inspect.isfunction(found) else found
    return function if inspect.isfunction(function) else None


def _functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_bytes())
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


# -- requests -----------------------------------------------------------------------------------------------------------


def _is_servicer(found: Any, entry: Entry, own: OwnCode) -> bool:
    """Return whether an object, or its class, is the program's and has a method for the recorded one."""
    if inspect.isroutine(found):
        return _takes_context(found, own)
    kind = found if inspect.isclass(found) else type(found)
    name = (_argument(entry, "path") or "").rpartition("/")[2]
    if not name.isidentifier() or name.startswith("_") or not _is_defined_in(kind, own):
        return False
    method = inspect.getattr_static(kind, name, None)
    return method is not None and _takes_context(getattr(kind, name), own, is_method=not isinstance(method, staticmethod))


def _takes_context(found: Any, own: OwnCode, *, is_method: bool = False) -> bool:
    """Return whether a function of the program is one for requests or events: its second parameter is a context."""
    function = _function_of(found)
    if function is None or not _is_defined_in(function, own):
        return False
    is_bound = is_method or inspect.ismethod(found)
    names = [*inspect.signature(function).parameters][1 if is_bound else 0 :]
    return len(names) == 2 and names[1].lower().strip("_") in _CONTEXTS


def _makes_an_application(maker: Any) -> bool:
    """Return whether a function of the program makes an application, by the names in its code."""
    code = inspect.unwrap(maker).__code__
    module = inspect.unwrap(maker).__globals__
    made = application_names()
    return any(getattr(module.get(name), "__name__", name) in made for name in code.co_names)


# -- tasks --------------------------------------------------------------------------------------------------------------


def _is_a(module: str, name: str) -> Callable[[Any, OwnCode], bool]:
    def is_one(found: Any, _: OwnCode) -> bool:
        kind = getattr(sys.modules.get(module), name, None)
        return isinstance(kind, type) and isinstance(found, kind)

    return is_one


def _is_activity(found: Any, _: OwnCode) -> bool:
    if not inspect.isroutine(found):
        return False
    return "__temporal_activity_definition" in getattr(found.__func__ if inspect.ismethod(found) else found, "__dict__", {})


def _is_queued(found: Any, own: OwnCode) -> bool:
    """Return whether the program's code queues a function, or gives it to a worker. Neither RQ nor arq marks them."""
    function = _function_of(found)
    return function is not None and _is_defined_in(function, own) and function.__name__ in _queued(own)


def _queued(own: OwnCode) -> frozenset[str]:
    """Return the names of the functions that the program's code queues: ``enqueue(answer)``, ``functions = [answer]``."""
    names: set[str] = set()
    for file in _sources(own):
        text = file.read_bytes()
        if b"enqueue" in text or b"functions" in text or b"rq" in text:
            try:
                names.update(_named_in(ast.parse(text)))
            except (SyntaxError, ValueError, RecursionError):
                continue
    return frozenset(names)


def _sources(own: OwnCode) -> Iterator[Path]:
    """Yield the program's Python files."""
    found = (path for path in own.folder.rglob("*.py") if own.holds(path.resolve()))
    for count, path in enumerate(found):
        if count == _MAX_FILES:
            return
        yield path


def _named_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func).startswith(("enqueue", "func", "cron")):
            first = int(_last(node.func).endswith(("_in", "_at")))  # after the time
            yield from map(_last, node.args[first : first + 1])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_last(each) == "functions" for each in targets) and isinstance(node.value, ast.List | ast.Tuple):
                yield from map(_last, node.value.elts)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
            if any(_last(each) == "job" for each in marks):
                yield node.name


def _last(node: ast.expr) -> str:
    """Return the last name of an expression: of ``queue.enqueue``, ``answer``, or ``"tasks.answer"``; empty if it has none."""
    if isinstance(node, ast.Constant):
        return node.value.rpartition(".")[2] if isinstance(node.value, str) else ""
    if isinstance(node, ast.Call):
        return _last(node.args[0]) if node.args else ""
    return getattr(node, "attr", None) or getattr(node, "id", "")


_TASKS: Final[dict[str, Callable[[Any, OwnCode], bool]]] = {
    "celery": _is_a("celery.app.task", "Task"),
    "dramatiq": _is_a("dramatiq.actor", "Actor"),
    "lambda": _takes_context,
    "rq": _is_queued,
    "arq": _is_queued,
    "temporal": _is_activity,
}
"""Framework -> whether an object is a task of it. Airflow's are found by their DAG."""
