"""Chunks of an OpenAI chat completions stream, assembled into the completion that they add up to, and back.

Covered additions of other providers: Azure's empty first chunk, Mistral's content that turns from blocks to text, badly
numbered tool calls, running usage (DeepSeek), ``reasoning_details`` blocks (OpenRouter).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from freezeframe_schemas.wire.answer import Split, pieces_of, without_keys
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_integer, as_object, as_objects, as_text, make_object
from freezeframe_schemas.wire.frames import DONE, DecodedBody, Frame


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the chat completion that the chunks add up to; a choice that was cut has no finish reason."""
    document: JsonObject = {}
    choices: dict[int, JsonObject] = {}
    for frame in frames:
        chunk = as_object(frame.value)
        merge_top_level(document, chunk)
        for part in as_objects(chunk.get("choices")):
            index = as_integer(part.get("index")) or 0
            choice = choices.setdefault(index, {"index": index, "message": {}})
            message = choice["message"]
            delta = part.get("delta")
            if isinstance(message, dict) and isinstance(delta, dict):
                _merge_delta(message, delta)
            known_keys = ("delta", "index", "message") if isinstance(delta, dict) else ("index",)  # Writer sends both, the same
            for key, value in part.items():
                if value is not None and key not in known_keys:
                    choice[key] = value
    if choices:
        document["choices"] = [choices[index] for index in sorted(choices)]
    return document


def has_ended(body: DecodedBody) -> bool | None:
    """Return whether ``[DONE]`` came. Not all send it: without it, a stream may be whole once each choice has finished."""
    if body.done:
        return True
    finished: dict[int, bool] = {}
    spoken = False
    for frame in body.frames or ():
        chunk = as_object(frame.value)
        spoken = spoken or "choices" in chunk
        for choice in as_objects(chunk.get("choices")):
            index = as_integer(choice.get("index")) or 0
            finished[index] = finished.get(index, False) or bool(choice.get("finish_reason"))
    if not spoken or (finished and all(finished.values())):
        return None
    return False


def merge_top_level(document: JsonObject, chunk: JsonObject) -> None:
    """Update the document with a chunk's own fields: the first id and model that are not empty, the last of the rest."""
    for key, value in chunk.items():
        if value is None or key in ("choices", "obfuscation"):
            continue
        if key in ("id", "model", "created"):
            document[key] = document.get(key) or value
        else:
            document[key] = value


