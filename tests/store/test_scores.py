"""The view `scores`: verdicts that OpenTelemetry and OpenInference send, and labels by hand, next to what they judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handmade_runs import SECOND_NS, TRACE, make_run, model_call, tool_call
from openinference.instrumentation import Annotation, get_annotation_attributes, get_evaluation_attributes
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from freezeframe_collector.store import Store
from freezeframe_collector.store.retention import label
from freezeframe_schemas import genai
from freezeframe_schemas.otlp.decode import Limits
from freezeframe_schemas.otlp.logs import DecodedLogs, decode_logs
from freezeframe_schemas.span import Event, Link, SpanRecord
from freezeframe_schemas.vendors.normalise import normalise

pytestmark = pytest.mark.long

MODEL, TOOL = f"{1:016x}", f"{2:016x}"


@pytest.fixture
def judged(emptied: Callable[[str], Store]) -> Store:
    """A run of a model call and a tool call; the model's answer has an id."""
    store = emptied("judged")
    entry, model, tool = make_run(model_call("where?", "there"), tool_call("track", 1))
    store.insert([entry, model.with_attributes({genai.RESPONSE_ID: "chatcmpl-7"}), tool], token="run")
    return store


def verdict(attributes: dict[str, Any], *, trace_id: str = TRACE, span_id: str = "") -> DecodedLogs:
    """Return an evaluation as the SDK of OpenTelemetry sends it and the collector reads it."""
    record = LogRecord(
        timestamp=9 * 10**18,
        event_name="gen_ai.evaluation.result",
        attributes=attributes,
    )
    record.trace_id, record.span_id = int(trace_id or "0", 16), int(span_id or "0", 16)
    sent = ReadableLogRecord(record, Resource({}), InstrumentationScope("my-judge"))
    return decode_logs(encode_logs([sent]).SerializeToString(), Limits())


def rows(store: Store, name: str) -> list[list[Any]]:
    columns = "trace_id, of, step, name, value, label, explanation, by"
    _, found = store.query(f"SELECT {columns} FROM {store.database}.scores WHERE name = {{name:String}}", {"name": name})
    return [list(row) for row in found]


def test_an_evaluation_event_is_a_score_of_the_step_that_it_names(judged: Store) -> None:
    """By its span, by the id of the answer if the span is another, or of the run as a whole; it changes nothing of the run."""
    columns_sql = f"SELECT * EXCEPT (spans, settled) FROM {judged.database}.runs"
    before = judged.query(columns_sql)[1]
    common = {genai.EVALUATION_NAME: "grounded", genai.EVALUATION_VALUE: 0.25, genai.EVALUATION_EXPLANATION: "x" * 5000}
    for at, (span_id, more) in enumerate([(TOOL, {}), ("", {genai.RESPONSE_ID: "chatcmpl-7"}), ("e" * 16, {}), ("", {})]):
        (span,) = verdict({**common, **more, genai.EVALUATION_LABEL: str(at)}, span_id=span_id).events.spans
        judged.insert([normalise(span)], token=f"verdict {at}")
    assert sorted(rows(judged, "grounded"), key=lambda row: row[5]) == [
        [TRACE, "step", 2, "grounded", 0.25, "0", "x" * 5000, "my-judge"],
        [TRACE, "step", 1, "grounded", 0.25, "1", "x" * 5000, "my-judge"],
        [TRACE, "run", None, "grounded", 0.25, "2", "x" * 5000, "my-judge"],
        [TRACE, "run", None, "grounded", 0.25, "3", "x" * 5000, "my-judge"],
    ]
    assert judged.query(columns_sql)[1] == before, "its time, calls and end are the run's own"


