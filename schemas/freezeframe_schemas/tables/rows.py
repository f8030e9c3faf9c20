"""Spans to rows and back: the exact round trip.

Law (``tests/store/test_round_trip.py``): ``spans_from_rows`` of what ``rows_from_spans`` made are the same spans, types too.
An attribute goes to the column of its name; where the column alone would not give the very value back (another type, out of
range, empty) it goes to the map `attributes` too, and the map wins. Large and content attributes go to payload pieces.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from freezeframe_schemas.tables.cells import TEXT, from_cell, from_cells, to_cell, to_cells
from freezeframe_schemas.tables.columns import (
    ATTRIBUTE_COLUMNS,
    CONTENT_ATTRIBUTES,
    INLINE_LIMIT,
    PAYLOAD_COLUMNS,
    RESOURCE_COLUMNS,
    SPAN_COLUMNS,
    Column,
    Source,
)
from freezeframe_schemas.tables.native import encode_block
from freezeframe_schemas.tables.pieces import SplitMemory, join
from freezeframe_schemas.tables.previews import input_preview, output_preview
from freezeframe_schemas.values import is_opaque

HOUR_NS: Final = 3_600_000_000_000
_TIME_LIMIT: Final = 1 << 63
_KIND_NAMES: Final = {kind: kind.name.capitalize() for kind in SpanKind}
_KINDS: Final = {name: kind for kind, name in _KIND_NAMES.items()}
_STATUS_NAMES: Final = {code: code.name.capitalize() for code in StatusCode}
_STATUSES: Final = {name: code for code, name in _STATUS_NAMES.items()}

Piece = tuple[str, bytes]
"""A payload piece's identity: the run's trace id and the hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Columns for one table: ``{name: (type, values)}``."""

    columns: Mapping[str, tuple[str, Sequence[Any]]]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values()))[1])

    def values(self, name: str) -> Sequence[Any]:
        """Return one column's values."""
        return self.columns[name][1]

    def encode(self) -> bytes:
        """Return the rows as one block in ClickHouse's Native format."""
        return encode_block(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a list of spans becomes in the store."""

    spans: Batch
    payloads: Batch


def rows_from_spans(
    spans: Sequence[SpanRecord],
    *,
    run_hours: Mapping[str, int] | None = None,
    stored: Container[Piece] = frozenset(),
    memory: SplitMemory | None = None,
) -> Rows:
    """Return the rows that hold `spans`.

    Args:
        spans: any spans, of any runs.
        run_hours: trace id -> the hour that the run's rows are stored under, in seconds; a run that is not named takes the
            hour of its first span here. Only a matter of place on disk: reading is right whatever it is.
        stored: pieces that the store holds already, which are left out of `Rows.payloads`.
        memory: what was split before, to save splitting it again.
    """
    hours = _run_hours(spans) | dict(run_hours or {})
    writer = _Writer(hours=hours, stored=stored, memory=memory or SplitMemory())
    span_rows = [writer.row(span) for span in spans]
    return Rows(
        spans=_batch(SPAN_COLUMNS, span_rows),
        payloads=_batch(PAYLOAD_COLUMNS, writer.piece_rows),
    )


def tenant_of(span: SpanRecord) -> str:
    """Return the tenant that a span belongs to, empty where none was set."""
    return span.text(genai.TENANT) or _text_of(span.resource.attributes.get(genai.TENANT))


def run_hour_of(start_time_unix_nano: int) -> int:
    """Return the hour of a time, in seconds since 1970."""
    return min(start_time_unix_nano, _TIME_LIMIT // 4) // HOUR_NS * 3600


def _text_of(value: AttributeValue) -> str:
    return value if isinstance(value, str) else ""


def _run_hours(spans: Sequence[SpanRecord]) -> dict[str, int]:
    starts: dict[str, int] = {}
    for span in spans:
        start = starts.get(span.trace_id)
        if start is None or span.start_time_unix_nano < start:
            starts[span.trace_id] = span.start_time_unix_nano
    return {trace_id: run_hour_of(start) for trace_id, start in starts.items()}


def _batch(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Batch:
    transposed = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return Batch(columns={column.name: (column.type, values) for column, values in zip(columns, transposed, strict=True)})


# -- values to cells ----------------------------------------------------------------------------------------------------

Fit = Callable[[AttributeValue], tuple[Any, bool]]
"""Value -> the cell (None: leave it empty), and whether the cell alone gives the value back."""


def _fit_text(value: AttributeValue) -> tuple[Any, bool]:
    fits = isinstance(value, str) and 0 < len(value) <= INLINE_LIMIT
    return (value, True) if fits else (None, False)


def _fit_int(value: AttributeValue) -> tuple[Any, bool]:
    fits = type(value) is int and -_TIME_LIMIT <= value < _TIME_LIMIT
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


_FITS: Final[Mapping[str, Fit]] = {
    "String": _fit_text,
    "LowCardinality(String)": _fit_text,
    "Nullable(Int64)": _fit_int,
    "Nullable(Float64)": _fit_double,
    "Nullable(Bool)": _fit_bool,
    "Array(LowCardinality(String))": _fit_texts,
    "Array(UInt32)": _fit_numbers(1 << 32),
    "Array(UInt64)": _fit_numbers(1 << 64),
}


def _empty(column: Column) -> Any:
    if column.type.startswith("Nullable("):
        return None
    if column.type.startswith("Array("):
        return ()
    if column.type.startswith("Map("):
        return {}
    return "" if "String" in column.type else 0


_AT: Final = {column.name: index for index, column in enumerate(SPAN_COLUMNS)}
_DEFAULTS: Final = [_empty(column) for column in SPAN_COLUMNS]
_BY_ATTRIBUTE: Final = {c.attribute: (_AT[c.name], _FITS[c.type]) for c in ATTRIBUTE_COLUMNS}
_BY_RESOURCE: Final = {c.attribute: (_AT[c.name], _FITS[c.type]) for c in RESOURCE_COLUMNS}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResourceCells:
    cells: Mapping[int, Any]
    texts: Mapping[str, str]
    types: Mapping[str, str]
    large: Mapping[str, bytes]


class _Writer:
    """Turns spans to rows and gathers their pieces."""

    def __init__(self, *, hours: Mapping[str, int], stored: Container[Piece], memory: SplitMemory) -> None:
        self.piece_rows: list[tuple[int, str, int, str, bytes, str, bytes]] = []
        self._hours = hours
        self._stored = stored
        self._memory = memory
        self._seen: defaultdict[str, set[bytes]] = defaultdict(set)
        self._resources: dict[int, _ResourceCells] = {}

    def row(self, span: SpanRecord) -> list[Any]:
        row = _DEFAULTS.copy()
        texts: dict[str, str] = {}
        types: dict[str, str] = {}
        large: dict[str, bytes] = {}
        for name, value in span.attributes.items():
            known = _BY_ATTRIBUTE.get(name)
            if known is not None:
                at, fit = known
                cell, exact = fit(value)
                if cell is not None:
                    row[at] = cell
                if exact:
                    continue
            _place(name, value, texts, types, large)
        resource = self._resource(span.resource)
        for at, cell in resource.cells.items():
            row[at] = cell
        tenant = tenant_of(span)
        rest = _rest(span)
        values: dict[str, Any] = {
            "tenant": tenant,
            "run_hour": self._hours[span.trace_id],
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "trace_state": span.trace_state,
            "flags": span.flags,
            "name": span.name,
            "kind": _KIND_NAMES[span.kind],
            "status": _STATUS_NAMES[span.status_code],
            "status_message": span.status_message,
            "scope_name": span.scope.name,
            "scope_version": span.scope.version,
            "scope_schema_url": span.scope.schema_url,
            "resource_schema_url": span.resource.schema_url,
            "payload_bytes": sum(map(len, large.values())),
            "attributes": texts,
            "attribute_types": types,
            "refs": self._refs(span.trace_id, tenant, large),
            "resource": resource.texts,
            "resource_types": resource.types,
            "resource_refs": self._refs(span.trace_id, tenant, resource.large) if resource.large else {},
            "rest": json.dumps(rest, ensure_ascii=False, separators=(",", ":")) if rest else "",
        }
        if "times" not in rest:
            values["start_time"] = span.start_time_unix_nano
            values["duration_ns"] = span.end_time_unix_nano - span.start_time_unix_nano
        if large:
            values["input_preview"] = input_preview(large)
            values["output_preview"] = output_preview(large)
        if gaps := _span_gaps(span, large):
            values["gaps"] = gaps
        if span.events:
            values["events.time"] = tuple(_clipped(event.time_unix_nano) for event in span.events)
            values["events.name"] = tuple(event.name for event in span.events)
            values["events.attributes"] = tuple(to_cells(event.attributes)[0] for event in span.events)
        if span.links:
            values["links.trace_id"] = tuple(link.trace_id for link in span.links)
            values["links.span_id"] = tuple(link.span_id for link in span.links)
            values["links.trace_state"] = tuple(link.trace_state for link in span.links)
            values["links.attributes"] = tuple(to_cells(link.attributes)[0] for link in span.links)
        for name, value in values.items():
            row[_AT[name]] = value
        return row

    def _resource(self, resource: Resource) -> _ResourceCells:
        # spans of one batch share their resource object; the id is safe as the span list keeps it alive
        found = self._resources.get(id(resource))
        if found is not None:
            return found
        cells: dict[int, Any] = {}
        texts: dict[str, str] = {}
        types: dict[str, str] = {}
        large: dict[str, bytes] = {}
        for name, value in resource.attributes.items():
            known = _BY_RESOURCE.get(name)
            if known is not None:
                at, fit = known
                cell, exact = fit(value)
                if cell is not None:
                    cells[at] = cell
                if exact:
                    continue
            _place(name, value, texts, types, large)
        made = _ResourceCells(cells=cells, texts=texts, types=types, large=large)
        self._resources[id(resource)] = made
        return made

    def _refs(self, trace_id: str, tenant: str, large: Mapping[str, bytes]) -> dict[str, list[bytes]]:
        refs: dict[str, list[bytes]] = {}
        seen = self._seen[trace_id]
        for name, raw in large.items():
            pieces, refs[name] = self._memory.split(trace_id, name, raw)
            for piece, digest in zip(pieces, refs[name], strict=True):
                if digest in seen:
                    continue
                seen.add(digest)
                if (trace_id, digest) in self._stored:
                    continue
                self.piece_rows.append((0, tenant, self._hours[trace_id], trace_id, digest, name, piece))
        return refs


def _place(name: str, value: AttributeValue, texts: dict[str, str], types: dict[str, str], large: dict[str, bytes]) -> None:
    """Put an attribute where it belongs: among the small ones, or as bytes among the large ones."""
    if isinstance(value, bytes):
        type_, text = "bytes", None
        size = len(value)
    else:
        type_, text = to_cell(value)
        size = len(text)
    if type_ != TEXT:
        types[name] = type_
    if size > INLINE_LIMIT or (size and name in CONTENT_ATTRIBUTES):
        large[name] = value if isinstance(value, bytes) else str(text).encode()
    else:
        texts[name] = to_cell(value)[1] if text is None else text


def _clipped(time_unix_nano: int) -> int:
    return time_unix_nano if 0 <= time_unix_nano < _TIME_LIMIT else 0


def _span_gaps(span: SpanRecord, large: Mapping[str, bytes]) -> tuple[str, ...]:
    gaps: list[str] = []
    if span.dropped_attributes_count:
        gaps.append("attributes_dropped")
    if genai.EXCHANGE_KIND in span.attributes:
        if genai.REQUEST_BODY_OMITTED in span.attributes:
            gaps.append("request_omitted")
        if genai.RESPONSE_BODY_OMITTED in span.attributes:
            gaps.append("response_omitted")
        body = large.get(genai.RESPONSE_BODY, b"")
        if (
            genai.HTTP_REQUEST_METHOD not in span.attributes
            and b'"opaque"' in body
            and is_opaque(body.decode(errors="replace"))
        ):
            gaps.append("result_opaque")
    return tuple(gaps)


def _rest(span: SpanRecord) -> dict[str, Any]:
    """Return what no column holds; empty for an ordinary span."""
    rest: dict[str, Any] = {}
    end_fits = 0 <= span.end_time_unix_nano < _TIME_LIMIT
    if not (end_fits and 0 <= span.start_time_unix_nano < _TIME_LIMIT):
        rest["times"] = [span.start_time_unix_nano, span.end_time_unix_nano]
    dropped = [span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count]
    if any(dropped):
        rest["dropped"] = dropped
    if span.resource.dropped_attributes_count:
        rest["resource_dropped"] = span.resource.dropped_attributes_count
    if span.scope.attributes:
        rest["scope"] = to_cells(span.scope.attributes)
    if span.scope.dropped_attributes_count:
        rest["scope_dropped"] = span.scope.dropped_attributes_count
    if any(not 0 <= event.time_unix_nano < _TIME_LIMIT for event in span.events):
        rest["event_times"] = [event.time_unix_nano for event in span.events]
    for key, items in (("event", span.events), ("link", span.links)):
        types = [to_cells(item.attributes)[1] for item in items]
        if any(types):
            rest[f"{key}_types"] = types
        if any(item.dropped_attributes_count for item in items):
            rest[f"{key}_dropped"] = [item.dropped_attributes_count for item in items]
    if any(link.flags for link in span.links):
        rest["link_flags"] = [link.flags for link in span.links]
    return rest


_HEX: Final = "mapApply((name, hashes) -> (name, arrayMap(hash -> lower(hex(hash)), hashes)), {0}) AS {0}_hex"


# -- rows to spans ------------------------------------------------------------------------------------------------------


def span_select() -> str:
    """Return the select list that `spans_from_rows` reads, over ``span_rows``.

    Over the table, not the view ``spans``: the same rows, and half the time of a query that names every column. A span that was
    sent twice is there twice: ``LIMIT 1 BY span_id``.
    """
    parts = [f"`{column.name}`" for column in SPAN_COLUMNS if column.source is not Source.DERIVED]
    swaps = {
        "`start_time`": "toUnixTimestamp64Nano(start_time) AS start_ns",
        "`events.time`": "arrayMap(t -> toUnixTimestamp64Nano(t), events.time) AS `events.ns`",
        "`attribute_types`": "CAST(attribute_types, 'Map(String, String)') AS types",
        "`refs`": _HEX.format("refs"),
        "`resource_refs`": _HEX.format("resource_refs"),
        "`resource_types`": "CAST(resource_types, 'Map(String, String)') AS types_of_resource",
    }
    return ", ".join(swaps.get(part, part) for part in parts)


def spans_from_rows(rows: Iterable[Mapping[str, Any]], bodies: Mapping[str, bytes]) -> list[SpanRecord]:
    """Return the spans that the rows hold, in the rows' order.

    Args:
        rows: rows of `span_select`, by column name; text may be ``str`` or ``bytes``.
        bodies: hash (hex) -> bytes of every payload piece of the runs.

    Raises:
        WireError: a piece is missing, or a value is not of its type.
    """
    reader = _Reader(bodies)
    return [reader.span(row) for row in rows]


def _decoded(value: Any) -> Any:
    """Return a foreign cell with its bytes as text."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_decoded(name): _decoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_decoded(item) for item in value]
    return value


class _Reader:
    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self._bodies = bodies
        self._resources: dict[str, Resource] = {}
        self._scopes: dict[str, Scope] = {}

    def span(self, foreign: Mapping[str, Any]) -> SpanRecord:
        row = {name: _decoded(value) for name, value in foreign.items()}
        rest: dict[str, Any] = json.loads(row["rest"]) if row["rest"] else {}
        start = row["start_ns"]
        times: list[int] = rest.get("times") or [start, start + row["duration_ns"]]
        dropped: list[int] = rest.get("dropped") or [0, 0, 0]
        attributes = _column_values(row, ATTRIBUTE_COLUMNS)
        attributes |= from_cells(row["attributes"], row["types"])
        attributes |= self._large(row, row["refs_hex"], row["types"])
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
        self, row: Mapping[str, Any], refs: Mapping[str, Sequence[str]], types: Mapping[str, str]
    ) -> dict[str, AttributeValue]:
        values: dict[str, AttributeValue] = {}
        for name, hashes in refs.items():
            try:
                raw = join(hashes, self._bodies)
            except KeyError as error:
                raise WireError(
                    f"run {row['trace_id']}, span {row['span_id']}: {name}: piece {error.args[0]} is not in the store, "
                    f"expected all {len(hashes)} pieces of the value"
                ) from None
            type_ = types.get(name, TEXT)
            values[name] = raw if type_ == "bytes" else from_cell(type_, raw.decode())
        return values

    def _resource(self, row: Mapping[str, Any], rest: Mapping[str, Any]) -> Resource:
        types: dict[str, str] = row["types_of_resource"]
        columns = _column_values(row, RESOURCE_COLUMNS)
        dropped: int = rest.get("resource_dropped", 0)
        key = repr((row["resource"], types, row["resource_refs_hex"], columns, row["resource_schema_url"], dropped))
        if key not in self._resources:
            self._resources[key] = Resource(
                attributes=columns | from_cells(row["resource"], types) | self._large(row, row["resource_refs_hex"], types),
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
    times = rest.get("event_times") or row["events.ns"]
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
