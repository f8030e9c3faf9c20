"""Logs of Inspect (``.eval``, a zip, and ``.json``): each sample of an evaluation is a run.

Source: https://inspect.aisi.org.uk/eval-logs.html and /reference/inspect_ai.log.html, and what version 0.3.285 wrote.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from freezeframe_replay.sources.recordings.conversations import Conversation, Said, spoken, tool_call
from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import Other, each, items_of, placed
from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError, WireError
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text, dump
from freezeframe_schemas.wire.encoding import decode_body
from freezeframe_schemas.wire.openai_chat import DIALECT

_VERSION: Final = 2
_LACKS: Final = "imported from an Inspect log: it holds the messages in Inspect's own form, not the bytes"
_SAMPLES: Final = "samples/"
_CODINGS: Final = {zipfile.ZIP_STORED: "identity", zipfile.ZIP_DEFLATED: "deflate", 93: "zstd"}
_LOCAL_HEADER: Final = 30
_COUNTS: Final = {
    genai.USAGE_INPUT_TOKENS: "input_tokens",
    genai.USAGE_OUTPUT_TOKENS: "output_tokens",
    genai.USAGE_CACHE_READ_TOKENS: "input_tokens_cache_read",
    genai.USAGE_CACHE_WRITE_TOKENS: "input_tokens_cache_write",
    genai.USAGE_REASONING_TOKENS: "reasoning_tokens",
}


def read_inspect(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Yield the samples of a log.

    Raises:
        RunError: the log is a header without samples.
        WireError: the log is damaged, of another version, or a sample does not follow the format; the message says which.
    """
    del origin
    task: list[str] = []
    numbers: list[None] = []

    def note(name: str, value: Any) -> None:
        if name == "version" and value != _VERSION:
            raise WireError(f"{path}: found version {str(value)[:20]!r} of the log, expected {_VERSION}")
        if name == "eval":
            task.append(str(as_object(value).get("task"))[:80])

    def conversation_of(sample: JsonObject) -> Conversation:
        numbers.append(None)
        name = f"{task[0] if task else 'sample'}, sample {sample.get('id')}, epoch {sample.get('epoch')}"
        return Conversation(number=len(numbers), name=name[:100], messages=list(_messages_of(sample)), lacks=_LACKS)

    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    samples = _of_zip(path, note) if is_zip else items_of(path, "samples", other=note, is_required=False)
    yield from (talk for talk in each(path, "sample", samples, conversation_of) if talk.messages)
    if not numbers and task:
        raise RunError(f"{path}: the log holds no sample, only its header")
    if not numbers:
        raise WireError(f"{path}: found no array 'samples'")


def _of_zip(path: Path, note: Other) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            if "header.json" not in archive.namelist():
                raise WireError(f"{path}: found no header.json: the evaluation did not finish, or this is not an Inspect log")
            for name, value in as_object(_member(path, file, archive.getinfo("header.json"))).items():
                note(name, value)
            for info in archive.infolist():
                if info.filename.startswith(_SAMPLES):
                    yield _member(path, file, info)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise WireError(f"{path}: not a readable log of Inspect: {error}") from None


def _member(path: Path, file: BinaryIO, info: zipfile.ZipInfo) -> Any:
    """Return the JSON of a member. Python before 3.14 reads none that is compressed with zstandard, as Inspect writes them."""
    coding = _CODINGS.get(info.compress_type)
    if coding is None:
        raise WireError(f"{path}, {info.filename}: compressed in a way that is not read ({info.compress_type})")
    file.seek(info.header_offset)
    head = file.read(_LOCAL_HEADER)
    file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), 1)
    with placed(path, info.filename):
        return json.loads(decode_body(file.read(info.compress_size), [("content-encoding", coding)]))


def _messages_of(sample: JsonObject) -> Iterator[Said]:
    """Yield the messages that calls refer to, then the calls and the results of tools, in the order in which they were made."""
    attached = as_object(sample.get("attachments"))
    pool = [_message(message, attached) for message in as_objects(as_object(sample.get("events_data")).get("messages"))]
    events = [event for event in as_objects(sample.get("events")) if event.get("event") in ("model", "tool")]
    places: dict[str, int] = {}
    calls: list[tuple[JsonObject, list[int]]] = []
    for event in events:
        messages = [_message(message, attached) for message in as_objects(event.get("input"))]
        messages = messages or [message for first, end in _ranges(event) for message in pool[first:end]]
        calls.append((event, [places.setdefault(dump(message), len(places)) for message in messages]))
    yield from (Said(message=json.loads(text), is_repeated=True) for text in places)
    for event, after in calls:
        yield _answer(event, after, attached) if event["event"] == "model" else _result(event, attached)


