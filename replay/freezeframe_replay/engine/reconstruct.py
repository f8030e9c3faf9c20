"""Reconstruct: a run that another instrumentation recorded, as steps that hold meaning in place of bytes. Pure.

Such a run has no exchanges: it describes model calls and tools in attributes (`normalise`), in as many ways as there are
vendors. Each call becomes a step whose request is the call's content (`meaning`) and whose answer is the
model's; a replay composes bytes on demand (`speak`). Each value that the spans lack is a row of the ledger,
with its other source.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from freezeframe_schemas import genai
from freezeframe_schemas.content_references import unread_of
from freezeframe_schemas.errors import RunError
from freezeframe_schemas.exchange import RECONSTRUCTED, Chunk, Completion, Exchange, Kind, Request, Response
from freezeframe_schemas.fixture import Fixture, Loss, Redaction, Step
from freezeframe_schemas.keys import request_key
from freezeframe_schemas.meaning import (
    REPORTED,
    answer_parts,
    arguments_of,
    contents_of,
    has_result,
    messages_of,
    request_meaning,
    result_value,
    same,
)
from freezeframe_schemas.reported_calls import reported_calls
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode
from freezeframe_schemas.vendors.envelopes import McpRequest, mcp_request_of, tool_call_of
from freezeframe_schemas.vendors.openinference import embedded
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_objects, dump, parse

MODEL_NAME: Final = "chat"
"""The name of every model call of such a run: vendors choose different operation names."""
RETRIEVAL_NAME: Final = "retrieval"
EMBEDDING_NAME: Final = "embeddings"

_ELSEWHERE: Final = "content elsewhere"
_NEEDED: Final = frozenset({("request messages", "absent"), ("tool results in the request", "absent"), ("answer", "absent")})
_UNREDACTED: Final = Redaction()
_STATUS: Final = re.compile(r"\b([45]\d\d)\b")
_NEVER_THERE: Final = (
    Loss(field="bytes, chunk borders, headers", source="written anew in the form that the program asks for"),
    Loss(field="lanes", source="absent: of two equal requests, the order decides"),
    Loss(field="model, parameters, tools offered", source="span, where it has them: reported, not compared"),
)


@dataclass(slots=True, kw_only=True)
class _Tool:
    """A tool call while it is assembled."""

    name: str
    arguments: JsonValue
    result: JsonValue
    call_id: str | None
    span: SpanRecord
    error: str = ""
    losses: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class _Found(NamedTuple):
    """A call, with the span that reports it and the values that this lacks."""

    span: SpanRecord
    exchange: Exchange
    losses: list[tuple[str, str]]


def can_be_reconstructed(run: Run) -> bool:
    """Return whether the run is another instrumentation's, and reports a model call."""
    return not run.exchanges and bool(reported_calls(run.spans))


def reconstruct(run: Run, redaction: Redaction = _UNREDACTED) -> Fixture:
    """Return the run as a fixture whose steps hold meaning."""
    ledger: list[Loss] = [*_NEVER_THERE, *_joined_traces(run)]
    calls = model_calls(run, ledger)
    ignore = [f"body.{name}" for name in REPORTED]
    if calls and not any(call.asked["system"] for call in calls):
        ignore.append("body.system")
        ledger.append(Loss(field="system prompt", source="absent from every call: reported, not compared"))
    found = [_Found(call.span, _model_exchange(call), call.losses) for call in calls]
    found += [_Found(tool.span, _tool_exchange(tool), tool.losses) for tool in _tools(run, calls, ledger)]
    retrievals = (span for span in run.spans if span.text(genai.OPERATION_NAME) == genai.OP_RETRIEVAL)
    found += [_Found(span, _retrieval_exchange(span), []) for span in retrievals]
    by_id = {span.span_id: span for span in run.spans}
    found += [_Found(span, _mcp_exchange(span, asked), []) for span in run.spans if (asked := mcp_request_of(span)) is not None]
    embeddings = _embeddings(run, by_id)
    found += [_Found(span, _embedding_exchange(span), []) for span in embeddings]
    if embeddings:
        ledger.append(Loss(field="embeddings", source="compared only if the program asks for them over HTTP"))
    found.sort(key=lambda item: item.exchange.start_time_unix_nano)
    return Fixture(
        run_id=run.trace_id,
        entry=run.entry,
        steps=tuple(_steps(found, ignore, by_id, ledger)),
        redaction=redaction,
        gaps=tuple(str(gap) for gap in run.gaps),
        ignore=tuple(ignore),
        ledger=tuple(ledger),
        created_by="another instrumentation",
    )


