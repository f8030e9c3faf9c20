"""Detect a tool's effects besides its result: on its object, on globals, closures and defaults, on the environment.

A replay does not run the tool, so it lacks these effects. We examine the names in the tool's own code, and
those in the application's code that they lead to; the search is done once per function. Plain data is compared,
and so are the attributes
of an application object, one level deep (three for a run). No value is kept longer than the call.

A run's effects on the next one are found the same way (`freezeframe.runs.entry`).
"""

from __future__ import annotations

import dis
import inspect
import itertools
import marshal
import operator
import os
import random
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from types import CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any, Final

from freezeframe.seams.unmarked.accesses import is_applications
from freezeframe_schemas.rebuilding import FIXED, is_fixed

_GROWING: Final = (dict, list, set, deque, bytearray)
CONSTANT: Final = FIXED | {tuple, frozenset, complex, type}
_MAX_ITEMS: Final = 1_000
_ABSENT: Final = object()
_CACHED: Final = type(cache(len))
_OF_A_CONTEXT: Final = (ContextVar, threading.local)
RECORDED: Final = "__freezeframe_recorded__"
"""The attribute of a function whose calls a replay answers."""
_ATTRIBUTES: Final = ("__dict__", "__pydantic_private__")
_LOAD_GLOBAL: Final = dis.opmap["LOAD_GLOBAL"]
_STORE_GLOBAL: Final = dis.opmap["STORE_GLOBAL"]
_BY_NAME: Final = {_LOAD_GLOBAL, _STORE_GLOBAL, dis.opmap["LOAD_NAME"], dis.opmap["DELETE_GLOBAL"]}
"""Operations on globals, each with the number of a name."""
_MAX_DEPTH: Final = 3
_MAX_ATTRIBUTES: Final = 20
"""Depth to which nested objects are compared, and the maximum number of their attributes."""
_MAX_FUNCTIONS: Final = 60
_MAX_PLACES: Final = 100
"""Number of functions that are followed from one tool, and of places compared around each of its calls."""
_MAX_ARRAY: Final = 100_000
"""Bytes of an array that is compared."""
_LARGE: Final = 4_000
_BUDGET: Final = 2_000_000
"""Bytes from which a picture is large, and limit for all large ones of one tool: beyond it, only their size is compared."""

Read = Callable[[], object]
Changes = Callable[[object], Iterator[tuple[str, str]]]
"""Takes the result of a call; yields effects that a replay lacks, each as a verb and its object."""
Mark = tuple[str, object]
"""The way in which a value was examined, and the result."""


