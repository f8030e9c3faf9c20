"""Speak: between a program's calls and a reconstructed run.

Turn a live call into its meaning, and a recorded answer into the form that the call expects. One recording
serves every client: the answer is written in the dialect of the live request, streamed if requested.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from freezeframe.seams import Call
from freezeframe_replay.engine.mcp_answers import CALL, Server, about_server, tool_failure, tool_result
from freezeframe_replay.engine.miss import Recorded
from freezeframe_replay.engine.reconstruct import EMBEDDING_NAME, MODEL_NAME, RETRIEVAL_NAME
from freezeframe_schemas import genai, values
from freezeframe_schemas.divergence import Relaxed, Served
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Request, Response
from freezeframe_schemas.meaning import arguments_of, request_meaning
from freezeframe_schemas.vendors.openinference import embedding_inputs
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.answer import Answer, Thought, ToolCall
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
    dump,
    dump_canonical,
    parse,
)
from freezeframe_schemas.wire.messages import finish_reason_of

_CALL_FIELDS: Final = frozenset({"type", "id", "name", "arguments"})
_COMPLETED: Final = "completed"
"""The status of OpenAI's Responses, for any finish reason."""
_PIECE: Final = 24
"""Characters of a streamed piece: the borders of the recorded ones are unknown."""
_EMBEDDED: Final = ("input", "inputs", "texts", "prompt")
"""Fields in which APIs have the texts to embed."""
_QUERY_NAMES: Final = ("query", "input", "question", "text")


def in_meaning(call: Call) -> Call:
    """Return the call in the form of a reconstructed step: its meaning, without a lane."""
    match call.kind:
        case Kind.MODEL:
            name, said = _model_request(call.request)
            return replace(call, name=name, lane=(), request=Request(body=dump(said).encode()))
        case Kind.TOOL:
            request: JsonObject = {"arguments": arguments_by_name(call.request)}
            return replace(call, lane=(), request=Request(body=dump(request).encode()))
        case Kind.RETRIEVAL:
            request = {"query": _query(arguments_by_name(call.request))}
            return replace(call, name=RETRIEVAL_NAME, lane=(), request=Request(body=dump(request).encode()))
        case Kind.MCP if call.name == CALL:
            keywords = as_object(as_object(plain(parse(call.request.body))).get("kwargs"))
            request = {"arguments": as_object(keywords.get("arguments"))}
            name = str(keywords.get("name"))
            return replace(call, kind=Kind.TOOL, name=name, lane=(), request=Request(body=dump(request).encode()))
        case _:
            return replace(call, lane=())


def about_the_run(call: Call, server: Server) -> Exchange | None:
    """Return the answer to an MCP client's requests before it calls a tool; None for anything else."""
    if call.kind is not Kind.MCP:
        return None
    described = about_server(call.name, as_object(as_object(plain(parse(call.request.body))).get("kwargs")), server)
    return None if described is None else _answered(call, described)


def _answered(call: Call, result: JsonValue) -> Exchange:
    response = Response(chunks=(Chunk(data=dump(result).encode("utf-8", "backslashreplace")),))
    return Exchange(kind=call.kind, name=call.name, seam=call.seam, request=call.request, response=response, lane=call.lane)


def spoken(step: Exchange, call: Call) -> Exchange:
    """Return the step as the exchange that the call expects.

    Raises:
        WireError: the dialect of the request has no place for such an answer.
    """
    answer = as_object(parse(step.response.body))
    common = replace(step, kind=call.kind, request=call.request, name=call.name, lane=call.lane, dialect=call.dialect)
    if call.kind is Kind.MODEL:
        return replace(common, response=_model_response(answer, call.request))
    if step.kind is Kind.MCP:
        return common
    if call.kind is Kind.MCP:
        described = tool_failure(str(answer["error"])) if "error" in answer else tool_result(answer.get("result"))
        return replace(common, response=_answered(call, described).response)
    if "error" in answer:
        error = values.encode_exception(RuntimeError(str(answer["error"])))
        return replace(common, response=Response(completion=Completion.NONE), error=error)
    result = _documents(answer, call.seam) if call.kind is Kind.RETRIEVAL else _result(answer.get("result"), call)
    text = json.dumps(result, ensure_ascii=False)
    return replace(common, response=Response(chunks=(Chunk(data=text.encode("utf-8", "backslashreplace")),)))