def _merge_delta(message: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        if value is None:
            continue
        if key == "tool_calls":
            _merge_calls(message, as_objects(value))
        elif key == "role":
            message["role"] = message.get("role") or value
        else:
            message[key] = _joined(message.get(key), value)


def _joined(before: JsonValue, more: JsonValue) -> JsonValue:
    """Return `more` added to what came before, as the SDKs accumulate deltas: text and arrays grow, objects merge."""
    match before, more:
        case str(), str():
            return before + more
        case list(), list():
            return _joined_blocks(before, more)
        case str(), list():  # Mistral: thinking blocks, then bare text, or the reverse
            return _joined_blocks([{"type": "text", "text": before}] if before else [], more)
        case list(), str():
            return _joined_blocks(before, [{"type": "text", "text": more}] if more else [])
        case dict(), dict():
            merged = dict(before)
            for key, value in more.items():
                if value is not None:
                    merged[key] = value if key in ("type", "id", "index") else _joined(merged.get(key), value)
            return merged
        case _:
            return more


def _joined_blocks(before: list[JsonValue], more: list[JsonValue]) -> list[JsonValue]:
    """Return the blocks with a continuation (same type, and same index if it has one) merged into the last."""
    blocks = list(before)
    for item in more:
        last = blocks[-1] if blocks else None
        if (
            isinstance(item, dict)
            and isinstance(last, dict)
            and isinstance(item.get("type"), str)
            and item.get("type") == last.get("type")
            and item.get("index") == last.get("index")
        ):
            blocks[-1] = _joined(last, item)
        else:
            blocks.append(item)
    return blocks


def _merge_calls(message: JsonObject, deltas: list[JsonObject]) -> None:
    calls = message.setdefault("tool_calls", [])
    if not isinstance(calls, list):
        return
    for delta in deltas:
        call = _call_of(calls, delta)
        for key, value in delta.items():
            if value is None:
                continue
            inner = call.get(key)
            if isinstance(value, dict) and isinstance(inner, dict):
                _extend_function(inner, value)
            elif isinstance(value, dict):
                call[key] = dict(value)
            else:
                call[key] = value


def _call_of(calls: list[JsonValue], delta: JsonObject) -> JsonObject:
    """Return the call that a delta continues: the one of its index; a new id under the same index is another call."""
    index, call_id = delta.get("index"), delta.get("id")
    for call in reversed(calls):
        if isinstance(call, dict) and call.get("index") == index:
            if call_id and call.get("id") and call_id != call.get("id"):
                break
            return call
    new: JsonObject = {}
    calls.append(new)
    return new


def _extend_function(function: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        before = function.get(key)
        if key in ("arguments", "input") and isinstance(before, str) and isinstance(value, str):
            function[key] = before + value
        elif value or (value is not None and key in ("arguments", "input")):
            function[key] = value


# -- writing ------------------------------------------------------------------------------------------------------------
_IN_EACH: Final = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_TEXTS: Final = frozenset({"content", "refusal", "reasoning", "reasoning_content"})


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the chunks of a chat completion; usage in a separate one, as with ``include_usage``."""
    return chunks_of(
        document, "chat.completion.chunk", lambda choice: _deltas(as_object(choice.get("message")), split), "message"
    )


def chunks_of(
    document: JsonObject, kind: str, pieces: Callable[[JsonObject], Iterable[JsonObject]], taken: str
) -> Iterator[Frame]:
    """Yield the chunks of a completion whose choices come in `pieces`; the field `taken` is in them."""
    head = {key: document[key] for key in _IN_EACH if key in document}
    if "object" in head:
        head["object"] = kind
    rest: JsonObject = without_keys(document, *_IN_EACH, "choices", "usage", "error")
    chunks: list[JsonObject] = []
    for place, choice in enumerate(as_objects(document.get("choices"))):
        at: JsonObject = {"index": choice.get("index", place)}
        chunks += [make_object(head, choices=[{**at, **piece, "finish_reason": None}]) for piece in pieces(choice)]
        end: JsonObject = {"text": ""} if taken == "text" else {"delta": {}}
        chunks.append({**head, "choices": [{**at, **end, **without_keys(choice, "index", "delta", taken)}]})
    if usage := document.get("usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    chunks[:1] = [{**rest, **chunk} for chunk in chunks[:1] or [head]]
    yield from (Frame(value=chunk) for chunk in chunks)
    yield DONE


def _deltas(message: JsonObject, split: Split) -> Iterator[JsonObject]:
    """Yield ``{"delta": ...}`` for each piece of a message; the first has the role."""
    deltas: list[JsonObject] = []
    for key, value in message.items():
        if key == "tool_calls":
            deltas += [make_object(tool_calls=[piece]) for piece in _calls(as_objects(value), split)]
        elif isinstance(value, str) and key in _TEXTS:
            deltas += [make_object({key: piece}) for piece in pieces_of(value, split)]
        elif key == "function_call" and isinstance(text := as_object(value).get("arguments"), str):
            first, *more = pieces_of(text, split)
            deltas.append({key: {**as_object(value), "arguments": first}})
            deltas += [make_object({key: {"arguments": piece}}) for piece in more]
        elif value is not None and key != "role":
            deltas.append({key: value})
    role: JsonObject = {"role": message["role"]} if "role" in message else {}
    deltas[:1] = [{**role, **delta} for delta in deltas[:1] or [{}]]
    yield from (make_object(delta=delta) for delta in deltas)


def _calls(calls: list[JsonObject], split: Split) -> Iterator[JsonObject]:
    for place, call in enumerate(calls):
        at: JsonObject = {"index": call.get("index", place)}
        kind = as_text(call.get("type")) or "function"
        inner = as_object(call.get(kind))
        written = next((name for name in ("arguments", "input") if isinstance(inner.get(name), str)), None)
        if written is None:
            yield {**call, **at}
            continue
        first, *more = pieces_of(inner[written], split)
        yield {**at, **without_keys(call, "index"), kind: {**inner, written: first}}
        yield from (make_object(at, {kind: {written: piece}}) for piece in more)
