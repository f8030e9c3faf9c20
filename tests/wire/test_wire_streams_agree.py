"""A streamed answer and a synchronous one that say the same give the same attributes.

Every recorded synchronous answer is written again as the stream that the provider would send for it, cut into pieces at places
that depend on the row, and must be read the same. The encoders here are written from the providers' documents, not from the
readers under test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_exchanges import Pieces, Recorded, cutter

from freezeframe_schemas import genai
from freezeframe_schemas.wire import eventstream, find_dialect, sse

Document = dict[str, Any]
Encode = Callable[[Document, Pieces], bytes]


def events(values: Sequence[tuple[str | None, Any]]) -> bytes:
    """Return values as server-sent events."""
    return sse.encode([sse.SseEvent(event=name, data=json.dumps(value).encode()) for name, value in values])


# -- one encoder per format: the synchronous answer -> the stream -------------------------------------------------------
def openai_chat(document: Document, pieces: Pieces) -> bytes:
    """Chunks with deltas; usage in a separate chunk at the end, as with ``include_usage``."""
    head = {key: value for key, value in document.items() if key not in ("choices", "usage")}
    chunks: list[Document] = []
    for choice in document["choices"]:
        message = choice["message"]
        index = choice["index"]
        deltas: list[Document] = [{"role": message.get("role"), "content": ""}]
        for key in ("reasoning_content", "reasoning", "content", "refusal"):
            if isinstance(message.get(key), str):
                deltas += [{key: piece} for piece in pieces(message[key])]
        if isinstance(message.get("content"), list):
            deltas += mistral_content(message["content"], pieces)
        for number, call in enumerate(message.get("tool_calls") or []):
            kind = call.get("type", "function")
            written = "arguments" if kind == "function" else "input"
            inner = call[kind]
            deltas.append({"tool_calls": [{**call, "index": number, kind: {**inner, written: ""}}]})
            deltas += [{"tool_calls": [{"index": number, kind: {written: piece}}]} for piece in pieces(inner[written])]
        if message.get("function_call"):
            call = message["function_call"]
            deltas.append({"function_call": {"name": call["name"], "arguments": ""}})
            deltas += [{"function_call": {"arguments": piece}} for piece in pieces(call["arguments"])]
        taken = {"role", "content", "refusal", "reasoning", "reasoning_content", "tool_calls", "function_call"}
        rest = {key: value for key, value in message.items() if key not in taken}
        deltas.append(rest)
        chunks += [{**head, "choices": [{"index": index, "delta": delta}]} for delta in deltas]
        end = {key: value for key, value in choice.items() if key != "message"}
        chunks.append({**head, "choices": [{**end, "delta": {}}]})
    if "usage" in document:
        chunks.append({**head, "choices": [], "usage": document["usage"]})
    return events([(None, chunk) for chunk in chunks]) + b"data: [DONE]\n\n"


def mistral_content(blocks: list[Document], pieces: Pieces) -> Iterator[Document]:
    """Yield Mistral's deltas: thinking as blocks, and then the text bare."""
    for block in blocks:
        if block["type"] == "text":
            yield from ({"content": piece} for piece in pieces(block["text"]))
            continue
        for inner in block["thinking"]:
            for piece in pieces(inner["text"]):
                yield {"content": [{**block, "thinking": [{**inner, "text": piece}]}]}


def openai_completions(document: Document, pieces: Pieces) -> bytes:
    """Chunks with the choice's text in pieces."""
    head = {key: value for key, value in document.items() if key not in ("choices", "usage")}
    chunks: list[Document] = []
    for choice in document["choices"]:
        index = choice.get("index", 0)
        chunks += [
            {**head, "choices": [{"index": index, "text": piece, "finish_reason": None}]} for piece in pieces(choice["text"])
        ]
        chunks.append({**head, "choices": [{**choice, "index": index, "text": ""}]})
    chunks.append({**head, "choices": [], "usage": document.get("usage")})
    return events([(None, chunk) for chunk in chunks]) + b"data: [DONE]\n\n"


def openai_responses(document: Document, pieces: Pieces) -> bytes:
    """Events about items; the last carries the response, but (as some proxies do) without its output."""
    out: list[Document] = [{"type": "response.created", "response": {**document, "status": "in_progress", "output": []}}]
    for index, item in enumerate(document["output"]):
        out.append({"type": "response.output_item.added", "output_index": index, "item": _hollow(item)})
        at = {"output_index": index, "item_id": item.get("id")}
        for number, block in enumerate(item.get("summary") or []):
            kind = "response.reasoning_summary_text.delta"
            out += [{"type": kind, **at, "summary_index": number, "delta": p} for p in pieces(block["text"])]
        if item["type"] == "function_call":
            kind = "response.function_call_arguments.delta"
            out += [{"type": kind, **at, "delta": p} for p in pieces(item["arguments"])]
        elif item["type"] == "custom_tool_call":
            kind = "response.custom_tool_call_input.delta"
            out += [{"type": kind, **at, "delta": p} for p in pieces(item["input"])]
        elif item["type"] == "message":
            for number, block in enumerate(item["content"]):
                kind = "response.output_text.delta"
                out += [{"type": kind, **at, "content_index": number, "delta": p} for p in pieces(block["text"])]
            out.append({"type": "response.output_item.done", "output_index": index, "item": item})
        else:
            out.append({"type": "response.output_item.done", "output_index": index, "item": item})
    out.append({"type": f"response.{document['status']}", "response": {**document, "output": []}})
    return events([(value["type"], value) for value in out])


