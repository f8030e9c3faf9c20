"""Python values as tagged JSON text, and back: arguments, results and exceptions of the functions that a run called.

JSON types are written unchanged. Anything else is an object with a ``$type``::

    {"$type": "tuple", "value": [1, 2]}
    {"$type": "datetime", "value": "2026-11-21T15:00:00+00:00"}
    {"$type": "collections:Counter", "value": [["a", 2]]}
    {"$type": "subclass", "class": "orders.models:Number", "value": "AC-1"}
    {"$type": "model", "class": "orders.models:Order", "value": {"id": "AC-1", "total": 3}}
    {"$type": "opaque", "class": "socket:socket", "value": "<socket.socket fd=5>"}

Decoding runs no code of the recording's choosing: a class is only looked up in modules that are imported already. It is one of
data (dataclass, pydantic model, named tuple, enum, exception), and its instances are filled field by field, without calling
``__init__`` or a validator. An ``opaque`` value cannot be rebuilt; decoding gives an
:class:`Opaque` in its place, and `is_opaque` finds such gaps in the text.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import math
import operator
import sys
import types
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from freezeframe_schemas import near_types

_E = TypeVar("_E")

TAG: Final = "$type"
MAX_DEPTH: Final = 100
_LINK: Final = 10
"""Levels that the cause of an exception counts for: a chain is kept to its tenth exception."""
_MAX_DECIMAL_BITS: Final = 14_000
BASES: Final[tuple[Any, ...]] = (str, int, float, bytes, tuple, list, dict, set, frozenset)
"""Types whose subclasses are rebuilt: from a plain value, without a constructor."""
_SIMPLE: Final = frozenset({str, int, float, bool, type(None)})
_NO_STATE: Final = frozenset({"args", "obj", "message", "exceptions", "characters_written", "print_file_and_line"})
"""Attributes of built-in exceptions that are arguments, or may be any object of the application."""
_OPAQUE_MARK: Final = '"$type": "opaque"'
_KEPT_STATE: Final = "$kept"
_KEPT: Final[dict[type, tuple[Callable[[Any], Mapping[str, object]], Callable[[Any, Mapping[str, Any]], None]]]] = {}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """Replaces a recorded value that could not be rebuilt."""

    class_name: str
    text: str


class RecordedError(Exception):
    """Replaces a recorded exception whose class cannot be imported here; `args` are the recorded ones."""


def encode(value: object) -> str:
    """Return `value` as tagged JSON text. Never raises: a value without a form becomes ``opaque``."""
    return _dump(_encode(value, (), 0))


def decode(text: str) -> Any:
    """Return the value of tagged JSON `text`.

    Raises:
        ValueError: the text is not JSON.
    """
    return _decode(json.loads(text))


def encode_exception(error: BaseException, yields: list[Any] | None = None) -> str:
    """Return the exception as tagged JSON: class, arguments, public attributes; and what a generator yielded before it."""
    before = {} if yields is None else {"yields": _encode(yields, (), 0)}
    return _dump({**_exception(error, (id(error),), 0), **before})


def decode_exception(text: str) -> BaseException:
    """Return an exception of the recorded class with the recorded arguments, or a `RecordedError`."""
    value = decode(text)
    if isinstance(value, BaseException):
        return value
    return RecordedError(str(value))


def keep_state(
    cls: type[_E], write: Callable[[_E], Mapping[str, object]], read: Callable[[_E, Mapping[str, Any]], None]
) -> None:
    """Keep more of a class's exceptions than their attributes: `write` returns it as plain data, and `read` restores it."""
    _KEPT[cls] = (write, read)


def is_opaque(text: str) -> bool:
    """Return whether tagged JSON `text` holds a value that cannot be rebuilt."""
    return _OPAQUE_MARK in text


def is_exception(text: str) -> bool:
    """Return whether tagged JSON is that of an exception."""
    value = json.loads(text)
    return isinstance(value, dict) and value.get(TAG) == "exception"