def _joined_traces(run: Run) -> Iterator[Loss]:
    """Yield a row if the spans came in several traces: a trace has one root."""
    roots = sum(not span.parent_span_id and genai.EVENT_NAME not in span.attributes for span in run.spans)
    if roots > 1:
        yield Loss(
            field="traces", source=f"{roots} joined: each carries on the conversation of one before, or reports its answer"
        )


def _steps(
    found: Sequence[_Found], ignore: Sequence[str], by_id: Mapping[str, SpanRecord], ledger: list[Loss]
) -> Iterator[Step]:
    """Yield the calls as steps, and add their missing values, and equal requests, to the ledger."""
    functions = (Kind.TOOL, Kind.RETRIEVAL)
    outer = {item.exchange.span_id: number for number, item in enumerate(found, 1) if item.exchange.kind in functions}
    issued: defaultdict[str, list[int]] = defaultdict(list)
    for number, (span, exchange, losses) in enumerate(found, 1):
        key = request_key(exchange.kind, exchange.name, exchange.request, ignore=ignore).digest
        around = next((outer[above.span_id] for above in spans_above(span, by_id) if above.span_id in outer), None)
        yield Step(
            number=number,
            exchange=exchange,
            key=key,
            ordinal=len(issued[key]),
            inside=None if exchange.kind is Kind.TOOL else around,
            provider=span.text(genai.PROVIDER_NAME),
            model=span.text(genai.REQUEST_MODEL),
        )
        ledger += [Loss(step=number, field=name, source=source) for name, source in losses]
        issued[key].append(number)
    for numbers in issued.values():
        if len(numbers) > 1:
            steps = ", ".join(map(str, numbers))
            ledger.append(
                Loss(field="order", source=f"steps {steps} ask the same: their order alone decides which answer comes")
            )


def answerable(fixture: Fixture) -> Fixture:
    """Return the fixture.

    Raises:
        RunError: a model call lacks its request or its answer, so that no replay gets past it.
    """
    lacking = sorted({loss.step for loss in fixture.ledger if loss.step and (loss.field, loss.source) in _NEEDED})
    if lacking:
        numbers = f"step {lacking[0]}" if len(lacking) == 1 else f"steps {', '.join(map(str, lacking))}"
        elsewhere = next((loss.source for loss in fixture.ledger if loss.field == _ELSEWHERE), None)
        raise RunError(
            f"run {fixture.run_id}: its spans do not hold the content of {numbers}, so it cannot be re-enacted",
            do=f"it is in {elsewhere}"
            if elsewhere
            else "switch on the recording of content where the run was recorded; for OpenTelemetry's instrumentations, "
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only (before 1.37: true)",
        )
    return fixture


# -- model calls ----------------------------------------------------------------------------------------------------------


def _model_exchange(call: ModelCall) -> Exchange:
    return _exchange(call.span, Kind.MODEL, MODEL_NAME, dict(call.asked), _answer(call))