def _hollow(item: Document) -> Document:
    """Return the item as it is announced: with what will come in deltas empty."""
    empty = {"summary": [], "arguments": "", "input": "", "content": []}
    hollow = {key: empty.get(key, value) for key, value in item.items()}
    return hollow if item["type"] in ("message", "reasoning", "function_call", "custom_tool_call") else item


def anthropic_messages(document: Document, pieces: Pieces) -> bytes:
    """message_start, blocks, message_delta."""
    return events([(value["type"], value) for value in anthropic_events(document, pieces)])


def anthropic_events(document: Document, pieces: Pieces) -> Iterator[Document]:
    """Yield Anthropic's events."""
    start = {**document, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(document["content"]):
        at = {"index": index}
        kind = block["type"]
        if kind == "text":
            yield {"type": "content_block_start", **at, "content_block": {"type": "text", "text": ""}}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            deltas += [{"type": "citations_delta", "citation": c} for c in block.get("citations") or []]
        elif kind == "thinking":
            yield {"type": "content_block_start", **at, "content_block": {"type": kind, "thinking": ""}}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif "input" in block:
            yield {"type": "content_block_start", **at, "content_block": {**block, "input": {}}}
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": p} for p in ["", *pieces(written)]]
        else:
            yield {"type": "content_block_start", **at, "content_block": block}
            deltas = []
        yield from ({"type": "content_block_delta", **at, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", **at}
    end = {key: document.get(key) for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": document["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def gemini(document: Document, pieces: Pieces) -> bytes:
    """Chunks with parts in pieces; reason and usage in the last of each candidate."""
    head = {key: value for key, value in document.items() if key not in ("candidates", "usageMetadata")}
    chunks: list[Document] = []
    for place, candidate in enumerate(document.get("candidates", [])):
        at = {"index": candidate.get("index", place)}
        content = candidate.get("content", {})
        for part in content.get("parts", []):
            texts = [{"text": p} for p in pieces(part["text"])] if "text" in part else [{}]
            flag = {"thought": True} if part.get("thought") else {}
            split = [{**text, **flag} for text in texts]
            split[-1:] = [{**part, **split[-1]}] if split else []
            chunks += [{**head, "candidates": [{**at, "content": {**content, "parts": [p]}}]} for p in split]
        rest = {key: value for key, value in candidate.items() if key != "content"}
        end: Document = {**at, **rest}
        if "content" in candidate:
            end["content"] = {key: value for key, value in content.items() if key != "parts"}
        chunks.append({**head, "candidates": [end]})
    chunks.append({**head, "usageMetadata": document.get("usageMetadata", {})})
    return events([(None, chunk) for chunk in chunks])


def converse_events(document: Document, pieces: Pieces) -> Iterator[tuple[str, Document]]:
    """Yield converse's events by name."""
    message = document["output"]["message"]
    yield "messageStart", {"role": message["role"]}
    for index, block in enumerate(message["content"]):
        at = {"contentBlockIndex": index}
        if "toolUse" in block:
            use = block["toolUse"]
            yield (
                "contentBlockStart",
                {**at, "start": {"toolUse": {k: v for k, v in use.items() if k != "input"}}},
            )
            for piece in pieces(json.dumps(use["input"])):
                yield "contentBlockDelta", {**at, "delta": {"toolUse": {"input": piece}}}
        elif "reasoningContent" in block:
            for key, text in block["reasoningContent"]["reasoningText"].items():
                for piece in pieces(text):
                    yield "contentBlockDelta", {**at, "delta": {"reasoningContent": {key: piece}}}
        else:
            for piece in pieces(block["text"]):
                yield "contentBlockDelta", {**at, "delta": {"text": piece}}
        yield "contentBlockStop", at
    ends = ("stopReason", "additionalModelResponseFields")
    yield "messageStop", {key: document[key] for key in ends if key in document}
    yield "metadata", {key: value for key, value in document.items() if key not in ("output", *ends)}


def converse(document: Document, pieces: Pieces) -> bytes:
    """AWS event stream."""
    return eventstream.encode(
        eventstream.EventMessage(headers={":event-type": name, ":message-type": "event"}, payload=json.dumps(value).encode())
        for name, value in converse_events(document, pieces)
    )


def cohere_v2(document: Document, pieces: Pieces) -> bytes:
    """message-start, content, tool plan and calls, message-end."""
    message = document["message"]
    out: list[Document] = [{"type": "message-start", "id": document["id"], "delta": {"message": {"role": message["role"]}}}]

    def about(**content: Any) -> Document:
        return {"delta": {"message": content}}

    out += [{"type": "tool-plan-delta", **about(tool_plan=p)} for p in pieces(message.get("tool_plan") or "")]
    for index, block in enumerate(message.get("content") or []):
        out.append({"type": "content-start", "index": index, **about(content={"type": "text", "text": ""})})
        out += [{"type": "content-delta", "index": index, **about(content={"text": p})} for p in pieces(block["text"])]
    for index, call in enumerate(message.get("tool_calls") or []):
        hollow = {**call, "function": {**call["function"], "arguments": ""}}
        out.append({"type": "tool-call-start", "index": index, **about(tool_calls=hollow)})
        out += [
            {"type": "tool-call-delta", "index": index, **about(tool_calls={"function": {"arguments": p}})}
            for p in pieces(call["function"]["arguments"])
        ]
    for citation in message.get("citations") or []:
        out.append({"type": "citation-start", **about(citations=citation)})
    end = {key: document[key] for key in ("finish_reason", "usage") if key in document}
    out.append({"type": "message-end", "delta": end})
    return events([(value["type"], value) for value in out])


def cohere_v1(document: Document, pieces: Pieces) -> bytes:
    """JSON lines."""
    out: list[Document] = [{"event_type": "stream-start", "generation_id": document["generation_id"]}]
    out += [{"event_type": "text-generation", "text": piece} for piece in pieces(document["text"])]
    end = {"event_type": "stream-end", "finish_reason": document["finish_reason"], "response": document}
    return b"\n".join(json.dumps(value).encode() for value in [*out, end])


def ollama(document: Document, pieces: Pieces) -> bytes:
    """JSON lines, the last with ``done``."""
    message = document["message"]
    head = {"model": document["model"], "created_at": document["created_at"]}
    out: list[Document] = []
    for key in ("thinking", "content"):
        for piece in pieces(message.get(key) or ""):
            empty = {"role": "assistant", "content": ""}
            out.append({**head, "message": {**empty, key: piece}, "done": False})
    calls = {"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {}
    out.append({**document, "message": {"role": "assistant", "content": "", **calls}})
    return b"\n".join(json.dumps(value).encode() for value in out)


EVENT_STREAM = "text/event-stream; charset=utf-8"
ENCODERS: dict[str, tuple[Encode, str]] = {
    "openai.chat": (openai_chat, EVENT_STREAM),
    "openai.completions": (openai_completions, EVENT_STREAM),
    "openai.responses": (openai_responses, EVENT_STREAM),
    "anthropic.messages": (anthropic_messages, EVENT_STREAM),
    "gemini.generate_content": (gemini, EVENT_STREAM),
    "bedrock.converse": (converse, "application/vnd.amazon.eventstream"),
    "cohere.chat": (cohere_v2, EVENT_STREAM),
    "cohere.chat_v1": (cohere_v1, "application/stream+json"),
    "ollama.chat": (ollama, "application/x-ndjson"),
}


def normal(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes with JSON texts read, so that the order of keys does not count."""
    names = (genai.OUTPUT_MESSAGES, genai.USAGE_DETAILS, genai.RESPONSE_DETAILS)
    return {name: json.loads(value) if name in names else value for name, value in attributes.items()}


@pytest.mark.proof
@pytest.mark.parametrize("dialect", sorted(ENCODERS))
@pytest.mark.long
def test_recorded_answers_read_the_same_when_streamed(exchanges: Sequence[Recorded], dialect: str) -> None:
    """Each synchronous answer of the recordings, streamed in random pieces."""
    encode, content_type = ENCODERS[dialect]
    compared = 0
    for row in exchanges:
        match = find_dialect(row.method, row.url)
        if match is None or match.dialect.name != dialect or row.stream or row.status >= 400 or not row.response:
            continue
        try:
            document = json.loads(row.response)
        except ValueError:
            continue
        if not isinstance(document, dict):  # streamed as one JSON array, and not marked so
            continue
        body = encode(document, cutter(random.Random(row.id)))
        whole = match.dialect.response_attributes(row.response, content_type="application/json", status=row.status)
        streamed = match.dialect.response_attributes(body, content_type=content_type, status=row.status)
        assert normal(streamed) == normal(whole), row.id
        compared += 1
    assert compared


@pytest.mark.parametrize("dialect", sorted(ENCODERS))
def test_a_stream_cut_anywhere_has_no_finish_reason_before_it_came(exchanges: Sequence[Recorded], dialect: str) -> None:
    """Of each format one recorded answer, cut at 150 places: nothing that the whole does not say, no reason before its time."""
    encode, content_type = ENCODERS[dialect]
    row = next(
        row
        for row in exchanges
        if (match := find_dialect(row.method, row.url)) is not None
        and match.dialect.name == dialect
        and not row.stream
        and row.status < 400
        and 300 < len(row.response) < 1500
    )
    match = find_dialect(row.method, row.url)
    assert match is not None
    body = encode(json.loads(row.response), cutter(random.Random(row.id)))
    whole = match.dialect.response_attributes(body, content_type=content_type, status=200)
    reasons = whole[genai.RESPONSE_FINISH_REASONS]
    assert isinstance(reasons, tuple)
    seen_without = 0
    for size in range(0, len(body), max(1, len(body) // 150)):
        cut = match.dialect.response_attributes(body[:size], content_type=content_type, status=200)
        assert set(cut) <= set(whole), size
        reason = cut.get(genai.RESPONSE_FINISH_REASONS)
        assert reason is None or (isinstance(reason, tuple) and reason == reasons[: len(reason)]), size
        if reason is None:
            seen_without += 1
            assert "finish_reason" not in str(cut.get(genai.OUTPUT_MESSAGES)), size
    assert seen_without > 50


# -- generated answers --------------------------------------------------------------------------------------------------
texts = st.text(min_size=1, max_size=60)
arguments = st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=20), st.integers(), st.booleans()))


@st.composite
def chat_completions(draw: st.DrawFn) -> Document:
    """Chat completions with several choices, some with tool calls."""
    choices: list[Document] = []
    for index in range(draw(st.integers(1, 3))):
        message: Document = {"role": "assistant", "content": draw(st.none() | texts)}
        if draw(st.booleans()):
            message["tool_calls"] = [
                {
                    "id": f"call_{index}_{number}",
                    "type": "function",
                    "function": {"name": draw(texts), "arguments": json.dumps(draw(arguments))},
                }
                for number in range(draw(st.integers(1, 3)))
            ]
        reason = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"]))
        choices.append({"index": index, "message": message, "finish_reason": reason})
    usage = {"prompt_tokens": draw(st.integers(0, 9)), "completion_tokens": draw(st.integers(0, 9))}
    return {"id": draw(texts), "model": draw(texts), "choices": choices, "usage": usage}


def text_block(text: str) -> Document:
    """Return an Anthropic text block."""
    return {"type": "text", "text": text}


def thinking_block(text: str) -> Document:
    """Return an Anthropic thinking block."""
    return {"type": "thinking", "thinking": text, "signature": "sig"}


def tool_block(name: str, value: Document) -> Document:
    """Return an Anthropic tool call."""
    return {"type": "tool_use", "id": "t", "name": name, "input": value}


@st.composite
def anthropic_answers(draw: st.DrawFn) -> Document:
    """Messages of text, thinking and tool calls in any order."""
    block = st.one_of(
        st.builds(text_block, texts),
        st.builds(thinking_block, texts),
        st.builds(tool_block, texts, arguments),
    )
    return {
        "type": "message",
        "id": draw(texts),
        "model": draw(texts),
        "role": "assistant",
        "content": draw(st.lists(block, max_size=4)),
        "stop_reason": draw(st.sampled_from(["end_turn", "max_tokens", "tool_use", "pause_turn"])),
        "stop_sequence": None,
        "usage": {"input_tokens": draw(st.integers(0, 9)), "output_tokens": draw(st.integers(0, 9))},
    }


@settings(max_examples=examples(60), deadline=None)
@given(document=chat_completions(), source=st.randoms(use_true_random=False))
def test_generated_chat_completions_read_the_same_when_streamed(document: Document, source: random.Random) -> None:
    """Any text, in any script, in any pieces."""
    _agree("https://api.openai.com/v1/chat/completions", openai_chat, document, source)


@settings(max_examples=examples(60), deadline=None)
@given(document=anthropic_answers(), source=st.randoms(use_true_random=False))
def test_generated_messages_read_the_same_when_streamed(document: Document, source: random.Random) -> None:
    """Blocks in any order; tool input beyond 64 bits too."""
    _agree("https://api.anthropic.com/v1/messages", anthropic_messages, document, source)


def _agree(url: str, encode: Encode, document: Document, source: random.Random) -> None:
    match = find_dialect("POST", url)
    assert match is not None
    dialect = match.dialect
    whole = dialect.response_attributes(json.dumps(document).encode(), content_type="application/json", status=200)
    streamed = dialect.response_attributes(encode(document, cutter(source)), content_type=EVENT_STREAM, status=200)
    assert normal(streamed) == normal(whole)
