"""OpenAI (legacy) text completions, and Writer's variant of its stream (``data: {"value": "text"}``).

Source: https://platform.openai.com/docs/api-reference/completions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire.answer import Answer, Split, pieces_of
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_integer, as_list, as_object, as_objects, as_text
from freezeframe_schemas.wire.frames import Frame
from freezeframe_schemas.wire.messages import GenericPart, Message, TextPart, answer_of
from freezeframe_schemas.wire.openai_chat import (
    FINISH_REASONS,
    SAMPLED,
    TRANSIENT_FIELDS,
    read_completion,
    read_sampling,
    write_completion,
)
from freezeframe_schemas.wire.openai_stream import chunks_of, has_ended, merge_top_level


def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a completions request; each prompt is a user message."""
    read_sampling(document, out)
    out.messages(genai.INPUT_MESSAGES, _prompts(document.get("prompt")))
    out.rest(document, {*SAMPLED, "prompt"})


def _prompts(prompt: JsonValue) -> list[Message]:
    """Return ``"text"``, ``["text", ...]``, or token ids (``[1, 2]``, ``[[1, 2], ...]``) as messages."""
    items = as_list(prompt)
    if items and all(isinstance(item, int) for item in items):
        items = [items]
    elif not isinstance(prompt, list):
        items = [prompt] if prompt is not None else []
    return [
        Message(
            role="user",
            parts=(TextPart(content=item) if isinstance(item, str) else GenericPart(type="tokens", extra={"content": item}),),
        )
        for item in items
    ]


def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a text completion."""
    choices = as_objects(document.get("choices"))
    reasons = [as_text(choice.get("finish_reason")) for choice in choices]
    read_completion(document, reasons, out)
    answers = [answer_of(choice.get("text"), reason) for choice, reason in zip(choices, reasons, strict=True)]
    out.messages(genai.OUTPUT_MESSAGES, answers)


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the text completion that the chunks add up to."""
    document: JsonObject = {}
    choices: dict[int, JsonObject] = {}
    texts: dict[int, list[str]] = {}
    for frame in frames:
        chunk: JsonObject = as_object(frame.value)
        if isinstance(value := chunk.get("value"), str):
            chunk = {"choices": [{"index": 0, "text": value}]}
        merge_top_level(document, chunk)
        for part in as_objects(chunk.get("choices")):
            index = as_integer(part.get("index")) or 0
            choice = choices.setdefault(index, {"index": index})
            texts.setdefault(index, []).append(as_text(part.get("text")) or "")
            choice.update({key: v for key, v in part.items() if v is not None and key != "text"})
    for index, pieces in texts.items():
        choices[index]["text"] = "".join(pieces)
    if choices:
        document["choices"] = [choices[index] for index in sorted(choices)]
    return document


def compose(answer: Answer, request: JsonObject) -> JsonObject:
    """Return a text completion."""
    choice: JsonObject = {"text": answer.text, "logprobs": None, "finish_reason": answer.finish(FINISH_REASONS)}
    return write_completion(answer, request, "text_completion", choice)


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the chunks of a text completion."""
    return chunks_of(
        document,
        "text_completion",
        lambda choice: [{"text": piece} for piece in pieces_of(choice.get("text") or "", split)],
        "text",
    )


DIALECT: Final = WireDialect(
    name="openai.completions",
    operation=genai.OP_TEXT_COMPLETION,
    provider="openai",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, has_ended, disassemble),
    transient_fields=TRANSIENT_FIELDS,
    call_path="/completions",
    honours_retry_after=True,
)
