"""Rows back to spans: the reading half of `rows`, whose round trip is exact."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import (
    Attributes,
    AttributeValue,
    Event,
    Link,
    Resource,
    Scope,
    SpanKind,
    SpanRecord,
    StatusCode,
)
from freezeframe_schemas.tables.cells import TEXT, from_cell, from_cells
from freezeframe_schemas.tables.columns import ATTRIBUTE_COLUMNS, RESOURCE_COLUMNS, SPAN_COLUMNS, Column, Source
from freezeframe_schemas.tables.templates import BETWEEN, fill

_KINDS: Final = {kind.name.capitalize(): kind for kind in SpanKind}
_STATUSES: Final = {code.name.capitalize(): code for code in StatusCode}
_RUN_PLACE: Final = (
    "(tenant, run_hour) IN (SELECT tenant, run_hour FROM run_rows WHERE trace_id = {trace_id:String})"
    " AND trace_id = {trace_id:String}"
)
"""Condition on the rows of one run, over ``span_rows`` and ``piece_rows``: the small table of runs is quick to search, and
leads by the key to the run's own granules in the large ones."""
_HASHED: Final = frozenset({"refs", "resource_refs"})


def run_statements(*, tenant: bool) -> tuple[str, str]:
    """Return the statements for the rows of a run's spans, as `spans_from_rows` reads them, and for its pieces.

    Parameters: ``trace_id``, and with `tenant` the ``tenant`` whose run it has to be. Over the tables, not the views, and
    columns unchanged: the same rows in half the time. A span that was sent twice is there twice. PREWHERE, because finding that
    plan costs the engine as much as running it. One thread: a run is a few granules, and more threads cost more than they give.
    """
    columns = ", ".join(f"`{column.name}`" for column in SPAN_COLUMNS if column.source is not Source.DERIVED)
    where = f"PREWHERE {'tenant = {tenant:String} AND ' if tenant else ''}{_RUN_PLACE} SETTINGS max_threads = 1"
    return f"SELECT {columns} FROM span_rows {where}", f"SELECT body FROM piece_rows {where}"


def spans_from_rows(rows: Iterable[Mapping[str, Any]], bodies: Mapping[bytes, bytes]) -> list[SpanRecord]:
    """Return the spans that the rows hold, each once, by start.

    Args:
        rows: rows of `run_statements`, by column name, in any order; text may be ``str`` or ``bytes``, times are nanoseconds,
            hashes ``bytes``.
        bodies: hash -> bytes of every payload piece of the runs.

    Raises:
        WireError: a piece is missing, or a value is not of its type.
    """
    reader = _Reader(bodies)
    once = {(row["trace_id"], row["span_id"]): row for row in rows}
    return [reader.span(row) for row in sorted(once.values(), key=lambda row: (row["start_time"], row["span_id"]))]


