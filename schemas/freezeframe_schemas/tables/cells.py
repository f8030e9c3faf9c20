"""Attribute values as text with a type next to it, and back, exactly.

Text stays unchanged. Arrays and kvlists are JSON; a value that JSON cannot hold is an object with one ``$`` key::

    ["stop"]   [1, 2.0, true, null]   {"a": [1]}   {"$bytes": "/w=="}   {"$double": "nan"}   {"$map": {"$bytes": "no bytes"}}
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Mapping
from typing import Any, Final

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import Attributes, AttributeValue

TEXT: Final = ""
"""The type of text, which is never written."""
_QUIET_NAN: Final = 0x7FF8000000000000


def to_cell(value: AttributeValue) -> tuple[str, str]:
    """Return the value's type and its text (``bytes`` as base64)."""
    if isinstance(value, str):
        return TEXT, value
    if isinstance(value, bool):
        return "bool", "true" if value else "false"
    if isinstance(value, int):
        return "int", str(value)
    if isinstance(value, float):
        return "double", _double_text(value)
    if isinstance(value, bytes):
        return "bytes", base64.b64encode(value).decode()
    if value is None:
        return "null", ""
    return "json", json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def from_cell(type_: str, text: str) -> AttributeValue:
    """Return the value of a cell.

    Raises:
        WireError: the text is not of that type.
    """
    try:
        match type_:
            case "" | "text":
                return text
            case "bool":
                return text == "true"
            case "int":
                return int(text)
            case "double":
                return _double(text)
            case "bytes":
                return base64.b64decode(text, validate=True)
            case "null":
                return None
            case "json":
                return _value(json.loads(text))
            case _:
                raise WireError(f"attribute cell: found type {type_!r}, which this version does not know")
    except ValueError as error:
        raise WireError(f"attribute cell of type {type_}: cannot be read ({type(error).__name__})") from None


def to_cells(attributes: Attributes) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts by name, and the types of those that are not text."""
    texts: dict[str, str] = {}
    types: dict[str, str] = {}
    for name, value in attributes.items():
        type_, texts[name] = to_cell(value)
        if type_:
            types[name] = type_
    return texts, types


def from_cells(texts: Mapping[str, str], types: Mapping[str, str]) -> dict[str, AttributeValue]:
    """Return the attributes of `to_cells`."""
    return {name: from_cell(types.get(name, TEXT), text) for name, text in texts.items()}


def _double_text(value: float) -> str:
    if math.isnan(value):
        bits = struct.unpack(">Q", struct.pack(">d", value))[0]
        return "nan" if bits == _QUIET_NAN else f"nan:{bits:016x}"
    return repr(value)


def _double(text: str) -> float:
    if text.startswith("nan:"):
        return float(struct.unpack(">d", bytes.fromhex(text[4:]))[0])
    return float(text)


def _plain(value: AttributeValue) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$double": _double_text(value)}
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        plain = {name: _plain(item) for name, item in value.items()}
        return {"$map": plain} if len(plain) == 1 and next(iter(plain)).startswith("$") else plain
    return [_plain(item) for item in value]


def _value(plain: Any) -> AttributeValue:
    if isinstance(plain, list):
        return tuple(_value(item) for item in plain)
    if isinstance(plain, dict):
        match plain:
            case {"$bytes": str(text), **rest} if not rest:
                return base64.b64decode(text, validate=True)
            case {"$double": str(text), **rest} if not rest:
                return _double(text)
            case {"$map": dict(inner), **rest} if not rest:
                return {name: _value(item) for name, item in inner.items()}
            case _:
                return {name: _value(item) for name, item in plain.items()}
    return plain
