"""The store's tables: columns, DDL, and spans to rows and back. Pure; the only definition of the stored form.

Must never talk to a store.
"""

from __future__ import annotations

from freezeframe_schemas.tables.columns import PAYLOAD_COLUMNS, REJECTED_COLUMNS, SPAN_COLUMNS, STORED_AT, Column, Source
from freezeframe_schemas.tables.pieces import piece_hash
from freezeframe_schemas.tables.reading import run_parts, run_statement, spans_from_blocks, spans_from_rows
from freezeframe_schemas.tables.rows import (
    Block,
    Rows,
    StoredPieces,
    rows_from_spans,
    run_hour_of,
    tenant_of,
)
from freezeframe_schemas.tables.templates import CutMemory

__all__ = [
    "PAYLOAD_COLUMNS",
    "REJECTED_COLUMNS",
    "SPAN_COLUMNS",
    "STORED_AT",
    "Block",
    "Column",
    "CutMemory",
    "Rows",
    "Source",
    "StoredPieces",
    "piece_hash",
    "rows_from_spans",
    "run_hour_of",
    "run_parts",
    "run_statement",
    "spans_from_blocks",
    "spans_from_rows",
    "tenant_of",
]
