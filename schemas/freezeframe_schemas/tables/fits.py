"""The value of a typed column next to the attributes: empty if the attribute is missing, or of another type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.tables.columns import INLINE_LIMIT

_INT_LIMIT: Final = 1 << 63
_EXACT_DOUBLE: Final = 1 << 53


def _text(value: AttributeValue) -> str:
    return value if type(value) is str and len(value) <= INLINE_LIMIT else ""


def _int(value: AttributeValue) -> int | None:
    return value if type(value) is int and -_INT_LIMIT <= value < _INT_LIMIT else None


def _double(value: AttributeValue) -> float | None:
    return float(value) if isinstance(value, float) or (type(value) is int and abs(value) < _EXACT_DOUBLE) else None


FITS: Final[Mapping[str, Callable[[AttributeValue], Any]]] = {
    "String": _text,
    "LowCardinality(String)": _text,
    "Nullable(Int64)": _int,
    "Nullable(Float64)": _double,
}
"""Column type -> function from an attribute's value to the column's."""


def holds_numbers(value: AttributeValue, limit: int) -> bool:
    """Return whether the value is an array of whole numbers below `limit`, and not empty: a column holds it exactly."""
    if not isinstance(value, tuple | list) or not value or {*map(type, value)} != {int}:
        return False
    numbers: Any = value
    return min(numbers) >= 0 and max(numbers) < limit


def chunk_gaps(value: AttributeValue) -> list[int]:
    """Return the unit of the offsets, 1000 ns or 1, and the gaps between them in it; nothing if they are not in order."""
    if not holds_numbers(value, 1 << 63):
        return []
    offsets: Any = value
    unit = 1 if any(offset % 1000 for offset in offsets) else 1000
    gaps = [unit, offsets[0] // unit, *[(after - before) // unit for before, after in pairwise(offsets)]]
    return gaps if min(gaps) >= 0 else []


def chunk_offsets(gaps: Sequence[int]) -> tuple[int, ...]:
    """Return the offsets of `chunk_gaps`."""
    return tuple(offset * gaps[0] for offset in accumulate(gaps[1:]))