def test_a_verdict_is_no_call_of_a_run_that_another_instrumentation_reports(emptied: Callable[[str], Store]) -> None:
    store = emptied("judged_elsewhere")
    entry, model = make_run(model_call("where?", "there"))
    call = {genai.OPERATION_NAME: "chat", genai.REQUEST_MODEL: "gpt-x", genai.USAGE_INPUT_TOKENS: 7}
    store.insert([replace(entry, attributes={}), replace(model, attributes=call)], token="reported")
    columns_sql = f"SELECT model_calls, input_tokens, steps, end_time FROM {store.database}.runs"
    before = store.query(columns_sql)[1]
    (span,) = verdict({genai.EVALUATION_NAME: "grounded", genai.EVALUATION_VALUE: 1.0}, span_id=model.span_id).events.spans
    store.insert([normalise(span).with_attributes({genai.REQUEST_MODEL: "judge"})], token="verdict")
    assert store.query(columns_sql)[1] == before
    assert rows(store, "grounded") == [[TRACE, "step", 1, "grounded", 1.0, "", "", "my-judge"]]


def test_a_verdict_on_no_trace_is_set_aside() -> None:
    """An id of an answer alone does not say whose run it is."""
    found = verdict({genai.EVALUATION_NAME: "grounded", genai.RESPONSE_ID: "chatcmpl-7"}, trace_id="")
    assert not found.events.spans
    assert [fault.reason for fault in found.events.faults] == ["event without a span"]


def test_annotations_of_openinference_are_scores(judged: Store) -> None:
    """On the span, its trace or its session; on a carrier that links to another span; both forms, and as an event besides."""
    wrong = Annotation(name="thumbs", label="down", score=0, explanation="late", annotator_kind="HUMAN")
    of_run = get_evaluation_attributes(evaluations=[Annotation(name="thumbs", score=0.5)], scope="trace")
    of_session = get_annotation_attributes(annotations=[Annotation(name="thumbs", label="up")], scope="session")
    model = make_run(model_call("where?", "there"))[1]
    verdict_of_event = {genai.EVALUATION_NAME: "thumbs", genai.EVALUATION_VALUE: 0, genai.EVALUATION_LABEL: "down"}
    again = Event(time_unix_nano=1, name=genai.EVALUATION_EVENT, attributes=verdict_of_event)
    of_step = {genai.EVALUATION_NAME: "thumbs", genai.EVALUATION_VALUE: 0.5}
    half = Event(time_unix_nano=1, name=genai.EVALUATION_EVENT, attributes=of_step)
    inline = {**get_annotation_attributes(annotations=[wrong]), **of_run, **of_session}
    sent = replace(model.with_attributes(inline), events=(again, half))
    carrier = SpanRecord(
        trace_id="cd" * 16,
        span_id="5" * 16,
        name="judge",
        start_time_unix_nano=SECOND_NS,
        end_time_unix_nano=2 * SECOND_NS,
        attributes={"openinference.span.kind": "EVALUATOR", **get_evaluation_attributes(evaluations=[wrong])},
        links=(Link(trace_id=TRACE, span_id=TOOL),),
    )
    spans = [normalise(sent), normalise(carrier)]
    assert [normalise(span) for span in spans] == spans, "a second time adds no event"
    judged.insert(spans, token="annotations")
    assert sorted(rows(judged, "thumbs"), key=str) == [
        [TRACE, "run", None, "thumbs", 0.5, "", "", ""],
        [TRACE, "session", None, "thumbs", None, "up", "", ""],
        [TRACE, "step", 1, "thumbs", 0.0, "down", "", ""],
        [TRACE, "step", 1, "thumbs", 0.5, "", "", ""],
        [TRACE, "step", 2, "thumbs", 0.0, "down", "late", "human"],
    ]


def test_labels_by_hand_are_scores(judged: Store) -> None:
    """Of the run and of a step; the last one counts."""
    for span_id, word in (("", "good"), ("", "bad"), (TOOL, "own-word")):
        label(judged, TRACE, {"span_id": span_id, "label": word, "note": "why", "author": "ann"})
    assert sorted(rows(judged, "label"), key=str) == [
        [TRACE, "run", None, "label", None, "bad", "why", "hand"],
        [TRACE, "step", 2, "label", None, "own-word", "why", "hand"],
    ]
