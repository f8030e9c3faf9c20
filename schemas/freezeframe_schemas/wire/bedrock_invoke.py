"""Bedrock invoke and invoke-with-response-stream: one URL, and each model maker's own format.

The model's id does not always show it (inference profiles and custom models are ARNs), the documents do: Anthropic's, Nova's,
Cohere's and OpenAI-like chats go to those dialects; the many text completions (Titan, Llama, Mistral, Jurassic, Command, old
Claude) are read here, with one table of their field names.

Source: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.wire import anthropic_messages, bedrock_converse, cohere, cohere_v1, openai_chat, prompts
from freezeframe_schemas.wire.answer import Answer, Split, pieces_of, without_keys
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
)
from freezeframe_schemas.wire.frames import CHUNK, DONE, METRICS, DecodedBody, Form, Frame
from freezeframe_schemas.wire.messages import Message, TextPart, answer_of

_TEMPERATURE: Final = ("temperature",)
_TOP_P: Final = ("top_p", "topP", "p")
_TOP_K: Final = ("top_k", "topK", "k")
_MAX_TOKENS: Final = ("max_tokens", "maxTokens", "max_gen_len", "max_tokens_to_sample", "maxTokenCount")
_STOP: Final = ("stop", "stop_sequences", "stopSequences")
_CHOICES: Final = ("num_generations", "numResults")
_REQUEST_FIELDS: Final = frozenset({"prompt", "inputText", *_TEMPERATURE, *_TOP_P, *_TOP_K, *_MAX_TOKENS, *_STOP, *_CHOICES})
_TITAN_SETTINGS: Final = frozenset({"temperature", "topP", "maxTokenCount", "stopSequences"})
_TEXTS: Final = ("outputText", "generation", "completion", "text")
"""The field of a completion's text, by maker: Titan, Llama, old Claude, Command and Mistral."""
_REASONS: Final = ("completionReason", "stop_reason", "finish_reason", "finishReason")


# -- request ------------------------------------------------------------------------------------------------------------
def _maker(document: JsonObject) -> WireDialect | None:
    """Return the dialect that a request is written in; None for a text completion."""
    if "messages" in document:
        if "anthropic_version" in document:
            return anthropic_messages.DIALECT
        if "inferenceConfig" in document or _without_types(document["messages"]):
            return bedrock_converse.DIALECT
        return openai_chat.DIALECT
    return cohere_v1.DIALECT if "message" in document else None


def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a request in whichever format it has."""
    maker = _maker(document)
    if maker is None:
        _read_completion_request(document, out)
    else:
        maker.documents.read_request(document, out)
        out.attributes.pop(genai.OPENAI_API_TYPE, None)


def _set_system(document: JsonObject, text: str) -> JsonObject | None:
    maker = anthropic_messages.DIALECT if "anthropic_version" in document else _maker(document)
    return None if maker is None else maker.set_system(document, text)


def _without_types(messages: JsonValue) -> bool:
    """Return whether content blocks are Nova's (``{"text": ...}``) and not OpenAI's (``{"type": "text", ...}``)."""
    blocks = [block for message in as_objects(messages) for block in as_objects(message.get("content"))]
    return bool(blocks) and not any("type" in block for block in blocks)


def _read_completion_request(document: JsonObject, out: AttributeWriter) -> None:
    settings = {**document, **as_object(document.get("textGenerationConfig"))}
    prompt = as_text(document.get("prompt")) or as_text(document.get("inputText"))
    if prompt is None:
        out.rest(document, ())
        return
    out.text(genai.OPERATION_NAME, genai.OP_TEXT_COMPLETION)
    out.double(genai.REQUEST_TEMPERATURE, _first(settings, _TEMPERATURE))
    out.double(genai.REQUEST_TOP_P, _first(settings, _TOP_P))
    out.double(genai.REQUEST_TOP_K, _first(settings, _TOP_K))
    out.integer(genai.REQUEST_MAX_TOKENS, _first(settings, _MAX_TOKENS))
    out.integer(genai.REQUEST_CHOICE_COUNT, _first(settings, _CHOICES))
    out.texts(genai.REQUEST_STOP_SEQUENCES, _first(settings, _STOP))
    out.messages(genai.INPUT_MESSAGES, [Message(role="user", parts=(TextPart(content=prompt),))])
    out.rest({**settings, "textGenerationConfig": None}, _REQUEST_FIELDS)


def _first(document: JsonObject, names: Iterable[str]) -> JsonValue:
    return next((document[name] for name in names if document.get(name) is not None), None)


# -- response -----------------------------------------------------------------------------------------------------------
def _answerer(document: JsonObject) -> WireDialect | None:
    """Return the dialect that an answer is written in; None for a text completion."""
    if document.get("type") == "message":
        return anthropic_messages.DIALECT
    if "message" in as_object(document.get("output")):
        return bedrock_converse.DIALECT
    if "choices" in document:
        return openai_chat.DIALECT
    ids = ("generation_id", "response_id")
    return cohere_v1.DIALECT if "text" in document and any(name in document for name in ids) else None


def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of an answer in whichever format it has."""
    maker = _answerer(document)
    (_read_completions if maker is None else maker.documents.read_response)(document, out)
    metrics = as_object(document.get(METRICS))
    if metrics and genai.USAGE_DETAILS not in out.attributes:
        out.usage(metrics, bedrock_converse.COUNTS)