def _answer(call: ModelCall) -> JsonObject:
    """Return the model's answer, for `speak`: its parts and further fields; or the failure."""
    attributes = call.attributes
    if not call.parts:
        message = _error_text(call.span)
        status = attributes.get(genai.HTTP_RESPONSE_STATUS_CODE)
        found = _STATUS.search(message)
        return {"error": message, "status": status if isinstance(status, int) else int(found[1]) if found else 500}
    reasons = attributes.get(genai.RESPONSE_FINISH_REASONS)
    finish = reasons[0] if isinstance(reasons, tuple) and reasons else reasons
    made = f"call_{call.span.span_id}_"  # frameworks take two answers with equal ids for one
    parts = [
        {**part, "id": part.get("id") or f"{made}{n}"} if part.get("type") == "tool_call" else part
        for n, part in enumerate(call.parts)
    ]
    plain: JsonObject = {"parts": list(parts), "finish_reason": finish if isinstance(finish, str) else None}
    for name, attribute in (
        ("id", genai.RESPONSE_ID),
        ("model", genai.RESPONSE_MODEL),
        ("input_tokens", genai.USAGE_INPUT_TOKENS),
        ("output_tokens", genai.USAGE_OUTPUT_TOKENS),
    ):
        value = attributes.get(attribute)
        plain[name] = value if isinstance(value, str | int) else None
    return {**plain, "id": plain["id"] or f"made_{call.span.span_id}"}


def _error_text(span: SpanRecord) -> str:
    raised = (event.attributes.get("exception.message") for event in span.events if event.name == "exception")
    return str(next(raised, None) or span.status_message or "the call failed; the recording does not say how")


# -- tools and retrievals -------------------------------------------------------------------------------------------------


def _tools(run: Run, calls: Sequence[ModelCall], ledger: list[Loss]) -> Iterator[_Tool]:
    """Yield the tool calls: those that a span reports, and those that only a later request shows."""
    reported = [_tool_of(span) for span in run.spans if span.text(genai.OPERATION_NAME) == genai.OP_EXECUTE_TOOL]
    spans = [tool for tool in reported if tool.error or tool.result is not None or tool.arguments is not None]
    if len(spans) < len(reported):
        left_out = f"{len(reported) - len(spans)} of {len(reported)} spans hold no content: left out"
        ledger.append(Loss(field="tools", source=left_out))
    # Of each request, by id; some histories give several calls one id, and the last result there is that of the last call.
    responses = [
        {part.get("id"): part for part in parts_in_request(call, "tool_call_response") if has_result(part)} for call in calls
    ]
    free = list(spans)
    lost = 0
    for place, call in enumerate(calls):
        for part in call.parts:
            if part.get("type") != "tool_call":
                continue
            name, call_id = str(part.get("name") or ""), part.get("id")
            arguments = arguments_of(part.get("arguments"))
            fitting = [tool for tool in free if _is_requested(tool, name, arguments)]
            # Some histories give several calls one id: it only tells equal calls apart.
            tool = next((tool for tool in fitting if tool.call_id == call_id), fitting[0] if fitting else None)
            result = next((found[call_id] for found in responses[place + 1 :] if call_id in found), None)
            if tool is not None:
                free.remove(tool)
                tool.name, tool.arguments = name, arguments
                tool.call_id = call_id if isinstance(call_id, str) else None
                if result is not None and not tool.error and same(_result_of(result)) != same(tool.result):
                    # What the model received; the span may have it in an envelope that we do not know.
                    has_another = "" if tool.result is None else ": the span has another form of it"
                    tool.result = _result_of(result)
                    tool.losses.append(("result", f"next request{has_another}"))
            elif result is not None:
                yield _Tool(
                    name=name,
                    arguments=arguments,
                    result=_result_of(result),
                    call_id=call_id if isinstance(call_id, str) else None,
                    span=call.span,
                    losses=[("arguments and result", "next request: no span reports the tool")],
                )
            else:
                lost += 1
    if lost:
        ledger.append(Loss(field="tool results", source=f"absent for {lost} of the calls that the model asked for"))
    for tool in spans:
        if tool.result is None and not tool.error:
            tool.losses.append(("result", "absent"))
        yield tool


