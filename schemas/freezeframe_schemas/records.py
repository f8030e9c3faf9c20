"""Records: dataclasses read back from the JSON of `dataclasses.asdict`, by the types of their fields.

Only types without a JSON form are converted: an array may be a tuple or a set, a text an enum's value or a path. It is safe for
untrusted input.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from freezeframe_schemas.errors import WireError

_T = TypeVar("_T")


def from_json(cls: type[_T], data: Any, what: str) -> _T:
    """Return the dataclass that `data` describes; `what` names it in errors.

    Raises:
        WireError: a field is missing, unknown or of another type. The message names the field, and never quotes its value.
    """
    return _read(cls, data, what)


def _read(kind: Any, data: Any, where: str) -> Any:
    if kind is Any or (type(data) is kind and dataclasses.is_dataclass(kind)):
        return data
    if dataclasses.is_dataclass(kind):
        types = _fields(kind)
        if (found := _checked(dict, data, where)).keys() - types.keys():
            raise WireError(f"{where}: not readable: found a field that it does not have")
        fields = {name: _read(types[name], item, f"{where}.{name}") for name, item in found.items()}
        try:
            return cast("Any", kind)(**fields)
        except TypeError as error:  # names the missing fields
            raise WireError(f"{where}: not readable: {error}") from None
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):  # `X | None`
        return None if data is None else _read(next(part for part in inner if part is not NoneType), data, where)
    if origin is tuple:
        items = list(data) if isinstance(data, tuple) else _checked(list, data, where)
        kinds = inner[:1] * len(items) if inner[-1] is ... else inner
        if len(items) != len(kinds):
            raise WireError(f"{where}: not readable: found {len(items)} items, expected {len(kinds)}")
        return tuple(_read(part, item, f"{where}[{at}]") for at, (part, item) in enumerate(zip(kinds, items, strict=True)))
    if origin is frozenset:
        return frozenset(_read(inner[0], item, where) for item in _checked(list, data, where))
    if origin is not None:  # a mapping of texts
        return {name: _read(inner[1], item, where) for name, item in _checked(dict, data, where).items()}
    if issubclass(kind, Enum):
        try:
            return kind(data)
        except ValueError:
            raise WireError(f"{where}: not readable: not one of {', '.join(str(one.value) for one in kind)}") from None
    if kind is Path:
        return Path(_checked(str, data, where))
    return float(data) if kind is float and type(data) is int else _checked(kind, data, where)


def _checked(kind: type[_T], data: Any, where: str) -> _T:
    if type(data) is not kind:
        raise WireError(f"{where}: not readable: found {type(data).__name__}, expected {kind.__name__}")
    return data


@lru_cache
def _fields(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)