def _read_completions(document: JsonObject, out: AttributeWriter) -> None:
    out.text(genai.RESPONSE_ID, document.get("id"))
    rows = _rows(document)
    reasons = [_reason(row) for row in rows]
    out.texts(genai.RESPONSE_FINISH_REASONS, [reason for reason in reasons if reason])
    written = [as_integer(row.get("tokenCount")) for row in rows]
    prompt = _first(document, ("inputTextTokenCount", "prompt_token_count"))
    answer = document.get("generation_token_count")
    out.integer(genai.USAGE_INPUT_TOKENS, prompt)
    if answer is None and written and None not in written:
        answer = sum(count for count in written if count is not None)
    out.integer(genai.USAGE_OUTPUT_TOKENS, answer)
    completions = [answer_of(_first(row, _TEXTS), reason) for row, reason in zip(rows, reasons, strict=True)]
    out.messages(genai.OUTPUT_MESSAGES, completions)


def _rows(document: JsonObject) -> list[JsonObject]:
    """Return the completions: Titan's ``results``, Command's ``generations``, Mistral's ``outputs``, Jurassic's ``completions``
    (text under ``data``), or the document itself.
    """
    for key in ("results", "generations", "outputs"):
        rows = as_objects(document.get(key))
        if any(_first(row, _TEXTS) is not None for row in rows):
            return rows
    jurassic = as_objects(document.get("completions"))
    if jurassic:
        return [{**row, **as_object(row.get("data"))} for row in jurassic]
    return [document] if _first(document, _TEXTS) is not None else []


def _reason(row: JsonObject) -> str | None:
    reason = _first(row, _REASONS)
    return as_text(reason) or as_text(as_object(reason).get("reason"))


# -- stream -------------------------------------------------------------------------------------------------------------
def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the answer that the model's own events add up to, with Bedrock's counts."""
    values = [as_object(frame.value) for frame in frames]
    first = values[0] if values else {}
    if any(frame.event and frame.event.endswith("Exception") for frame in frames):
        document = bedrock_converse.assemble(frames)
    elif "type" in first:
        document = anthropic_messages.assemble(frames)
    elif "messageStart" in first or "contentBlockDelta" in first:
        document = bedrock_converse.assemble(frames)
    elif "choices" in first:
        document = openai_chat.DIALECT.streams.assemble(frames)
    elif "event_type" in first:
        document = cohere_v1.assemble(frames)
    else:
        document = _assemble_completions(values)
    for value in values:
        if METRICS in value:
            document[METRICS] = value[METRICS]
    return document


def _assemble_completions(values: Sequence[JsonObject]) -> JsonObject:
    """Return completions as ``{"results": [row, ...]}``: texts joined by index; the last value of every other field."""
    document: JsonObject = {}
    rows: dict[int, JsonObject] = {}
    for value in values:
        inner = as_objects(value.get("outputs"))  # Mistral wraps each piece
        piece = {**value, **inner[0]} if inner else value
        present = {key: item for key, item in piece.items() if item is not None and key not in _TEXTS}
        text = as_text(_first(piece, _TEXTS))
        if text is None and "index" not in piece:  # Command's last event: one reason for all
            for row in rows.values():
                row.update({key: item for key, item in present.items() if key in _REASONS})
            document.update(present)
            continue
        index = piece.get("index")
        row = rows.setdefault(as_integer(index) or 0, {})
        row["text"] = (as_text(row.get("text")) or "") + (text or "")
        row.update(present)
        if "totalOutputTextTokenCount" in present:
            row["tokenCount"] = present["totalOutputTextTokenCount"]
        document.update({key: item for key, item in present.items() if key.endswith(("_count", "Count"))})
    if rows:
        document["results"] = [rows[index] for index in sorted(rows)]
    return document


# -- writing ------------------------------------------------------------------------------------------------------------
_COMPLETIONS: Final[Mapping[str, Callable[[str], JsonObject]]] = {
    "inputText": lambda text: {"results": [{"tokenCount": 0, "outputText": text, "completionReason": "FINISH"}]},
    "max_gen_len": lambda text: {"generation": text, "generation_token_count": 0, "stop_reason": "stop"},
    "max_tokens_to_sample": lambda text: {"completion": text, "stop_reason": "stop_sequence"},
    "return_likelihoods": lambda text: {"generations": [{"text": text, "finish_reason": "COMPLETE"}]},
    "maxTokens": lambda text: {"completions": [{"data": {"text": text}, "finishReason": {"reason": "endoftext"}}]},
}
"""Field that only one maker's requests have -> its completion: Titan, Llama, old Claude, Command, Jurassic."""
_MAKERS: Final = {
    "meta": "max_gen_len", "anthropic": "max_tokens_to_sample", "cohere": "return_likelihoods", "ai21": "maxTokens",
}  # fmt: skip
"""The same by the model's id, for those whose fields may be left out. All others are written as Mistral does."""