class LeftBehind:
    """Looks at one function's surroundings, before and after a call."""

    __slots__ = ("_for_run", "_function", "_large", "_places", "_spent")

    def __init__(self, function: Any, *, for_run: bool = False) -> None:
        """Examine the names in a tool; or, `for_run`, values that a replay of a run of this function would find different.

        The latter leaves out names used only by tools, context variables that the run sets before it reads them, and the
        environment, which others set, too. It adds the contents of `functools.cache`.
        """
        self._for_run = for_run
        plain = plain_function(function)
        self._function = None if plain is None else weakref.ref(plain)
        """Not kept alive: servers make tools for each request."""
        self._places: list[tuple[str, Read]] | None = None
        self._large: set[str] = set()
        self._spent = 0

    def before(self, owner: object | None, context: object = None) -> Changes:
        """Examine the surroundings before a call on `owner`; return a function that examines them again.

        `context` is what a framework gives its tools. The function takes the result, and yields the differences
        (``changes``), and the places that hold the result itself (``keeps``).
        """
        if self._places is None:
            self._places = _Search(type(owner), for_run=self._for_run).places(self._function and self._function())
        spaces = [*_spaces("its object ({})", owner), *_spaces("its context ({})", context)]
        held = [(label.format(name), partial(space.get, name, _ABSENT)) for label, space in spaces for name in list(space)]
        places = [*self._places, *held]
        seen = [self._mark(name, read()) for name, read in places]
        environment = None if self._for_run else _environment().copy()

        def changes(result: object) -> Iterator[tuple[str, str]]:
            can_change = type(result) not in CONSTANT
            for (name, read), mark in zip(places, seen, strict=True):
                value = read()
                if (now := self._mark(name, value, mark[0])) != mark and now[0]:
                    yield "changes", name
                if can_change and _holds(value, result):
                    yield "keeps", name
            known = {name for name, _ in held}
            for label, space in spaces:
                for name, value in list(space.items()):
                    if label.format(name) not in known and self._mark(str(name), value)[0]:
                        yield "changes", label.format(name)
            if environment is not None and environment != _environment():
                yield "changes", "os.environ"

        return changes

    def _mark(self, name: str, value: object, how: str = "", depth: int = 1) -> Mark:
        """Return a comparable form of a value; ("", None) for one that is not examined, such as a client that is made once.

        Nested objects are compared only for runs, three levels deep.
        """
        if type(value) is ContextVar:
            try:
                value = value.get()  # a default given here would hide the variable's own
            except LookupError:
                value = _ABSENT
        if type(value) is _CACHED:
            return "cache", value.cache_info().misses
        kind = type(value)  # never `isinstance`, which asks a lazy object for its class, and so creates it
        if kind in FIXED:
            return "value", (kind, value)
        if issubclass(kind, _GROWING):
            return self._picture(name, value, how)
        if _is_own(kind) or kind is threading.local:
            held: dict[str, Any] = {**_slots(value), **getattr(value, "__dict__", {})}
            deeper = self._for_run and depth < _MAX_DEPTH and len(held) <= _MAX_ATTRIBUTES
            kept = [key for key in list(held) if _is_plain(held[key]) or (deeper and _is_own(type(held[key])))]
            return "object", [(key, self._mark(f"{name}.{key}", held[key], depth=depth + 1)) for key in kept]
        if self._for_run and (found := _grows(value)) is not None:
            return "object", [(key, self._picture(f"{name}.{key}", each, "")) for key, each in found.items()]
        return _state(value) if self._for_run else ("", None)

    def _picture(self, name: str, value: Any, how: str) -> Mark:
        size = (type(value), len(value))
        if how == "size" or (how != "picture" and name in self._large and self._spent > _BUDGET):
            return "size", size
        plain: Any = dict(value) if isinstance(value, dict) else value if type(value) in (list, set) else list(value)
        try:
            data = marshal.dumps(plain, 2)  # a tenth of what encoding costs
        except ValueError:  # it holds objects: which ones
            inner = plain.items() if type(plain) is dict else enumerate(plain)
            data = b"".join(b"%x %x " % (hash(key), id(item)) for key, item in inner)
        if len(data) > _LARGE:
            self._large.add(name)
            self._spent += len(data)
        return "picture", (size, data)


def _slots(value: Any) -> dict[str, Any]:
    """Return the slot values of an application's object."""
    names = (name for base in type(value).__mro__ for name in vars(base).get("__slots__", ()) if isinstance(name, str))
    return {name: getattr(value, name) for name in names if name not in _ATTRIBUTES and hasattr(value, name)}


def _grows(value: Any) -> dict[str, Any] | None:
    """Return the content of a library's queue or mapping (a cache, say), read without its methods, which may have effects."""
    kind = type(value)
    if kind.__module__ != "queue" and not issubclass(kind, MutableMapping):
        return None
    return {name: each for name, each in list(getattr(value, "__dict__", {}).items()) if issubclass(type(each), _GROWING)}


def _state(value: Any) -> Mark:
    """Return the state of an iterator, a random generator or an array; ("", None) of anything else."""
    kind = type(value)
    if kind is GeneratorType:
        frame = value.gi_frame
        held = () if frame is None else [(name, each) for name, each in frame.f_locals.items() if type(each) in FIXED]
        return "iterator", (frame is None, None if frame is None else frame.f_lasti, held)
    if kind is itertools.count:
        return "iterator", repr(value)
    if kind.__module__ == "builtins" and hasattr(kind, "__next__") and hasattr(kind, "__length_hint__"):
        return "iterator", operator.length_hint(value)
    if kind is random.Random:
        return "random", value.getstate()
    if kind.__module__ in ("array", "numpy"):
        with suppress(TypeError, ValueError, BufferError):  # of objects, or none
            view = memoryview(value)
            return ("buffer", view.tobytes()) if view.nbytes <= _MAX_ARRAY else ("", None)
    return "", None


