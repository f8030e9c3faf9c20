"""Events of an OpenAI responses stream, assembled into the response that they add up to, and back.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_schemas.wire.answer import Split, pieces_of
from freezeframe_schemas.wire.dialect import ended_by
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_integer, as_list, as_object, as_objects, as_text
from freezeframe_schemas.wire.frames import DecodedBody, Frame


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the response of the last event that carries it. If that came without output (cut, or a proxy that leaves it
    out), add the items that the other events add up to.
    """
    document: JsonObject = {}
    items: dict[int, JsonObject] = {}
    for frame in frames:
        event = as_object(frame.value)
        kind = as_text(event.get("type")) or frame.event or ""
        response = event.get("response")
        if isinstance(response, dict):
            document = {**document, **response}
        elif kind == "error":  # code, message and param are in the event itself
            document["error"] = event.get("error") or {k: v for k, v in event.items() if k != "type"}
        elif "output_index" in event:
            _extend_item(items.setdefault(as_integer(event["output_index"]) or 0, {}), kind, event)
    if not as_list(document.get("output")) and items:
        document["output"] = [items[index] for index in sorted(items)]
    return document


def _extend_item(item: JsonObject, kind: str, event: JsonObject) -> None:
    if kind in ("response.output_item.added", "response.output_item.done"):
        item.update(as_object(event.get("item")))
        return
    delta = as_text(event.get("delta"))
    if delta is None:
        return
    match kind:
        case "response.function_call_arguments.delta" | "response.mcp_call_arguments.delta":
            item["arguments"] = (as_text(item.get("arguments")) or "") + delta
        case "response.custom_tool_call_input.delta":
            item["input"] = (as_text(item.get("input")) or "") + delta
        case "response.code_interpreter_call_code.delta":
            item["code"] = (as_text(item.get("code")) or "") + delta
        case "response.output_text.delta":
            _extend_block(item, "content", event.get("content_index"), "output_text", "text", delta)
        case "response.refusal.delta":
            _extend_block(item, "content", event.get("content_index"), "refusal", "refusal", delta)
        case "response.reasoning_text.delta":
            _extend_block(item, "content", event.get("content_index"), "reasoning_text", "text", delta)
        case "response.reasoning_summary_text.delta":
            _extend_block(item, "summary", event.get("summary_index"), "summary_text", "text", delta)
        case _:
            pass


def _extend_block(item: JsonObject, key: str, index: JsonValue, kind: str, field: str, delta: str) -> None:
    blocks = as_list(item.get(key))
    item[key] = blocks
    place = as_integer(index) or 0
    if place > len(blocks):
        place = len(blocks)  # an index out of turn: keep the text, in order of arrival
    if place == len(blocks):
        blocks.append({"type": kind, field: ""})
    block = blocks[place]
    if isinstance(block, dict):
        block[field] = (as_text(block.get(field)) or "") + delta


# -- writing ------------------------------------------------------------------------------------------------------------
_DELTAS: Final = {
    "function_call": ("arguments", "response.function_call_arguments.delta"),
    "mcp_call": ("arguments", "response.mcp_call_arguments.delta"),
    "custom_tool_call": ("input", "response.custom_tool_call_input.delta"),
    "code_interpreter_call": ("code", "response.code_interpreter_call_code.delta"),
}
"""Kind of an item -> the field that is sent in pieces, and the event that carries one."""
_BLOCK_DELTAS: Final = {
    "output_text": ("text", "response.output_text"),
    "refusal": ("refusal", "response.refusal"),
    "reasoning_text": ("text", "response.reasoning_text"),
    "summary_text": ("text", "response.reasoning_summary_text"),
}
"""Kind of a block -> the same, without ``.delta`` and ``.done``."""


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the events of a response. A response that was cut (in progress) has no last one."""
    status = as_text(document.get("status"))
    ending = f"response.{status}" if f"response.{status}" in _LAST_EVENTS else None
    begun = {**document, "output": [], **({"status": "in_progress", "usage": None, "error": None} if ending else {})}
    events: list[JsonObject] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(as_objects(document.get("output"))):
        at: JsonObject = {"output_index": index}
        hollow: JsonObject = {key: _HOLLOW.get(key, value) for key, value in item.items()}
        events.append({"type": "response.output_item.added", **at, "item": hollow})
        events += [{**event, **at, "item_id": item.get("id")} for event in _item_events(item, split)]
        events.append({"type": "response.output_item.done", **at, "item": item})
    if ending:
        events.append({"type": ending, "response": document})
    for number, event in enumerate(events):
        yield Frame(event=as_text(event["type"]), value={**event, "sequence_number": number})


_HOLLOW: Final[JsonObject] = {"summary": [], "content": [], "arguments": "", "input": "", "code": "", "status": "in_progress"}


def _item_events(item: JsonObject, split: Split) -> Iterator[JsonObject]:
    field, kind = _DELTAS.get(as_text(item.get("type")) or "", ("", ""))
    if isinstance(text := item.get(field), str):
        for piece in pieces_of(text, split):
            yield {"type": kind, "delta": piece}
        yield {"type": kind.replace(".delta", ".done"), field: text}
    for key, part, place in (
        ("summary", "response.reasoning_summary_part", "summary_index"),
        ("content", "response.content_part", "content_index"),
    ):
        for number, block in enumerate(as_objects(item.get(key))):
            at: JsonObject = {place: number}
            field, kind = _BLOCK_DELTAS.get(as_text(block.get("type")) or "", ("", ""))
            if not isinstance(text := block.get(field), str):
                continue
            yield {"type": f"{part}.added", **at, "part": {**block, field: ""}}
            yield from ({"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces_of(text, split))
            yield {"type": f"{kind}.done", **at, field: text}
            yield {"type": f"{part}.done", **at, "part": block}


_LAST_EVENTS: Final = frozenset({"response.completed", "response.failed", "response.incomplete", "error"})


def has_ended(body: DecodedBody) -> bool | None:
    """Return whether the event that says how the response ended came."""
    return ended_by(body, lambda frame: _type_of(frame) in _LAST_EVENTS, lambda frame: _type_of(frame).startswith("response."))


def _type_of(frame: Frame) -> str:
    return as_text(as_object(frame.value).get("type")) or ""
