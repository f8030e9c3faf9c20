"""Attributes from a backend that keeps every value as text, with the types with which they were sent. Pure.

Only attributes with a column in the store get their type back: a replay can use all others as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import Attributes, AttributeValue
from freezeframe_schemas.tables.columns import ATTRIBUTE_COLUMNS, RESOURCE_COLUMNS


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _array(text: str) -> tuple[AttributeValue, ...]:
    found: Any = json.loads(text)
    if not isinstance(found, list):
        raise ValueError("not an array")
    return tuple(found)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # scalars, as a column's type says


_READERS: Final[Mapping[str, Callable[[str], AttributeValue]]] = {"Int": int, "Float": float, "Bool": _truth, "Array": _array}
"""Reader of a text by the beginning of its column's type (inside ``Nullable``)."""
_TYPES: Final[Mapping[str, Callable[[str], AttributeValue]]] = {
    column.attribute: read
    for column in (*ATTRIBUTE_COLUMNS, *RESOURCE_COLUMNS)
    for begin, read in _READERS.items()
    if column.type.removeprefix("Nullable(").startswith(begin)
} | {genai.CODE_LINE: int}
"""Reader of an attribute's text: that of its column, and `int` for the number that has no column."""


def retyped(texts: Mapping[str, str]) -> Attributes:
    """Return the attributes with their types; text that does not fit its attribute's type stays text.

    The texts are those of the OpenTelemetry Collector's ``pcommon.Value.AsString``: JSON for arrays, ``true``, ``12``.
    """
    return {name: _typed(name, text) for name, text in texts.items()}


def _typed(name: str, text: str) -> AttributeValue:
    read = _TYPES.get(name)
    if read is None:
        return text
    try:
        return read(text)
    except (ValueError, LookupError):
        return text
