"""A conversation with a model, kept as messages -> the spans of a run that hold it, for a reconstruction. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from freezeframe_replay.sources.recordings.http_calls import SCOPE, UNDATED, Origin
from freezeframe_schemas import genai
from freezeframe_schemas.gaps import Gap, GapKind, gaps_to_json
from freezeframe_schemas.meaning import arguments_of, messages_of
from freezeframe_schemas.span import Attributes, AttributeValue, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.wire.dialect import WireDialect
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_objects, as_text, dump

MAX_MESSAGES: Final = 2000
"""Before an answer. Each request repeats those before it, so the spans grow with the square."""
_STEP_NS: Final = 1_000_000
"""Between messages whose times are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message of a conversation."""

    message: JsonObject
    """In the conventions' form, ``{"role": "user", "parts": [...]}``; that of an ``assistant`` is an answer of the model."""
    key: str = ""
    """Its name in the run; its place by default."""
    at: int = 0
    """When it was written, in nanoseconds since 1970; 0: not known."""
    asked_at: int = 0
    """For an answer: the time of the request; 0: that of the message before it."""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    """Further facts about an answer: its id, model and tokens."""
    error: str = ""
    """Error of a failed call, which has no answer."""
    after: Sequence[int] | None = None
    """The places of the messages that an answer follows; None: all before it."""
    is_repeated: bool = False
    """Only context for others: a repeated message, or one that the model never sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    number: int
    """From 1, in the file."""
    name: str
    messages: Sequence[Said]
    lacks: str
    """Parts that recordings of this kind lack; a gap of the run."""
    session: str = ""
    """The id under which its program can continue it. It then identifies the run, so a longer file is the same run."""
    inside: str = ""
    """Name of a helper's conversation in the run of that session."""


@dataclass(slots=True)
class Session:
    """A session of a coding agent, while it is read: its messages, and those that the model receives next."""

    id: str = ""
    prompt: str = ""
    """The user's first prompt."""
    said: list[Said] = field(default_factory=list[Said])
    window: list[int] = field(default_factory=list[int])
    """The places of the model's next input."""

    def say(self, said: Said) -> None:
        """Add a message to the history."""
        self.window.append(len(self.said))
        self.said.append(said)

    def conversation(self, origin: Origin, lacks: str) -> Iterator[Conversation]:
        """Yield the session as a conversation, if it has messages."""
        if any(not said.is_repeated for said in self.said):
            name = self.prompt.strip().partition("\n")[0][:100] or origin.name
            yield Conversation(number=1, name=name, messages=self.said, lacks=lacks, session=self.id)


def spoken(dialect: WireDialect, request: JsonObject) -> list[JsonObject]:
    """Return the messages of a request in the conventions' form."""
    return messages_of(dialect.request_attributes(dump(request).encode()), genai.INPUT_MESSAGES)


def answered(dialect: WireDialect, answer: JsonObject) -> dict[str, AttributeValue]:
    """Return the content of a provider's answer: its messages and further fields."""
    return dialect.response_attributes(dump(answer).encode(), content_type="application/json", status=200)


def output_of(attributes: Mapping[str, AttributeValue]) -> JsonObject:
    """Return an answer as one message, as it is in the next request."""
    parts = [part for message in messages_of(attributes, genai.OUTPUT_MESSAGES) for part in as_objects(message.get("parts"))]
    return {"role": "assistant", "parts": [*parts]}


def spans_of_conversation(talk: Conversation, origin: Origin) -> Iterator[SpanRecord]:
    """Yield a span for each answer of the model and for each result of a tool, and finally the one around them.

    Raises:
        ValueError: an answer follows more than `MAX_MESSAGES`.
    """
    written = _Written(talk, origin)
    for place, said in enumerate(talk.messages):
        if said.is_repeated:
            continue
        if said.message.get("role") == "assistant":
            yield written.answer(place, said)
        else:
            yield from written.results(place, said)
    yield written.around()


