"""Rows of a query's answer: number columns, and the rows as a table or as CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from freezeframe_replay.report.render import counted, table_text


def is_number_column(rows: Sequence[Sequence[Any]], index: int) -> bool:
    """Return whether a column of a query's answer holds numbers, as far as it holds anything."""
    cells = [row[index] for row in rows if row[index] is not None]
    return bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


def rows_text(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> str:
    """Return rows as a table for a terminal, its cells cut at `width` characters, and how many there are."""
    right = [index for index in range(len(columns)) if is_number_column(rows, index)]
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    table = table_text(columns, cells, right=right, cell_width=max(width, 8))
    return f"{table}\n({counted(len(rows), 'row')})"


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV under their header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()
