"""Which values a typed column holds so exactly that the column alone returns the same value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.tables.columns import INLINE_LIMIT

_INT_LIMIT: Final = 1 << 63

Fit = Callable[[AttributeValue], tuple[Any, bool]]
"""Value -> the cell (None: leave it empty), and whether the cell alone returns the value."""


def _fit_text(value: AttributeValue) -> tuple[Any, bool]:
    fits = isinstance(value, str) and 0 < len(value) <= INLINE_LIMIT
    return (value, True) if fits else (None, False)


def _fit_int(value: AttributeValue) -> tuple[Any, bool]:
    fits = type(value) is int and -_INT_LIMIT <= value < _INT_LIMIT
    return (value, True) if fits else (None, False)


def _fit_double(value: AttributeValue) -> tuple[Any, bool]:
    if isinstance(value, float):
        # a NaN keeps its bits only in the map
        return value, value == value
    return (float(value), False) if type(value) is int and abs(value) < 1 << 53 else (None, False)


def _fit_bool(value: AttributeValue) -> tuple[Any, bool]:
    return (value, True) if isinstance(value, bool) else (None, False)


def _fit_texts(value: AttributeValue) -> tuple[Any, bool]:
    fits = isinstance(value, tuple | list) and value and all(isinstance(item, str) for item in value)
    return (value, True) if fits else (None, False)


def _fit_numbers(limit: int) -> Fit:
    def fit(value: AttributeValue) -> tuple[Any, bool]:
        fits = isinstance(value, tuple | list) and value and all(type(item) is int and 0 <= item < limit for item in value)
        return (value, True) if fits else (None, False)

    return fit


FITS: Final[Mapping[str, Fit]] = {
    "String": _fit_text,
    "LowCardinality(String)": _fit_text,
    "Nullable(Int64)": _fit_int,
    "Nullable(Float64)": _fit_double,
    "Nullable(Bool)": _fit_bool,
    "Array(LowCardinality(String))": _fit_texts,
    "Array(UInt32)": _fit_numbers(1 << 32),
    "Array(UInt64)": _fit_numbers(1 << 64),
}
"""The fit of each column type that an attribute can have."""