def _is_requested(tool: _Tool, name: str, arguments: JsonValue) -> bool:
    """Return whether a tool's span may be that of a call, by name and arguments.

    Some spans have a single argument without its name.
    """
    if tool.name != name:
        return False
    bare = list(arguments.values()) if isinstance(arguments, dict) else []
    known = tool.arguments
    return known is None or same(known) == same(arguments) or (len(bare) == 1 and known == bare[0])


def _tool_of(span: SpanRecord) -> _Tool:
    reported = tool_call_of(span)
    failed = span.status_code is StatusCode.ERROR and reported.result is None
    return _Tool(
        name=span.text(genai.TOOL_NAME) or span.name,
        arguments=None if reported.arguments is None else arguments_of(reported.arguments),
        result=None if reported.result is None else result_value(reported.result),
        call_id=reported.call_id,
        span=span,
        error=_error_text(span) if failed else "",
        losses=list(_lost(reported.envelope, failed=failed)),
    )


def _lost(envelope: str, *, failed: bool) -> Iterator[tuple[str, str]]:
    if envelope:
        yield "arguments and result", f"span, in {envelope}"
    if failed:
        yield "exception", "made from its text: its class is not known"


def _result_of(part: JsonObject) -> JsonValue:
    return result_value(part.get("response", part.get("result")))


def _tool_exchange(tool: _Tool) -> Exchange:
    request: JsonObject = {"arguments": tool.arguments}
    answer: JsonObject = {"error": tool.error} if tool.error else {"result": tool.result}
    # A tool that only the next request shows ran when its call had been answered.
    late = tool.span.text(genai.OPERATION_NAME) != genai.OP_EXECUTE_TOOL
    made = _exchange(tool.span, Kind.TOOL, tool.name, request, answer, call_id=tool.call_id)
    if not late:
        return made
    at = tool.span.end_time_unix_nano
    return replace(made, span_id=f"{made.span_id}:{tool.call_id}", start_time_unix_nano=at, end_time_unix_nano=at)


def _retrieval_exchange(span: SpanRecord) -> Exchange:
    documents = span.text(genai.RETRIEVAL_DOCUMENTS)
    request: JsonObject = {"query": span.text(genai.RETRIEVAL_QUERY)}
    answer: JsonObject = {"documents": parse(documents) if documents else []}
    return _exchange(span, Kind.RETRIEVAL, RETRIEVAL_NAME, request, answer)


def _mcp_exchange(span: SpanRecord, reported: McpRequest) -> Exchange:
    """Return a request as a seam records it."""
    return _exchange(span, Kind.MCP, reported.method, {"args": [], "kwargs": reported.params}, reported.result)


def _embeddings(run: Run, by_id: Mapping[str, SpanRecord]) -> list[SpanRecord]:
    """Return the spans that hold embedded texts with their vectors; of several around each other, the innermost."""
    found = [span for span in run.spans if span.text(genai.OPERATION_NAME) == genai.OP_EMBEDDINGS and embedded(span)]
    outer = {above.span_id for span in found for above in spans_above(span, by_id) if embedded(above) == embedded(span)}
    return [span for span in found if span.span_id not in outer]


def _embedding_exchange(span: SpanRecord) -> Exchange:
    rows = embedded(span)
    model = span.text(genai.REQUEST_MODEL)
    request: JsonObject = {"texts": [text for text, _ in rows], "model": model}
    answer: JsonObject = {"vectors": [vector for _, vector in rows], "model": model}
    return _exchange(span, Kind.MODEL, EMBEDDING_NAME, request, answer)


def _exchange(
    span: SpanRecord,
    kind: Kind,
    name: str,
    asked: JsonObject,
    answer: JsonObject,
    *,
    call_id: str | None = None,
) -> Exchange:
    return Exchange(
        kind=kind,
        name=name,
        seam=RECONSTRUCTED,
        request=Request(body=dump(asked).encode()),
        response=Response(chunks=(Chunk(data=dump(answer).encode()),), completion=Completion.COMPLETE),
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        call_id=call_id,
        start_time_unix_nano=span.start_time_unix_nano,
        end_time_unix_nano=span.end_time_unix_nano,
    )


