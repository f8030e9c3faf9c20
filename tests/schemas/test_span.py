"""SpanRecord as a value."""

from __future__ import annotations

from dataclasses import fields, replace

from freezeframe_schemas.span import Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode

_SPAN = SpanRecord(
    trace_id="1" * 32,
    span_id="2" * 16,
    name="chat",
    start_time_unix_nano=3,
    end_time_unix_nano=4,
    parent_span_id="5" * 16,
    kind=SpanKind.CLIENT,
    trace_state="a=b",
    flags=6,
    attributes={"kept": "x", "changed": "y"},
    status_code=StatusCode.ERROR,
    status_message="no",
    events=(Event(time_unix_nano=7, name="e"),),
    links=(Link(trace_id="8" * 32, span_id="9" * 16),),
    resource=Resource(attributes={"service.name": "s"}),
    scope=Scope(name="scope"),
    dropped_attributes_count=10,
    dropped_events_count=11,
    dropped_links_count=12,
)


def test_a_span_with_other_attributes_is_the_same_in_all_else() -> None:
    """Every field is carried over, the given one untouched; the test fails for a field that this span leaves at its default."""
    bare = SpanRecord(trace_id="", span_id="", name="", start_time_unix_nano=0, end_time_unix_nano=0)
    assert not [field.name for field in fields(SpanRecord) if getattr(_SPAN, field.name) == getattr(bare, field.name)]

    changed = _SPAN.with_attributes({"changed": 1, "new": None})

    assert changed == replace(_SPAN, attributes={"kept": "x", "changed": 1, "new": None})
    assert _SPAN.attributes == {"kept": "x", "changed": "y"}
