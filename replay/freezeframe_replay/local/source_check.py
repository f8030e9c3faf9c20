"""Find in a program's source what a replay could not repeat, before anything is recorded. Only the source is read.

What counts is code that runs execute outside tools, what modules do on import, and what tools change. If the program marks its
runs, code outside them does not count. A call whose object cannot be seen in the source (an argument without a type, `getattr`)
is not judged, so a program without findings may still have gaps, which its recording names.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from freezeframe.context.accesses import tracked_by_git
from freezeframe_replay.local.source_rules import DRAWS, MUTATORS, ON_IMPORT, CallRule, rule_of
from freezeframe_replay.local.source_units import MODULE, RUN, Function, SourceModule, Unit, read_program, shown
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.wire.registry import find_dialect

_MAKERS: Final = frozenset({"__init__", "__post_init__", "__new__", "__call__", "__enter__", "__aenter__"})
_CACHES: Final = frozenset({"functools.cache", "functools.lru_cache", "functools.cached_property"})
_FOR_ALL: Final = {GapKind.FILE_READ: "record_files", GapKind.DATABASE: "record_databases"}
"""Kind -> the setting that closes the gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFinding:
    """One thing that could not be repeated."""

    file: str
    line: int
    kind: GapKind
    text: str
    do: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """The findings in order of place."""

    findings: tuple[SourceFinding, ...]
    files: int
    """Number of files read."""
    unread: tuple[str, ...]
    """Files that are not this Python's."""


def check_source(paths: Iterable[Path]) -> SourceReport:
    """Return the findings in a program's files and folders.

    Raises:
        ConfigError: no Python file was found.
    """
    modules, unread = read_program(list(paths))
    if not modules:
        raise ConfigError(f"{', '.join(map(str, paths))}: found no Python source", do="name a file or a folder of the program")
    found = {(each.file, each.line, each.kind): each for each in _Check(modules).findings()}
    ordered = sorted(found.values(), key=lambda each: (each.file, each.line, each.kind))
    return SourceReport(findings=tuple(ordered), files=len(modules), unread=tuple(map(shown, unread)))