# -- The model calls of a run that another instrumentation recorded ----------------------------------------------------
# Each once, with all that its spans report. Pure. Several spans may report one call: an SDK's own and an
# instrumentation's, a framework's around the SDK's; a helper's may be empty. The ledger lists what is merged
# or left out.


WRITTEN: Final = frozenset({"text", "tool_call", "reasoning"})
"""Kinds of parts from which an answer is written."""


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A model call while it is assembled."""

    span: SpanRecord
    attributes: dict[str, AttributeValue]
    losses: list[tuple[str, str]]
    asked: JsonObject = field(default_factory=dict[str, JsonValue])
    parts: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def has_content(self) -> bool:
        """Return whether it reports a request or an answer."""
        return bool(self.attributes.get(genai.INPUT_MESSAGES) or self.attributes.get(genai.OUTPUT_MESSAGES))


def model_calls(run: Run, ledger: list[Loss]) -> list[ModelCall]:
    """Return the calls that a replay may request, in order, each once and with everything that any span reports about it."""
    found = [
        ModelCall(span=reported.span, attributes=dict(reported.attributes), losses=list(reported.sources))
        for reported in reported_calls(run.spans)
    ]
    sharing = sum(call.span.text(genai.EVENT_NAME) is not None for call in found)
    if sharing:
        ledger.append(Loss(field="calls", source=f"{sharing} calls share their spans with others: taken from log records"))
    by_id = {span.span_id: span for span in run.spans}
    kept: list[ModelCall] = []
    doubles = empty = 0
    for call in found:
        better = None if call.has_content else _better_report(call, found, by_id)
        if better is not None:
            better.attributes = {**call.attributes, **better.attributes}
            doubles += 1
        elif not call.has_content and call.span.status_code is not StatusCode.ERROR and any(c.has_content for c in found):
            empty += 1
        else:
            kept.append(call)
    inner: list[ModelCall] = []
    for call in kept:
        first = next((other for other in inner if _is_reported_again(other, call)), None)
        if first is not None:
            first.attributes = {**call.attributes, **first.attributes}
        elif not any(_is_wrapped_by(other, call, by_id) for other in kept):
            inner.append(call)
    doubles += len(kept) - len(inner)
    if doubles:
        ledger.append(Loss(field="doubles", source=f"{doubles} spans report a call that another span reports better: merged"))
    if empty:
        ledger.append(Loss(field="empty spans", source=f"{empty} spans are marked as model calls and hold nothing: left out"))
    for call in inner:
        call.asked, call.parts = request_meaning(call.attributes), answer_parts(call.attributes)
    _mend_ids(inner)
    for call in inner:
        call.losses += _losses(call)
    return inner


def _better_report(call: ModelCall, found: Sequence[ModelCall], by_id: Mapping[str, SpanRecord]) -> ModelCall | None:
    """Return the report with content of the same call: by response id, by its enclosing span, or by its time."""
    response_id = call.attributes.get(genai.RESPONSE_ID)
    others = [other for other in found if other is not call and other.has_content]
    by_response = (o for o in others if response_id and o.attributes.get(genai.RESPONSE_ID) == response_id)
    around = (o for o in others if o.span in spans_above(call.span, by_id))
    start = call.span.start_time_unix_nano
    at_the_time = (o for o in others if o.span.start_time_unix_nano <= start <= o.span.end_time_unix_nano)
    return next((other for ways in (by_response, around, at_the_time) for other in ways), None)


def _is_reported_again(first: ModelCall, call: ModelCall) -> bool:
    """Return whether two instrumentations report one call: the same answer, by its id."""
    response_id = call.attributes.get(genai.RESPONSE_ID)
    if not response_id or response_id != first.attributes.get(genai.RESPONSE_ID):
        return False
    # Some servers give every answer the same id.
    return _answer_of(first) == _answer_of(call)


def _answer_of(call: ModelCall) -> list[str]:
    return [same(item) for item in contents_of(answer_parts(call.attributes))]


def _is_wrapped_by(outer: ModelCall, inner: ModelCall, by_id: Mapping[str, SpanRecord]) -> bool:
    """Return whether an outer span only repeats the span `inner` below it."""
    if outer is inner or not outer.has_content:
        return False
    return inner.span in spans_above(outer.span, by_id) and _answer_of(outer) == _answer_of(inner)


def spans_above(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> Iterator[SpanRecord]:
    """Yield the spans around a span, the nearest first."""
    seen = {span.span_id}
    while (found := by_id.get(span.parent_span_id)) is not None and found.span_id not in seen:
        seen.add(found.span_id)
        yield found
        span = found


def _mend_ids(calls: Sequence[ModelCall]) -> None:
    """Set the ids of tool calls to those of their results in the next request, if the span has others or none."""
    answered = {str(part.get("id")) for call in calls for part in parts_in_request(call, "tool_call_response")}
    for number, call in enumerate(calls):
        tool_calls = [part for part in call.parts if part.get("type") == "tool_call"]
        if not tool_calls or {str(part.get("id")) for part in tool_calls} & answered:
            continue
        contents = [same(item) for item in contents_of(tool_calls)]
        for later in calls[number + 1 :]:
            reported = list(parts_in_request(later, "tool_call"))
            results = list(parts_in_request(later, "tool_call_response"))
            slices = ((end, reported[end - len(tool_calls) : end]) for end in range(len(tool_calls), len(reported) + 1))
            ends = [end for end, part in slices if [same(item) for item in contents_of(part)] == contents]
            if not ends or len(results) < ends[0]:
                continue
            for part, result in zip(tool_calls, results[ends[0] - len(tool_calls) : ends[0]], strict=True):
                part["id"] = result.get("id")
            call.losses.append(("tool call ids", "next request"))
            break


def parts_in_request(call: ModelCall, kind: str) -> Iterator[JsonObject]:
    for message in messages_of(call.attributes, genai.INPUT_MESSAGES):
        yield from (part for part in as_objects(message.get("parts")) if part.get("type") == kind)


def _losses(call: ModelCall) -> Iterator[tuple[str, str]]:
    """Yield the values that the spans lack about a call."""
    attributes = call.attributes
    if not call.asked["messages"]:
        yield "request messages", "absent"
    yield from ((_ELSEWHERE, f"{place}: not read: {why}") for place, why in unread_of(call.span))
    if not all(has_result(part) for part in parts_in_request(call, "tool_call_response")):
        yield "tool results in the request", "absent"
    if not attributes.get(genai.REQUEST_MODEL):
        yield "requested model", "absent"
    if not call.parts:
        failed = call.span.status_code is StatusCode.ERROR
        yield "answer", "made from the exception's text" if failed else "absent"
        return
    if other := sorted({str(part.get("type")) for part in call.parts} - WRITTEN):
        yield "answer", f"left out: parts of the kind {', '.join(other)}"
    choices = attributes.get(genai.REQUEST_CHOICE_COUNT)
    if isinstance(choices, int) and choices > 1:
        yield "answer", f"the first of {choices} choices"
    if any(part.get("type") == "tool_call" and not part.get("id") for part in call.parts):
        yield "tool call ids", "made up"
    for name, reported in (
        (genai.RESPONSE_FINISH_REASONS, "finish reason"),
        (genai.RESPONSE_ID, "response id"),
        (genai.RESPONSE_MODEL, "answered model"),
        (genai.USAGE_OUTPUT_TOKENS, "usage"),
    ):
        if attributes.get(name) in (None, "", ()):
            yield reported, "made up"
