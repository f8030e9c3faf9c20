"""Spans to rows; `reading` is the way back, and the round trip is exact.

Law (``tests/store/test_round_trip.py``): ``spans_from_rows`` rebuilds the spans given to ``rows_from_spans``, types included.
Every attribute goes to the map `attributes`; large and content attributes go to payload pieces (`refs`), and chunk borders to
their own columns. The typed columns next to them are only for queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from freezeframe_schemas import genai
from freezeframe_schemas.gaps import span_gaps
from freezeframe_schemas.span import AttributeValue, Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.tables.cells import TEXT, to_cell, to_cells
from freezeframe_schemas.tables.columns import (
    CONTENT_ATTRIBUTES,
    INLINE_LIMIT,
    PAYLOAD_COLUMNS,
    STORED_SPAN_COLUMNS,
    TYPE_OF,
    Column,
    Source,
)
from freezeframe_schemas.tables.fits import FITS, chunk_gaps, holds_numbers
from freezeframe_schemas.tables.native import encode_block
from freezeframe_schemas.tables.pieces import piece_hash, split
from freezeframe_schemas.tables.previews import input_preview, output_preview
from freezeframe_schemas.tables.templates import BETWEEN, Cut, CutMemory

HOUR_NS: Final = 3_600_000_000_000
_TIME_LIMIT: Final = 1 << 63
MAX_NAME_CHARS: Final = 1000
"""Of a span's name in the store: lists show it whole."""
_KIND_NAMES: Final = [kind.name.capitalize() for kind in SpanKind]
_STATUS_NAMES: Final = [code.name.capitalize() for code in StatusCode]