class _Check:
    def __init__(self, modules: list[SourceModule]) -> None:
        self._modules = modules
        self._units = [unit for module in modules for unit in module.units]
        self._functions: dict[tuple[SourceModule, str], list[Unit]] = {}
        """Functions of a module by name, and by that of a class the methods that making an object calls."""
        self._methods_named: dict[str, list[Unit]] = {}
        for unit in self._units:
            if unit.holder is None:
                self._functions.setdefault((unit.file, unit.name), []).append(unit)
                continue
            self._methods_named.setdefault(unit.name, []).append(unit)
            if unit.name in _MAKERS:
                self._functions.setdefault((unit.file, unit.holder.name), []).append(unit)
        self._edges = {unit: list(chain.from_iterable(map(partial(self._meant, unit), unit.walk()))) for unit in self._units}
        self._methods = self._changing_methods()
        calls = list(chain.from_iterable(self._calls(unit) for unit in self._units))
        self._blocks = [unit for unit, call, name in calls if name == RUN and not _marks_a_function(call)]
        self._wrapped = {node.id for _, call, name in calls if name == RUN for node in call.args if isinstance(node, ast.Name)}
        """Names of functions in ``freezeframe.run(answer)``."""
        self._settings = {
            keyword.arg
            for _, call, name in calls
            if name == f"{genai.SCOPE}.instrument"
            for keyword in call.keywords
            if isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        }
        marked = [unit for unit in self._units if unit.is_run or unit.name in self._wrapped]
        self._is_marked = bool(marked or self._blocks)
        self._in_runs = self._reached(marked or self._blocks if self._is_marked else self._starts())

    def findings(self) -> Iterator[SourceFinding]:
        for unit in self._in_runs:
            yield from self._effects(unit)
        if self._is_marked:
            for module in self._modules:
                yield from self._on_import(module)
            yield from chain.from_iterable(_entries(unit) for unit in self._units if unit.parent not in self._in_runs)
            yield from chain.from_iterable(map(_under_guard, self._modules))
            yield from chain.from_iterable(map(_other_names, self._modules))
        if self._is_marked or any(unit.is_served for unit in self._units):
            yield from self._carried_over()
        for unit in self._units:
            if unit.is_tool:
                yield from self._tool_changes(unit)

    def _changing_methods(self) -> set[str]:
        """Return the names of methods that change their object: Python's own, and those of the program's classes."""
        found, before = set[str](MUTATORS), 0
        while len(found) > before:
            before = len(found)
            found |= {
                unit.name
                for unit in self._units
                if unit.holder is not None and unit.name not in _MAKERS and not unit.is_tool
                if any(name == "self" for name, _ in _changes(unit, found))
            }
        return found

    # -- what runs ------------------------------------------------------------------------------------------------------

    def _starts(self) -> list[Unit]:
        """Return where a program without marks starts: its modules, and functions that nothing refers to."""
        used = set(chain.from_iterable(self._edges.values()))
        return [unit for unit in self._units if unit.name == MODULE or (unit not in used and not unit.is_tool)]

    def _reached(self, starts: Iterable[Unit]) -> list[Unit]:
        """Return the units that code refers to from here, outside tools."""
        waiting, found = deque(starts), dict[Unit, None]()
        while waiting:
            unit = waiting.popleft()
            if unit in found:
                continue
            found[unit] = None
            waiting += [each for each in self._edges[unit] if not each.is_tool]
        return list(found)

    def _meant(self, unit: Unit, node: ast.AST) -> list[Unit]:
        """Return the functions that a name or an attribute may mean: by import, in its module, else methods of that name."""
        match node:
            case ast.Name(id=name):
                return self._functions.get((unit.file, name)) or self._imported(unit.file, name)
            case ast.Attribute(value=ast.Name(id=base), attr=name) if base in unit.file.aliases and base not in unit.variables:
                module = unit.file.aliases[base]
                found = [self._functions.get((each, name), []) for each in self._modules if each.is_called(module)]
                return list(chain.from_iterable(found)) or (
                    [] if base in unit.file.modules else self._methods_named.get(name, [])
                )
            case ast.Attribute(attr=name):
                return self._methods_named.get(name, [])
            case _:
                return []

    def _imported(self, file: SourceModule, name: str) -> list[Unit]:
        module, _, original = file.aliases.get(name, "").rpartition(".")
        found = [self._functions.get((each, original), []) for each in self._modules if module and each.is_called(module)]
        return list(chain.from_iterable(found))

    def _calls(self, unit: Unit) -> Iterator[tuple[Unit, ast.Call, str]]:
        for node in unit.walk():
            if isinstance(node, ast.Call) and (name := unit.dotted(node)):
                yield unit, node, name

    # -- effects --------------------------------------------------------------------------------------------------------

    def _effects(self, unit: Unit) -> Iterator[SourceFinding]:
        guarded = unit.file.guards if unit.name == MODULE and self._is_marked else []
        for _, call, name in (*self._calls(unit), *_passed(unit)):
            if unit.name == MODULE and self._is_marked and not _is_in_a_block(unit, call):
                continue
            if any(each.lineno <= call.lineno <= (each.end_lineno or 0) for each in guarded):
                continue
            yield from self._effect(unit, call, name)

    def _effect(self, unit: Unit, call: ast.Call, name: str, only: frozenset[GapKind] | None = None) -> Iterator[SourceFinding]:
        rule = rule_of(name)
        if rule is None or not self._counts(unit, call, name, rule):
            return
        kind, verb = rule.kind, rule.verb
        if kind is GapKind.FILE_READ and _writes(call, name):
            kind, verb = GapKind.FILE_WRITTEN, "writes a file by"
        if only is not None and kind is GapKind.HTTP_UNRECORDED:
            kind = GapKind.CONNECTION
        if only is not None and kind not in only:
            return
        yield SourceFinding(
            file=unit.file.shown,
            line=call.lineno,
            kind=kind,
            text=f"{unit.name} {verb} {name}",
            do=rule.do.format(by="the function that does it" if unit.name == MODULE else unit.name),
        )

    def _counts(self, unit: Unit, call: ast.Call, name: str, rule: CallRule) -> bool:
        first = call.args[0] if call.args else None
        constant = first.value if isinstance(first, ast.Constant) else None
        if _FOR_ALL.get(rule.kind) in self._settings or unit.is_temporary(call):
            return False
        if rule.kind is GapKind.HTTP_UNRECORDED:
            return _is_of_no_provider(call)
        if rule.kind is GapKind.CLOCK_UNRECORDED:
            return constant in ("now", "today") or not isinstance(first, ast.Constant)
        if name == "sqlite3.connect" and constant == ":memory:":
            return False
        path = "" if rule.kind is not GapKind.FILE_READ else _path_read(call)
        return not (path.endswith(".py") or (path and _is_committed(unit.file.path, path)))

    def _on_import(self, module: SourceModule) -> Iterator[SourceFinding]:
        """Yield what a module does on import, itself or in functions that it calls then."""
        (top,) = [unit for unit in module.units if unit.name == MODULE]
        outside = [each for each in module.tree.body if each not in module.guards]
        seeded = False
        for statement in outside:
            for node in _now(statement):
                if not isinstance(node, ast.Call) or _is_in_a_block(top, node):
                    continue
                name = top.dotted(node)
                seeded = seeded or name == "random.seed"
                if name in DRAWS and not seeded:
                    yield SourceFinding(
                        file=module.shown,
                        line=node.lineno,
                        kind=GapKind.RANDOM_UNRECORDED,
                        text=f"the import draws from random by {name}",
                        do="call random.seed before, or draw in the run",
                    )
                if name:
                    yield from self._effect(top, node, name, ON_IMPORT)
                called = [unit for unit in self._meant(top, node.func) if not (unit.is_tool or unit.is_run)]
                for unit in self._reached([unit for unit in called if unit.name not in self._wrapped]):
                    for _, call, inner in self._calls(unit):
                        yield from self._effect(unit, call, inner, ON_IMPORT)

    # -- state ----------------------------------------------------------------------------------------------------------

    def _carried_over(self) -> Iterator[SourceFinding]:
        """Yield globals that a run's code changes and reads: a later run of the process finds them changed."""
        read = {(unit.file, name) for unit in self._in_runs for name in _read_names(unit)}
        for unit in self._in_runs:
            if unit.name == MODULE:
                continue
            for name, line in self._changed_globals(unit):
                if (unit.file, name) in read:
                    yield SourceFinding(
                        file=unit.file.shown,
                        line=line,
                        kind=GapKind.CARRIED_OVER,
                        text=f"{unit.name} changes the global {name}, which runs read: a later run depends on earlier ones",
                        do=f"create {name} in the run, or change it in a function marked @freezeframe.tool",
                    )
            if _CACHES & unit.marks:
                yield SourceFinding(
                    file=unit.file.shown,
                    line=unit.node.lineno if isinstance(unit.node, Function) else 1,
                    kind=GapKind.CARRIED_OVER,
                    text=f"{unit.name} keeps its results from run to run",
                    do=f"clear it where a run begins ({unit.name}.cache_clear()), or mark {unit.name} with @freezeframe.tool",
                )

    def _changed_globals(self, unit: Unit) -> Iterator[tuple[str, int]]:
        """Yield the module's variables that a unit changes, also by a method that changes its object."""
        bound = set(_top_names(unit.file)) - _local_names(unit)
        yield from ((name, line) for name, line in _changes(unit, self._methods) if name in bound)

    def _tool_changes(self, unit: Unit) -> Iterator[SourceFinding]:
        """Yield what a tool changes besides its result: a replay does not run it."""
        parameters = _parameters(unit)
        bound = set(_top_names(unit.file)) - _local_names(unit)
        changes = [
            (what, line)
            for name, line in _changes(unit)
            if (
                what := "its object"
                if name == "self"
                else f"its argument {name}"
                if name in parameters
                else f"the global {name}"
                if name in bound
                else ""
            )
        ]
        for what, line in changes:
            yield SourceFinding(
                file=unit.file.shown,
                line=line,
                kind=GapKind.TOOL_CHANGES,
                text=f"tool {unit.name} changes {what}, and a replay does not run it",
                do=f"return the change from {unit.name}, and make it where {unit.name} is called",
            )


