"""A program's source as functions, what each refers to, and calls by their names after imports. Only the source is read."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe.seams.functions.source_reach import read_source
from freezeframe_replay.local.source_rules import ANY_PATH, SERVED_MARKS, TOOL_MARKS
from freezeframe_schemas import genai

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_OF_THE_PROGRAM: Final = frozenset({"site-packages", "node_modules", "__pycache__", "build", "dist"})
_STILL_PATHS: Final = frozenset(
    {"parent", "absolute", "resolve", "joinpath", "with_suffix", "with_name", "home", "cwd", "expanduser"}
)
RUN: Final = f"{genai.SCOPE}.run"
MODULE: Final = "<module>"


@dataclass(slots=True, kw_only=True, eq=False)
class Unit:
    """A function, or the statements of a module outside functions."""

    file: SourceModule
    name: str
    node: Function | ast.Module
    holder: ast.ClassDef | None = None
    parent: Unit | None = None
    """The function around it."""
    statements: list[ast.stmt] = field(default_factory=list[ast.stmt])
    marks: frozenset[str] = frozenset()
    """Dotted names of its decorators."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Variable -> dotted name of what made it."""
    temporary: set[str] = field(default_factory=set[str])
    """Variables that hold temporary files or folders."""

    @property
    def is_tool(self) -> bool:
        """Return whether calls of it are answered from the recording."""
        return any(mark.rpartition(".")[2] in TOOL_MARKS for mark in self.marks)

    @property
    def is_run(self) -> bool:
        """Return whether it is marked as an entry point."""
        return RUN in self.marks

    @property
    def is_served(self) -> bool:
        """Return whether a server or a worker calls it, each time as a run."""
        return any("." in mark and mark.rpartition(".")[2] in SERVED_MARKS for mark in self.marks)

    def walk(self) -> Iterator[ast.AST]:
        """Yield the nodes of its own code: lambdas are, functions and classes defined in it are not."""
        for statement in self.statements:
            yield from _own(statement)

    def dotted(self, node: ast.AST) -> str:
        """Return the name of what an expression calls or holds, after imports; empty if that cannot be seen."""
        match node:
            case ast.Name(id=name):
                return self.variables.get(name) or self.file.variables.get(name) or self.file.imported(name)
            case ast.Attribute(value=value, attr=name):
                base = self.dotted(value)
                if base == "pathlib.Path" and name in _STILL_PATHS:
                    return base
                if not base and f"pathlib.Path.{name}" in ANY_PATH:
                    return f"pathlib.Path.{name}"
                return f"{base}.{name}" if base else ""
            case ast.Call(func=func):
                return self.dotted(func)
            case ast.Await(value=value):
                return self.dotted(value)
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                is_text = isinstance(right, ast.Constant) and isinstance(right.value, str)
                return "pathlib.Path" if is_text or self.dotted(left) == "pathlib.Path" else ""
            case _:
                return ""

    def function(self, node: ast.Name | ast.Attribute) -> str:
        """Return the dotted name of a function that is named and not called; empty for a variable's value."""
        return "" if isinstance(node, ast.Name) and node.id in self.variables else self.dotted(node)

    def is_temporary(self, call: ast.Call) -> bool:
        """Return whether a call concerns a temporary file."""
        return any(isinstance(node, ast.Name) and node.id in self.temporary for node in ast.walk(call))


@dataclass(slots=True, kw_only=True, eq=False)
class SourceModule:
    """One file of the program."""

    path: Path
    tree: ast.Module
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """Name in the module -> dotted name of what was imported; of a relative import without the dots before it."""
    modules: set[str] = field(default_factory=set[str])
    """Names of modules in it, as `import` binds them."""
    defined: set[str] = field(default_factory=set[str])
    """Functions and classes of the module."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    units: list[Unit] = field(default_factory=list[Unit])

    def imported(self, name: str) -> str:
        """Return the dotted name behind a name of the module; the name itself for one of Python's own functions."""
        return self.aliases.get(name) or ("" if name in self.defined else name if name in ("open", "print") else "")

    def is_called(self, dotted: str) -> bool:
        """Return whether a dotted name is that of this module, however far below its root."""
        parts = self.path.parent.parts if self.path.stem == "__init__" else self.path.with_suffix("").parts
        words = tuple(dotted.split("."))
        return parts[-len(words) :] == words

    @property
    def shown(self) -> str:
        """Return the path as people name it."""
        return shown(self.path)

    @property
    def guards(self) -> list[ast.If]:
        """Return its main guards."""
        found = (each for each in self.tree.body if isinstance(each, ast.If))
        return [each for each in found if any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(each.test))]


