"""Settings of a retriever or tool (``k``, filters, a threshold), recorded with each of its calls.

A replay answers the call and does not run it, so without them a changed setting would go unnoticed.
Credentials, addresses and clients are left out, and so is state: what the code of the object, or of one that holds it, assigns
or changes (`changing`), which a replay does not do.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any, Final

from freezeframe.seams.functions.changing import changed_by, changed_in
from freezeframe.seams.functions.left_behind import enclosed, is_own, slots_of
from freezeframe.seams.unmarked.accesses import is_applications
from freezeframe_schemas import values

_MAX_DEPTH: Final = 3
_MAX_ITEMS: Final = 200
_MAX_CHARACTERS: Final = 2_000
"""Limits of a setting: how deep it nests, the items of one container, its length as tagged JSON (ten times that for parts).
Anything more is data."""
_ANYWHERE: Final = frozenset(
    "api auth callback callbacks credential credentials endpoint host password pid port proxy retries secret "
    "timeout uri url verbose".split()
)
_AT_THE_END: Final = frozenset(
    "at cache client cookie cookies dir directory file folder header headers path time token".split()
)
_ALONE: Final = frozenset("base id key metadata tags".split())
"""Words in the names of attributes that differ between machines, or that no result depends on: anywhere in the name, as its
last word (`cache_dir`, but not `cache_threshold`), or as all of it (`metadata`, but not `metadata_filter`)."""
_OF_A_PROCESS: Final = frozenset("access client connection object process request run session span thread trace worker".split())
"""An id of one of these is no setting; that of a collection, an index or a tenant is."""
_OF_DATA: Final = frozenset(
    "answer content context doc document embedding field filter group id image index input memory metadata node order output "
    "page parent partition query range result score sort source text title vector".split()
)
"""A key of one of these names a field; any other may be a credential."""
_FIXED: Final = (str, int, float, bool, enum.Enum, bytes, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID, range)
_ENCLOSED: Final = (*_FIXED, Mapping, list, tuple, set, frozenset, partial)
_FRAMEWORKS: Final = frozenset("haystack langchain llama sentence".split())
"""First words of the packages whose objects are parts of a retriever or tool, whoever holds them."""
_OF_MACHINE: Final = re.compile(
    r"[/~\\]|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*://|.* at 0x|[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
)
"""A path, an address, an object's address, or a UUID, which most often is drawn anew."""
_YEARS_S: Final = 5 * 366 * 86_400
_LEFT_OUT: Final = object()


def settings_of(tool: Any, base: type) -> dict[str, Any]:
    """Return the settings of an object, by name: plain data in the attributes that its class adds to a framework's base.

    Parts (another retriever, an index, a configuration) appear as their class and their own settings.
    """
    return _Settings("" if base is object else _root(base)).of(tool, frozenset(_declared(base)))


def settings_behind(function: Any, held: object = None) -> dict[str, Any]:
    """Return the settings of a marked function: of the object that it is called on, or is a method of, and of its factory."""
    found: dict[str, Any] = {}
    for owner in (held, getattr(function, "__self__", None)):
        if owner is not None and not isinstance(owner, type):
            found |= _Settings("").of(owner)
    return {**_Settings("").enclosed_by(function), **found}


def with_settings(body: str, found: Mapping[str, Any]) -> str:
    """Return the tagged JSON of a call with settings."""
    return f'{body[:-1]}, "settings": {values.encode(found)}}}' if found else body


