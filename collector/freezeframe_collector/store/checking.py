"""Damage in a store, and the runs that it touches: parts that do not match the engine's checksums, and texts that do not match
their names.

The engine sees bytes that changed on the disk. A text's name, the hash of it, also shows what is gone, or was changed before
it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.store import Store
from freezeframe_schemas.errors import RetryableStoreError, StoreError
from freezeframe_schemas.tables.columns import RESOURCE_REFS

_GRANULE: Final = 256
"""Rows. What cannot be read is narrowed down to so many."""
_MAX_RANGES: Final = 50
"""From then on, all that is left of the part counts as damaged: each range costs two statements."""
_MAX_RUNS: Final = 1000
"""Whose texts are looked for by one statement."""


def damage(store: Store, tables: Sequence[str]) -> list[dict[str, Any]]:
    """Read every part and return what is damaged; if nothing is, the texts that are missing.

    Shape: ``{"table": "piece_rows", "part": "0-20261118_1_2_2", "fault": "Checksum doesn't match", "runs": ["4bf9..."]}``;
    `part` is empty for the texts of one run.
    """
    damaged: list[dict[str, Any]] = []
    for table in tables:
        columns, rows = store.query(f"CHECK TABLE {store.database}.{table}")
        for row in (dict(zip(columns, row, strict=True)) for row in rows):
            if not row["is_passed"]:
                part = str(row["part_path"])
                runs = _runs_touched(store, table, part)
                damaged.append({"table": table, "part": part, "fault": str(row["message"]), "runs": runs})
    return damaged or [
        {"table": "piece_rows", "part": "", "fault": f"{texts} texts are missing, or not what their names say", "runs": [run]}
        for run, texts in _lost_texts(store)
    ]


def _runs_touched(store: Store, table: str, part: str) -> list[str]:
    """Return the runs with rows that cannot be read; none if the part does not say even whose they are."""
    named = {"db": store.database, "table": table, "part": part}
    _, counted = store.query(
        "SELECT rows FROM system.parts WHERE database = {db:String} AND table = {table:String} AND name = {part:String}", named
    )
    rows_of_part = f"FROM {store.database}.{table} WHERE _part = {quote_text(part)}"
    ranges, damaged = [(0, int(rows)) for (rows,) in counted], list[str]()
    while ranges:
        first, end = ranges.pop()
        these = f"{rows_of_part} AND _part_offset >= {first} AND _part_offset < {end}"
        if _readable(store, f"SELECT sum(cityHash64(*)) {these}") is not None:
            continue
        if end - first <= _GRANULE or len(damaged) >= _MAX_RANGES:
            damaged.append(these)
        else:
            middle = first + max(1, (end - first) // (2 * _GRANULE)) * _GRANULE
            ranges += [(first, middle), (middle, end)]
    found = [_readable(store, f"SELECT DISTINCT trace_id {these}") or () for these in damaged]
    return sorted({str(run) for rows in found for (run,) in rows})


def _readable(store: Store, sql: str) -> Sequence[Sequence[Any]] | None:
    """Return the rows, or None if they cannot be read."""
    try:
        return store.query(sql)[1]
    except RetryableStoreError:
        raise
    except StoreError:
        return None


def _lost_texts(store: Store) -> list[tuple[str, int]]:
    """Return the runs that name texts which the store does not have, and how many."""
    names = f"arrayFlatten(arrayConcat(mapValues(refs), mapValues({RESOURCE_REFS})))"

    def lost(spans: str, pieces: str) -> list[tuple[str, int]]:
        named = f"SELECT DISTINCT trace_id, arrayJoin({names}) AS digest FROM {store.database}.span_rows WHERE {spans}"
        _, rows = store.query(
            f"SELECT trace_id, count() FROM ({named}) WHERE (trace_id, digest) NOT IN"
            f" (SELECT trace_id, hash FROM {store.database}.piece_rows WHERE {pieces}) GROUP BY trace_id ORDER BY trace_id"
        )
        return [(str(run), int(texts)) for run, texts in rows]

    found: list[tuple[str, int]] = []
    _, hours = store.query(f"SELECT DISTINCT toUnixTimestamp(run_hour) FROM {store.database}.span_rows ORDER BY 1")
    for (hour,) in hours:  # one at a time, for memory
        place = f"run_hour = toDateTime({hour}, 'UTC')"
        suspected = [run for run, _ in lost(place, place)]
        for at in range(0, len(suspected), _MAX_RUNS):
            runs = f"trace_id IN ({', '.join(map(quote_text, suspected[at : at + _MAX_RUNS]))})"
            found += lost(f"{place} AND {runs}", runs)  # a run's texts are in its hour, unless a collector forgot it
    return found