# -- model calls ----------------------------------------------------------------------------------------------------------


def _model_request(request: Request) -> tuple[str, JsonObject]:
    """Return the name of the requested step, and its content."""
    match = find_dialect_of(request)
    if match is None:
        return MODEL_NAME, {}
    is_embedding = match.dialect.operation == genai.OP_EMBEDDINGS
    name = EMBEDDING_NAME if is_embedding else MODEL_NAME
    try:
        body = decode_body(request.body, request.headers)
    except WireError:
        return name, {}
    described = match.dialect.request_attributes(body)
    if not is_embedding:
        return name, request_meaning(described)
    document = as_object(parse(body))
    inputs = next((document[field] for field in _EMBEDDED if field in document), [])
    model = described.get(genai.REQUEST_MODEL)
    return name, {"texts": embedding_inputs(inputs), "model": model if isinstance(model, str) else None}


def _model_response(answer: JsonObject, request: Request) -> Response:
    match = find_dialect_of(request)
    if match is None:
        raise WireError("a model call of a dialect that is not known")
    if "error" in answer:
        return match.dialect.write_error(as_integer(answer.get("status")) or 500, str(answer["error"]))
    return match.dialect.write_answer(answer_of(answer), request)


def answer_of(described: Mapping[str, JsonValue]) -> Answer:
    """Return a step's answer as the value that dialects write."""
    parts = as_objects(described.get("parts"))
    text = "".join(str(part.get("content") or "") for part in parts if part.get("type") == "text")
    calls = [part for part in parts if part.get("type") == "tool_call"]
    finish = as_text(described.get("finish_reason")) or ""
    return Answer(
        pieces=tuple(text[at : at + _PIECE] for at in range(0, len(text), _PIECE)),
        vectors=tuple(
            tuple(item for item in as_list(vector) if isinstance(item, int | float))
            for vector in as_list(described.get("vectors"))
        ),
        tool_calls=tuple(
            ToolCall(
                id=str(part.get("id")),
                name=str(part.get("name")),
                arguments=as_object(arguments_of(part.get("arguments"))),
                extra={name: item for name, item in part.items() if name not in _CALL_FIELDS},
            )
            for part in calls
        ),
        id=as_text(described.get("id")) or "answer",
        model=as_text(described.get("model")) or "unknown",
        finish_reason=None if finish == _COMPLETED else finish_reason_of(finish.replace("-", "_")),
        thoughts=tuple(_thought(part) for part in parts if part.get("type") == "reasoning"),
        input_tokens=as_integer(described.get("input_tokens")) or 0,
        output_tokens=as_integer(described.get("output_tokens")) or 0,
    )


def _thought(part: JsonObject) -> Thought:
    return Thought(
        text=str(part.get("content") or ""),
        extra={name: item for name, item in part.items() if name not in ("type", "content")},
    )


# -- tools and retrievers -------------------------------------------------------------------------------------------------


def arguments_by_name(request: Request) -> JsonValue:
    """Return a function's arguments by name; a single text that is a JSON object, as frameworks pass it, as that object."""
    arguments = as_object(parse(request.body))
    args, kwargs = arguments.get("args"), as_object(arguments.get("kwargs"))
    named: JsonObject = {name: plain(item) for name, item in kwargs.items() if not _is_object(item)}
    if not isinstance(args, list) or not args:
        return arguments_of(named)
    first = arguments_of(plain(args[0]))
    if len(args) == 1 and isinstance(first, dict):
        return {**first, **as_object(arguments_of(named))}
    return arguments_of({"args": [plain(item) for item in args], **named})


def _is_object(item: JsonValue) -> bool:
    """Return whether an argument is an object that no model can have passed: a context, a client."""
    return as_object(item).get(values.TAG) == "opaque"


def plain(item: JsonValue) -> JsonValue:
    """Return a tagged value as the JSON that a model writes for it."""
    if isinstance(item, list):
        return [plain(inner) for inner in item]
    if isinstance(item, dict):
        return plain(item.get("value")) if values.TAG in item else {name: plain(inner) for name, inner in item.items()}
    return item