StoredPieces = Mapping[str, AbstractSet[bytes]]
"""Trace id -> hashes of its payload pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
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
    """Rows of a list of spans."""

    spans: Block
    payloads: Block
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
        memory: earlier cuts, to save cutting again.
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


_AT: Final = {column.name: index for index, column in enumerate(STORED_SPAN_COLUMNS)}
_EMPTY: Final = [_empty(column) for column in STORED_SPAN_COLUMNS]
_TENANT, _RUN_HOUR = _AT["tenant"], _AT["run_hour"]
_START_TIME, _DURATION = _AT["start_time"], _AT["duration_ns"]
_ATTRIBUTES, _REFS, _TEMPLATES = _AT["attributes"], _AT["refs"], _AT["templates"]
_SERVICE, _ORIGIN, _REST = _AT["service"], _AT["origin"], _AT["rest"]
_PAYLOAD_BYTES, _GAPS, _PREVIEWS = _AT["payload_bytes"], _AT["gaps"], _AT["previews"]
_FIELDS: Final[Mapping[str, Callable[[SpanRecord], Any]]] = {
    **{name: attrgetter(name) for name in ("trace_id", "span_id", "parent_span_id")},
    "name": lambda span: span.name if len(span.name) <= MAX_NAME_CHARS else f"{span.name[: MAX_NAME_CHARS - 1]}…",
    "status": lambda span: _STATUS_NAMES[span.status_code],
}
"""The columns that are fields of every span."""
_CHUNK_SIZES, _CHUNK_GAPS = _AT["chunk_sizes"], _AT["chunk_gaps"]
_TYPED: Final = {
    column.attribute: (_AT[column.name], FITS[column.type])
    for column in STORED_SPAN_COLUMNS
    if column.source is Source.SPAN and column.type in FITS
}
"""Attribute -> its column, and the function that fills it."""
_LOOKED_AT: Final = CONTENT_ATTRIBUTES | {*TYPE_OF}
"""Attributes that may not be text, or belong to the large ones: `_place` looks at them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    text: str
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
        self._piece_rows: list[tuple[int, str, int, str, str, int, str, bytes]] = []
        self._seen: dict[str, set[bytes]] = {}
        self._origins: dict[tuple[Any, ...], _Origin] = {}
        self._kept_origins: set[tuple[str, int]] = set()

    def write(self) -> Rows:
        for index, span in enumerate(self._spans):
            self._write_span(index, span)
        columns = {column.name: (column.type, cells) for column, cells in zip(STORED_SPAN_COLUMNS, self._columns, strict=True)}
        columns |= {name: (columns[name][0], [field(span) for span in self._spans]) for name, field in _FIELDS.items()}
        return Rows(spans=Block(columns=columns), payloads=self._payloads(), pieces=self._pieces)

    def _write_span(self, index: int, span: SpanRecord) -> None:
        columns = self._columns
        texts: dict[str, str] = {}
        types: dict[str, str] = {}
        large: dict[str, bytes] = {}
        for name, value in span.attributes.items():
            if name in _TYPED:
                at, fit = _TYPED[name]
                columns[at][index] = fit(value)
            if type(value) is str and len(value) <= INLINE_LIMIT and name not in _LOOKED_AT:
                texts[name] = value  # as `_place` would, here and below: the most frequent cases
            elif type(value) is int and name not in CONTENT_ATTRIBUTES:
                texts[name] = str(value)
                if TYPE_OF.get(name) != "int":
                    types[name] = "int"
            elif name == genai.RESPONSE_CHUNK_SIZES and holds_numbers(value, 1 << 32):
                columns[_CHUNK_SIZES][index] = value
            elif name == genai.RESPONSE_CHUNK_OFFSETS_NS and (gaps := chunk_gaps(value)):
                columns[_CHUNK_GAPS][index] = gaps
            else:
                _place(name, value, texts, types, large)
        tenant = tenant_of(span)
        columns[_TENANT][index] = tenant
        columns[_RUN_HOUR][index] = self._hours[span.trace_id]
        columns[_ATTRIBUTES][index] = texts
        columns[_ORIGIN][index] = self._origin(span, tenant)
        columns[_SERVICE][index] = _text_of(span.resource.attributes.get(genai.SERVICE_NAME))
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
        if 0 <= span.start_time_unix_nano < _TIME_LIMIT and 0 <= span.end_time_unix_nano < _TIME_LIMIT:
            columns[_START_TIME][index] = span.start_time_unix_nano
            columns[_DURATION][index] = span.end_time_unix_nano - span.start_time_unix_nano
        columns[_REST][index] = _rest(span, types)

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

    def _origin(self, span: SpanRecord, tenant: str) -> str:
        """Return the attributes that the span shares with others of its process; keep the large values of its resource."""
        # spans of one batch share these objects; the ids are safe because the span list keeps them alive
        scope = span.scope
        fields = (scope.name, scope.version, scope.schema_url, scope.dropped_attributes_count)
        scope_key = tuple(scope.attributes.items())
        if any(type(value) is not str for _, value in scope_key):  # 1, 1.0 and True are equal
            scope_key = (id(scope),)
        key = (id(span.resource), *fields, *scope_key)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = _origin_of(span.resource, scope)
        kept = (span.trace_id, id(span.resource))
        if origin.large and kept not in self._kept_origins:
            self._kept_origins.add(kept)
            for name, raw in origin.large.items():
                # without a template, which would be stored with each of the run's spans
                self._keep(span, tenant, name, *self._memory.joined.split(span.trace_id, name, raw))
        return origin.text

    def _keep(self, span: SpanRecord, tenant: str, name: str, pieces: Sequence[bytes], hashes: Sequence[bytes]) -> None:
        """Make rows of the pieces that the run does not have yet."""
        trace_id = span.trace_id
        seen = self._seen.get(trace_id)
        if seen is None:
            # a copy: what this batch adds counts as stored only once its insert has succeeded
            seen = self._seen[trace_id] = set(self._stored.get(trace_id, ()))
        if seen.issuperset(hashes):
            return
        service = _text_of(span.resource.attributes.get(genai.SERVICE_NAME))
        second = min(max(span.start_time_unix_nano // 1_000_000_000, 0), 0xFFFFFFFF)
        for piece, digest in zip(pieces, hashes, strict=True):
            if digest not in seen:
                seen.add(digest)
                self._pieces.append((trace_id, digest))
                self._piece_rows.append((0, tenant, self._hours[trace_id], service, trace_id, second, name, piece))

    def _payloads(self) -> Block:
        cells = zip(*self._piece_rows, strict=True) if self._piece_rows else ([] for _ in PAYLOAD_COLUMNS)
        return Block(
            columns={column.name: (column.type, values) for column, values in zip(PAYLOAD_COLUMNS, cells, strict=True)}
        )


def _place(name: str, value: AttributeValue, texts: dict[str, str], types: dict[str, str], large: dict[str, bytes]) -> None:
    """Put an attribute among the small ones, or as bytes among the large ones."""
    type_, text = (TEXT, value) if isinstance(value, str) else ("bytes", "") if isinstance(value, bytes) else to_cell(value)
    if type_ != TYPE_OF.get(name, TEXT):
        types[name] = type_ or "text"
    raw = value if isinstance(value, bytes) else text.encode()
    if len(raw) > INLINE_LIMIT or (raw and name in CONTENT_ATTRIBUTES):
        large[name] = raw
    else:
        texts[name] = to_cell(value)[1] if isinstance(value, bytes) else text


def _origin_of(resource: Resource, scope: Scope) -> _Origin:
    texts: dict[str, str] = {}
    types: dict[str, str] = {}
    large: dict[str, bytes] = {}
    for name, value in resource.attributes.items():
        _place(name, value, texts, types, large)
    origin: dict[str, Any] = {
        "resource": texts,
        "types": types,
        "refs": {name: [piece_hash(piece).hex() for piece in split(raw)] for name, raw in large.items()},
        "resource_schema_url": resource.schema_url,
        "resource_dropped": resource.dropped_attributes_count,
        "scope_name": scope.name,
        "scope_version": scope.version,
        "scope_schema_url": scope.schema_url,
        "scope": to_cells(scope.attributes) if scope.attributes else None,
        "scope_dropped": scope.dropped_attributes_count,
    }
    return _Origin(text=_json({name: value for name, value in origin.items() if value}), large=large)


def _rest(span: SpanRecord, types: Mapping[str, str]) -> str:
    """Return the fields that no column holds, as JSON, or an empty result."""
    rest: dict[str, Any] = {}
    if span.kind is not SpanKind.INTERNAL:
        rest["kind"] = _KIND_NAMES[span.kind]
    if types:
        rest["types"] = types
    if not (0 <= span.start_time_unix_nano < _TIME_LIMIT and 0 <= span.end_time_unix_nano < _TIME_LIMIT):
        rest["times"] = [span.start_time_unix_nano, span.end_time_unix_nano]
    if span.dropped_attributes_count or span.dropped_events_count or span.dropped_links_count:
        rest["dropped"] = [span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count]
    for name in ("trace_state", "flags", "status_message"):
        if value := getattr(span, name):
            rest[name] = value
    if span.events:
        rest["events"] = {"time": [event.time_unix_nano for event in span.events], **_items(span.events)}
        rest["events"]["name"] = [event.name for event in span.events]
    if span.links:
        rest["links"] = {name: [getattr(link, name) for link in span.links] for name in ("trace_id", "span_id", "trace_state")}
        rest["links"] |= _items(span.links)
        if any(link.flags for link in span.links):
            rest["links"]["flags"] = [link.flags for link in span.links]
    if rest.keys() <= {"kind", "types", "flags"}:
        return _short_rest(rest.get("kind", ""), tuple(types.items()), span.flags)
    return _json(rest)


@lru_cache(1 << 10)
def _short_rest(kind: str, types: tuple[tuple[str, str], ...], flags: int) -> str:
    rest = {name: value for name, value in (("kind", kind), ("types", dict(types)), ("flags", flags)) if value}
    return _json(rest) if rest else ""


def _items(items: Sequence[Event] | Sequence[Link]) -> dict[str, Any]:
    cells = [to_cells(item.attributes) for item in items]
    fields: dict[str, Any] = {"attributes": [texts for texts, _ in cells]}
    if any(types for _, types in cells):
        fields["types"] = [types for _, types in cells]
    if any(item.dropped_attributes_count for item in items):
        fields["dropped"] = [item.dropped_attributes_count for item in items]
    return fields


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