def _decoded(value: Any) -> Any:
    """Return a cell with its bytes decoded as text."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_decoded(name): _decoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_decoded(item) for item in value]
    return value


def _refs(value: Mapping[str | bytes, Sequence[bytes]]) -> dict[str, Sequence[bytes]]:
    return {_decoded(name): hashes for name, hashes in value.items()}


class _Reader:
    def __init__(self, bodies: Mapping[bytes, bytes]) -> None:
        self._bodies = bodies
        self._resources: dict[str, Resource] = {}
        self._scopes: dict[str, Scope] = {}

    def span(self, foreign: Mapping[str, Any]) -> SpanRecord:
        row: dict[str, Any] = {name: _refs(value) if name in _HASHED else _decoded(value) for name, value in foreign.items()}
        rest: dict[str, Any] = json.loads(row["rest"]) if row["rest"] else {}
        start = row["start_time"]
        times: list[int] = rest.get("times") or [start, start + row["duration_ns"]]
        dropped: list[int] = rest.get("dropped") or [0, 0, 0]
        attributes = _column_values(row, ATTRIBUTE_COLUMNS)
        attributes |= from_cells(row["attributes"], row["attribute_types"])
        attributes |= self._large(row, row["refs"], row["attribute_types"], row["templates"])
        return SpanRecord(
            trace_id=row["trace_id"],
            span_id=row["span_id"],
            parent_span_id=row["parent_span_id"],
            name=row["name"],
            kind=_KINDS[row["kind"]],
            trace_state=row["trace_state"],
            flags=row["flags"],
            start_time_unix_nano=times[0],
            end_time_unix_nano=times[1],
            attributes=attributes,
            status_code=_STATUSES[row["status"]],
            status_message=row["status_message"],
            events=_events(row, rest),
            links=_links(row, rest),
            resource=self._resource(row, rest),
            scope=self._scope(row, rest),
            dropped_attributes_count=dropped[0],
            dropped_events_count=dropped[1],
            dropped_links_count=dropped[2],
        )

    def _large(
        self, row: Mapping[str, Any], refs: Mapping[str, Sequence[bytes]], types: Mapping[str, str], templates: str = ""
    ) -> dict[str, AttributeValue]:
        values: dict[str, AttributeValue] = {}
        around = templates.split(BETWEEN) if templates else [""] * len(refs)
        for (name, hashes), template in zip(refs.items(), around, strict=True):
            try:
                raw = fill(template, hashes, self._bodies)
            except ValueError as error:
                raise WireError(f"run {row['trace_id']}, span {row['span_id']}: {name}: {error}") from None
            except KeyError as error:
                raise WireError(
                    f"run {row['trace_id']}, span {row['span_id']}: {name}: piece {error.args[0].hex()} is not in the "
                    f"store, or damaged; expected all {len(hashes)} pieces of the value"
                ) from None
            type_ = types.get(name, TEXT)
            values[name] = raw if type_ == "bytes" else from_cell(type_, raw.decode())
        return values

    def _resource(self, row: Mapping[str, Any], rest: Mapping[str, Any]) -> Resource:
        types: dict[str, str] = row["resource_types"]
        columns = _column_values(row, RESOURCE_COLUMNS)
        dropped: int = rest.get("resource_dropped", 0)
        key = repr((row["resource"], types, row["resource_refs"], columns, row["resource_schema_url"], dropped))
        if key not in self._resources:
            self._resources[key] = Resource(
                attributes=columns | from_cells(row["resource"], types) | self._large(row, row["resource_refs"], types),
                dropped_attributes_count=dropped,
                schema_url=row["resource_schema_url"],
            )
        return self._resources[key]

    def _scope(self, row: Mapping[str, Any], rest: Mapping[str, Any]) -> Scope:
        cells: tuple[dict[str, str], dict[str, str]] = rest.get("scope") or ({}, {})
        fields = (row["scope_name"], row["scope_version"], row["scope_schema_url"], cells, rest.get("scope_dropped", 0))
        key = repr(fields)
        if key not in self._scopes:
            self._scopes[key] = Scope(
                name=row["scope_name"],
                version=row["scope_version"],
                attributes=from_cells(cells[0], cells[1]),
                dropped_attributes_count=rest.get("scope_dropped", 0),
                schema_url=row["scope_schema_url"],
            )
        return self._scopes[key]


def _column_values(row: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, AttributeValue]:
    values: dict[str, AttributeValue] = {}
    for column in columns:
        value = row[column.name]
        if value is None or value == "" or value == []:
            continue
        values[column.attribute] = tuple(value) if isinstance(value, list) else value
    return values


def _events(row: Mapping[str, Any], rest: Mapping[str, Any]) -> tuple[Event, ...]:
    times = rest.get("event_times") or row["events.time"]
    return tuple(
        Event(
            time_unix_nano=time,
            name=name,
            attributes=_item_attributes(texts, rest, "event", index),
            dropped_attributes_count=_item_number(rest, "event_dropped", index),
        )
        for index, (time, name, texts) in enumerate(zip(times, row["events.name"], row["events.attributes"], strict=True))
    )


def _links(row: Mapping[str, Any], rest: Mapping[str, Any]) -> tuple[Link, ...]:
    columns = (row["links.trace_id"], row["links.span_id"], row["links.trace_state"], row["links.attributes"])
    return tuple(
        Link(
            trace_id=trace_id,
            span_id=span_id,
            trace_state=trace_state,
            attributes=_item_attributes(texts, rest, "link", index),
            dropped_attributes_count=_item_number(rest, "link_dropped", index),
            flags=_item_number(rest, "link_flags", index),
        )
        for index, (trace_id, span_id, trace_state, texts) in enumerate(zip(*columns, strict=True))
    )


def _item_attributes(texts: Mapping[str, str], rest: Mapping[str, Any], key: str, index: int) -> Attributes:
    types: Sequence[Mapping[str, str]] = rest.get(f"{key}_types", ())
    return from_cells(texts, types[index] if types else {})


def _item_number(rest: Mapping[str, Any], key: str, index: int) -> int:
    numbers: Sequence[int] = rest.get(key, ())
    return numbers[index] if numbers else 0
