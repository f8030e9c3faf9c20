"""Types close to JSON's, or with a text form: write a value of each, and rebuild it.

A row belongs to one class, which the row names: the recording chooses none. Import nothing heavy: a library's
class is used only if it is imported already, one of the standard library is imported when a value of it is
read.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

MASKED: Final = "**********"
"""Replaces a secret that its class hides: a replay needs only its presence."""


SECRETS: Final = frozenset({"pydantic.types:SecretStr", "pydantic.types:SecretBytes"})
"""Classes whose values are written as `MASKED`."""


class NearType(NamedTuple):
    """Shape of the values of one class."""

    write: Callable[[Any], Any]
    """Returns the value's content, as values that tagged JSON can write."""
    read: Callable[[Any, Any], Any]
    """Takes the class and the written content."""


class NotWritableError(Exception):
    """The value holds something that its row does not write."""


def row_of(kind: type) -> tuple[str, NearType] | None:
    """Return the name and the row of a class, or None for exactly this class."""
    module = kind.__module__
    if module == "numpy":
        return _row_of_numpy(kind)
    name = f"{_MOVED.get(module, module)}:{kind.__qualname__}"
    row = ROWS.get(name)
    return None if row is None else (name, row)


def read(name: str, held: Any) -> Any:
    """Rebuild a value from a row's name and the written content.

    Raises:
        LookupError: there is no such row, or its library is not imported.
    """
    row = ROWS[name]
    module, _, qualname = name.partition(":")
    if module.partition(".")[0] in _LIBRARIES and module not in sys.modules:
        raise LookupError(f"{module} is not imported")
    return row.read(getattr(import_module(module), qualname, None), held)


_LIBRARIES: Final = frozenset({"pydantic", "pydantic_core", "numpy"})
_MOVED: Final[Mapping[str, str]] = {"pathlib._local": "pathlib", "pathlib._abc": "pathlib"}
"""A class's own module path -> its path in every version."""
_FACTORIES: Final[Mapping[str, Any]] = {one.__name__: one for one in (list, dict, set, int, float, str, tuple, bool, frozenset)}


def _row_of_numpy(kind: type) -> tuple[str, NearType] | None:
    numpy: Any = sys.modules.get("numpy")
    name = "numpy:ndarray" if kind is numpy.ndarray else "numpy:generic" if issubclass(kind, numpy.generic) else ""
    return (name, ROWS[name]) if name else None


def _write_default(value: Any) -> Any:
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", "")
    if name is not None and _FACTORIES.get(name) is not factory:
        raise NotWritableError
    return [name, dict(value)]


def _write_zone(value: Any) -> Any:
    if value.key is None:
        raise NotWritableError
    return value.key


def _write_array(value: Any) -> Any:
    if value.dtype.kind not in "biufU":
        raise NotWritableError
    return [value.dtype.str, list(value.shape), value.ravel().tolist()]


def _write_scalar(value: Any) -> Any:
    if value.dtype.kind not in "biufU" or type(value.item()) not in (bool, int, float, str):  # a long double
        raise NotWritableError
    return [value.dtype.str, value.item()]


def _read_array(_: Any, held: Any) -> Any:
    numpy: Any = sys.modules["numpy"]
    kind, shape, items = held
    return numpy.array(items, dtype=_dtype(numpy, kind)).reshape(shape)


def _read_scalar(_: Any, held: Any) -> Any:
    numpy: Any = sys.modules["numpy"]
    return _dtype(numpy, held[0]).type(held[1])


def _dtype(numpy: Any, text: str) -> Any:
    found = numpy.dtype("U" if "U" in text else text)  # the length of a text is its own
    if found.kind not in "biufU":
        raise LookupError(text)
    return found


def _pairs(value: Mapping[Any, Any]) -> list[list[Any]]:
    return [[key, item] for key, item in value.items()]


def _read_url(cls: Any, held: Any) -> Any:
    made = object.__new__(cls)
    made._url = sys.modules["pydantic_core"].Url(held)
    return made


def _read_secret(cls: Any, held: Any) -> Any:
    made = object.__new__(cls)
    made._secret_value = held
    return made


def _of_one(cls: Any, held: Any) -> Any:
    return cls(held)


def _of_several(cls: Any, held: Any) -> Any:
    return cls(*held)


def _of_bounds(value: Any) -> Any:
    return [value.start, value.stop, value.step]


def _items(value: Any) -> Any:
    return [value.typecode, value.tolist()]


def _queued(value: Any) -> Any:
    return [list(value), value.maxlen]


def _maps(value: Any) -> Any:
    return value.maps