def read_program(paths: list[Path]) -> tuple[list[SourceModule], list[Path]]:
    """Return the modules of files and folders and those of the program that they import, and files that are not Python."""
    waiting = [file for path in paths for file in (_files_below(path) if path.is_dir() else [path])]
    found: dict[Path, SourceModule | None] = {}
    while waiting:
        file = waiting.pop(0).resolve()
        if file in found:
            continue
        source = read_source(str(file))
        module = found[file] = None if source is None else _module(file, source.tree)
        if module is not None:
            waiting += _imported_files(module)
    return [each for each in found.values() if each is not None], [file for file, each in found.items() if each is None]


def shown(path: Path) -> str:
    """Return a path relative to the working directory, of a file outside the whole path."""
    inside = os.path.relpath(path)
    return str(path) if inside.startswith(os.pardir) else inside


def _files_below(folder: Path) -> Iterator[Path]:
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _NOT_OF_THE_PROGRAM and not Path(above, name, "pyvenv.cfg").exists()
        )
        yield from (Path(above, name) for name in sorted(files) if name.endswith(".py"))


def _imported_files(module: SourceModule) -> Iterator[Path]:
    """Yield the program's files that a module imports: next to it, or below the folder of its outermost package."""
    root = module.path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    for node in ast.walk(module.tree):
        names: list[tuple[Path, str]] = []
        if isinstance(node, ast.Import):
            names = [(each, alias.name) for alias in node.names for each in (root, module.path.parent)]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            starts = [module.path.parents[node.level - 1]] if node.level else [root, module.path.parent]
            dotted = [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
            names = [(start, name) for start in starts for name in dotted]
        for start, name in names:
            inside = start.joinpath(*filter(None, name.split(".")))
            yield from (path for path in (inside.with_suffix(".py"), inside / "__init__.py") if name and path.is_file())


def _module(path: Path, tree: ast.Module) -> SourceModule:
    module = SourceModule(path=path, tree=tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module.modules.add(alias.asname or alias.name.partition(".")[0])
                module.aliases[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            module.aliases |= {alias.asname or alias.name: f"{base}{alias.name}" for alias in node.names}
    module.defined = {each.name for each in tree.body if isinstance(each, (*_FUNCTIONS, ast.ClassDef))}
    top = Unit(file=module, name=MODULE, node=tree, statements=tree.body)
    module.units = [top, *_units_in(module, tree, None, None)]
    module.variables = top.variables
    for unit in module.units:
        _learn(unit)
    return module


def _units_in(module: SourceModule, node: ast.AST, holder: ast.ClassDef | None, parent: Unit | None) -> Iterator[Unit]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            unit = Unit(file=module, name=child.name, node=child, holder=holder, parent=parent, statements=child.body)
            yield unit
            yield from _units_in(module, child, None, unit)
        else:
            yield from _units_in(module, child, child if isinstance(child, ast.ClassDef) else holder, parent)


def _learn(unit: Unit) -> None:
    """Fill in what a unit's own code says of its names."""
    if isinstance(unit.node, _FUNCTIONS):
        arguments = unit.node.args
        unit.marks = frozenset(filter(None, map(unit.dotted, unit.node.decorator_list)))
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if each.annotation is not None and (made_by := unit.dotted(each.annotation)):
                unit.variables[each.arg] = made_by
    nodes = list(unit.walk())
    for node in nodes:
        for target, value in _bindings(node):
            if made_by := unit.dotted(value):
                unit.variables[target] = made_by
            is_temporary = made_by.startswith("tempfile.") or any(
                isinstance(inner, ast.Name) and inner.id in unit.temporary for inner in ast.walk(value)
            )
            if is_temporary:
                unit.temporary.add(target)


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            yield from ((each.id, value) for each, value in pairs if isinstance(each, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name):
                yield item.optional_vars.id, item.context_expr


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is in it; of a function only its decorators, of a class its own statements."""
    if isinstance(node, _FUNCTIONS):
        for each in node.decorator_list:
            yield from ast.walk(each)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own(child)
