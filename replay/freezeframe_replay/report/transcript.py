"""Transcript: a run as one conversation that shows each message once. Pure.

A model call sends its whole history again. Only the parts that no earlier call of the same conversation had are
shown: two calls are one conversation if the messages of one begin those of the other, or if one names the
other's response. A call of a tool is one card: the model's request, the tool's result, and the text that the
model received if it differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from freezeframe_replay.report.messages import (
    INSTRUCTIONS,
    FoundDocument,
    MessagePart,
    arguments_by_name,
    instructions_of,
    message_key,
    parts_of,
    parts_said,
    plain,
    read_documents,
    read_messages,
    readable,
)
from freezeframe_replay.report.outline import Node, Outline, call_kind, outline_run
from freezeframe_replay.report.render import counted
from freezeframe_replay.report.tagged import error_text, streamed
from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Completion, Exchange, Kind, Lane
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, parse

_SETTINGS: Final[Mapping[str, str]] = {
    genai.REQUEST_MODEL: "model",
    genai.REQUEST_TEMPERATURE: "temperature",
    genai.REQUEST_TOP_P: "top_p",
    genai.REQUEST_TOP_K: "top_k",
    genai.REQUEST_MAX_TOKENS: "max_tokens",
    genai.REQUEST_SEED: "seed",
    genai.REQUEST_STOP_SEQUENCES: "stop",
    genai.REQUEST_PARAMETERS: "other parameters",
}
"""Settings whose changes are shown, by their usual names."""
_SETTING: Final = 100
"""Characters of a setting that are shown."""
_CUT: Final[Mapping[Completion, str]] = {
    Completion.CLOSED_EARLY: "closed early by the program",
    Completion.BROKEN: "broken off",
    Completion.NONE: "no answer",
}
_MAX_CONVERSATIONS: Final = 50
"""Conversations in which a call's history is searched, the latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A model call: the new part of its request, and its answer."""

    node: Node
    conversation: int
    changes: tuple[str, ...] = ()
    """Changes since the previous call of the conversation, apart from the new messages."""
    instructions: str = ""
    """The system prompt, if it is new or changed."""
    tools: tuple[str, ...] = ()
    """Names of the offered tools, if they are new or changed."""
    new: tuple[MessagePart, ...] = ()
    earlier: int = 0
    """Messages of the request that are shown above, since earlier calls had them or brought them about."""
    answer: tuple[MessagePart | TranscriptCall, ...] = ()
    model: str = ""
    finish: str = ""
    cut: str = ""
    """The end of the answer, if not by its protocol."""
    error: str = ""
    """Error of the provider or the client."""
    first_chunk_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A run as a conversation."""

    items: tuple[Turn | TranscriptCall, ...]
    conversations: int


def make_transcript(run: Run, outline: Outline | None = None) -> Transcript:
    """Return the transcript of a run; `outline` saves making it again."""
    return _Reader(run, outline or outline_run(run)).read()


@dataclass(slots=True, kw_only=True)
class _Conversation:
    """State of a conversation, for finding the additions of the next call."""

    number: int
    lane: Lane
    end_ns: int
    """When its last call ended."""
    answers: Sequence[str]
    """Keys of the last call's answers."""
    text: str
    """JSON of the last call's messages."""
    messages: int
    """Number of the last call's messages."""
    seen: list[str]
    """Keys of its messages, instructions left out."""
    instructions: str
    tools: str
    settings: Mapping[str, str]
    response_id: str
    place: str
    """``step 3``, or the name of the span."""


