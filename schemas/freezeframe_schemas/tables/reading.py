"""Rows back to spans: the reading half of `rows`, whose round trip is exact."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from freezeframe_schemas import genai
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
from freezeframe_schemas.tables.columns import STORED_SPAN_COLUMNS, TYPE_OF
from freezeframe_schemas.tables.fits import chunk_offsets
from freezeframe_schemas.tables.native import decode_blocks
from freezeframe_schemas.tables.pieces import piece_hash
from freezeframe_schemas.tables.templates import BETWEEN, fill

_KINDS: Final = {kind.name.capitalize(): kind for kind in SpanKind}
_STATUSES: Final = {code.name.capitalize(): code for code in StatusCode}
READ_COLUMNS: Final = (
    "trace_id, span_id, parent_span_id, start_time, duration_ns, name, status, chunk_sizes, chunk_gaps, attributes, refs,"
    " templates, origin, rest"
)
"""The columns that hold a span; all others are made from it."""
_RUN_PLACE: Final = (
    "(tenant, run_hour) IN (SELECT tenant, run_hour FROM run_rows PREWHERE trace_id = {trace_id:String})"
    " AND trace_id = {trace_id:String}"
)
"""Condition on the rows of one run, over ``span_rows`` and ``piece_rows``: the small table of runs is quick to search, and
leads by the key to the run's own granules in the large ones.
"""
_TYPES: Final = {column.name: column.type.replace("'", "\\'") for column in STORED_SPAN_COLUMNS}
_NO_SPAN: Final = ", ".join(f"defaultValueOfTypeName('{_TYPES[name]}')" for name in READ_COLUMNS.split(", "))
"""Empty columns without names, since a condition would refer to such names instead of the table's columns."""


def run_statement(*, tenant: bool) -> str:
    """Return the statement for the rows of a run's spans and its pieces, for `spans_from_blocks`.

    Parameters: ``trace_id``, and with `tenant` the ``tenant`` whose run it has to be. One statement, because each costs what
    it takes to send it. It reads the tables, not the views: the same rows in half the time. One thread: a run
    is a few granules, and more threads cost more than they give.
    """
    place = f"{'tenant = {tenant:String} AND ' if tenant else ''}{_RUN_PLACE}"
    of_spans, of_pieces = run_parts(place)
    of_spans = of_spans.replace(" FROM ", ", '' AS body FROM ", 1)
    return f"{of_spans} UNION ALL {of_pieces.replace('body', f'{_NO_SPAN}, body', 1)} SETTINGS max_threads = 1"


def run_parts(place: str) -> tuple[str, str]:
    """Return the statements that select the rows of spans and of pieces, with a condition for both.

    PREWHERE, because finding that plan costs the engine as much as running it.
    """
    return f"SELECT {READ_COLUMNS} FROM span_rows PREWHERE {place}", f"SELECT body FROM piece_rows PREWHERE {place}"


def spans_from_blocks(raw: bytes) -> list[SpanRecord]:
    """Return the spans of an answer to `run_statement`, or of answers to both `run_parts`, in the Native format.

    A span that was sent twice is there once. A piece is looked up by the hash of its content, so a damaged one is not found.

    Raises:
        WireError: a piece is missing, or a value is not of its type, or the answer is not complete.
    """
    rows: list[Mapping[str, Any]] = []
    bodies: dict[bytes, bytes] = {}
    try:
        for block in decode_blocks(raw, binary={"body"}):
            if "trace_id" in block:
                found = [dict(zip(block, cells, strict=True)) for cells in zip(*block.values(), strict=True)]
                rows += [row for row in found if row["trace_id"]]
            if "body" in block:
                bodies |= {piece_hash(body): body for body in {*block["body"]}}
    except ValueError as error:
        raise WireError(f"rows of a run: {error}") from None
    return spans_from_rows(rows, bodies)


def spans_from_rows(rows: Iterable[Mapping[str, Any]], bodies: Mapping[bytes, bytes]) -> list[SpanRecord]:
    """Return the spans that the rows hold, each once, by start.

    Args:
        rows: rows with `READ_COLUMNS`, by column name, in any order, with values as `rows_from_spans` makes them.
        bodies: hash -> bytes of every payload piece of the runs.

    Raises:
        WireError: a piece is missing, or a value is not of its type.
    """
    reader = _Reader(bodies)
    once = {(row["trace_id"], row["span_id"]): row for row in rows}
    return [reader.span(row) for row in sorted(once.values(), key=lambda row: (row["start_time"], row["span_id"]))]