def compose(answer: Answer, request: JsonObject) -> JsonObject:
    maker = _maker(request)
    if maker is not None:
        return maker.documents.compose(answer, request)
    if answer.tool_calls:
        raise WireError("that completes a text cannot ask for a tool")
    model = as_text(request.get("model")) or ""
    named = next((field for name, field in _MAKERS.items() if f"{name}." in model), "")
    write = _COMPLETIONS.get(next((field for field in _COMPLETIONS if field in request), named))
    return {"outputs": [{"text": answer.text, "stop_reason": "stop"}]} if write is None else write(answer.text)


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the maker's own events, wrapped; the last also has Bedrock's counts."""
    maker = _answerer(document)
    if maker is None:
        events = list(_completion_pieces(document, split))
    else:
        frames = [frame for frame in maker.streams.disassemble(document, split) if frame is not DONE]
        named = maker is bedrock_converse.DIALECT  # the name encloses the event
        events = [{frame.event or "": frame.value} if named else as_object(frame.value) for frame in frames]
    if events and METRICS not in events[-1]:
        events[-1] = {**events[-1], METRICS: document.get(METRICS, {})}
    yield from (Frame(event=CHUNK, value=event) for event in events)


def _completion_pieces(document: JsonObject, split: Split) -> Iterator[JsonObject]:
    rows = _rows(document)
    for index, row in enumerate(rows):
        key = next(name for name in _TEXTS if row.get(name) is not None)
        first, *more = pieces_of(row[key], split)
        place: JsonObject = {"index": index} if len(rows) > 1 or "results" in document else {}
        yield from ({key: piece, **place} for piece in (first, *more)[:-1])
        yield {**row, **place, key: (first, *more)[-1]}
    rest = without_keys(document, "results", "generations", "outputs", "completions", "error", *_TEXTS, *_REASONS)
    if rest:
        yield rest


# -- embeddings ---------------------------------------------------------------------------------------------------------
def read_embeddings_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a Titan or Cohere embeddings request."""
    out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, _first(document, ("dimensions", "output_dimension")))
    out.texts(genai.REQUEST_ENCODING_FORMATS, _first(document, ("embedding_types", "embeddingTypes")))
    out.rest(document, {"inputText", "texts", "images", "dimensions", "embedding_types", "embeddingTypes"})


def read_embeddings_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the length of the vector, and Titan's token count."""
    vector = document.get("embedding")
    if isinstance(vector, list):
        out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, len(as_list(vector)))
    else:
        cohere.read_embed_response(document, out)
    out.integer(genai.USAGE_INPUT_TOKENS, document.get("inputTextTokenCount"))


def has_ended(body: DecodedBody) -> bool | None:
    """Return whether Bedrock's counts came, which are in the last event. A guardrail that blocks sends its trace instead."""
    frames = body.frames or ()
    if any((frame.event or "").endswith("Exception") or METRICS in as_object(frame.value) for frame in frames):
        return True
    return None if any("amazon-bedrock-trace" in as_object(frame.value) for frame in frames) else False


def compose_embeddings(answer: Answer, request: JsonObject) -> JsonObject:
    """Return a vector as Titan does, or vectors as Cohere does."""
    if "texts" in request:
        return cohere.compose_embed(answer, request)
    return {"embedding": answer.embeddings()[0], "inputTextTokenCount": 0}


DIALECT: Final = WireDialect(
    name="bedrock.invoke",
    operation=genai.OP_CHAT,
    provider="aws.bedrock",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, has_ended, disassemble, form=Form.AWS_EVENTS, error_frame=bedrock_converse.error_frame),
    transient_fields=frozenset({"metadata"}),
    error_body=bedrock_converse.error_body,
    read_headers=bedrock_converse.read_headers,
    set_system=_set_system,
    settings={"inferenceConfig": bedrock_converse.SETTINGS, "textGenerationConfig": _TITAN_SETTINGS},
)

EMBEDDINGS: Final = WireDialect(
    name="bedrock.embeddings",
    operation=genai.OP_EMBEDDINGS,
    provider="aws.bedrock",
    documents=Documents(read_embeddings_request, read_embeddings_response, compose_embeddings),
    error_body=bedrock_converse.error_body,
    read_headers=bedrock_converse.read_headers,
    set_system=prompts.without,
)