class _Reader:
    """Goes through a run's calls in the order in which they were made."""

    def __init__(self, run: Run, outline: Outline) -> None:
        self._spans = {span.span_id: span for span in run.spans}
        self._exchanges = {exchange.span_id: exchange for exchange in run.exchanges}
        self._nodes = _in_order(outline.nodes, self._spans, exchanges=bool(run.exchanges))
        self._items: list[Turn | TranscriptCall] = []
        self._conversations: list[_Conversation] = []
        self._answered: set[str] = set()
        """Keys of a model's own messages: in a later request they are not new."""
        self._asked = AskedCalls()
        self._number = 0
        self._ids = bool(run.exchanges)
        """True if ids make messages different. Two instrumentations that report one call may give them other ids."""

    def read(self) -> Transcript:
        for node in self._nodes:
            span, exchange = self._spans[node.span_id], self._exchanges.get(node.span_id)
            if call_kind(span, exchange) == Kind.MODEL.value:
                self._model(node, span, exchange)
            else:
                self._call(node, span, exchange)
        return Transcript(items=tuple(self._items), conversations=self._number)

    # -- model calls ----------------------------------------------------------------------------------------------------

    def _model(self, node: Node, span: SpanRecord, exchange: Exchange | None) -> None:
        reply = reported(span, exchange)
        text = text_of(reply, genai.INPUT_MESSAGES)
        place = f"step {node.step}" if node.step is not None else node.name
        settings = {name: _shown(reply[key]) for key, name in _SETTINGS.items() if key in reply}
        tools = text_of(reply, genai.TOOL_DEFINITIONS)
        lane = _lane(exchange)
        previous = text_of(reply, genai.REQUEST_PREVIOUS_RESPONSE_ID)
        conversation, fresh, changes, count = self._find(text, previous, lane, span.start_time_unix_nano)
        is_again = node.attempt is not None and bool(node.attempt.before)
        if is_again:
            changes = []  # the same messages again, which the number of the attempt says
        own = text_of(reply, genai.SYSTEM_INSTRUCTIONS)
        instructions = own and instructions_of([{"role": "system", "parts": parse(own)}])
        rest = [message for message in fresh if message.get("role") not in INSTRUCTIONS]
        begins = conversation is None
        conversation = conversation or self._begin(lane, text, settings, place)
        instructions = instructions or instructions_of(fresh) or conversation.instructions
        changes += _changed(conversation, instructions, tools, settings)
        answers = read_messages(text_of(reply, genai.OUTPUT_MESSAGES))
        unknown = [message for message in rest if self._key(message) not in self._answered]
        history = text if begins else ""
        new = [message for message in unknown if not self._joined(message, conversation.number, lane, history)]
        keys = [self._key(message) for message in answers]
        if exchange is None and not new and keys and not begins and self._answered.issuperset(keys):
            return  # a second span that reports the call above: several instrumentations were at work
        turn = Turn(
            node=node,
            conversation=conversation.number,
            changes=() if begins else tuple(changes),
            instructions=instructions if instructions != conversation.instructions else "",
            tools=_tool_names(tools) if tools != conversation.tools else (),
            new=tuple(part for message in new for part in parts_of(message)),
            earlier=0 if begins or is_again else max(count - len(new), 0),
            model=text_of(reply, genai.RESPONSE_MODEL) or text_of(reply, genai.REQUEST_MODEL),
            finish=", ".join(map(str, _list(reply.get(genai.RESPONSE_FINISH_REASONS)))),
            cut="" if exchange is None else _CUT.get(exchange.response.completion, ""),
            error=error_of(span, exchange, reply),
            first_chunk_ms=first_chunk_ms(exchange),
        )
        parts = self._answer(turn, answers, lane)
        if not parts and exchange is not None and exchange.response.body and not turn.error:
            # an embedding's vectors, or a format that no dialect reads
            kind = "vectors" if text_of(reply, genai.OPERATION_NAME) == genai.OP_EMBEDDINGS else "as it came"
            parts = (MessagePart(role="assistant", kind=kind, text=readable_body(exchange)),)
        self._items.append(replace(turn, answer=parts))
        self._answered.update(keys)
        conversation.text, conversation.answers, conversation.messages = text, keys, count
        conversation.lane, conversation.end_ns = lane, span.end_time_unix_nano
        conversation.seen += [self._key(message) for message in rest] + keys
        conversation.instructions, conversation.tools = instructions, tools
        conversation.settings, conversation.place = settings, place
        conversation.response_id = text_of(reply, genai.RESPONSE_ID)

    def _begin(self, lane: Lane, text: str, settings: Mapping[str, str], place: str) -> _Conversation:
        self._number += 1
        begun = _Conversation(
            number=self._number,
            lane=lane,
            end_ns=0,
            answers=(),
            text=text,
            messages=0,
            seen=[],
            instructions="",
            tools="",
            settings=settings,
            response_id="",
            place=place,
        )
        self._conversations.append(begun)
        return begun

    def _answer(self, turn: Turn, answers: Sequence[JsonObject], lane: Lane) -> tuple[MessagePart | TranscriptCall, ...]:
        parts: list[MessagePart | TranscriptCall] = []
        for message in answers:
            for part in map(as_object, as_list(message.get("parts"))):
                if part.get("type") != "tool_call":
                    parts += parts_said("assistant", part)
                    continue
                name, identity = str(part.get("name") or ""), part.get("id")
                call = TranscriptCall(
                    kind=Kind.TOOL.value,
                    name=name,
                    arguments=readable(plain(part.get("arguments"))),
                    node=None,
                    requested_in_step=turn.node.step,
                )
                call_id = identity if isinstance(identity, str) else None
                self._asked.add(
                    AnnouncedCall(
                        call=call,
                        turn=len(self._items),
                        part=len(parts),
                        id=call_id,
                        conversation=turn.conversation,
                        lane=lane,
                    )
                )
                parts.append(call)
        return tuple(parts)

    def _find(
        self, text: str, previous: str, lane: Lane, start_ns: int
    ) -> tuple[_Conversation | None, list[JsonObject], list[str], int]:
        """Return the conversation that a call continues, its new messages, the changes of the others, and the number of all."""
        recent = self._conversations[: -_MAX_CONVERSATIONS - 1 : -1]
        recent.sort(key=lambda item: nearness(item.lane, lane), reverse=True)  # stable: the nearest lane, then the latest
        if previous:
            for known in recent:
                if known.response_id == previous:
                    new = read_messages(text)
                    return known, new, [], len(new)
        for known in recent:
            # one writer made both texts, so a history that goes on begins with the same characters
            if len(known.text) > 2 and text.startswith(known.text[:-1]):
                if len(text) == len(known.text):
                    if known.lane != lane and start_ns < known.end_ns:
                        continue  # side by side: two conversations that begin alike
                    return known, [], [f"the same messages as {known.place}"], known.messages
                if text[len(known.text) - 1] == ",":
                    new = read_messages("[" + text[len(known.text) :])
                    return known, new, [], known.messages + len(new)
        messages = read_messages(text)
        keys = [self._key(message) for message in messages if message.get("role") not in INSTRUCTIONS]
        for known in recent:
            kept = set(known.seen)
            if not keys or not kept.intersection(keys):
                continue
            shared = next((index for index, pair in enumerate(zip(keys, known.seen, strict=False)) if pair[0] != pair[1]), None)
            if shared == 0 and known.lane != lane:
                continue
            if known.lane != lane and start_ns < known.end_ns and not set(known.answers).intersection(keys):
                continue  # it began before the last answer was there
            gone = len([key for key in known.seen if key not in set(keys)])
            fresh = [message for message in messages if message.get("role") in INSTRUCTIONS or self._key(message) not in kept]
            return known, fresh, [f"{counted(gone, 'earlier message')} left out"] if gone else [], len(messages)
        return None, messages, [], len(messages)

    # -- other calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: Node, span: SpanRecord, exchange: Exchange | None) -> None:
        request, answer, error = call_texts(span, exchange)
        made = TranscriptCall(
            kind=call_kind(span, exchange),
            name=(span.text(genai.TOOL_NAME) or node.name) if exchange is None else node.name,
            arguments=readable(arguments_by_name(plain(request))),
            node=node,
            error=error,
        )
        documents = read_documents(answer) if made.kind == Kind.RETRIEVAL.value else ()
        made = replace(made, documents=documents, result=readable(streamed(plain(answer))))
        call = self._asked.answered_by(made, span.text(genai.TOOL_CALL_ID), _lane(exchange))
        if call is None:
            self._items.append(made)
            return
        self._asked.remove(call)
        self._put(call, replace(made, requested_in_step=call.call.requested_in_step))
        if call.id is not None:
            self._asked.add(call)  # what the model receives of it is still to come

    def _joined(self, message: JsonObject, conversation: int, lane: Lane, history: str) -> bool:
        """Return whether the message only holds results of calls that are already shown, and note the results there."""
        parts = [as_object(part) for part in as_list(message.get("parts"))]
        if not parts or any(part.get("type") != "tool_call_response" for part in parts):
            return False
        joined = True
        for part in parts:
            made_call = self._asked.call_announced_in(part.get("id"), conversation, lane, history)
            if made_call is None:
                joined = False
                continue
            received = readable(plain(part.get("response")))
            call = made_call.call
            if call.node is None and not call.result:
                self._put(made_call, replace(call, result=received))
            elif received != call.result:
                self._put(made_call, replace(call, received=received))
            self._asked.remove(made_call)
        return joined

    def _key(self, message: JsonObject) -> str:
        return message_key(message, ids=self._ids)

    def _put(self, asked: AnnouncedCall, call: TranscriptCall) -> None:
        asked.call = call
        turn = self._items[asked.turn]
        assert isinstance(turn, Turn)
        answer = (*turn.answer[: asked.part], call, *turn.answer[asked.part + 1 :])
        self._items[asked.turn] = replace(turn, answer=answer)