# -- entry points -------------------------------------------------------------------------------------------------------


def _entries(unit: Unit) -> Iterator[SourceFinding]:
    """Yield why another process could not call an entry point by its name."""
    if not isinstance(unit.node, Function) or not unit.is_run:
        return
    name, own = unit.name, {each.id for each in unit.node.decorator_list if isinstance(each, ast.Name)}
    guarded = any(each.lineno <= unit.node.lineno <= (each.end_lineno or 0) for each in unit.file.guards)
    if unit.parent is not None:
        text, do = f"{name} is nested in a function", f"define {name} at the top level of a module"
    elif guarded:
        text, do = f"{name} is defined under the main guard, which a replay does not enter", f"define {name} above it"
    elif unit.holder is not None and not own & {"classmethod", "staticmethod"}:
        text, do = f"{name} is a method, and a replay has no object", "mark a function that creates the object and calls it"
    else:
        return
    yield SourceFinding(file=unit.file.shown, line=unit.node.lineno, kind=GapKind.ENTRY_UNREACHABLE, text=text, do=do)


def _other_names(module: SourceModule) -> Iterator[SourceFinding]:
    """Yield entry points that their module has under no name, or under another one."""
    last = {each.name: each for each in module.tree.body if isinstance(each, Function)}
    for unit in module.units:
        if unit.is_run and not (unit.parent or unit.holder) and last.get(unit.name, unit.node) is not unit.node:
            yield _unreachable(unit.file, unit.node, f"{unit.name} is bound again, to another function")
    (top,) = [unit for unit in module.units if unit.name == MODULE]
    for node in top.walk():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and top.dotted(node.value) == RUN:
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            match node.value.args:
                case [ast.Name(id=name)] if name in last and name not in names:
                    yield _unreachable(module, node, f"{name} is marked under another name")
                case [ast.Lambda() | ast.Call()]:
                    yield _unreachable(module, node, "what is marked has no name in its module")
                case _:
                    pass


