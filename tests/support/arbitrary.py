"""Hypothesis strategies: arbitrary recordings, for the laws that the shared values keep."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st

from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Headers, Kind, Request, Response
from freezeframe_schemas.fixture import Fixture, Redaction, Step
from freezeframe_schemas.run import Entry, EntryKind
from freezeframe_schemas.span import AttributeValue, Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Texts that UTF-8 can hold: no lone surrogates."""
word = st.text("abcdefghij-_0123", min_size=1, max_size=12)
span_id = st.integers(1, 2**64 - 1).map("{:016x}".format)
trace_id = st.integers(1, 2**128 - 1).map("{:032x}".format)
"""Never all zeros: OTLP forbids it."""
count = st.integers(0, 2**53)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
body = st.one_of(
    st.binary(max_size=60),
    text.map(str.encode),
    st.sampled_from(
        [b"", b'{"model":"m","n":1}', b'{"a": 1.0}', b'{"a":1e3}', b'{"a":1,"a":2}', b'["\\ud800"]', b"[1,]", b"{}"]
    ),
)
headers: st.SearchStrategy[Headers] = st.lists(
    st.tuples(st.sampled_from(["content-type", "x-request-id", "Retry-After", "anthropic-version"]), text), max_size=4
).map(tuple)


@st.composite
def responses(draw: st.DrawFn, *, http: bool) -> Response:
    """Draw a response whose chunk borders may fall anywhere, inside a character too."""
    return Response(
        chunks=tuple(draw(st.lists(st.builds(Chunk, data=body, offset_ns=count), max_size=5))),
        status=draw(st.integers(100, 599)) if http else None,
        reason=draw(st.none() | text) if http else None,
        headers=draw(headers) if http else (),
        completion=draw(st.sampled_from(Completion)),
        omitted=draw(st.none() | st.just("over limit: 41943040 bytes")),
    )


@st.composite
def exchanges(draw: st.DrawFn) -> Exchange:
    """Draw an exchange of any kind, over HTTP or by a function's call, answered or not."""
    http = draw(st.booleans())
    path = draw(st.sampled_from(["/v1/chat/completions", "/", "/orders/ä b"]))
    return Exchange(
        kind=draw(st.sampled_from(Kind)),
        name=f"POST {path}" if http else draw(word),
        seam=draw(word),
        dialect=draw(st.none() | st.just("openai.chat")),
        lane=tuple(draw(st.lists(st.integers(0, 9), max_size=3))),
        sequence=draw(count),
        span_id=draw(span_id),
        parent_span_id=draw(st.just("") | span_id),
        start_time_unix_nano=draw(count),
        end_time_unix_nano=draw(count),
        call_id=draw(st.none() | word),
        error=draw(st.none() | st.just('{"$type": "exception", "class": "builtins:OSError", "text": "", "value": []}')),
        request=Request(
            body=draw(body),
            method="POST" if http else "",
            url=f"http://127.0.0.1:8080{path}?n=1" if http else "",
            headers=draw(headers) if http else (),
            omitted=draw(st.none() | st.just("over limit")),
        ),
        response=draw(responses(http=http)) if draw(st.booleans()) else Response(completion=Completion.NONE),
    )


@st.composite
def fixtures(draw: st.DrawFn) -> Fixture:
    """Draw a fixture of a few steps, some inside others."""
    drawn = draw(st.lists(exchanges(), max_size=4))
    return Fixture(
        run_id=draw(trace_id),
        entry=Entry(
            kind=draw(st.none() | st.sampled_from(EntryKind)),
            name=draw(text),
            target=draw(text),
            file=draw(st.none() | text),
            input=draw(st.none() | text | st.just('{"args": [1], "kwargs": {}}')),
            output=draw(st.none() | text),
            error=draw(st.none() | text),
            random_state=draw(st.none() | st.just("[3, [1, 2], null]")),
            flags=draw(st.none() | st.just('{"beta":true}')),
            user=draw(st.none() | text),
            start_time_unix_nano=draw(count),
            end_time_unix_nano=draw(count),
            span_id=draw(span_id),
        ),
        steps=tuple(
            Step(
                number=number,
                exchange=exchange,
                key=draw(trace_id),
                ordinal=draw(st.integers(0, 3)),
                inside=draw(st.none() | st.integers(1, number)),
                provider=draw(st.none() | word),
                model=draw(st.none() | word),
            )
            for number, exchange in enumerate(drawn, 1)
        ),
        environment=draw(st.dictionaries(word, text, max_size=3)),
        redaction=Redaction(policy=draw(text), key_id=draw(text), surrogates=draw(st.dictionaries(text, word, max_size=3))),
        gaps=tuple(draw(st.lists(text, max_size=2))),
        created_by=draw(text),
    )


counter = st.integers(0, 2**32 - 1)


def spans_of(text: st.SearchStrategy[str], *, times: st.SearchStrategy[int], leaves: int) -> st.SearchStrategy[SpanRecord]:
    """Return spans whose every text is one of these, and whose values have at most this many leaves."""
    scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | text
    values: st.SearchStrategy[AttributeValue] = st.recursive(
        scalars | st.binary(max_size=150),
        lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(text, inner, max_size=3),
        max_leaves=leaves,
    )
    described = {"attributes": st.dictionaries(text, values, max_size=4), "dropped_attributes_count": counter}
    linked = {**described, "trace_id": trace_id, "span_id": span_id, "trace_state": text, "flags": counter}
    return st.builds(
        SpanRecord,
        **linked,
        name=text,
        start_time_unix_nano=times,
        end_time_unix_nano=times,
        parent_span_id=st.just("") | span_id,
        kind=st.sampled_from(SpanKind),
        status_code=st.sampled_from(StatusCode),
        status_message=text,
        events=st.lists(st.builds(Event, **described, time_unix_nano=times, name=text), max_size=2).map(tuple),
        links=st.lists(st.builds(Link, **linked), max_size=2).map(tuple),
        resource=st.builds(Resource, **described, schema_url=text),
        scope=st.builds(Scope, **described, name=text, version=text, schema_url=text),
        dropped_events_count=counter,
        dropped_links_count=counter,
    )


spans = spans_of(text, times=st.integers(0, 2**64 - 1), leaves=5)
moments = st.datetimes(timezones=st.none() | st.just(dt.UTC))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hashable = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5)
    return (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.dictionaries(hashable | st.tuples(hashable), inner, max_size=3)
        | st.sets(hashable, max_size=3)
        | st.frozensets(hashable, max_size=3)
    )


python_value: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=10)
    | st.binary(max_size=10)
    | moments
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.complex_numbers(allow_nan=False)
    | st.sampled_from(list(Kind)),
    _containers,
    max_leaves=8,
)
"""Values that a tool may take or return: lone surrogates, infinities and odd keys included."""