def _lane(exchange: Exchange | None) -> Lane:
    return () if exchange is None else exchange.lane


def _in_order(nodes: Sequence[Node], spans: Mapping[str, SpanRecord], *, exchanges: bool) -> list[Node]:
    """Return the calls of a run in the order in which they were made."""
    if exchanges:
        return sorted((node for node in nodes if node.step is not None), key=lambda node: node.step or 0)
    calls = [node for node in nodes if call_kind(spans[node.span_id], None) != "span"]
    return sorted(calls, key=lambda node: spans[node.span_id].start_time_unix_nano)


def _changed(known: _Conversation, instructions: str, tools: str, settings: Mapping[str, str]) -> list[str]:
    changes: list[str] = []
    if known.instructions and instructions != known.instructions:
        changes.append(f"the system prompt changed since {known.place}")
    if known.tools and tools != known.tools:
        changes.append(f"the offered tools changed since {known.place}")
    for name in dict.fromkeys([*known.settings, *settings]):
        before, now = known.settings.get(name, "not set"), settings.get(name, "not set")
        if before != now:
            changes.append(f"{name}: {before} → {now}")
    return changes


def _tool_names(tools: str) -> tuple[str, ...]:
    found = [as_object(tool) for tool in as_list(parse(tools))]
    return tuple(str(tool.get("name") or as_object(tool.get("function")).get("name") or tool.get("type")) for tool in found)


