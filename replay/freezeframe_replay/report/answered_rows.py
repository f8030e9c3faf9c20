"""Rows that a query gave: which columns are numbers, and all of them as CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def is_number_column(rows: Sequence[Sequence[Any]], index: int) -> bool:
    """Return whether a column of a query's answer holds numbers, as far as it holds anything."""
    cells = [row[index] for row in rows if row[index] is not None]
    return bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV under their header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()
