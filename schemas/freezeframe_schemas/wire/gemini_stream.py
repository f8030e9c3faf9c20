"""Chunks of a Gemini stream, assembled into the answer that they add up to.

Texts of one kind are joined. Function arguments may stream too: a call that says ``willContinue``, then pieces
``{"partialArgs": [{"jsonPath": "$.a[0].b", "stringValue": "Bos", "willContinue": true}]}``, then an empty call. A cut call
keeps its ``willContinue``.

Source: https://ai.google.dev/api/generate-content#v1beta.models.streamGenerateContent and
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_schemas.wire.answer import Split, pieces_of, without_keys
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
    make_object,
)
from freezeframe_schemas.wire.frames import DecodedBody, Frame

_CAPITAL: Final = re.compile(r"_([a-z])")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d{1,4})\]|\['([^']*)'\]")
_MAX_STEPS: Final = 64
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")


def camel(document: JsonObject) -> JsonObject:
    """Return the object with its own keys in camelCase."""
    if not any("_" in key for key in document):
        return document
    return {_CAPITAL.sub(lambda m: m[1].upper(), key): value for key, value in document.items()}


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the answer that the chunks add up to: parts one after another; the last value of every other field."""
    document: JsonObject = {}
    candidates: dict[int, JsonObject] = {}
    for frame in frames:
        chunk = camel(as_object(frame.value))
        document.update({key: value for key, value in chunk.items() if key != "candidates"})
        for piece in as_objects(chunk.get("candidates")):
            index = as_integer(piece.get("index")) or 0
            candidate = candidates.setdefault(index, {})
            before, more = as_object(candidate.get("content")), as_object(piece.get("content"))
            parts = as_list(before.get("parts"))
            for part in as_objects(more.get("parts")):
                _extend_parts(parts, camel(part))
            candidate.update({key: value for key, value in piece.items() if value is not None})
            candidate["content"] = {**before, **more, "parts": parts}
    if candidates:
        document["candidates"] = [candidates[index] for index in sorted(candidates)]
    return document


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the chunks of an answer; the last one of a candidate has its finish reason, the very last one the usage."""
    document = camel(document)
    head = without_keys(document, "candidates", "usageMetadata", "error")
    chunks: list[JsonObject] = []
    for place, candidate in enumerate(as_objects(document.get("candidates"))):
        content = as_object(candidate.get("content"))
        pieces = [piece for part in as_objects(content.get("parts")) for piece in _split_part(camel(part), split)]
        contents: list[JsonObject] = [{**content, "parts": [piece]} for piece in pieces]
        choices: list[JsonObject] = [
            {"index": candidate.get("index", place), "content": item} for item in contents or [content]
        ]
        choices[-1] = {**choices[-1], **without_keys(candidate, "content")}
        chunks += [make_object(head, candidates=[choice]) for choice in choices]
    if "usageMetadata" in document:
        chunks[-1:] = [{**chunk, "usageMetadata": document["usageMetadata"]} for chunk in chunks[-1:] or [head]]
    yield from (Frame(value=chunk) for chunk in chunks or [head])


def _split_part(part: JsonObject, split: Split) -> list[JsonObject]:
    if not isinstance(text := part.get("text"), str):
        return [part]
    thought: JsonObject = {"thought": part["thought"]} if "thought" in part else {}
    pieces: list[JsonObject] = [{"text": piece, **thought} for piece in pieces_of(text, split)]
    return [*pieces[:-1], {**part, **pieces[-1]}]


def has_ended(body: DecodedBody) -> bool | None:
    """Return False until a finish reason came. After that, return None: only the end of the body shows whether more follows."""
    for frame in body.frames or ():
        chunk = camel(as_object(frame.value))
        reasons = [camel(item).get("finishReason") for item in as_objects(chunk.get("candidates"))]
        if any(reasons) or as_object(chunk.get("promptFeedback")).get("blockReason"):
            return None
    return False


def _extend_parts(parts: list[JsonValue], part: JsonObject) -> None:
    last = as_object(parts[-1]) if parts else {}
    call = part.get("functionCall")
    if isinstance(call, dict):
        begun = as_object(last.get("functionCall"))
        if begun.get("willContinue") and "name" not in call:
            parts[-1] = {**last, **part, "functionCall": _continued(begun, call)}
        else:
            parts.append({**part, "functionCall": _continued({}, call)})
        return
    text, before = part.get("text"), last.get("text")
    if isinstance(text, str) and isinstance(before, str) and bool(part.get("thought")) == bool(last.get("thought")):
        parts[-1] = {**last, **part, "text": before + text}
    elif text != "" or len(part) > 1:  # an empty text ends many streams
        parts.append(dict(part))


def _continued(call: JsonObject, more: JsonObject) -> JsonObject:
    """Return the call with the arguments of `more` put at their paths."""
    merged: JsonObject = {key: value for key, value in call.items() if key != "willContinue"}
    merged.update({key: value for key, value in more.items() if key != "partialArgs"})
    pieces = as_objects(more.get("partialArgs"))
    if pieces:
        arguments: JsonValue = dict(as_object(merged.get("args")))
        for piece in pieces:
            value = next((piece[name] for name in _VALUES if name in piece), None)
            arguments = _put(arguments, _steps(as_text(piece.get("jsonPath")) or ""), value)
        merged["args"] = arguments
    return merged


def _steps(path: str) -> list[str | int]:
    """Return ``$.a[0]['b c']`` as ``["a", 0, "b c"]``."""
    steps = [int(step[2]) if step[2] else step[1] or step[3] or "" for step in _STEP.finditer(path)]
    return steps[:_MAX_STEPS]


def _put(target: JsonValue, steps: Sequence[str | int], value: JsonValue) -> JsonValue:
    """Return `target` with `value` at the end of `steps`; text is appended to the text that is there."""
    if not steps:
        return target + value if isinstance(target, str) and isinstance(value, str) else value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        items = list(as_list(target))
        items += [None] * (step + 1 - len(items))
        items[step] = _put(items[step], rest, value)
        return items
    fields = dict(as_object(target))
    fields[step] = _put(fields.get(step), rest, value)
    return fields
