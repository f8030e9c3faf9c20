"""The law of the store: what goes in comes out, every attribute type and byte."""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import replace
from typing import Any

import pytest
from arbitrary_spans import spans
from effort import against_a_service
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord


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


_serial = itertools.count(1)


@pytest.fixture(scope="module")
def runs(facade_url: str) -> Any:
    opened = open_runs(facade_url)
    yield opened
    opened.close()


@pytest.mark.proof("law the store returns each span as it was")
@pytest.mark.long
@against_a_service(10)
@given(batch=st.lists(spans(), min_size=1, max_size=4))
def test_every_span_comes_out_of_the_store_as_it_went_in(store: Store, runs: RunStore, batch: list[SpanRecord]) -> None:
    store.insert(batch, token=batch[0].trace_id)
    for span in batch:
        assert [exact(found) for found in runs.load_spans(span.trace_id)] == [exact(span)]


@pytest.mark.proof
@pytest.mark.long
@against_a_service(6)
@given(kinds=st.lists(spans(), min_size=1, max_size=2))
def test_spans_that_are_alike_come_out_as_they_went_in(store: Store, runs: RunStore, kinds: list[SpanRecord]) -> None:
    """Repeated values in a batch are written once for all its rows."""
    batch = [replace(span, trace_id=f"a1a1{next(_serial):028x}") for _ in range(6) for span in kinds]
    store.insert(batch, token=batch[0].trace_id)
    for span in batch[:: len(batch) - 1]:
        assert [exact(found) for found in runs.load_spans(span.trace_id)] == [exact(span)]


@pytest.mark.proof
@pytest.mark.long
def test_bytes_that_are_no_text_survive_in_a_body(store: Store, runs: RunStore) -> None:
    body = bytes(range(256)) * 20
    span = SpanRecord(
        trace_id="ab" * 16, span_id="cd" * 8, name="POST", start_time_unix_nano=10**18, end_time_unix_nano=10**18 + 1,
        attributes={genai.RESPONSE_BODY: body, genai.REQUEST_TEMPERATURE: math.inf},
    )  # fmt: skip
    store.insert([span], token="binary")
    assert runs.load_spans("ab" * 16) == [span]
