"""Find the application source that a function reaches, in its files: no module is imported, and nothing is run.

We follow the names in a function's own syntax tree to definitions and assignments of the same file and, through imports, of
the application's other files. Code reached only by value (an object that was passed in, `getattr`) is not followed.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from freezeframe.context.parsing import parse
from freezeframe.seams.unmarked.accesses import is_applications

_MAX_PARTS: Final = 400
"""Definitions and assignments that are followed from one function."""
_MAX_BYTES: Final = 4_000_000
"""Of a file that is read."""
_MAX_IMPORTS: Final = 20
"""Files that a name is followed through; two files may import it from each other."""
_NO_MEANING: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores", "lineno", "col_offset"})
"""Fields of syntax trees that do not affect behaviour."""
_MUTATORS: Final = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
_IMPORTS: Final = (ast.Import, ast.ImportFrom)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPOUND: Final = (ast.If, ast.Try, ast.With, ast.AsyncWith)
"""Statements whose inner statements are noted one by one, with the head. A loop counts as a whole."""
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While, ast.Match)
Names = dict[str, list[ast.AST]]


class SourceFile:
    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file = file
        self.tree = tree
        self.names = _names_of(tree.body)
        self.changed = _changed_on_import(tree.body, self.names)
        self.stars = [each for each in tree.body if isinstance(each, ast.ImportFrom) and each.names[0].name == "*"]

    @property
    def root(self) -> str:
        """Return the folder that holds the file's outermost package, or the file."""
        folder = os.path.dirname(self.file)
        while os.path.exists(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        return folder


def read_source(file: str) -> SourceFile | None:
    """Return a file's source as it is now; None if it cannot be read as Python."""
    try:
        stat = os.stat(file)
    except OSError:
        return None
    return _read(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=256)
def _read(file: str, _mtime_ns: int, size: int) -> SourceFile | None:
    if size > _MAX_BYTES:
        return None
    try:
        with io.open_code(file) as opened:  # past a replay's own `open`
            return SourceFile(file, parse(opened.read()))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def digest_of(
    source: SourceFile,
    qualname: str,
    line: int,
    held: str = "",
    *,
    names: Iterable[str] = (),
    of: tuple[SourceFile, str] | None = None,
) -> str | None:
    """Return a digest of a function and of the code it reaches; None if the file does not define it.

    It is the same for the same syntax: comments, layout, docstrings and places do not count, nor does Python's version.

    Args:
        source: the file that defines the function.
        qualname: the function's.
        line: its first line, which distinguishes functions of one name.
        held: further significant values, as text.
        names: of the file, by which it is called.
        of: file and qualified name of the class of its object, if that is not the class that defines it.
    """
    found = _find(source.tree, qualname, line)
    if not found:
        return None
    kind = _find(of[0].tree, of[1], 0) if of is not None else ()
    parts: list[_Part] = []
    for node, around in found:
        holder = around[0] if around and isinstance(around[0], ast.ClassDef) else None
        parts.append(_Part(source, node, None if holder is None else (source, holder), around))
        parts += [_Part(source, node, (of[0], each)) for each, _ in kind if of and isinstance(each, ast.ClassDef)]
    parts += [_Part(source, each) for name in names for each in source.names.get(name, ())]
    reach = _Reach(source, parts)
    text = "\n".join([held, *sorted(reach.texts())])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# -- what a function reaches ----------------------------------------------------------------------------------------------


_Class = tuple[SourceFile, ast.ClassDef]


class _Part:
    """A significant piece of source, with the scopes around it."""

    __slots__ = ("around", "holder", "node", "source")

    def __init__(self, source: SourceFile, node: ast.AST, holder: _Class | None = None, around: Sequence[ast.AST] = ()) -> None:
        self.source = source
        self.node = node
        self.holder = holder
        """The class of its object, if only the used methods are followed."""
        self.around = around
        """Functions around it, the innermost first."""


class _Reach:
    """Follows names, each definition once."""

    def __init__(self, source: SourceFile, parts: Iterable[_Part]) -> None:
        self._home = source.root
        self._waiting = deque(parts)
        self._seen: dict[tuple[int, int], ast.AST] = {}
        self._bodies: dict[int, Names] = {}

    def texts(self) -> Iterator[str]:
        """Yield each definition as text, in the form that `_write` makes."""
        while self._waiting and len(self._seen) < _MAX_PARTS:
            part = self._waiting.popleft()
            place = id(part.node), 0 if part.holder is None else id(part.holder[1])
            if place in self._seen:
                continue
            self._seen[place] = part.node
            yield "".join(_write(part.node))
            local = dict(_imports_in(part.node))
            for name, chain in _free_names(part.node):
                if name in local:
                    self._follow(self._imported(part.source, local[name], name, chain))
                else:
                    self._resolve(part, name, chain)
            if part.holder is not None:
                self._follow_methods(part, part.holder)

    def _follow(self, found: Iterable[tuple[SourceFile, ast.AST]]) -> None:
        self._waiting.extend(_Part(source, statement) for source, statement in found)

    def _resolve(self, part: _Part, name: str, chain: Sequence[str]) -> None:
        for index, scope in enumerate(part.around):
            if isinstance(scope, ast.ClassDef):
                inside = self._names_in(scope).get(name, ())
                self._waiting.extend(_Part(part.source, each, part.holder, part.around[index:]) for each in inside)
            elif isinstance(scope, _Function) and (found := self._names_in(scope).get(name)):
                for statement in found:
                    if isinstance(statement, _IMPORTS):
                        self._follow(self._imported(part.source, statement, name, chain))
                    else:
                        self._waiting.append(_Part(part.source, statement, around=part.around[index:]))
                return
        self._follow(self._found(part.source, name, chain, by=part.node))

    def _names_in(self, scope: ast.ClassDef | _Function) -> Names:
        return self._bodies.get(id(scope)) or self._bodies.setdefault(id(scope), _names_of(scope.body))

    def _found(
        self, source: SourceFile, name: str, chain: Sequence[str], depth: int = 0, by: ast.AST | None = None
    ) -> list[tuple[SourceFile, ast.AST]]:
        """Return the statements that define a name of a file, each with the application's file that contains it.

        What defines a table, and what adds to it (`by`), does not reach what others add.
        """
        if depth > _MAX_IMPORTS:
            return []
        changes = [] if by in source.names.get(name, ()) else [each for each in source.changed.get(name, ()) if by not in each]
        found: list[tuple[SourceFile, ast.AST]] = [(source, each) for change in changes for each in change]
        for statement in source.names.get(name, ()):
            if isinstance(statement, _IMPORTS):
                found += self._imported(source, statement, name, chain, depth)
            else:
                found.append((source, statement))
        for star in () if name in source.names else source.stars:
            there = self._module(source, _path_of(star), star.level)
            if there is not None and not found:
                found = self._found(there, name, chain, depth + 1)
        return found or [(source, each) for each in source.names.get("__getattr__", ())]

    def _imported(
        self,
        source: SourceFile,
        statement: ast.Import | ast.ImportFrom,
        name: str,
        chain: Sequence[str],
        depth: int = 0,
    ) -> list[tuple[SourceFile, ast.AST]]:
        alias = next((each for each in statement.names if _bound_by(each, statement) == name), None)
        if alias is None:
            return []
        if isinstance(statement, ast.Import):
            path = alias.name.split(".")
            return self._of_module(source, path if alias.asname else path[:1], 0, chain, depth)
        base = self._module(source, _path_of(statement), statement.level)
        found = [] if base is None else self._found(base, alias.name, chain, depth + 1)
        return found or self._of_module(source, [*_path_of(statement), alias.name], statement.level, chain, depth)

    def _of_module(
        self, source: SourceFile, path: list[str], level: int, chain: Sequence[str], depth: int
    ) -> list[tuple[SourceFile, ast.AST]]:
        """Follow ``chain`` of a module: ``shop.prices.rate`` is the name ``rate`` of the module ``prices`` of ``shop``."""
        for index, name in enumerate(chain):
            module = self._module(source, path, level)
            if module is not None and (found := self._found(module, name, chain[index + 1 :], depth + 1)):
                return found
            path = [*path, name]
        return []

    def _follow_methods(self, part: _Part, holder: _Class) -> None:
        used = {each.attr for each in ast.walk(part.node) if isinstance(each, ast.Attribute)} | {"model_post_init"}
        for source, each in self._bases(*holder):
            self._waiting.extend(_Part(source, one) for one in (*each.decorator_list, *each.keywords))
            for name, statements in self._names_in(each).items():
                if name in used or (name.startswith("__") and name.endswith("__")):
                    self._waiting.extend(_Part(source, one, holder, (each,)) for one in statements)

    def _bases(self, source: SourceFile, holder: ast.ClassDef, depth: int = 0) -> Iterator[_Class]:
        yield source, holder
        for base in holder.bases if depth < 5 else ():
            for name, chain in _free_names(base):
                for there, one in self._found(source, name, chain):
                    if isinstance(one, ast.ClassDef) and one is not holder:
                        yield from self._bases(there, one, depth + 1)

    def _module(self, source: SourceFile, path: list[str], level: int) -> SourceFile | None:
        """Return the application's module of this name, as imported in `source`; None for others."""
        if level:
            folder = os.path.dirname(source.file)
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            folders: Iterable[str] = (folder,)
        elif not path:
            return None
        else:
            folders = (source.root, *(each for each in sys.path if each))
        for folder in folders:
            file = _file_of(os.path.join(folder, *path))
            if file is not None:
                own = is_applications(file, path[0] if path else "") or file.startswith(self._home + os.sep)
                return read_source(file) if own and (not level or file != source.file) else None
        return None


@lru_cache(maxsize=2048)
def _file_of(stem: str) -> str | None:
    return next((file for file in (f"{stem}.py", os.path.join(stem, "__init__.py")) if os.path.isfile(file)), None)


def _path_of(statement: ast.ImportFrom) -> list[str]:
    return statement.module.split(".") if statement.module else []


def _bound_by(alias: ast.alias, statement: ast.Import | ast.ImportFrom) -> str:
    return alias.asname or (alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name)


# -- definitions and names ------------------------------------------------------------------------------------------------


def _find(tree: ast.Module, qualname: str, line: int) -> Sequence[tuple[ast.AST, Sequence[ast.AST]]]:
    """Return the definitions of this name at a line (several lambdas), each with the scopes around it, the innermost first."""
    path = [name for name in qualname.split(".") if name != "<locals>"]
    found = list(_defined(tree, path, ()))
    return [each for each in found if _first_line(each[0]) == line] or found[-1:]


def _defined(scope: ast.AST, path: Sequence[str], around: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, Sequence[ast.AST]]]:
    name, *rest = path
    for node in _inner_scopes(scope):
        if (name == "<lambda>" and isinstance(node, ast.Lambda)) or getattr(node, "name", None) == name:
            if rest:
                yield from _defined(node, rest, (node, *around))
            else:
                yield node, around


