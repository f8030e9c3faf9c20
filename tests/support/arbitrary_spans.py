"""Hypothesis strategies: any span that OTLP can carry, each in a separate run, for the laws that the store keeps."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.tables import SPAN_COLUMNS, Source
from freezeframe_schemas.tables.rows import MAX_NAME_CHARS

_serial = itertools.count(1)

TEXTS = st.one_of(st.text(max_size=20), st.text(min_size=1, max_size=3).map(lambda text: text * 400))
INTS = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.one_of(
    TEXTS, st.booleans(), INTS, st.floats(), st.binary(max_size=20), st.binary(min_size=600, max_size=700), st.none()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.sampled_from(["$bytes", "$map", "$double"])), inner, max_size=3),
        st.lists(st.integers(0, 2**32 + 5), min_size=1, max_size=5).map(tuple),
        st.lists(st.text(max_size=5), min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=6,
)
NAMES = st.one_of(
    st.text(min_size=1, max_size=10),
    st.sampled_from([column.attribute for column in SPAN_COLUMNS if column.source is Source.SPAN]),
    st.sampled_from([genai.REQUEST_BODY, genai.RESPONSE_BODY, genai.INPUT_MESSAGES, genai.SERVICE_NAME, genai.TENANT]),
)
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=8)
COUNTS = st.one_of(st.just(0), st.integers(0, 2**32 - 1))
TIMES = st.one_of(st.integers(1_700_000_000 * 10**9, 1_800_000_000 * 10**9), st.integers(0, 2**64 - 1))


@st.composite
def spans(draw: st.DrawFn) -> SpanRecord:
    number = next(_serial)
    return SpanRecord(
        trace_id=f"a0a0{number:028x}",  # of this test alone: the store is shared
        span_id=f"{number:016x}",
        parent_span_id=draw(st.sampled_from(["", "00000000000000ff"])),
        name=draw(TEXTS)[:MAX_NAME_CHARS],  # the store cuts a longer one
        kind=draw(st.sampled_from(SpanKind)),
        trace_state=draw(st.text(max_size=8)),
        flags=draw(COUNTS),
        start_time_unix_nano=draw(TIMES),
        end_time_unix_nano=draw(TIMES),
        attributes=draw(ATTRIBUTES),
        status_code=draw(st.sampled_from(StatusCode)),
        status_message=draw(TEXTS),
        events=tuple(draw(st.lists(EVENTS, max_size=2))),
        links=tuple(draw(st.lists(LINKS, max_size=2))),
        resource=Resource(
            attributes=draw(ATTRIBUTES), dropped_attributes_count=draw(COUNTS), schema_url=draw(st.text(max_size=5))
        ),
        scope=Scope(
            name=draw(TEXTS),
            version=draw(st.text(max_size=5)),
            attributes=draw(ATTRIBUTES),
            dropped_attributes_count=draw(COUNTS),
            schema_url=draw(st.text(max_size=5)),
        ),
        dropped_attributes_count=draw(COUNTS),
        dropped_events_count=draw(COUNTS),
        dropped_links_count=draw(COUNTS),
    )


EVENTS = st.builds(Event, time_unix_nano=TIMES, name=TEXTS, attributes=ATTRIBUTES, dropped_attributes_count=COUNTS)
LINKS = st.builds(
    Link,
    trace_id=st.just("f" * 32),
    span_id=st.just("e" * 16),
    trace_state=st.text(max_size=5),
    attributes=ATTRIBUTES,
    dropped_attributes_count=COUNTS,
    flags=COUNTS,
)
