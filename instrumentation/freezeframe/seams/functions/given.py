"""Detect a tool's changes of its arguments, and whether it returns one of them. A replay does neither."""

from __future__ import annotations

import itertools
import json
import marshal
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from freezeframe.seams.functions.left_behind import CONSTANT, Changes, LeftBehind, plain_function
from freezeframe_schemas.keys import with_defaults, without_identity
from freezeframe_schemas.rebuilding import FIXED, is_fixed

_GROWING: Final = frozenset({list, dict, set})
Encode = Callable[[tuple[Any, ...], dict[str, Any]], str]
_LEFT: Final[WeakKeyDictionary[FunctionType, LeftBehind]] = WeakKeyDictionary()
"""A framework's tool objects come and go; what a function names is found once."""


def watch_call(
    encode: Encode, left: LeftBehind, args: tuple[Any, ...], kwargs: dict[str, Any], before: str, *, has_object: bool
) -> Changes:
    """Return a function that reports changes after the call. `before` is the output of `encode` for the call."""
    owner = args[0] if has_object and args and not isinstance(args[0], type) else None
    values = (*(args if owner is None else args[1:]), *kwargs.values())
    fixed = all(map(is_fixed, values))
    picture = None if fixed else _picture(values)
    around = left.before(owner)

    def changes(result: object) -> Iterator[tuple[str, str]]:
        if not fixed and (picture is None or picture != _picture(values)):
            yield from (("changes", what) for what in _changes(encode(args, kwargs), before))
        yield from around(result)
        if type(result) not in CONSTANT and any(value is result for value in values):
            yield "returns", "the very object that it was given"

    return changes


def held_functions(tool: object, names: Iterable[str], functions: Iterable[object]) -> list[tuple[FunctionType, object]]:
    """Return the application's functions in a framework's tool, each with the object that it is a method of.

    Args:
        tool: the framework's object.
        names: the attributes in which it may hold the function.
        functions: more that may be the function. Functions of others are left out.
    """
    found: list[tuple[FunctionType, object]] = []
    for each in (*(getattr(tool, name, None) for name in names), *functions):
        function = plain_function(getattr(each, "__func__", each))
        if function is not None:
            found.append((function, getattr(each, "__self__", None)))
    return found


def watch_held(held: Iterable[tuple[FunctionType, object]], context: object) -> Changes:
    """Return a function like that of `watch_call`.

    `context` is the state that the framework's tools share, such as dependencies.
    """
    around: list[Changes] = []
    for function, owner in held:
        left = _LEFT.get(function) or _LEFT.setdefault(function, LeftBehind(function))
        around.append(left.before(owner, context))
    return lambda result: itertools.chain.from_iterable(look(result) for look in around)


def _picture(given: tuple[Any, ...]) -> bytes | None:
    """Return bytes that differ if plain data differs, at a tenth of the cost of encoding it; None for anything else."""
    if any(type(value) not in FIXED and type(value) not in _GROWING for value in given):  # an array would be copied
        return None
    try:
        return marshal.dumps(given, 2)
    except ValueError:
        return None


def _changes(after: str, before: str) -> Iterator[str]:
    if after == before:
        return
    was, now = (with_defaults(without_identity(json.loads(text))) for text in (before, after))
    yield from (f"its argument {name}" for name, value in now["kwargs"].items() if value != was["kwargs"].get(name))
    if now["args"] != was["args"]:
        yield "an argument"
