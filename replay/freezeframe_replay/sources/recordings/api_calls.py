"""Calls of a model's API that were kept as JSON, one per item: request and answer in the provider's form, but not its bytes.

Batches of OpenAI and of those that copy it, and of Anthropic; invocation logs of Bedrock; and plain lines with
a request and a response, for anything else that can be converted to that form.

Source: https://platform.openai.com/docs/api-reference/batch; https://docs.anthropic.com/en/api/creating-message-batches;
https://docs.aws.amazon.com/bedrock/latest/userguide/model-invocation-logging.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.recordings.http_calls import HttpCall, Origin, checked_url, iso_time, moment, spans_of_calls
from freezeframe_replay.sources.recordings.json_items import each, line_at, lines_of, listed, placed
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire import bedrock_invoke
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, dump, parse
from freezeframe_schemas.wire.frames import Frame
from freezeframe_schemas.wire.usual_urls import ANTHROPIC_MESSAGES, bedrock_url, openai_url, usual_url

_JSON: Final = (("content-type", "application/json"),)
_NO_BYTES: Final = "it holds what was asked and answered as JSON, not the bytes"
_OK: Final = 200


def _call(
    url: str,
    request: JsonValue,
    answer: JsonValue,
    *,
    status: JsonValue = None,
    at: int = 0,
    took_ms: JsonValue = None,
    why: str = "",
) -> HttpCall:
    """Return a call whose answer is a document, or the text of a stream."""
    if not isinstance(request, dict):
        raise ValueError(f"request: found {type(request).__name__}, expected an object")
    is_stream = isinstance(answer, str)
    body = answer if isinstance(answer, str) else "" if answer is None else dump(answer)
    return HttpCall(
        method="POST",
        url=checked_url(url),
        headers=_JSON,
        body=dump(request).encode(),
        status=status if isinstance(status, int) and 0 < status < 1000 else _OK if body else None,
        response_headers=(("content-type", "text/event-stream"),) if is_stream and "data:" in body[:200] else _JSON,
        response_body=body.encode(),
        response_omitted=why or None,
        start_time_unix_nano=at,
        took_ns=int(took_ms * 1e6) if isinstance(took_ms, int | float) and 0 <= took_ms < 1e9 else 0,
        is_exact=False,
    )


# -- items with a request and a response --------------------------------------------------------------------------------


def _plain(item: JsonObject) -> HttpCall:
    request, answer = _value(item.get("request")), _value(item.get("response"))
    place = as_text(item.get("url")) or ""
    if place.startswith("/"):
        place = openai_url(place)
    return _call(
        place or usual_url(as_object(request), answer),
        request,
        answer,
        status=item.get("status"),
        at=_time(item.get("time"), "time"),
        took_ms=item.get("duration_ms"),
    )


def _value(value: JsonValue) -> JsonValue:
    """Return the JSON that a text holds; any other text is a stream."""
    found = parse(value) if isinstance(value, str) else None
    return value if found is None else found


def _time(value: JsonValue, name: str) -> int:
    return 0 if value is None else moment(value, name)


# -- batches ------------------------------------------------------------------------------------------------------------


def read_batch(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Return the spans of a batch: a directory with its request and result files, or one file with the lines of all.

    Raises:
        WireError: a line does not follow the format, or a result has no request; the message says which.
    """
    files = sorted(file for file in path.iterdir() if file.suffix == ".jsonl") if path.is_dir() else [path]
    return spans_of_calls(_of_batch(files), origin, lacks=f"imported from a batch: {_NO_BYTES}")


