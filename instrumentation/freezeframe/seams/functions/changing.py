"""Find the attributes and enclosing variables that code assigns or changes in place: state. Reads byte code; pure."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

_CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__", "model_post_init", "__setstate__"})
_CHANGES: Final = frozenset(
    "add append appendleft clear discard extend extendleft insert move_to_end pop popitem popleft put put_nowait remove "
    "reverse rotate setdefault sort update write __setitem__ __delitem__".split()
)
"""Methods by which containers change."""
_ASSIGNS: Final = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_DEREF", "DELETE_DEREF"})
_LOADS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME"})
_OF_A_VALUE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_ALIASES: Final = frozenset({"LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"})


@lru_cache(maxsize=1024)
def changed_by(cls: type) -> frozenset[str]:
    """Return what the methods of a class assign or change in place, constructors excepted."""
    found: set[str] = set()
    for one in cls.__mro__:
        for name, member in vars(one).items():
            function = _function_of(member)
            if function is not None and name not in _CONSTRUCTORS:
                found |= changed_in(function.__code__)
    return frozenset(found)


def _function_of(member: object) -> FunctionType | None:
    """Return the function behind a member of a class; None for a property, whose setter assigns what its user sets."""
    member = getattr(member, "__func__", member)
    function: Any = inspect.unwrap(member) if isinstance(member, FunctionType) else member
    return function if isinstance(function, FunctionType) else None


@lru_cache(maxsize=4096)
def changed_in(code: CodeType) -> frozenset[str]:
    """Return the names of attributes and variables that code, and the functions in it, assigns or changes in place."""
    found = set(_changed(code))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= changed_in(constant)
    return frozenset(found)


def _changed(code: CodeType) -> Iterator[str]:
    """Follow, through straight code, under which name each value was found. A jump may lose names, and so miss changes."""
    stack: list[str | None] = []
    aliases: dict[str, str | None] = {}

    def at(depth: int) -> str | None:
        return stack[-depth] if len(stack) >= depth else None

    for step in dis.get_instructions(code):
        operation = step.opname
        if operation in _ASSIGNS:
            yield str(step.argval)
        changes = 2 if operation in ("STORE_SUBSCR", "DELETE_SUBSCR") else 1
        if (changes == 2 or (operation in _OF_A_VALUE and step.argval in _CHANGES)) and (name := at(changes)) is not None:
            yield name
        if operation == "COPY":
            stack.append(at(step.arg or 1))
            continue
        if operation == "SWAP" and len(stack) >= (depth := step.arg or 1):
            stack[-1], stack[-depth] = stack[-depth], stack[-1]
            continue
        result: str | None = None
        if operation in _LOADS:
            result = str(step.argval)
        elif operation in _ALIASES:
            result = aliases.get(step.argval)
        elif operation == "BINARY_SUBSCR" or step.argrepr == "[]":  # `x[a][b] = c` changes x
            result = at(2)
        elif operation == "STORE_FAST":
            aliases[step.argval] = at(1)
        _apply(stack, dis.stack_effect(step.opcode, step.arg, jump=False), result)


def _apply(stack: list[str | None], effect: int, result: str | None) -> None:
    """Take off the stack and put on it as many values as an operation does; the last one is its result."""
    if effect < 0:
        del stack[effect:]
    else:
        stack.extend([None] * effect)
    if stack:
        stack[-1] = result
