"""Reading stored runs back as spans, for the collector itself: what a settled run's spans are rewritten from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.store import Store
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import READ_COLUMNS, piece_hash, spans_from_rows

_FORMATS: Final = {"String": "bytes", "FixedString": "bytes", "DateTime64": "int"}
"""As the reading half of the tables wants them: text as bytes, times as nanoseconds."""


def load_runs(store: Store, trace_ids: Sequence[str]) -> list[SpanRecord]:
    """Return all spans of some runs, exactly as stored, by start; none of a run that is not there.

    Raises:
        WireError: the stored run is damaged.
        StoreError: the store does not answer.
    """
    runs = f"trace_id IN ({', '.join(map(quote_text, trace_ids))})"
    place = f"(tenant, run_hour) IN (SELECT tenant, run_hour FROM {store.database}.run_rows WHERE {runs}) AND {runs}"
    rows = _rows(store, f"SELECT {READ_COLUMNS} FROM {store.database}.span_rows FINAL WHERE {place}")
    pieces = _rows(store, f"SELECT body FROM {store.database}.piece_rows WHERE {place}")
    return spans_from_rows(rows, {piece_hash(piece["body"]): piece["body"] for piece in pieces})


def _rows(store: Store, sql: str) -> list[Mapping[str, Any]]:
    from clickhouse_connect.driver import ctypes
    from clickhouse_connect.driver.query import QueryContext
    from clickhouse_connect.driver.transform import NativeTransform

    found: list[Mapping[str, Any]] = []
    for block in store.engine.blocks(sql):
        result: Any = NativeTransform.parse_response(
            ctypes.RespBuffCls(_Whole(block)), QueryContext(query_formats=dict(_FORMATS))
        )
        names: Sequence[str] = result.column_names
        found += [dict(zip(names, row, strict=True)) for row in result.result_set]
    return found


class _Whole:
    """Bytes, as the driver's buffer reads an answer."""

    exception_tag = None

    def __init__(self, data: bytes) -> None:
        self.gen = iter((data,))

    def close(self) -> None:
        """Do nothing: there is no connection."""