def class_path(cls: type) -> str:
    """Return ``module:qualname``, the form in which a class is named in tagged JSON.

    A script that is imported again, by a replay or by multiprocessing's spawn, is ``__mp_main__`` there, but is the same.
    """
    module = "__main__" if cls.__module__ == "__mp_main__" else cls.__module__
    return f"{module}:{cls.__qualname__}"


def find_class(path: str) -> type | None:
    """Return the class named ``module:qualname`` if its module is imported already, else None."""
    module_name, _, qualname = path.partition(":")
    # of a script that is imported again, this is the one that runs, also while a script without a main guard is imported
    again = sys.modules.get("__mp_main__") if module_name == "__main__" else None
    found: Any = again or sys.modules.get(module_name)
    for name in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(name)  # not what a module makes, or imports, when it is asked for a name
    return found if isinstance(found, type) else None


def _dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    # A lone surrogate is legal in a Python str but not in UTF-8; the exporter would drop the whole attribute.
    return text if _is_utf8(text) else json.dumps(value, separators=(", ", ": "))


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tagged(tag: str, value: object, **extra: object) -> dict[str, object]:
    return {TAG: tag, **extra, "value": value}


def _encode(value: object, seen: tuple[int, ...], depth: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    kind = type(value)
    if kind is str:
        return value
    if isinstance(value, int) and kind is int:
        # Python refuses to write integers of more than 4300 digits (about 14,284 bits) in decimal
        return value if value.bit_length() < _MAX_DECIMAL_BITS else _tagged("int", hex(value))
    if isinstance(value, float) and kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if id(value) in seen or depth > MAX_DEPTH:
        return _opaque(value, "cycle or depth limit")
    seen = (*seen, id(value))
    try:
        return _encode_known(value, kind, seen, depth + 1)
    except Exception as error:  # a foreign __repr__, property or model_dump may do anything
        return _opaque(value, f"not encodable: {type(error).__name__}")


def _encode_known(value: Any, kind: type, seen: tuple[int, ...], depth: int) -> object:
    if kind is dict:
        if TAG not in value and all(type(key) is str for key in value):
            return {key: _encode(item, seen, depth) for key, item in value.items()}
        return _tagged("dict", [[_encode(k, seen, depth), _encode(v, seen, depth)] for k, v in value.items()])
    if kind is list:
        return [_encode(item, seen, depth) for item in value]
    if kind in (tuple, set, frozenset):
        items = value if kind is tuple else sorted(value, key=repr)
        return _tagged(kind.__name__, [_encode(item, seen, depth) for item in items])
    if kind is bytes:
        return _tagged("bytes", base64.b64encode(value).decode())
    if kind is dt.datetime and (zone := getattr(value.tzinfo, "key", None)) is not None:
        return _tagged("datetime", value.isoformat(), zone=zone)
    for tag, cls, write, _ in _SCALARS:
        if kind is cls:
            return _tagged(tag, write(value))
    if (row := near_types.row_of(kind)) is not None:
        with contextlib.suppress(near_types.NotWritableError):
            return _tagged(row[0], _encode(row[1].write(value), seen, depth))
    if isinstance(value, enum.Enum):
        known = _member(kind, value.name) is value
        return _tagged("enum", value.name, **{"class": class_path(kind)}) if known else _opaque(value, None)
    if isinstance(value, BaseException):
        return _exception(value, seen, depth)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {name: _encode(getattr(value, name), seen, depth) for name in getattr(value, "_fields", ())}
        return _tagged("namedtuple", fields, **{"class": class_path(kind)})
    if dataclasses.is_dataclass(value):
        state = {
            f.name: _encode(getattr(value, f.name), seen, depth) for f in dataclasses.fields(value) if hasattr(value, f.name)
        }
        return _tagged("dataclass", state, **{"class": class_path(kind)})
    if hasattr(kind, "model_fields") and hasattr(kind, "model_construct"):
        return _model(value, kind, seen, depth)
    base = next((base for base in BASES if isinstance(value, base)), None)
    if base is not None:
        plain = _encode(_plain(base, value), seen[:-1], depth)
        if find_class(class_path(kind)) is not kind:
            return plain
        state = vars(value) if hasattr(value, "__dict__") else {}
        kept = {"state": dict(state)} if state and all(type(item) in _SIMPLE for item in state.values()) else {}
        return _tagged("subclass", plain, **{"class": class_path(kind), **kept})
    return _encode(dict(value), seen[:-1], depth) if isinstance(value, Mapping) else _opaque(value, None)


def _plain(base: Any, value: Any) -> Any:
    """Return the content of a subclass of a JSON type as that type; its `str()` may differ."""
    return str.__str__(value) if base is str else base(value)


def _model(value: Any, kind: type, seen: tuple[int, ...], depth: int) -> object:
    """Encode a pydantic model by its fields, so that nested values keep their types."""
    state = {name: _encode(item, seen, depth) for name, item in vars(value).items()}
    extra = getattr(value, "__pydantic_extra__", None) or {}
    state.update({name: _encode(item, seen, depth) for name, item in extra.items()})
    fields_set = sorted(getattr(value, "model_fields_set", ()))
    return {TAG: "model", "class": class_path(kind), "set": fields_set, "value": state}


def _exception(error: BaseException, seen: tuple[int, ...], depth: int) -> dict[str, object]:
    state = {name: encoded for name, item in state_of(error) if not _holds_opaque(encoded := _encode(item, seen, depth + 1))}
    for write, _ in _kept(type(error)):
        state[_KEPT_STATE] = _encode(write(error), seen, depth + 1)
    behind = {"cause": error.__cause__} if error.__suppress_context__ else {"context": error.__context__}
    return {
        TAG: "exception",
        "class": class_path(type(error)),
        "text": safe_text(error),
        "value": [_encode(item, seen, depth + 1) for item in error.args],
        **({} if (made_from := near_types.write_error(error)) is None else {"made_from": _encode(made_from, seen, depth + 1)}),
        "state": state,
        **{name: _encode(other, seen, depth + _LINK) for name, other in behind.items() if other is not None or name == "cause"},
    }


def state_of(error: BaseException) -> Iterator[tuple[str, Any]]:
    """Yield an exception's state besides its arguments: attributes, `filename`, `code`, those of ``__slots__``."""
    held, made = vars(error), _made_from(type(error), error.args)
    yield from ((name, item) for name, item in held.items() if name == "__notes__" or not name.startswith("__"))
    for base in type(error).__mro__[:-1]:
        is_builtin = base.__module__ == "builtins"
        for name, item in vars(base).items():
            is_slot = isinstance(item, types.MemberDescriptorType) or (
                is_builtin and isinstance(item, types.GetSetDescriptorType)
            )
            if is_slot and not name.startswith("__") and name not in held and name not in _NO_STATE:
                attribute = getattr(error, name, None)
                if attribute is not None and attribute != getattr(made, name, None):
                    yield name, attribute


def _kept(cls: type) -> list[tuple[Any, Any]]:
    return [_KEPT[base] for base in cls.__mro__ if base in _KEPT][:1]


def _holds_opaque(encoded: object) -> bool:
    if isinstance(encoded, dict):
        return encoded.get(TAG) == "opaque" or any(_holds_opaque(item) for item in encoded.values())
    if isinstance(encoded, list):
        return any(_holds_opaque(item) for item in encoded)
    return False


def safe_text(value: object) -> str:
    """Return a value's text; its class if that raises."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _opaque(value: object, why: str | None) -> dict[str, object]:
    text = why
    if text is None:
        try:
            text = repr(value)[:500]
        except Exception as error:
            text = f"repr failed: {type(error).__name__}"
    return _tagged("opaque", text, **{"class": class_path(type(value))})


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = value.get(TAG)
    if tag is None:
        return {key: _decode(item) for key, item in value.items()}
    return _decode_tagged(str(tag), value)


def _decode_tagged(tag: str, node: dict[str, Any]) -> Any:
    value = node.get("value")
    if tag == "dict":
        return {_hashable(_decode(key)): _decode(item) for key, item in value or []}
    if tag in ("tuple", "set", "frozenset"):
        cls = {"tuple": tuple, "set": set, "frozenset": frozenset}[tag]
        return cls(_decode(item) for item in value or [])
    if tag == "bytes":
        return base64.b64decode(value or "")
    if tag == "float":
        return float(value or "nan")
    if tag == "int":
        return int(str(value), 16)
    if "zone" in node:
        return _in_zone(dt.datetime.fromisoformat(str(value)), str(node["zone"]))
    for name, _, _, read in _SCALARS:
        if tag == name:
            return read(value)
    if tag in near_types.ROWS:
        return _read_near(tag, value)
    path = str(node.get("class", ""))
    cls = find_class(path)
    if tag == "exception":
        return _rebuild_exception(node, cls)
    if tag == "subclass":
        return _build_subclass(cls, _decode(value), node.get("state") or {})
    if cls is not None and tag in _BUILDERS and _is_data(tag, cls):
        return _BUILDERS[tag](cls, node)
    return Opaque(class_name=path, text=value if isinstance(value, str) else json.dumps(value)[:500])


def _read_near(name: str, held: Any) -> Any:
    try:
        return near_types.read(name, _decode(held))
    except Exception as error:  # another version of the class, or a recording that holds something else
        return Opaque(class_name=name, text=f"not readable: {type(error).__name__}")


def _in_zone(moment: dt.datetime, name: str) -> dt.datetime:
    """Return the moment in a zone by name: the offset in its text also distinguishes two equal times."""
    from zoneinfo import ZoneInfo

    try:
        zone = ZoneInfo(name)
    except (OSError, LookupError, ValueError):  # not a zone of this machine
        return moment
    found = moment.replace(tzinfo=zone)
    return found if found.utcoffset() == moment.utcoffset() else found.replace(fold=1)


def _build_subclass(cls: Any, plain: Any, state: Mapping[str, Any]) -> Any:
    """Return the value of a class that inherits from a JSON type; the plain one if the class is not there."""
    if cls is None or hasattr(cls, "__del__"):
        return plain
    base: Any = next((base for base in BASES if issubclass(cls, base) and isinstance(plain, base)), None)
    if base is None:
        return plain
    new: Any = base.__new__
    try:
        made = new(cls) if base in (list, dict, set) else new(cls, plain)
    except TypeError:  # made in C
        return plain
    if base is list:
        list.extend(made, plain)
    elif base in (dict, set):
        base.update(made, plain)
    if state:
        vars(made).update(state)
    return made


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _rebuild_exception(node: dict[str, Any], cls: type | None) -> BaseException:
    args = tuple(_decode(item) for item in node.get("value") or [])
    if cls is None or not issubclass(cls, BaseException) or hasattr(cls, "__del__"):
        return RecordedError(f"{node.get('class')}: {node.get('text')}", *args)
    error = _bare_exception(cls, args, node)
    if error is None:
        return RecordedError(f"{node.get('class')}: {node.get('text')}", *args)
    state = dict(node.get("state") or {})
    kept = _decode(state.pop(_KEPT_STATE, {}))
    for name, item in state.items():
        if name.startswith("__") and name != "__notes__":
            continue
        try:
            setattr(error, name, _decode(item))
        except (AttributeError, TypeError):  # a read-only property: the class computes it
            continue
    for _, read in _kept(cls):
        read(error, kept)
    cause, context = (_decode(node.get(name)) for name in ("cause", "context"))
    if isinstance(context, BaseException):
        error.__context__ = context
    if "cause" in node:  # null after `raise ... from None`
        error.__cause__ = cause if isinstance(cause, BaseException) else None
    return error


def _is_data(tag: str, cls: type) -> bool:
    """Return whether a class is of the kind in the tag, so that filling its fields makes data and nothing else."""
    if hasattr(cls, "__del__"):  # it does something when it is thrown away
        return False
    if tag == "enum":
        return issubclass(cls, enum.Enum)
    if tag == "namedtuple":
        return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    if tag == "dataclass":
        return dataclasses.is_dataclass(cls)
    base = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    return isinstance(base, type) and issubclass(cls, base)


def _bare_exception(cls: Any, args: tuple[Any, ...], node: Mapping[str, Any]) -> BaseException | None:
    """Return an exception of the class with the arguments, made without any code of the application; None if that fails."""
    row = near_types.ERRORS.get(class_path(cls))
    try:
        if row is not None and "made_from" in node:
            made = row.read(cls, _decode(node["made_from"]))
            made.args = args
            return made
    except Exception:  # another version of the class
        return None
    return _made_from(cls, args)


def _made_from(cls: Any, args: tuple[Any, ...]) -> BaseException | None:
    """Return an exception of a class with arguments, as far as the class is made in C; None if it needs more than these."""
    maker = next(base for base in cls.__mro__ if isinstance(vars(base).get("__new__"), types.BuiltinFunctionType))
    try:
        error = maker.__new__(cls, *args)
        if cls in (UnicodeDecodeError, UnicodeEncodeError):  # which keep what they say outside `args`
            error.__init__(*args)
        error.args = args
    except Exception:  # a class in C may need anything
        return None
    return error


_JOINS: Final = {
    getattr(method, "__func__", method)
    for flags in (enum.Flag, enum.IntFlag)
    for method in (flags.__or__, flags._missing_)  # pyright: ignore[reportPrivateUsage]
}


def _member(cls: Any, name: object) -> Any:
    """Return an enum's member of that name, or several flags joined by "|", without code of the application; else None."""
    members: Mapping[str, Any] = getattr(cls, "__members__", {})
    if name in members:
        return members[str(name)]
    named = [members.get(part) for part in str(name).split("|")]
    joins = getattr(cls, "__or__", None) in _JOINS and getattr(getattr(cls, "_missing_", None), "__func__", None) in _JOINS
    return functools.reduce(operator.or_, named) if joins and None not in named else None


def _build_enum(cls: Any, node: dict[str, Any]) -> Any:
    member = _member(cls, node.get("value"))
    return member if member is not None else Opaque(class_name=class_path(cls), text=str(node.get("value")))


def _build_namedtuple(cls: Any, node: dict[str, Any]) -> Any:
    fields = {name: _decode(item) for name, item in (node.get("value") or {}).items()}
    return tuple.__new__(cls, [fields.get(name) for name in getattr(cls, "_fields", fields)])


def _build_dataclass(cls: Any, node: dict[str, Any]) -> Any:
    built = object.__new__(cls)
    fields = {field.name for field in dataclasses.fields(cls)}
    for name, item in (node.get("value") or {}).items():
        if name in fields:
            object.__setattr__(built, name, _decode(item))
    return built


def _build_model(cls: Any, node: dict[str, Any]) -> Any:
    state = {name: _decode(item) for name, item in (node.get("value") or {}).items()}
    return cls.model_construct(_fields_set=set(node.get("set") or ()), **state)


def _write_timedelta(value: dt.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(parts: list[int]) -> dt.timedelta:
    return dt.timedelta(days=parts[0], seconds=parts[1], microseconds=parts[2])


_BUILDERS: Final = {
    "enum": _build_enum,
    "namedtuple": _build_namedtuple,
    "dataclass": _build_dataclass,
    "model": _build_model,
}

_SCALARS: Final[tuple[tuple[str, type, Any, Any], ...]] = (
    # datetime before date: a datetime is a date, but types are compared exactly
    ("datetime", dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    ("date", dt.date, dt.date.isoformat, dt.date.fromisoformat),
    ("time", dt.time, dt.time.isoformat, dt.time.fromisoformat),
    (
        "timedelta",
        dt.timedelta,
        _write_timedelta,
        _read_timedelta,
    ),
    ("decimal", decimal.Decimal, str, decimal.Decimal),
    ("uuid", uuid.UUID, str, uuid.UUID),
    ("complex", complex, repr, complex),
)