def _list(value: AttributeValue) -> Iterator[AttributeValue]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from value


def _shown(value: AttributeValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _SETTING else f"{text[:_SETTING]}…"


# -- What a call reports of itself -------------------------------------------------------------------------------------
# A model call in the words of the GenAI conventions, any other as texts. Pure.


def reported(span: SpanRecord, exchange: Exchange | None) -> Mapping[str, AttributeValue]:
    """Return a model call in the words of the GenAI conventions; read from its bytes if its span has none of them."""
    if exchange is None or genai.INPUT_MESSAGES in span.attributes:
        return span.attributes
    match = find_dialect_of(exchange.request)
    if match is None:
        return span.attributes
    try:
        request = decode_body(exchange.request.body, exchange.request.headers)
        body = decode_body(exchange.response.body, exchange.response.headers)
    except WireError:
        return span.attributes
    headers = {name.lower(): value for name, value in exchange.response.headers}
    answer = match.dialect.response_attributes(
        body,
        content_type=headers.get("content-type", ""),
        status=exchange.response.status or 0,
        headers=exchange.response.headers,
    )
    return {**match.dialect.request_attributes(request), **(answer if body else {}), **span.attributes}


def call_texts(span: SpanRecord, exchange: Exchange | None) -> tuple[str, str, str]:
    """Return the request, the answer, and the error."""
    if exchange is None:
        attribute_names = (genai.TOOL_CALL_ARGUMENTS, genai.RETRIEVAL_QUERY)
        answered = (genai.TOOL_CALL_RESULT, genai.RETRIEVAL_DOCUMENTS)
        request, answer = (
            next((text for name in names if (text := span.text(name))), "") for names in (attribute_names, answered)
        )
        return request, answer, error_of(span, None, span.attributes)
    request = exchange.request.body.decode(errors="replace")
    answer = f"<not kept: {exchange.response.omitted}>" if exchange.response.omitted else readable_body(exchange)
    return request, answer, error_of(span, exchange, span.attributes)


def readable_body(exchange: Exchange) -> str:
    """Return a response's body as text, as much of it as came."""
    try:
        return decode_body(exchange.response.body, exchange.response.headers).decode(errors="replace")
    except WireError:
        return f"<{len(exchange.response.body)} bytes that cannot be decoded>"


def error_of(span: SpanRecord, exchange: Exchange | None, said: Mapping[str, AttributeValue]) -> str:
    """Return the client's exception and the provider's error, a line each."""
    raised = error_text(exchange.error) if exchange is not None and exchange.error else ""
    reported = text_of(said, genai.RESPONSE_ERROR)
    failed = span.status_code is StatusCode.ERROR
    kept = [raised, reported, (span.status_message or text_of(said, genai.ERROR_TYPE)) if failed and not raised else ""]
    return "\n".join(dict.fromkeys(text for text in kept if text))


def first_chunk_ms(exchange: Exchange | None) -> float | None:
    """Return the time of a stream's first chunk, after the start of the call; None without a stream."""
    if exchange is None or len(exchange.response.chunks) < 2:
        return None
    return exchange.response.chunks[0].offset_ns / 1e6


def text_of(said: Mapping[str, AttributeValue], name: str) -> str:
    """Return an attribute if it is text, else an empty text."""
    value = said.get(name)
    return value if isinstance(value, str) else ""


# -- Calls of tools that models asked for, and which of them a result belongs to. Pure ---------------------------------
# Ids decide, then names and arguments. Parallel conversations may number their calls alike; then the lanes decide.


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptCall:
    """A call of a tool, a retriever, an MCP server or over HTTP."""

    kind: str
    name: str
    arguments: str
    node: Node | None
    """The recorded call; None if the model requested one and none was recorded."""
    result: str = ""
    """Its result; for a retriever the same as `documents`, if these could be read."""
    received: str = ""
    """The text that the model received, if that is not the result."""
    error: str = ""
    documents: tuple[FoundDocument, ...] = ()
    requested_in_step: int | None = None
    """Step of the model call that requested it."""


@dataclass(slots=True, kw_only=True)
class AnnouncedCall:
    """A call that a model requested, until its result is found."""

    call: TranscriptCall
    turn: int
    """Index of the turn in the items."""
    part: int
    """Index of the part in the turn's answer."""
    id: str | None
    conversation: int
    """Number of the conversation in which it was requested."""
    lane: Lane


class AskedCalls:
    """The calls that models requested, until the result of each is found."""

    def __init__(self) -> None:
        self._open: list[AnnouncedCall] = []

    def add(self, asked: AnnouncedCall) -> None:
        self._open.append(asked)

    def remove(self, asked: AnnouncedCall) -> None:
        self._open.remove(asked)

    def answered_by(self, made: TranscriptCall, call_id: str | None, lane: Lane) -> AnnouncedCall | None:
        """Return the request of a model that this call answers: by its id, else by name and arguments; of the nearest lane."""
        open_ones = [item for item in self._open if item.call.node is None]
        if call_id and (found := [item for item in open_ones if item.id == call_id]):
            return max(
                found, key=lambda item: (item.call.name == made.name, nearness(item.lane, lane), _has_arguments_of(item, made))
            )
        named = [item for item in open_ones if item.call.name == made.name]
        equal = [item for item in named if _has_arguments_of(item, made)]
        if not equal:
            nearest = max((nearness(item.lane, lane) for item in named), default=None)
            named = [item for item in named if nearness(item.lane, lane) == nearest]
            return named[0] if len(named) == 1 else None
        return max(equal, key=lambda item: nearness(item.lane, lane))

    def call_announced_in(self, call_id: JsonValue, conversation: int, lane: Lane, history: str) -> AnnouncedCall | None:
        """Return the call whose result a conversation contains: one of its own, else of the nearest lane.

        A conversation that was not known before (`history`) describes its calls itself, and only a matching
        call counts.
        """
        found = [item for item in reversed(self._open) if item.id is not None and item.id == call_id]
        own = [item for item in found if item.conversation == conversation]
        if own or not found:
            return own[0] if own else None
        named = [
            (part.get("name"), readable(plain(part.get("arguments"))))
            for message in read_messages(history)
            for part in map(as_object, as_list(message.get("parts")))
            if part.get("type") == "tool_call" and part.get("id") == call_id
        ]
        like = [item for item in found if not named or (item.call.name, item.call.arguments) in named]
        return max(like, key=lambda item: nearness(item.lane, lane), default=None)


def nearness(one: Lane, other: Lane) -> tuple[bool, int]:
    """Return the closeness of two lanes: equal, or else the length of their common path from the entry point."""
    shared = next((index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one == other, min(len(one), len(other)) if shared is None else shared


def _has_arguments_of(asked: AnnouncedCall, made: TranscriptCall) -> bool:
    return asked.call.arguments == made.arguments