class _Written:
    """The spans of a conversation, as they are written."""

    def __init__(self, talk: Conversation, origin: Origin) -> None:
        self._talk = talk
        self._origin = replace(origin, digest=talk.session) if talk.session else origin
        self._run = () if talk.session else (talk.number,)
        self._times = list(_times(talk))
        self._texts = [dump(said.message) for said in talk.messages]
        self._about: dict[str, AttributeValue] = {}
        if talk.session:
            self._about = {genai.SESSION_ID: talk.session, genai.CONVERSATION_ID: talk.session}
        self._calls: dict[str, tuple[JsonObject, int]] = {}

    def answer(self, place: int, said: Said) -> SpanRecord:
        before = range(place) if said.after is None else said.after
        if len(before) >= MAX_MESSAGES:
            raise ValueError(f"an answer follows {len(before):,} messages, expected fewer than {MAX_MESSAGES:,}")
        end = self._times[place]
        for part in as_objects(said.message.get("parts")):
            if part.get("type") == "tool_call":
                self._calls[str(part.get("id"))] = (part, end)
        attributes: dict[str, AttributeValue] = {
            **said.attributes,
            genai.OPERATION_NAME: genai.OP_CHAT,
            genai.INPUT_MESSAGES: f"[{','.join(self._texts[index] for index in before)}]",
        }
        if not said.error:
            attributes.setdefault(genai.OUTPUT_MESSAGES, f"[{self._texts[place]}]")
        # After it, by a nanosecond: what is known only to the second stays in order.
        start = said.asked_at or (self._times[before[-1]] + 1 if before else end)
        return self._span(said.key or str(place), attributes, (min(start, end), end), SpanKind.CLIENT, said.error)

    def results(self, place: int, said: Said) -> Iterator[SpanRecord]:
        """Yield the spans of the tools whose results a message contains."""
        end = self._times[place]
        parts = [part for part in as_objects(said.message.get("parts")) if part.get("type") == "tool_call_response"]
        for number, part in enumerate(parts):
            call_id = str(part.get("id"))
            call, start = self._calls.get(call_id, ({}, end))
            result = part.get("response", part.get("result"))
            attributes: Attributes = {
                genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL,
                genai.TOOL_NAME: as_text(call.get("name")) or as_text(said.message.get("name")) or "tool",
                genai.TOOL_CALL_ID: call_id,
                genai.TOOL_CALL_ARGUMENTS: dump(arguments_of(call.get("arguments"))),
                genai.TOOL_CALL_RESULT: result if isinstance(result, str) else dump(result),
            }
            key = f"{said.key or place}:{number}" if number else said.key or str(place)
            yield self._span(key, attributes, (min(start, end), end), SpanKind.INTERNAL)

    def around(self) -> SpanRecord:
        talk = self._talk
        times = self._times or [UNDATED]
        attributes: Attributes = {**self._about, genai.ENTRY_GAPS: gaps_to_json([Gap(kind=GapKind.UNSEEN, text=talk.lacks)])}
        if talk.inside:
            attributes |= {genai.OPERATION_NAME: genai.OP_INVOKE_AGENT}
        # Each message without a time takes one step, including the last.
        last = max(times) if any(said.at for said in talk.messages) else max(times) + _STEP_NS
        return self._record(talk.inside or "run", talk.name, attributes, (min(times), last), "run" if talk.inside else "")

    def _span(self, key: str, attributes: Attributes, times: tuple[int, int], kind: SpanKind, error: str = "") -> SpanRecord:
        names = (genai.TOOL_NAME, genai.REQUEST_MODEL, genai.RESPONSE_MODEL)
        what = next((found for name in names if (found := attributes.get(name))), None)
        name = f"{attributes[genai.OPERATION_NAME]} {what}" if what else str(attributes[genai.OPERATION_NAME])
        return self._record(key, name, {**self._about, **attributes}, times, self._talk.inside or "run", kind, error)

    def _record(
        self,
        key: str,
        name: str,
        attributes: Attributes,
        times: tuple[int, int],
        above: str,
        kind: SpanKind = SpanKind.INTERNAL,
        error: str = "",
    ) -> SpanRecord:
        return SpanRecord(
            trace_id=self._id(digits=32),
            span_id=self._id(key, digits=16),
            parent_span_id=self._id(above, digits=16) if above else "",
            name=name,
            kind=kind,
            start_time_unix_nano=times[0],
            end_time_unix_nano=times[1],
            attributes=attributes,
            status_code=StatusCode.ERROR if error else StatusCode.UNSET,
            status_message=error,
            resource=self._origin.resource,
            scope=SCOPE,
        )

    def _id(self, *parts: object, digits: int) -> str:
        return self._origin.id_of(*self._run, *parts, digits=digits)


def _times(talk: Conversation) -> Iterator[int]:
    """Yield the time of each message; an undated one has that of the dated one before it."""
    known = next((said.at for said in talk.messages if said.at), 0)
    for place, said in enumerate(talk.messages):
        known = said.at or known
        yield known or UNDATED + ((talk.number - 1) * MAX_MESSAGES + place) * _STEP_NS


def tool_call(own: JsonValue, name: JsonValue, arguments: JsonValue) -> JsonObject:
    """Return a call of a tool in OpenAI's form."""
    return {"id": own, "type": "function", "function": {"name": name, "arguments": dump(arguments)}}


def linear(dialect: WireDialect, messages: Iterable[JsonObject]) -> list[Said]:
    """Return messages of an API, each of which follows all before it.

    Raises:
        ValueError: a message has no role.
    """
    found: list[Said] = []
    for number, message in enumerate(messages, 1):
        if not isinstance(message.get("role"), str):
            raise ValueError(f"message {number}: role: expected text")
        found += [Said(message=said) for said in spoken(dialect, {"messages": [message]})]
    return found
