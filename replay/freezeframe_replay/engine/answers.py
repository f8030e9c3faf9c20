"""A model's answer in the words of a provider: what a fork puts into a recording, and what a stub gives back. Pure.

The other direction of ``freezeframe_schemas.wire`` for the two formats that most clients speak, OpenAI chat completions and
Anthropic messages, whole and streamed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.exchange import Chunk, Headers, Response

_JSON: Final[Headers] = (("content-type", "application/json"),)
_EVENTS: Final[Headers] = (("content-type", "text/event-stream; charset=utf-8"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model says. `pieces` are joined to the text; a stream sends one a chunk."""

    pieces: Sequence[str] = ()
    tool_calls: Sequence[ToolCall] = ()
    id: str = "answer"
    model: str = "stub"

    @property
    def text(self) -> str:
        """Return the text as one."""
        return "".join(self.pieces)


def write_answer(dialect: str | None, answer: Answer, *, streamed: bool) -> Response:
    """Return the HTTP response that carries the answer.

    Raises:
        FixtureError: a dialect that is not written here.
    """
    writer = _writer(dialect)
    if not streamed:
        return _response(200, _JSON, [json.dumps(writer.document(answer)).encode()])
    return _response(200, _EVENTS, list(writer.events(answer)))


def write_error(dialect: str | None, status: int, message: str) -> Response:
    """Return the HTTP response in which the provider refuses."""
    kind = "rate_limit_error" if status == 429 else "api_error" if status >= 500 else "invalid_request_error"
    body: dict[str, Any] = {"error": {"type": kind, "message": message}}
    if _writer(dialect) is _WRITERS["anthropic.messages"]:
        body = {"type": "error", **body}
    # A client that tries again should not wait for real.
    return _response(status, (*_JSON, ("retry-after-ms", "1")), [json.dumps(body).encode()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    document: Callable[[Answer], dict[str, Any]]
    events: Callable[[Answer], Iterator[bytes]]


def _writer(dialect: str | None) -> _Writer:
    found = _WRITERS.get(dialect or "")
    if found is None:
        raise FixtureError(f"answers can be written as {' or '.join(_WRITERS)}, found the wire dialect {dialect or 'none'}")
    return found


def _response(status: int, headers: Headers, pieces: Sequence[bytes]) -> Response:
    return Response(status=status, headers=headers, chunks=tuple(Chunk(data=piece) for piece in pieces))


def _event(value: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


# -- OpenAI -------------------------------------------------------------------------------------------------------------


def _chat(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text if answer.pieces else None}
    if answer.tool_calls:
        message["tool_calls"] = [_chat_call(call) for call in answer.tool_calls]
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": 0,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _chat_finish(answer)}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def _chat_events(answer: Answer) -> Iterator[bytes]:
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in answer.pieces]
    deltas += [{"tool_calls": [{"index": index, **_chat_call(call)}]} for index, call in enumerate(answer.tool_calls)]
    deltas[:1] = [{"role": "assistant", **delta} for delta in deltas[:1]]
    finish = _chat_finish(answer)
    for delta, reason in [*((delta, None) for delta in deltas), (dict[str, Any](), finish)]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        yield _event(
            {"id": answer.id, "object": "chat.completion.chunk", "created": 0, "model": answer.model, "choices": [choice]}
        )
    yield b"data: [DONE]\n\n"


def _chat_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
    }


def _chat_finish(answer: Answer) -> str:
    return "tool_calls" if answer.tool_calls else "stop"


# -- Anthropic ----------------------------------------------------------------------------------------------------------


def _message(answer: Answer) -> dict[str, Any]:
    text = [{"type": "text", "text": answer.text}] if answer.pieces else []
    uses = [{"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call in answer.tool_calls]
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [*text, *uses],
        "stop_reason": "tool_use" if answer.tool_calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _message_events(answer: Answer) -> Iterator[bytes]:
    whole = _message(answer)
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, deltas = {"text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.pieces]
        else:
            empty, deltas = {"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": {**block, **empty}})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 0}}, {"type": "message_stop"}]
    for event in events:
        yield _event(event, event["type"])


_WRITERS: Final[Mapping[str, _Writer]] = {
    "openai.chat": _Writer(document=_chat, events=_chat_events),
    "anthropic.messages": _Writer(document=_message, events=_message_events),
}