def _offset(value: Any) -> Any:
    return list(value.__getinitargs__())


def _attributes(value: Any) -> Any:
    return dict(vars(value))


def _of_attributes(cls: Any, held: Any) -> Any:
    return cls(**held)


def _proxy(_: Any, held: Any) -> Any:
    return MappingProxyType(held)


def _of_default(cls: Any, held: Any) -> Any:
    name, pairs = held
    return cls(None if name is None else _FACTORIES[name], pairs)


def _in_base64(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()


def _of_base64(cls: Any, held: Any) -> Any:
    return cls(base64.b64decode(held))


def _mask(value: Any) -> Any:
    held = value.get_secret_value()
    return (MASKED if isinstance(held, str) else MASKED.encode()) if held else held


_TEXT: Final = NearType(write=str, read=_of_one)
_BYTES: Final = NearType(write=_in_base64, read=_of_base64)
_URL: Final = NearType(write=str, read=_read_url)
_SECRET: Final = NearType(write=_mask, read=_read_secret)
_URLS: Final = (
    "AnyUrl", "AnyHttpUrl", "HttpUrl", "AnyWebsocketUrl", "WebsocketUrl", "FileUrl", "FtpUrl", "CockroachDsn", "AmqpDsn",
    "RedisDsn", "KafkaDsn", "MySQLDsn", "MariaDBDsn", "ClickHouseDsn", "SnowflakeDsn",
)  # fmt: skip

ROWS: Final[Mapping[str, NearType]] = {
    "builtins:bytearray": _BYTES,
    "builtins:memoryview": _BYTES,
    "builtins:range": NearType(write=_of_bounds, read=_of_several),
    "builtins:slice": NearType(write=_of_bounds, read=_of_several),
    "builtins:mappingproxy": NearType(write=dict, read=_proxy),
    "types:SimpleNamespace": NearType(write=_attributes, read=_of_attributes),
    "collections:OrderedDict": NearType(write=_pairs, read=_of_one),
    "collections:Counter": NearType(write=dict, read=_of_one),
    "collections:deque": NearType(write=_queued, read=_of_several),
    "collections:defaultdict": NearType(write=_write_default, read=_of_default),
    "collections:ChainMap": NearType(write=_maps, read=_of_several),
    "array:array": NearType(write=_items, read=_of_several),
    "fractions:Fraction": _TEXT,
    **dict.fromkeys((f"pathlib:{name}" for name in ("PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath")), _TEXT),
    **dict.fromkeys((f"ipaddress:IPv{n}{kind}" for n in (4, 6) for kind in ("Address", "Network", "Interface")), _TEXT),
    "zoneinfo:ZoneInfo": NearType(write=_write_zone, read=_of_one),
    "datetime:timezone": NearType(write=_offset, read=_of_several),
    "numpy:ndarray": NearType(write=_write_array, read=_read_array),
    "numpy:generic": NearType(write=_write_scalar, read=_read_scalar),
    "pydantic_core._pydantic_core:Url": _TEXT,
    **dict.fromkeys((f"pydantic.networks:{name}" for name in _URLS), _URL),
    **dict.fromkeys(SECRETS, _SECRET),
}
"""``module:qualname`` of a class -> its row."""


# -- exceptions that are not made from their arguments -------------------------------------------------------------------


def write_error(error: BaseException) -> Any:
    """Return the values that rebuild an exception, if not its `args`; else None."""
    row = ERRORS.get(f"{type(error).__module__}:{type(error).__qualname__}")
    return None if row is None else row.write(error)


def _write_validation_error(error: Any) -> Any:
    return [error.title, [dict(line) for line in error.errors(include_url=False)]]


def _read_validation_error(cls: Any, held: Any) -> BaseException:
    core: Any = sys.modules[cls.__module__]
    title, lines = held
    return cls.from_exception_data(
        title,
        [{"type": _type_of(core, line), "loc": tuple(line["loc"]), **_only(line, "input", "ctx")} for line in lines],
    )


def _type_of(core: Any, line: Mapping[str, Any]) -> Any:
    """Return the type of one line of a validation error: its name, or a custom error if a program named it."""
    try:
        core.PydanticKnownError(line["type"], line.get("ctx"))
    except KeyError:
        return core.PydanticCustomError(line["type"], line["msg"])
    return line["type"]


def _only(line: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: line[name] for name in names if name in line}


ERRORS: Final[Mapping[str, NearType]] = {
    "pydantic_core._pydantic_core:ValidationError": NearType(write=_write_validation_error, read=_read_validation_error),
}
"""``module:qualname`` of an exception's class -> its row."""