def _unreachable(module: SourceModule, node: ast.AST, text: str) -> SourceFinding:
    do = "mark a function of a module, under its own name"
    return SourceFinding(file=module.shown, line=getattr(node, "lineno", 1), kind=GapKind.ENTRY_UNREACHABLE, text=text, do=do)


def _under_guard(module: SourceModule) -> Iterator[SourceFinding]:
    """Yield globals that functions need and only the main guard sets."""
    inside = {name: line for guard in module.guards for each in guard.body for name, line in _bound_by(each)}
    outside = {name for each in module.tree.body if each not in module.guards for name, _ in _bound_by(each)}
    used = {
        name
        for unit in module.units
        if unit.name != MODULE and not any(g.lineno <= unit.statements[0].lineno <= (g.end_lineno or 0) for g in module.guards)
        for name in _read_names(unit)
    }
    for name in sorted((inside.keys() - outside) & used):
        yield SourceFinding(
            file=module.shown,
            line=inside[name],
            kind=GapKind.MAIN_GUARD,
            text=f"{name} is set under the main guard, which a replay does not enter",
            do=f"set {name} above it",
        )


# -- names and changes --------------------------------------------------------------------------------------------------


def _now(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield what a module's statement executes on import: no bodies of functions and lambdas."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Function):
            waiting += node.args.defaults
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _is_in_a_block(unit: Unit, call: ast.Call) -> bool:
    """Return whether a call is in a ``with freezeframe.run(...)`` of its unit."""
    blocks = (node for node in unit.walk() if isinstance(node, ast.With | ast.AsyncWith))
    return any(
        unit.dotted(item.context_expr) == RUN and block.body[0].lineno <= call.lineno <= (block.end_lineno or 0)
        for block in blocks
        for item in block.items
    )


def _passed(unit: Unit) -> Iterator[tuple[Unit, ast.Call, str]]:
    """Yield functions that are passed to another one, which may call them: ``to_thread(path.read_text)``."""
    for node in unit.walk():
        if isinstance(node, ast.Call):
            values = (*node.args, *(keyword.value for keyword in node.keywords))
            passed = (each for each in values if isinstance(each, ast.Name | ast.Attribute))
            yield from ((unit, node, name) for each in passed if (name := unit.function(each)))


def _marks_a_function(call: ast.Call) -> bool:
    return not call.args or not isinstance(call.args[0], ast.Constant)


def _writes(call: ast.Call, name: str) -> bool:
    """Return whether a call of `open` or its kin opens to write."""
    if not name.endswith(("open", "ZipFile")):
        return False
    if name == "os.open":
        return any(
            isinstance(node, ast.Attribute) and node.attr in ("O_WRONLY", "O_RDWR", "O_CREAT") for node in ast.walk(call)
        )
    at = 0 if name == "pathlib.Path.open" else 1
    modes = [*call.args[at : at + 1], *(each.value for each in call.keywords if each.arg == "mode")]
    return any(isinstance(m, ast.Constant) and isinstance(m.value, str) and set("wax+") & set(m.value) for m in modes)


def _path_read(call: ast.Call) -> str:
    """Return the path that a call names by a constant: its own argument, or that of the `Path` it is a method of."""
    inner = call.func.value if isinstance(call.func, ast.Attribute) else None
    for each in (call, inner):
        match each:
            case ast.Call(args=[ast.Constant(value=str(path)), *_]):
                return path
            case ast.Call(args=[ast.Name(id="__file__"), *_]):
                return ".py"
            case _:
                pass
    return ""


def _is_of_no_provider(call: ast.Call) -> bool:
    """Return whether a request's URL begins with a constant host that is not a model provider's."""
    for node in (*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg == "url")):
        start = (
            next(iter(node.values), None)
            if isinstance(node, ast.JoinedStr)
            else node.left
            if isinstance(node, ast.BinOp)
            else node
        )
        if isinstance(start, ast.Constant) and isinstance(start.value, str) and "://" in start.value:
            return find_dialect("POST", start.value) is None
    return False


