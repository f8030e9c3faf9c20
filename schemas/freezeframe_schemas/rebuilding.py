"""Find the parts of a value that encoding and decoding change, by doing both."""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from freezeframe_schemas import near_types, values

LIMIT: Final = 1_000_000
"""Characters of one encoded object; a larger one is not checked, and reported as unchecked."""
FIXED: Final = frozenset({type(None), bool, int, float, str, bytes})
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_OPAQUE_CLASS: Final = values.class_path(values.Opaque)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A part of a value that is not the same once it is rebuilt."""

    path: str
    """Its path in the value, ``.headers[0]``; empty for the value itself."""
    class_name: str
    opaque: bool
    """True if nothing can be rebuilt. If False, something similar is: a dict for a Counter, a str for a subclass of str."""


def is_fixed(value: object) -> bool:
    """Return whether a value is plain data that cannot change."""
    return type(value) in FIXED


def is_plain(value: Any) -> bool:
    """Return whether a value is plain data, which is rebuilt unchanged. Runs at the speed of C."""
    try:
        return is_fixed(value) or bool(marshal.dumps(value, 2))
    except ValueError:
        return False


def lost_in_rebuilding(value: object) -> Iterator[Lost]:
    """Yield the parts of `value` that tagged JSON does not return unchanged. Never raises.

    JSON's own types are only checked for their type; anything else is encoded, decoded and encoded again, up to `LIMIT`.
    """
    return _lost(value, "", 0)


def lost_of_exception(error: BaseException) -> str:
    """Name the parts of an exception that are lost when it is rebuilt; empty if no loss is known."""
    text = values.encode_exception(error)
    try:
        rebuilt = values.decode_exception(text)
    except Exception:  # a class of the application may do anything
        return "everything but its class and text"
    if type(rebuilt) is not type(error):
        return "its class"
    if any(values.is_opaque(values.encode(item)) for item in error.args):
        return "its arguments"
    gone = sorted(name for name, item in values.state_of(error) if _is_gone(rebuilt, name, item))
    if gone:
        return f"its {', '.join(gone)}"
    return "" if values.safe_text(rebuilt) == values.safe_text(error) else "its text"


def _is_gone(rebuilt: BaseException, name: str, item: object) -> bool:
    """Return whether an attribute of an exception is rebuilt differently or not at all."""
    try:
        return not hasattr(rebuilt, name) or next(lost_in_rebuilding(item), None) is not None
    except Exception:  # a class may do anything: `urllib.error.HTTPError` raises KeyError without its response
        return True


def _lost(value: Any, path: str, depth: int) -> Iterator[Lost]:
    kind = type(value)
    if kind in _PLAIN:
        return
    if depth > values.MAX_DEPTH:
        yield Lost(path=path, class_name=values.class_path(kind), opaque=True)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                yield from _lost(key, f"{path} key", depth + 1)
            yield from _lost(item, f"{path}[{key!r:.40}]", depth + 1)
    elif kind in (list, tuple):
        for index, item in enumerate(value):
            yield from _lost(item, f"{path}[{index}]", depth + 1)
    elif values.class_path(kind) in near_types.SECRETS:
        yield Lost(path=path, class_name=values.class_path(kind), opaque=False)
    else:
        parts = [lost for name, item in _fields(value) for lost in _lost(item, f"{path}.{name}", depth + 1)]
        yield from parts
        if not parts and (opaque := _changed(value, kind)) is not None:
            yield Lost(path=path, class_name=values.class_path(kind), opaque=opaque)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass, a named tuple or a pydantic model, with their names. Never raises."""
    kind = type(value)
    try:
        if dataclasses.is_dataclass(value):
            yield from [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value) if hasattr(value, one.name)]
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            yield from zip(kind._fields, value, strict=False)
        elif hasattr(kind, "model_fields") and hasattr(kind, "model_construct"):
            yield from list(vars(value).items())
    except Exception:  # a class of the application may do anything
        return


def _changed(value: Any, kind: type) -> bool | None:
    """Return None if the value is rebuilt unchanged, else whether it is lost entirely."""
    text = values.encode(value)
    if values.is_opaque(text):
        return True
    if len(text) > LIMIT:
        return False
    try:
        rebuilt = values.decode(text)
        again = values.encode(rebuilt)
    except Exception:  # a class of the application may do anything
        return True
    if _OPAQUE_CLASS in again:
        return True
    return None if type(rebuilt) is kind and again == text and not _holds_more(value, rebuilt) else False


def _holds_more(value: Any, rebuilt: Any) -> bool:
    """Return whether an object has state beyond its fields and its constructor's arguments."""
    if dataclasses.is_dataclass(value):
        return (
            bool(vars(value).keys() - {field.name for field in dataclasses.fields(value)})
            if hasattr(value, "__dict__")
            else False
        )
    if isinstance(value, values.BASES) and hasattr(value, "__dict__"):
        return any(not name.startswith("__") for name in vars(value).keys() - vars(rebuilt).keys())  # not `__orig_class__`
    hidden, made = (getattr(each, "__pydantic_private__", None) or {} for each in (value, rebuilt))
    return values.encode(hidden) != values.encode(made)
