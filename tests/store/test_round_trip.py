"""The law of the store: what goes in comes out, every attribute type and byte."""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import replace
from typing import Any

import pytest
from effort import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.tables import SPAN_COLUMNS, Source

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
        name=draw(TEXTS),
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


def exact(value: Any) -> Any:
    """Return a form in which 1, 1.0 and True differ, and NaN is itself."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, dict):
        return ("map", sorted((name, exact(item)) for name, item in value.items()))
    if isinstance(value, tuple | list):
        return (type(value).__name__, [exact(item) for item in value])
    if hasattr(value, "__dataclass_fields__"):
        return (type(value).__name__, [(name, exact(getattr(value, name))) for name in value.__dataclass_fields__])
    return (type(value).__name__, value)


@pytest.fixture(scope="module")
def runs(facade_url: str) -> Any:
    opened = open_runs(facade_url)
    yield opened
    opened.close()


@pytest.mark.long
@settings(
    max_examples=examples(25),
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(batch=st.lists(spans(), min_size=1, max_size=4))
def test_every_span_comes_out_of_the_store_as_it_went_in(store: Store, runs: RunStore, batch: list[SpanRecord]) -> None:
    store.insert(batch, token=batch[0].trace_id)
    for span in batch:
        assert [exact(found) for found in runs.load_spans(span.trace_id)] == [exact(span)]


@pytest.mark.long
@settings(
    max_examples=examples(6),
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(kinds=st.lists(spans(), min_size=1, max_size=2))
def test_spans_that_are_alike_come_out_as_they_went_in(store: Store, runs: RunStore, kinds: list[SpanRecord]) -> None:
    """What repeats in a batch is written once for all its rows."""
    batch = [replace(span, trace_id=f"a1a1{next(_serial):028x}") for _ in range(6) for span in kinds]
    store.insert(batch, token=batch[0].trace_id)
    for span in batch[:: len(batch) - 1]:
        assert [exact(found) for found in runs.load_spans(span.trace_id)] == [exact(span)]


@pytest.mark.long
def test_bytes_that_are_no_text_survive_in_a_body(store: Store, runs: RunStore) -> None:
    body = bytes(range(256)) * 20
    span = SpanRecord(
        trace_id="ab" * 16, span_id="cd" * 8, name="POST", start_time_unix_nano=10**18, end_time_unix_nano=10**18 + 1,
        attributes={genai.RESPONSE_BODY: body, genai.REQUEST_TEMPERATURE: math.inf},
    )  # fmt: skip
    store.insert([span], token="binary")
    assert runs.load_spans("ab" * 16) == [span]