def _query(arguments: JsonValue) -> JsonValue:
    arguments_object = as_object(arguments)
    args = arguments_object.get("args")
    if isinstance(args, list) and args:
        return args[0]
    return next(
        (arguments_object[name] for name in _QUERY_NAMES if name in arguments_object),
        next(iter(arguments_object.values()), None),
    )


def _result(result: JsonValue, call: Call) -> Any:
    """Return a tool's result as tagged JSON; LangChain's tools return a message if a model called them."""
    if call.seam != "langchain" or call.call_id is None:
        return result
    content = result if isinstance(result, str) else dump(result)
    fields = {"content": content, "name": call.name, "tool_call_id": call.call_id, "status": "success"}
    return {
        values.TAG: "model",
        "class": "langchain_core.messages.tool:ToolMessage",
        "set": sorted(fields),
        "value": fields,
    }


def _documents(answer: JsonObject, seam: str) -> Any:
    """Return the documents that a retriever found, as its library has them."""
    documents = as_objects(answer.get("documents"))
    write = {"langchain": _langchain_document, "llama_index": _llama_index_node}.get(seam)
    return documents if write is None else [write(document) for document in documents]


def _langchain_document(document: JsonObject) -> JsonValue:
    held: JsonObject = {
        "id": document.get("id"),
        "metadata": _metadata(document),
        "page_content": str(document.get("content") or ""),
    }
    return _model("langchain_core.documents.base:Document", held, "metadata", "page_content")


def _llama_index_node(document: JsonObject) -> JsonValue:
    held: JsonObject = {"metadata": _metadata(document), "text": str(document.get("content") or "")}
    if isinstance(document.get("id"), str):
        held["id_"] = document["id"]
    node = _model("llama_index.core.schema:TextNode", held, *held)
    return _model("llama_index.core.schema:NodeWithScore", {"node": node, "score": document.get("score")}, "node", "score")


def _metadata(document: JsonObject) -> JsonObject:
    held = document.get("metadata")
    return as_object(parse(held) if isinstance(held, str) else held)


def _model(name: str, held: JsonObject, *given: str) -> JsonObject:
    """Return a Pydantic model as tagged JSON."""
    fields: list[JsonValue] = [*sorted(given)]
    return {values.TAG: "model", "class": name, "set": fields, "value": held}


# -- tools that no seam saw -----------------------------------------------------------------------------------------------


def tools_in_history(steps: Sequence[Recorded], used: Collection[int]) -> dict[int, Served]:
    """Return the tool steps that no seam requested, and whose recorded result a later model call contains."""
    known = {call for item in steps if item.step.number in used for call in _results_in(item.step.exchange)}
    return {
        item.step.number: Served(step=item.step.number, how="relaxed", relaxed=(Relaxed.FROM_HISTORY,))
        for item in steps
        if item.step.number not in used and item.step.exchange.kind is Kind.TOOL and _as_received(item.step.exchange) in known
    }


def not_requested(steps: Sequence[Recorded], used: Collection[int]) -> tuple[dict[int, Served], frozenset[int]]:
    """Return the steps that a program need not request: `tools_in_history` and `own_embeddings`."""
    return tools_in_history(steps, used), own_embeddings(steps, used)


def own_embeddings(steps: Sequence[Recorded], used: Collection[int]) -> frozenset[int]:
    """Return the embeddings that were not requested: a program may compute them itself, with a model in its process."""
    unused = (item.step for item in steps if item.step.number not in used)
    return frozenset(
        step.number for step in unused if step.exchange.name == EMBEDDING_NAME and step.exchange.kind is Kind.MODEL
    )


def _results_in(asked: Exchange) -> set[tuple[str, str]]:
    """Return the tool calls, each with its arguments, that are in a model step's request with their results."""
    if asked.kind is not Kind.MODEL:
        return set()
    messages = as_objects(as_object(parse(asked.request.body)).get("messages"))
    return {(str(item.get("call")), dump_canonical(item.get("arguments"))) for item in messages if "call" in item}


def _as_received(tool: Exchange) -> tuple[str, str]:
    return tool.name, dump_canonical(as_object(parse(tool.request.body)).get("arguments"))