def _spaces(label: str, holder: object) -> list[tuple[str, dict[Any, Any]]]:
    """Return the storage of an object's content: a dict itself, the attributes of others."""
    found: Any = [holder] if isinstance(holder, dict) else [getattr(holder, name, None) for name in _ATTRIBUTES]
    return [(label, space) for space in found if isinstance(space, dict)]


def _holds(value: Any, result: object) -> bool:
    """Return whether a value is the result, or holds it: in a list or dict of up to a thousand, or in an attribute."""
    kind = type(value)
    if value is result:
        return True
    if issubclass(kind, dict):
        return len(value) <= _MAX_ITEMS and any(item is result for item in value.values())
    if issubclass(kind, list | deque):
        return len(value) <= _MAX_ITEMS and any(item is result for item in value)
    return _is_own(kind) and any(item is result for item in list(getattr(value, "__dict__", {}).values()))


def _is_plain(value: object) -> bool:
    return is_fixed(value) or issubclass(type(value), _GROWING)


def _environment() -> dict[Any, Any]:
    """Return the variables as Python keeps them: `os.environ` decodes them again each time."""
    held: Any = getattr(os.environ, "_data", None)
    return held if isinstance(held, dict) else dict(os.environ)


# -- where a function can leave something ----------------------------------------------------------------------------------


class _Search:
    """Finds the places named by a function and the application code that it calls."""

    def __init__(self, owner: type, *, for_run: bool) -> None:
        self._owner = owner
        self._for_run = for_run
        self._found: dict[str, Read] = {}
        self._data: dict[type, set[str]] = {}
        """A class -> the noted names of its data."""
        self._of_contexts: dict[str, tuple[object, Read]] = {}
        """Places of context variables and thread locals -> each with its reader."""
        self._read_first: dict[int, bool] = {}
        """Id of such a variable -> whether each function that names it reads it before it sets it."""
        self._waiting: list[tuple[FunctionType, type]] = []
        """Functions to look at, each with the class whose method it is; the tool's for others."""

    def places(self, function: FunctionType | None) -> list[tuple[str, Read]]:
        self._waiting = [] if function is None else [(function, self._owner)]
        seen: set[CodeType] = set()
        while self._waiting and len(seen) < _MAX_FUNCTIONS and len(self._found) < _MAX_PLACES:
            each, owner = self._waiting.pop()
            if each.__code__ in seen:
                continue
            seen.add(each.__code__)
            names, loaded, stored = _names(each.__code__)
            for name in loaded if self._for_run else ():
                if type(variable := each.__globals__.get(name)) in _OF_A_CONTEXT:
                    reads = _reads_first(each.__code__, name)
                    self._read_first[id(variable)] = reads and self._read_first.get(id(variable), True)
            around = zip(each.__code__.co_freevars, each.__closure__ or (), strict=False)
            cells = {name: (_content(cell), partial(_content, cell)) for name, cell in around}
            self._look(f"the variable {{}} around {each.__name__}", cells, names)
            self._look("the global {}", _held(each.__globals__, loaded | stored, stored), names)
            defaults = [*(each.__defaults__ or ()), *(each.__kwdefaults__ or {}).values()]
            growing = (item for item in defaults if type(item) in _GROWING)
            self._found |= {f"a default of {each.__name__}": partial(_itself, item) for item in growing}
            for cls in {self._owner, owner}:
                self._follow(cls, names)
        self._found |= {
            shown: read for shown, (variable, read) in self._of_contexts.items() if self._read_first.get(id(variable))
        }
        return list(self._found.items())[:_MAX_PLACES]

    def _look(self, label: str, held: Mapping[str, tuple[Any, Read]], names: set[str]) -> None:
        """Note the data of a namespace that code names, and follow its functions."""
        for name, (value, read) in held.items():
            shown, kind = label.format(name), type(value)
            if function := plain_function(value, replayed=self._for_run):
                self._waiting.append((function, self._owner))
                if self._for_run and kind is FunctionType and (own := vars(value)):
                    self._found.setdefault(f"{shown} (its attributes)", partial(_itself, own))
                if self._for_run and kind is _CACHED:
                    self._found.setdefault(shown, read)
            elif kind is ModuleType:
                if _is_module_own(value.__name__) and "." not in label:
                    self._look(f"the global {name}.{{}}", _held(vars(value), names), names)
            elif issubclass(kind, type):
                self._follow(value, names)
            elif self._for_run and kind in _OF_A_CONTEXT:
                self._of_contexts[shown] = value, read
            else:
                self._found.setdefault(shown, read)
                self._follow(kind, names)

    def _follow(self, owner: type, names: set[str]) -> None:
        """Follow the methods of a class that code names, and note its data."""
        for base in owner.__mro__:
            if _is_own(base):
                held = _held(vars(base), names)
                methods = {name: plain_function(value, replayed=self._for_run) for name, (value, _) in held.items()}
                self._waiting += [(method, owner) for method in methods.values() if method is not None]
                data = {name: each for name, each in held.items() if not plain_function(each[0])}
                if not data.keys() <= (known := self._data.setdefault(base, set())):
                    known.update(data)
                    self._look(f"the class {base.__name__} ({{}})", data, names)


