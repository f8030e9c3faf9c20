"""`freezeframe import` of calls of a model's API that were kept as JSON: what they say is what the recorded bytes say."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from recorded_traffic import load_conversations
from recording_files import CALLS, RECORDED_AS, Row, as_lines, run_of, written

from freezeframe.seams.recorder.enrich import genai_attributes
from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Chunk, Exchange, Kind, Request, Response
from freezeframe_schemas.meaning import answer_parts, request_meaning
from freezeframe_schemas.span import StatusCode
from freezeframe_schemas.wire.document import parse

PROVIDERS = {
    "batch": {"openai", "anthropic"},
    "bedrock": {"bedrock"},
}
"""Kind -> whose calls it may hold; the others hold anyone's."""
APIS = {"batch": {"chat", "responses", "messages", "completions"}}


def rows_for(kind: str) -> list[Row]:
    """Return recorded exchanges that a kind may hold: those answered in one piece."""
    rows = [row for rows in load_conversations().values() for row in rows]
    whose, apis = PROVIDERS.get(kind), APIS.get(kind)
    fitting = [
        row
        for row in rows
        if (whose is None or row["provider"] in whose)
        and (apis is None or row["api"] in apis)
        and not row["stream"]
        and row["response"]["status"] == 200
        and isinstance(parse(row["request"].get("text") or ""), dict)
        and isinstance(parse(row["response"].get("text") or ""), dict)
        and not row["request"]["url"].endswith("-stream")
    ]
    return fitting[:: max(len(fitting) // 60, 1)]


def meaning_of(row: Row) -> tuple[Any, Any]:
    """Return what a recorded exchange asks and answers, read from its bytes."""
    exchange = Exchange(
        kind=Kind.MODEL,
        name="",
        seam="",
        request=Request(method="POST", url=row["request"]["url"], body=row["request"]["text"].encode()),
        response=Response(status=200, chunks=(Chunk(data=row["response"]["text"].encode()),)),
    )
    return meaning(genai_attributes(exchange, None))


def meaning(attributes: Any) -> tuple[Any, Any]:
    asked = request_meaning(attributes)
    return {name: asked[name] for name in ("system", "messages")}, answer_parts(attributes)


@pytest.mark.long
@pytest.mark.parametrize("kind", CALLS)
def test_recorded_calls_say_the_same_in_each_form(kind: str, tmp_path: Path) -> None:
    rows = rows_for(kind)
    assert len(rows) > 20
    run = run_of(kind, written(tmp_path, as_lines(kind, rows), "calls.jsonl"))
    calls = sorted((span for span in run.spans if span.parent_span_id), key=lambda span: span.start_time_unix_nano)
    if kind == "batch":  # times are those of the answers, in another order than the rows'
        told = sorted(repr(meaning(span.attributes)) for span in calls)
        assert told == sorted(repr(meaning_of(row)) for row in rows)
        return
    for row, span in zip(rows, calls, strict=True):
        assert meaning(span.attributes) == meaning_of(row), row["id"]


def test_the_request_and_result_files_of_a_batch_are_one_run(tmp_path: Path) -> None:
    lines = CALLS["batch"].read_text().splitlines()
    written(tmp_path, "\n".join(line for line in lines if '"method"' in line), "requests.jsonl")
    written(tmp_path, "\n".join(line for line in reversed(lines) if '"method"' not in line), "results.jsonl")
    run = run_of("batch", tmp_path)
    assert len([span for span in run.spans if span.text(genai.OPERATION_NAME) == "chat"]) == 2


def test_a_failed_request_of_a_batch_is_a_failed_call_in_the_words_of_the_provider(tmp_path: Path) -> None:
    asked = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": []}}
    refused = {"error": {"message": "no such model", "type": "invalid_request_error"}}
    results = [
        {"custom_id": "a", "response": {"status_code": 404, "body": refused}},
        {"custom_id": "a", "response": None, "error": {"code": "batch_expired", "message": "expired"}},
    ]
    run = run_of("batch", written(tmp_path, "\n".join(map(json.dumps, [asked, *results]))))
    told = [span.status_message for span in run.spans if span.status_code is StatusCode.ERROR]
    assert told == ["404 no such model", "500 expired"]


def test_a_log_of_bedrock_is_read_as_s3_has_it_and_with_the_events_of_a_stream(tmp_path: Path) -> None:
    record = json.loads(CALLS["bedrock"].read_text().splitlines()[0])
    events = [
        {
            "type": "message_start",
            "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "sunny"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    record |= {"operation": "InvokeModelWithResponseStream", "output": {"outputBodyJson": events}}
    path = written(tmp_path, gzip.compress(json.dumps(record).encode()), "log.json.gz")
    (step,) = freeze(run_of("bedrock", path)).steps
    assert json.loads(step.exchange.response.body)["parts"] == [{"type": "text", "content": "sunny"}]
    as_printed = {"events": [{"timestamp": 1, "message": json.dumps(record)}]}
    (step,) = freeze(run_of("bedrock", written(tmp_path, json.dumps(as_printed), "events.json"))).steps
    assert json.loads(step.exchange.response.body)["output_tokens"] == 2


def test_a_line_may_hold_the_text_of_a_stream(tmp_path: Path) -> None:
    (row, _) = load_conversations()[RECORDED_AS["openai"].replace(".yaml", "_streaming.yaml")]
    line = {"url": row["request"]["url"], "request": json.loads(row["request"]["text"]), "response": row["response"]["text"]}
    (step,) = [
        step for step in freeze(run_of("jsonl", written(tmp_path, json.dumps(line)))).steps if step.exchange.kind is Kind.MODEL
    ]
    answer = json.loads(step.exchange.response.body)
    assert [part["name"] for part in answer["parts"]] == ["add", "multiply"]