def _inner_scopes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the functions, lambdas and classes directly in a scope."""
    waiting = deque(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.popleft()
        if isinstance(node, _SCOPES):
            yield node
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _first_line(node: ast.AST) -> int:
    lines = [each.lineno for each in getattr(node, "decorator_list", ())]
    return min([getattr(node, "lineno", 0), *lines])


def _names_of(body: Iterable[ast.stmt]) -> Names:
    """Return the names that statements define or change -> those statements."""
    names: Names = {}
    for statement in body:
        if isinstance(statement, _COMPOUND):
            head = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr | ast.withitem)]
            head += [each.type for each in getattr(statement, "handlers", ()) if each.type is not None]
            for name, found in _names_of(_within(statement)).items():
                names.setdefault(name, []).extend((*found, *head))
            for name in _stored(head):
                names.setdefault(name, []).extend(head)
            continue
        for name in _defined_by(statement):
            names.setdefault(name, []).append(statement)
    return names


def _within(statement: ast.stmt) -> list[ast.stmt]:
    inner = [each for field in ("body", "orelse", "finalbody") for each in getattr(statement, field, ())]
    return inner + [each for handler in getattr(statement, "handlers", ()) for each in handler.body]


def _changed_on_import(body: Iterable[ast.stmt], names: Names) -> dict[str, list[tuple[ast.AST, ast.AST]]]:
    """Return the names that functions change when a module's statements call them -> pairs of function and statement.

    ``@register`` adds a function to a table, ``@area.register`` one to a function's kinds, ``begin()`` sets a global.
    """
    changed: dict[str, list[tuple[ast.AST, ast.AST]]] = {}
    for statement in body:
        if isinstance(statement, _COMPOUND):
            for name, found in _changed_on_import(_within(statement), names).items():
                changed.setdefault(name, []).extend(found)
            continue
        defines = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for each in (
            statement.decorator_list if defines else [each for each in ast.walk(statement) if isinstance(each, ast.Call)]
        ):
            called = each.func if isinstance(each, ast.Call) else each
            for name in _base_names(called):
                for function in names.get(name, ()):
                    if isinstance(function, _Function):
                        outer = _changed_by(function) if isinstance(called, ast.Name) else {name}
                        for one in outer:
                            changed.setdefault(one, []).append((function if one != name else statement, statement))
    return changed


def _changed_by(function: _Function) -> set[str]:
    """Return the names outside a function that it sets, or whose value it changes."""
    own = set(_stored(function.body))
    changed = {name for each in ast.walk(function) if isinstance(each, ast.Global) for name in each.names}
    for each in ast.walk(function):
        if isinstance(each, ast.Subscript | ast.Attribute) and isinstance(each.ctx, ast.Store | ast.Del):
            changed.update(_base_names(each))
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _MUTATORS:
            changed.update(_base_names(each.func))
    return changed - own - {each.arg for each in function.args.args}


def _defined_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {_bound_by(each, statement) for each in statement.names}
    walrus = {each.target.id for each in ast.walk(statement) if isinstance(each, ast.NamedExpr)}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete):
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
        return walrus | {name for target in targets for name in _base_names(target)}
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):  # ``TABLE.update(...)``
        return walrus | set(_base_names(statement.value.func) if isinstance(statement.value.func, ast.Attribute) else ())
    if isinstance(statement, _LOOPS):
        return set(_stored([statement])) | {name for each in getattr(statement, "body", ()) for name in _defined_by(each)}
    return walrus | {each for each in (getattr(getattr(statement, "name", None), "id", None),) if each}  # ``type X = ...``


def _base_names(target: ast.AST | None) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        yield from _base_names(target.value)
    elif isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _base_names(each)


def _free_names(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names that code takes from its surroundings, each with the attributes used: ``a.b`` is a, (b,)."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        arguments = node.args
        outside = [*getattr(node, "decorator_list", ()), *arguments.defaults, *filter(None, arguments.kw_defaults)]
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        parameters = [each for each in every if each is not None]
        outside += [each.annotation for each in parameters if each.annotation is not None]
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        for each in outside:
            yield from _free_names(each, bound)
        own = bound | {each.arg for each in parameters} | set(_stored(body))
        for each in body:
            yield from _free_names(each, own)
        return
    if isinstance(node, ast.ClassDef):
        own = bound | set(_stored(node.body))
        for each in ast.iter_child_nodes(node):
            inner = isinstance(each, _SCOPES) or each not in node.body
            yield from _free_names(each, bound if inner else own)
        return
    if isinstance(node, ast.Attribute):
        base, chain = node, list[str]()
        while isinstance(base, ast.Attribute):
            chain.insert(0, base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            if base.id not in bound:
                yield base.id, tuple(chain)
            return
    if isinstance(node, ast.Name):
        if node.id not in bound:
            yield node.id, ()
        return
    for each in ast.iter_child_nodes(node):
        yield from _free_names(each, bound)


def _stored(body: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that a scope assigns itself, except imports and those that it declares global."""
    found, outer, waiting = set[str](), set[str](), deque(body)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.Global | ast.Nonlocal):
            outer.update(node.names)
        elif isinstance(node, _SCOPES):
            found.update({node.name} if not isinstance(node, ast.Lambda) else ())
            continue
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        waiting.extend(ast.iter_child_nodes(node))
    yield from found - outer


def _imports_in(node: ast.AST) -> Iterator[tuple[str, ast.Import | ast.ImportFrom]]:
    """Yield the names that code imports itself, each with its statement."""
    for each in ast.walk(node):
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield from ((_bound_by(alias, each), each) for alias in each.names)


def _write(value: object) -> Iterator[str]:
    """Yield the significant pieces of a syntax tree as text, in a form that is the same in all versions of Python."""
    if isinstance(value, ast.AST):
        yield type(value).__name__
        yield "("
        for name, field in ast.iter_fields(value):
            if name == "body" and isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                field = _without_docstring(field)
            if name not in _NO_MEANING and field is not None and field != []:
                yield f"{name}="
                yield from _write(field)
        yield ")"
    elif isinstance(value, list):
        yield "["
        for each in value:  # pyright: ignore[reportUnknownVariableType] - of a syntax tree
            yield from _write(each)
        yield "]"
    else:
        yield f"{type(value).__name__} {value!a},"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return body[1:] if is_text else body
