"""Settings of a framework's retriever or tool (``k``, filters, a threshold), recorded with each of its calls.

A replay answers the call and does not run it, so without them a changed setting would go unnoticed.
Credentials, addresses and clients are left out, and so are attributes that the object's own code assigns: those
are state, which a replay does not change.
"""

from __future__ import annotations

import dis
import enum
import inspect
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from freezeframe_schemas import values

_MAX_DEPTH: Final = 3
_MAX_CHARACTERS: Final = 2_000
"""Limit of one setting as tagged JSON; anything longer is data."""
_NO_SETTINGS: Final = frozenset(
    "api at base cache callback callbacks client cookie dir directory endpoint file folder header headers host id key metadata "
    "password path pid port proxy retries secret tags time timeout token uri url verbose".split()
)
"""Words in the names of attributes that differ between machines, or that no result depends on."""
_FIXED: Final = (str, int, float, bool, enum.Enum)


def settings_of(tool: Any, base: type) -> dict[str, Any]:
    """Return the settings of an object, by name: plain data in the attributes that its class adds to a framework's base.

    Parts (another retriever, an index) appear as their class and their own settings.
    """
    return _settings(tool, frozenset(_declared(base)), _root(base), 0)


def with_settings(body: str, held: object) -> str:
    """Return the tagged JSON of a call of a marked method with its object's settings: only immutable values."""
    found = {name: item for name, item in settings_of(held, object).items() if isinstance(item, _FIXED)}
    return f'{body[:-1]}, "settings": {values.encode(found)}}}' if found else body


def _settings(held: Any, without: frozenset[str], root: str, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    state = _assigned_by(type(held))
    for name, item in _attributes(held):
        plain = name.strip("_")
        if name in without or name in state or not _NO_SETTINGS.isdisjoint(plain.lower().split("_")):
            continue
        if isinstance(item, Mapping):
            item = {key: part if _is_plain(part, 1) else values.class_path(type(part)) for key, part in item.items()}
        if _is_plain(item, 0):
            if item is not None and len(values.encode(item)) <= _MAX_CHARACTERS:
                made[plain] = item
        elif depth < _MAX_DEPTH and _is_part(item, root):
            made[plain] = {"class": values.class_path(type(item)), **_settings(item, frozenset(), root, depth + 1)}
    return made


def _attributes(held: Any) -> Iterator[tuple[str, Any]]:
    yield from sorted(getattr(held, "__dict__", {}).items())


def _is_plain(item: Any, depth: int) -> bool:
    if item is None or isinstance(item, _FIXED):
        return True
    if depth > _MAX_DEPTH:
        return False
    if isinstance(item, Mapping):
        return all(isinstance(name, str) and _is_plain(part, depth + 1) for name, part in item.items())
    if isinstance(item, list | tuple):
        return all(_is_plain(part, depth + 1) for part in item)
    kind = type(item)
    if hasattr(kind, "model_fields") and hasattr(kind, "model_construct"):  # a filter of a framework is often a model
        return all(_is_plain(part, depth + 1) for part in vars(item).values())
    return False


def _is_part(item: Any, root: str) -> bool:
    """Return whether an object is one of the framework's: a retriever around another one, an embedding, a store."""
    return any(_root(cls) == root for cls in type(item).__mro__)


def _root(cls: type) -> str:
    """Return the first word of a class's package: ``langchain_core`` and ``langchain_chroma`` are one framework."""
    return cls.__module__.partition(".")[0].partition("_")[0]


def _declared(base: type) -> Iterator[str]:
    for cls in base.__mro__:
        yield from getattr(cls, "__annotations__", ())


@lru_cache(maxsize=1024)
def _assigned_by(cls: type) -> frozenset[str]:
    """Return the attributes that methods of a class assign, constructors excepted."""
    found: set[str] = set()
    for one in cls.__mro__:
        for name, function in vars(one).items():
            function = inspect.unwrap(function) if callable(function) else function
            if isinstance(function, FunctionType) and name not in ("__init__", "__post_init__", "model_post_init"):
                found.update(_stored(function.__code__))
    return frozenset(found)


def _stored(code: CodeType) -> Iterator[str]:
    yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname == "STORE_ATTR")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _stored(constant)