def _is_committed(file: Path, path: str) -> bool:
    """Return whether git tracks a file that a program names, as the recorded commit then holds it."""
    places = [str(place) for place in (Path.cwd() / path, file.parent / path) if place.is_file()]
    return bool(tracked_by_git(places) & set(places))


def _parameters(unit: Unit) -> set[str]:
    if not isinstance(unit.node, Function):
        return set()
    arguments = unit.node.args
    more = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more)}


def _local_names(unit: Unit) -> set[str]:
    """Return the parameters and variables of a function that are not globals."""
    declared = {name for node in unit.walk() if isinstance(node, ast.Global) for name in node.names}
    stored = {node.id for node in unit.walk() if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return (stored | _parameters(unit)) - declared


def _changes(unit: Unit, methods: Collection[str] = MUTATORS) -> Iterator[tuple[str, int]]:
    """Yield the names whose object a unit's code changes, or which it binds as globals, each with the line."""
    declared = {name for node in unit.walk() if isinstance(node, ast.Global) for name in node.names}
    for node in unit.walk():
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in methods:
                found = _root(value)
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                found = _root(node)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in declared:
                found = name
            case _:
                continue
        if found:
            yield found, node.lineno


def _root(node: ast.expr) -> str:
    """Return the name with which ``desk.orders[0].items`` begins."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _read_names(unit: Unit) -> set[str]:
    """Return the globals that a unit reads."""
    loaded = {node.id for node in unit.walk() if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    counted = {node.target.id for node in unit.walk() if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}
    return (loaded | counted) - _local_names(unit)


def _bound_by(statement: ast.stmt) -> Iterator[tuple[str, int]]:
    """Yield the names that a statement binds in its module, with the lines."""
    for node in _now(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, Function | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (((alias.asname or alias.name).partition(".")[0], node.lineno) for alias in node.names)


def _top_names(module: SourceModule) -> Iterator[str]:
    """Yield the module's variables: no functions, classes and imports."""
    for statement in module.tree.body:
        if not isinstance(statement, Function | ast.ClassDef | ast.Import | ast.ImportFrom):
            yield from (name for name, _ in _bound_by(statement) if name not in module.defined | module.aliases.keys())