class _Reader:
    def __init__(self, bodies: Mapping[bytes, bytes]) -> None:
        self._bodies = bodies
        self._origins: dict[str, tuple[Resource, Scope]] = {}

    def span(self, row: Mapping[str, Any]) -> SpanRecord:
        rest: dict[str, Any] = json.loads(row["rest"]) if row["rest"] else {}
        types: Mapping[str, str] = {**TYPE_OF, **rest["types"]} if "types" in rest else TYPE_OF
        start = row["start_time"]
        times: list[int] = rest.get("times") or [start, start + row["duration_ns"]]
        dropped: list[int] = rest.get("dropped") or [0, 0, 0]
        where = f"run {row['trace_id']}, span {row['span_id']}"
        attributes = from_cells(row["attributes"], types) | self._large(where, row["refs"], types, row["templates"])
        if row["chunk_sizes"]:
            attributes[genai.RESPONSE_CHUNK_SIZES] = tuple(row["chunk_sizes"])
        if row["chunk_gaps"]:
            attributes[genai.RESPONSE_CHUNK_OFFSETS_NS] = chunk_offsets(row["chunk_gaps"])
        resource, scope = self._origin(where, row["origin"])
        return SpanRecord(
            trace_id=row["trace_id"],
            span_id=row["span_id"],
            parent_span_id=row["parent_span_id"],
            name=row["name"],
            kind=_KINDS[rest["kind"]] if "kind" in rest else SpanKind.INTERNAL,
            trace_state=rest.get("trace_state", ""),
            flags=rest.get("flags", 0),
            start_time_unix_nano=times[0],
            end_time_unix_nano=times[1],
            attributes=attributes,
            status_code=_STATUSES[row["status"]],
            status_message=rest.get("status_message", ""),
            events=_events(rest["events"]) if "events" in rest else (),
            links=_links(rest["links"]) if "links" in rest else (),
            resource=resource,
            scope=scope,
            dropped_attributes_count=dropped[0],
            dropped_events_count=dropped[1],
            dropped_links_count=dropped[2],
        )

    def _large(
        self, where: str, refs: Mapping[str, Sequence[bytes]], types: Mapping[str, str], templates: str = ""
    ) -> dict[str, AttributeValue]:
        values: dict[str, AttributeValue] = {}
        around = templates.split(BETWEEN) if templates else [""] * len(refs)
        for (name, hashes), template in zip(refs.items(), around, strict=True):
            try:
                raw = fill(template, hashes, self._bodies)
            except ValueError as error:
                raise WireError(f"{where}: {name}: {error}") from None
            except KeyError as error:
                raise WireError(
                    f"{where}: {name}: piece {error.args[0].hex()} is not in the "
                    f"store, or damaged; expected all {len(hashes)} pieces of the value"
                ) from None
            type_ = types.get(name, TEXT)
            values[name] = raw if type_ == "bytes" else from_cell(type_, raw.decode())
        return values

    def _origin(self, where: str, text: str) -> tuple[Resource, Scope]:
        found = self._origins.get(text)
        if found is None:
            origin: dict[str, Any] = json.loads(text) if text else {}
            types = {**TYPE_OF, **origin.get("types", {})}
            refs = {name: [bytes.fromhex(digest) for digest in hashes] for name, hashes in origin.get("refs", {}).items()}
            resource = Resource(
                attributes=from_cells(origin.get("resource", {}), types) | self._large(where, refs, types),
                dropped_attributes_count=origin.get("resource_dropped", 0),
                schema_url=origin.get("resource_schema_url", ""),
            )
            scope = Scope(
                name=origin.get("scope_name", ""),
                version=origin.get("scope_version", ""),
                attributes=from_cells(*origin.get("scope", ({}, {}))),
                dropped_attributes_count=origin.get("scope_dropped", 0),
                schema_url=origin.get("scope_schema_url", ""),
            )
            found = self._origins[text] = resource, scope
        return found


def _events(said: Mapping[str, Any]) -> tuple[Event, ...]:
    return tuple(
        Event(time_unix_nano=time, name=name, attributes=attributes, dropped_attributes_count=dropped)
        for time, name, (attributes, dropped) in zip(said["time"], said["name"], _items(said), strict=True)
    )


def _links(said: Mapping[str, Any]) -> tuple[Link, ...]:
    flags: Sequence[int] = said.get("flags") or [0] * len(said["span_id"])
    columns = (said["trace_id"], said["span_id"], said["trace_state"], flags, _items(said))
    return tuple(
        Link(
            trace_id=trace_id,
            span_id=span_id,
            trace_state=trace_state,
            attributes=attributes,
            dropped_attributes_count=dropped,
            flags=flag,
        )
        for trace_id, span_id, trace_state, flag, (attributes, dropped) in zip(*columns, strict=True)
    )


def _items(said: Mapping[str, Any]) -> list[tuple[Attributes, int]]:
    texts: Sequence[Mapping[str, str]] = said["attributes"]
    types: Sequence[Mapping[str, str]] = said.get("types") or [{}] * len(texts)
    dropped: Sequence[int] = said.get("dropped") or [0] * len(texts)
    return [(from_cells(*cells), count) for *cells, count in zip(texts, types, dropped, strict=True)]