class _Settings:
    """Describes what objects are set to. `root` is the framework of the first one, whose objects are parts."""

    __slots__ = ("_root",)

    def __init__(self, root: str) -> None:
        self._root = root

    def of(
        self, held: Any, without: Collection[str] = (), state: frozenset[str] = frozenset(), depth: int = 0
    ) -> dict[str, Any]:
        """Return the settings in an object's attributes. `state` is what those that hold it change in their parts."""
        state |= changed_by(type(held))
        attributes = {**slots_of(held), **(getattr(held, "__dict__", None) or {})}
        names = (name for name in sorted(attributes) if name not in without and name not in state)
        return self._named(((name, attributes[name]) for name in names), state, depth)

    def enclosed_by(self, function: Any) -> dict[str, Any]:
        """Return the settings that a factory of the application passed to the function that it made.

        An object is none: most often a function closes over it for its state.
        """
        if not isinstance(function, FunctionType) or not function.__closure__:
            return {}
        if not is_applications(function.__code__.co_filename, function.__module__):
            return {}
        state = changed_in(function.__code__)
        cells = zip(function.__code__.co_freevars, enclosed(function), strict=False)
        plain = ((name, item) for name, item in cells if name not in state and isinstance(item, _ENCLOSED))
        return self._named(plain, state, _MAX_DEPTH - 1)

    def _named(self, held: Iterable[tuple[str, Any]], state: frozenset[str], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, item in held:
            if item is None or name.startswith("__") or not _is_setting(name.strip("_").lower()):
                continue
            described = self._described(item, state, depth)
            if described is not _LEFT_OUT and not _is_long(described):
                made[name.strip("_")] = described
        return made

    def _described(self, item: Any, state: frozenset[str], depth: int) -> Any:
        if item is None or isinstance(item, _FIXED):
            return _LEFT_OUT if _is_of_machine(item) else item
        if depth > _MAX_DEPTH:
            return _LEFT_OUT
        if isinstance(item, Mapping):
            return self._mapping(item, state, depth)
        if isinstance(item, list | tuple | set | frozenset):
            return self._collection(item, state, depth)
        if isinstance(item, re.Pattern):
            return item.pattern
        if isinstance(item, MethodType):
            item = item.__self__
        elif isinstance(item, partial):
            arguments = {"args": item.args, "kwargs": item.keywords}
            return self._described(arguments, state, depth + 1) if item.args or item.keywords else _LEFT_OUT
        if depth == _MAX_DEPTH:
            return _LEFT_OUT
        if isinstance(item, FunctionType):
            return self.enclosed_by(item) or _LEFT_OUT
        if self._is_part(item):
            return {"class": values.class_path(type(item)), **self.of(item, (), state, depth + 1)}
        return _LEFT_OUT

    def _mapping(self, item: Mapping[Any, Any], state: frozenset[str], depth: int) -> Any:
        if len(item) > _MAX_ITEMS or not all(isinstance(key, str | int) for key in item):
            return _LEFT_OUT
        kept = {
            str(key): (part, self._described(part, state, depth + 1))
            for key, part in item.items()
            if _is_setting(str(key).lower())
        }
        return {key: values.class_path(type(part)) if made is _LEFT_OUT else made for key, (part, made) in kept.items()}

    def _collection(self, item: Collection[Any], state: frozenset[str], depth: int) -> Any:
        if len(item) > _MAX_ITEMS:
            return _LEFT_OUT
        made = [self._described(part, state, depth + 1) for part in item]
        if any(part is _LEFT_OUT for part in made):
            return _LEFT_OUT
        return sorted(made, key=values.encode) if isinstance(item, set | frozenset) else made

    def _is_part(self, item: Any) -> bool:
        """Return whether an object is one of a framework's (a retriever, a store), of the application's, or a model of data."""
        kind = type(item)
        if isinstance(item, type) or kind.__module__ in ("builtins", "typing"):
            return False
        if (
            dataclasses.is_dataclass(kind)
            or (hasattr(kind, "model_fields") and hasattr(kind, "model_construct"))
            or is_own(kind)
        ):
            return True
        return any((root := _root(cls)) in _FRAMEWORKS or root == self._root for cls in kind.__mro__)


def _is_long(described: Any) -> bool:
    """Return whether a setting is data. The settings of a part have been measured each."""
    if _is_described_part(described):
        return False
    of_parts = isinstance(described, list) and any(map(_is_described_part, described))
    return len(values.encode(described)) > _MAX_CHARACTERS * (10 if of_parts else 1)


def _is_described_part(described: object) -> bool:
    return isinstance(described, dict) and "class" in described


@lru_cache(maxsize=4096)
def _is_setting(name: str) -> bool:
    """Return whether an attribute of this name, in small letters, may be a setting."""
    words = name.split("_")
    if not _ANYWHERE.isdisjoint(words) or words[-1] in _AT_THE_END or name in _ALONE:
        return False
    if words[-1] == "id":
        return _OF_A_PROCESS.isdisjoint(words)
    return words[-1] != "key" or not _OF_DATA.isdisjoint(words)


def _is_of_machine(item: object) -> bool:
    """Return whether a value is an address or an id, or a moment of about now in seconds or parts of them."""
    if isinstance(item, str):
        return len(item) <= _MAX_CHARACTERS and _OF_MACHINE.match(item) is not None
    if isinstance(item, int | float) and item > _YEARS_S:
        now = time.time()
        return any(abs(item / unit - now) < _YEARS_S for unit in (1, 1e3, 1e6, 1e9))
    return False


def _root(cls: type) -> str:
    """Return the first word of a class's package: ``langchain_core`` and ``langchain_chroma`` are one framework."""
    return cls.__module__.partition(".")[0].partition("_")[0]


def _declared(base: type) -> Iterator[str]:
    for cls in base.__mro__:
        yield from getattr(cls, "__annotations__", ())