def _held(
    namespace: Mapping[str, object], names: set[str], stored: AbstractSet[str] = frozenset()
) -> dict[str, tuple[object, Read]]:
    present = [name for name in names if name in namespace or name in stored]
    return {name: (namespace.get(name, _ABSENT), partial(namespace.get, name, _ABSENT)) for name in present}


def _names(code: CodeType) -> tuple[set[str], set[str], set[str]]:
    """Return the names in the code and in nested code: globals and attributes, globals read, globals set."""
    names, loaded, stored = {*code.co_names, *code.co_freevars}, set[str](), set[str]()
    for operation, name in _globals(code):
        (stored if operation == _STORE_GLOBAL else loaded).add(name)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more, loaded_there, set_there = _names(inner)
            names |= more
            loaded |= loaded_there
            stored |= set_there
    return names, loaded, stored


def _reads_first(code: CodeType, name: str) -> bool:
    """Return whether code uses a global context variable or thread local first to read it: ``X.set(X.get() + 1)`` reads it."""
    steps = list(dis.get_instructions(code))
    uses = [at for at, step in enumerate(steps) if step.opname == "LOAD_GLOBAL" and step.argval == name]
    if not uses or (after := steps[uses[0] + 1]).opname == "STORE_ATTR":
        return False
    if after.argval != "set":
        return True
    called = next((at for at in range(uses[0], len(steps)) if "CALL" in steps[at].opname), len(steps))
    return any(uses[0] < at < called and steps[at + 1].argval == "get" for at in uses)


def _globals(code: CodeType) -> Iterator[tuple[int, str]]:
    """Yield the operations of code on globals, each with the name. `dis` takes eight times as long, in the user's process."""
    extended = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = extended | argument
        if operation in _BY_NAME:
            yield operation, code.co_names[number >> 1 if operation == _LOAD_GLOBAL else number]
        extended = number << 8 if operation == dis.EXTENDED_ARG else 0


def plain_function(value: Any, *, replayed: bool = False) -> FunctionType | None:
    """Return the application's function behind decorators, or None; `replayed`: only if a replay runs it, too."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    elif type(value) is partial:
        value = value.func
    if replayed and type(value) is FunctionType and RECORDED in vars(value):
        return None
    if type(value) in (FunctionType, _CACHED):
        value = inspect.unwrap(value)
    if type(value) is FunctionType and is_applications(value.__code__.co_filename, value.__module__ or ""):
        return value
    return None


def _is_own(cls: type) -> bool:
    return _is_module_own(cls.__module__)


@cache
def _is_module_own(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and is_applications(getattr(module, "__file__", None) or "<", name)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return _ABSENT


def enclosed(function: Any) -> Iterator[object]:
    """Yield the values of a function's enclosing variables."""
    return map(_content, getattr(function, "__closure__", None) or ())


def _itself(value: object) -> object:
    return value