def _of_batch(files: Iterable[Path]) -> Iterator[HttpCall]:
    requests: dict[str, tuple[Path, int]] = {}
    results: list[tuple[Path, int, int]] = []
    for file in files:
        for line in lines_of(file):
            with placed(file, f"line {line.number}"):
                item = as_object(line.value)
                if not isinstance(item.get("custom_id"), str):
                    raise ValueError("custom_id: expected text; this is not a line of a batch")
                if "response" in item or "result" in item:
                    results.append((file, line.number, line.offset))
                else:
                    requests[str(item["custom_id"])] = (file, line.offset)
    for file, number, offset in results:
        with placed(file, f"line {number}"):
            item = as_object(line_at(file, offset))
            place = requests.get(str(item["custom_id"]))
            if place is None:
                raise ValueError("found no request of this custom_id; put the request file next to it, and name the directory")
            call = _call_of_batch(as_object(line_at(*place)), item)
        yield call


def _call_of_batch(asked: JsonObject, item: JsonObject) -> HttpCall:
    if "result" in item:  # Anthropic's
        result = as_object(item["result"])
        answer = (
            result.get("message") or as_object(result.get("error")) or {"type": "error", "error": {"type": result.get("type")}}
        )
        return _call(ANTHROPIC_MESSAGES, asked.get("params"), answer, status=_OK if "message" in result else 400)
    url, response = as_text(asked.get("url")) or "", as_object(item.get("response"))
    body = response.get("body")
    if not body:
        error = as_object(item.get("error"))
        return _call(openai_url(url), asked.get("body"), {"error": {**error}}, status=500)
    return _call(openai_url(url), asked.get("body"), body, status=response.get("status_code"), at=_created(body))


def _created(body: JsonValue) -> int:
    answered = as_object(body)
    return _time(answered.get("created", answered.get("created_at")), "created")


# -- Bedrock ------------------------------------------------------------------------------------------------------------
_STATUS: Final = {"ThrottlingException": 429, "ModelTimeoutException": 408, "AccessDeniedException": 403}


def _invocation(item: JsonObject) -> HttpCall:
    record = as_object(parse(str(item["message"]))) if "message" in item and "schemaType" not in item else item
    if record.get("schemaType") != "ModelInvocationLog":
        raise ValueError("schemaType: expected ModelInvocationLog")
    if not str(record.get("schemaVersion")).startswith("1."):
        raise ValueError(f"found schemaVersion {str(record.get('schemaVersion'))[:20]!r}, expected 1.0")
    asked, answered = as_object(record.get("input")), as_object(record.get("output"))
    operation, error = as_text(record.get("operation")) or "", as_text(record.get("errorCode"))
    region, model = as_text(record.get("region")) or "us-east-1", as_text(record.get("modelId")) or "unknown"
    answer = answered.get("outputBodyJson")
    if isinstance(answer, list):  # the events of a stream
        answer = bedrock_invoke.assemble([Frame(value=event) for event in answer])
    moved = asked.get("inputBodyS3Path") or answered.get("outputBodyS3Path")
    return _call(
        bedrock_url(region, model, converse=operation.startswith("Converse")),
        asked.get("inputBodyJson") or {},
        {"__type": error, "message": error} if error else answer,
        status=_STATUS.get(error, 400) if error else None,
        at=iso_time(record.get("timestamp"), "timestamp"),
        why="Bedrock put the bodies into other objects of S3" if moved else "",
    )


# -- the readers --------------------------------------------------------------------------------------------------------


def _reader(
    what: str, call_of: Callable[[JsonObject], HttpCall], lacks: str, *, below: str = "data"
) -> Callable[[Path, Origin], Iterator[SpanRecord]]:
    """Return a function that returns the spans of a file's items: one run.

    It raises `WireError` if an item does not follow the format; the message says which.
    """

    def read(path: Path, origin: Origin) -> Iterator[SpanRecord]:
        return spans_of_calls(each(path, what, listed(path, below), call_of), origin, lacks=f"imported from {lacks}")

    return read


read_jsonl: Final = _reader("item", _plain, f"JSON lines: {_NO_BYTES}")
read_bedrock: Final = _reader("record", _invocation, f"an invocation log of Bedrock: {_NO_BYTES}", below="events")