def _ranges(event: JsonObject) -> Iterator[tuple[int, int]]:
    for pair in as_list(event.get("input_refs")):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(end, int) for end in pair):
            raise ValueError("input_refs: expected pairs of numbers")
        yield pair[0], pair[1]  # type: ignore[misc]


def _answer(event: JsonObject, after: list[int], attached: JsonObject) -> Said:
    output = as_object(event.get("output"))
    choice = next(iter(as_objects(output.get("choices"))), {})
    message = _message(as_object(choice.get("message")), attached)
    provider, _, model = (as_text(event.get("model")) or "").partition("/")
    usage = as_object(output.get("usage"))
    reason = as_text(choice.get("stop_reason"))
    values: dict[str, JsonValue] = {
        genai.PROVIDER_NAME: provider,
        genai.REQUEST_MODEL: model or provider,
        genai.RESPONSE_MODEL: output.get("model"),
        genai.RESPONSE_ID: output.get("response_id"),
        genai.TOOL_DEFINITIONS: dump(event["tools"]) if event.get("tools") else None,
        **{name: usage.get(counted) for name, counted in _COUNTS.items()},
    }
    attributes: dict[str, AttributeValue] = {name: value for name, value in values.items() if isinstance(value, str | int)}
    if reason:
        attributes[genai.RESPONSE_FINISH_REASONS] = (reason,)
    error = as_text(event.get("error")) or ""
    return Said(
        message=message,
        key=as_text(event.get("uuid")) or "",
        at=_ended(event),
        asked_at=iso_time(event.get("timestamp"), "timestamp"),
        attributes=attributes,
        error=error,
        after=after,
    )


def _ended(event: JsonObject) -> int:
    return iso_time(event.get("completed") or event.get("timestamp"), "timestamp")


def _result(event: JsonObject, attached: JsonObject) -> Said:
    failed = as_object(event.get("error")).get("message")
    result = event.get("result") if failed is None else failed
    part: JsonObject = {"type": "tool_call_response", "id": event.get("id"), "response": _resolved(result, attached)}
    message: JsonObject = {"role": "tool", "name": event.get("function"), "parts": [part]}
    return Said(message=message, key=as_text(event.get("uuid")) or "", at=_ended(event))


def _message(message: JsonObject, attached: JsonObject) -> JsonObject:
    """Return a message of Inspect, whose calls and contents have their own names."""
    message = as_object(_resolved(message, attached))
    content = message.get("content")
    plain: JsonObject = {"role": message.get("role"), "content": content}
    if isinstance(content, list):
        plain["content"] = [_content(block) for block in as_objects(content)]
    calls: list[JsonValue] = [
        tool_call(call.get("id"), call.get("function"), call.get("arguments")) for call in as_objects(message.get("tool_calls"))
    ]
    if calls:
        plain["tool_calls"] = calls
    if message.get("role") == "tool":
        plain["tool_call_id"] = message.get("tool_call_id")
    empty: JsonObject = {"role": "user", "parts": []}
    return next(iter(spoken(DIALECT, {"messages": [plain]})), empty)


def _content(block: JsonObject) -> JsonObject:
    match block.get("type"):
        case "reasoning":
            return {"type": "thinking", "thinking": block.get("reasoning")}
        case "image":
            return {"type": "image_url", "image_url": {"url": block.get("image")}}
        case _:
            return block


def _resolved(value: JsonValue, attached: JsonObject) -> JsonValue:
    """Return the value with the texts filled in that the log keeps only once, under a hash."""
    if isinstance(value, str):
        return attached.get(value.removeprefix("attachment://"), value) if value.startswith("attachment://") else value
    if isinstance(value, list):
        return [_resolved(item, attached) for item in value]
    if isinstance(value, dict):
        return {name: _resolved(item, attached) for name, item in value.items()}
    return value
