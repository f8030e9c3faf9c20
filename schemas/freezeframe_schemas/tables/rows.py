"""Spans to rows; `reading` is the way back, and the round trip is exact.

Law (``tests/store/test_round_trip.py``): ``spans_from_rows`` of what ``rows_from_spans`` made are the same spans, types too.
An attribute goes to the column of its name. If the column alone would not return the exact value (another type, out of range,
empty), it goes to the map `attributes` too, and the map wins. Large and content attributes go to payload pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from freezeframe_schemas import genai
from freezeframe_schemas.gaps import span_gaps
from freezeframe_schemas.span import (
    AttributeValue,
    Resource,
    SpanKind,
    SpanRecord,
    StatusCode,
)
from freezeframe_schemas.tables.cells import TEXT, to_cell, to_cells
from freezeframe_schemas.tables.columns import (
    ATTRIBUTE_COLUMNS,
    CONTENT_ATTRIBUTES,
    INLINE_LIMIT,
    PAYLOAD_COLUMNS,
    RESOURCE_COLUMNS,
    SPAN_COLUMNS,
    Column,
)
from freezeframe_schemas.tables.fits import FITS
from freezeframe_schemas.tables.native import encode_block
from freezeframe_schemas.tables.previews import input_preview, output_preview
from freezeframe_schemas.tables.templates import BETWEEN, Cut, CutMemory

HOUR_NS: Final = 3_600_000_000_000
_TIME_LIMIT: Final = 1 << 63
_KIND_NAMES: Final = [kind.name.capitalize() for kind in SpanKind]
_STATUS_NAMES: Final = [code.name.capitalize() for code in StatusCode]

StoredPieces = Mapping[str, AbstractSet[bytes]]
"""Trace id -> hashes of its payload pieces."""
Refs = Mapping[str, Sequence[bytes]]
"""Attribute -> hashes of its pieces, in order."""


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
    pieces: Sequence[tuple[str, bytes]]
    """The trace id and hash of each row of `payloads`."""


def rows_from_spans(
    spans: Sequence[SpanRecord],
    *,
    run_hours: Mapping[str, int] | None = None,
    stored: StoredPieces | None = None,
    memory: CutMemory | None = None,
) -> Rows:
    """Return the rows that hold `spans`.

    Args:
        spans: any spans, of any runs.
        run_hours: trace id -> the hour under which the run's rows are stored, in seconds; a run that is not listed takes the
            hour of its first span here. It only affects the place on disk: reading is correct whatever it is.
        stored: trace id -> hashes of pieces that the store holds already, which are left out of `Rows.payloads`.
        memory: what was cut before, to save cutting it again.
    """
    hours = _run_hours(spans) | dict(run_hours or {})
    return _Writer(spans, hours=hours, stored=stored or {}, memory=memory or CutMemory()).write()


def tenant_of(span: SpanRecord) -> str:
    """Return the tenant that a span belongs to, empty if none was set."""
    return _text_of(span.attributes.get(genai.TENANT)) or _text_of(span.resource.attributes.get(genai.TENANT))


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


def _empty(column: Column) -> Any:
    if column.type.startswith("Nullable("):
        return None
    if column.type.startswith("Array("):
        return ()
    if column.type.startswith("Map("):
        return {}
    return "" if "String" in column.type else 0


_AT: Final = {column.name: index for index, column in enumerate(SPAN_COLUMNS)}
_EMPTY: Final = [_empty(column) for column in SPAN_COLUMNS]
_TENANT, _RUN_HOUR = _AT["tenant"], _AT["run_hour"]
_START_TIME, _DURATION = _AT["start_time"], _AT["duration_ns"]
_ATTRIBUTES, _ATTRIBUTE_TYPES, _REFS = _AT["attributes"], _AT["attribute_types"], _AT["refs"]
_RESOURCE, _RESOURCE_TYPES, _RESOURCE_REFS = _AT["resource"], _AT["resource_types"], _AT["resource_refs"]
_PAYLOAD_BYTES, _GAPS, _REST = _AT["payload_bytes"], _AT["gaps"], _AT["rest"]
_PREVIEWS, _TEMPLATES = _AT["previews"], _AT["templates"]
_FIELDS: Final[Mapping[str, Callable[[SpanRecord], Any]]] = {
    **{
        name: attrgetter(name)
        for name in ("trace_id", "span_id", "parent_span_id", "trace_state", "flags", "name", "status_message")
    },
    "kind": lambda span: _KIND_NAMES[span.kind],
    "status": lambda span: _STATUS_NAMES[span.status_code],
    "scope_name": attrgetter("scope.name"),
    "scope_version": attrgetter("scope.version"),
    "scope_schema_url": attrgetter("scope.schema_url"),
    "resource_schema_url": attrgetter("resource.schema_url"),
}
"""The columns that are fields of every span."""
_BY_ATTRIBUTE: Final = {c.attribute: (_AT[c.name], FITS[c.type]) for c in ATTRIBUTE_COLUMNS}
_BY_RESOURCE: Final = {c.attribute: (_AT[c.name], FITS[c.type]) for c in RESOURCE_COLUMNS}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResourceCells:
    cells: Mapping[int, Any]
    texts: Mapping[str, str]
    types: Mapping[str, str]
    large: Mapping[str, bytes]


class _Writer:
    """Turns spans into columns and gathers their pieces.

    Columns that nearly every span fills are built by one comprehension each; the others start as empty cells and are filled
    when a span has the attribute. A row as a Python object never exists: building and transposing rows took half of the time.
    """

    def __init__(
        self, spans: Sequence[SpanRecord], *, hours: Mapping[str, int], stored: StoredPieces, memory: CutMemory
    ) -> None:
        self._spans = spans
        self._hours = hours
        self._stored = stored
        self._memory = memory
        self._columns: list[list[Any]] = [[empty] * len(spans) for empty in _EMPTY]
        self._pieces: list[tuple[str, bytes]] = []
        self._piece_rows: list[tuple[int, str, int, str, int, str, bytes]] = []
        self._seen: dict[str, set[bytes]] = {}
        self._resources: dict[int, _ResourceCells] = {}
        self._resource_refs: dict[tuple[str, int], dict[str, Sequence[bytes]]] = {}

    def write(self) -> Rows:
        for index, span in enumerate(self._spans):
            self._write_span(index, span)
        columns = {column.name: (column.type, cells) for column, cells in zip(SPAN_COLUMNS, self._columns, strict=True)}
        columns |= {name: (columns[name][0], [field(span) for span in self._spans]) for name, field in _FIELDS.items()}
        return Rows(spans=Batch(columns=columns), payloads=self._payloads(), pieces=self._pieces)

    def _write_span(self, index: int, span: SpanRecord) -> None:
        columns = self._columns
        texts: dict[str, str] = {}
        types: dict[str, str] = {}
        large: dict[str, bytes] = {}
        for name, value in span.attributes.items():
            known = _BY_ATTRIBUTE.get(name)
            if known is not None:
                at, fit = known
                cell, exact = fit(value)
                if cell is not None:
                    columns[at][index] = cell
                if exact:
                    continue
            if type(value) is str and len(value) <= INLINE_LIMIT and name not in CONTENT_ATTRIBUTES:
                texts[name] = value  # as `_place` would: the most frequent case
            else:
                _place(name, value, texts, types, large)
        resource = self._resource(span.resource)
        for at, cell in resource.cells.items():
            columns[at][index] = cell
        tenant = tenant_of(span)
        columns[_TENANT][index] = tenant
        columns[_RUN_HOUR][index] = self._hours[span.trace_id]
        columns[_ATTRIBUTES][index] = texts
        if types:
            columns[_ATTRIBUTE_TYPES][index] = types
        columns[_RESOURCE][index] = resource.texts
        if resource.types:
            columns[_RESOURCE_TYPES][index] = resource.types
        if resource.large:
            columns[_RESOURCE_REFS][index] = self._refs_of_resource(span, tenant, resource)
        if large:
            cuts = self._cuts(span.trace_id, large)
            columns[_REFS][index] = {name: cut.hashes for name, cut in zip(large, cuts, strict=True)}
            columns[_TEMPLATES][index] = BETWEEN.join([cut.template for cut in cuts])
            for name, cut in zip(large, cuts, strict=True):
                self._keep(span, tenant, name, cut.pieces, cut.hashes)
            columns[_PAYLOAD_BYTES][index] = sum(map(len, large.values()))
            columns[_PREVIEWS][index] = (input_preview(large), output_preview(large))
        if gaps := tuple(dict.fromkeys(gap.kind.value for gap in span_gaps(span))):
            columns[_GAPS][index] = gaps
        rest = _rest(span)
        if rest:
            columns[_REST][index] = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
        if "times" not in rest:
            columns[_START_TIME][index] = span.start_time_unix_nano
            columns[_DURATION][index] = span.end_time_unix_nano - span.start_time_unix_nano
        if span.events:
            columns[_AT["events.time"]][index] = tuple(_clipped(event.time_unix_nano) for event in span.events)
            columns[_AT["events.name"]][index] = tuple(event.name for event in span.events)
            columns[_AT["events.attributes"]][index] = tuple(to_cells(event.attributes)[0] for event in span.events)
        if span.links:
            columns[_AT["links.trace_id"]][index] = tuple(link.trace_id for link in span.links)
            columns[_AT["links.span_id"]][index] = tuple(link.span_id for link in span.links)
            columns[_AT["links.trace_state"]][index] = tuple(link.trace_state for link in span.links)
            columns[_AT["links.attributes"]][index] = tuple(to_cells(link.attributes)[0] for link in span.links)

    def _cuts(self, trace_id: str, large: Mapping[str, bytes]) -> list[Cut]:
        """Return the values taken apart; one that comes twice, like a tool's result, is cut once."""
        cuts: list[Cut] = []
        by_size: dict[int, tuple[bytes, Cut]] = {}  # comparing by value would hash every byte
        for name, raw in large.items():
            size = len(raw)
            before = by_size.get(size)
            made = before[1] if before is not None and before[0] == raw else self._memory.cut(trace_id, name, raw)
            by_size[size] = raw, made
            cuts.append(made)
        return cuts

    def _resource(self, resource: Resource) -> _ResourceCells:
        # spans of one batch share their resource object; the id is safe because the span list keeps it alive
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

    def _refs_of_resource(self, span: SpanRecord, tenant: str, resource: _ResourceCells) -> Refs:
        key = (span.trace_id, id(span.resource))
        refs = self._resource_refs.get(key)
        if refs is None:
            refs = self._resource_refs[key] = {}
            for name, raw in resource.large.items():
                # without a template, which would be stored with each of the run's spans
                pieces, refs[name] = self._memory.joined.split(span.trace_id, name, raw)
                self._keep(span, tenant, name, pieces, refs[name])
        return refs

    def _keep(self, span: SpanRecord, tenant: str, name: str, pieces: Sequence[bytes], hashes: Sequence[bytes]) -> None:
        """Make rows of the pieces that the run does not have yet."""
        trace_id = span.trace_id
        seen = self._seen.get(trace_id)
        if seen is None:
            # a copy: what this batch adds counts as stored only once its insert has succeeded
            seen = self._seen[trace_id] = set(self._stored.get(trace_id, ()))
        if seen.issuperset(hashes):
            return
        second = min(max(span.start_time_unix_nano // 1_000_000_000, 0), 0xFFFFFFFF)
        for piece, digest in zip(pieces, hashes, strict=True):
            if digest not in seen:
                seen.add(digest)
                self._pieces.append((trace_id, digest))
                self._piece_rows.append((0, tenant, self._hours[trace_id], trace_id, second, name, piece))

    def _payloads(self) -> Batch:
        cells = zip(*self._piece_rows, strict=True) if self._piece_rows else ([] for _ in PAYLOAD_COLUMNS)
        return Batch(
            columns={column.name: (column.type, values) for column, values in zip(PAYLOAD_COLUMNS, cells, strict=True)}
        )


def _place(name: str, value: AttributeValue, texts: dict[str, str], types: dict[str, str], large: dict[str, bytes]) -> None:
    """Put an attribute among the small ones, or as bytes among the large ones."""
    if isinstance(value, bytes):
        types[name] = "bytes"
        if len(value) > INLINE_LIMIT or (value and name in CONTENT_ATTRIBUTES):
            large[name] = value
        else:
            texts[name] = to_cell(value)[1]
        return
    type_, text = (TEXT, value) if isinstance(value, str) else to_cell(value)
    if type_:
        types[name] = type_
    if len(text) > INLINE_LIMIT or (text and name in CONTENT_ATTRIBUTES):
        large[name] = text.encode()
    else:
        texts[name] = text


def _clipped(time_unix_nano: int) -> int:
    return time_unix_nano if 0 <= time_unix_nano < _TIME_LIMIT else 0


def _rest(span: SpanRecord) -> dict[str, Any]:
    """Return the fields that no column holds; empty for an ordinary span."""
    rest: dict[str, Any] = {}
    end_fits = 0 <= span.end_time_unix_nano < _TIME_LIMIT
    if not (end_fits and 0 <= span.start_time_unix_nano < _TIME_LIMIT):
        rest["times"] = [span.start_time_unix_nano, span.end_time_unix_nano]
    if span.dropped_attributes_count or span.dropped_events_count or span.dropped_links_count:
        rest["dropped"] = [span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count]
    if span.resource.dropped_attributes_count:
        rest["resource_dropped"] = span.resource.dropped_attributes_count
    if span.scope.attributes:
        rest["scope"] = to_cells(span.scope.attributes)
    if span.scope.dropped_attributes_count:
        rest["scope_dropped"] = span.scope.dropped_attributes_count
    if not span.events and not span.links:
        return rest
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
