"""WireDialect: one wire format, and the machinery that all formats share, so that a format is a few functions and rows of data.

A provider's module gives `Documents`: `read_request` (request document -> attributes), `read_response` (synchronous answer ->
attributes) and `compose` (an `Answer` -> the synchronous answer). If it streams, it also gives `Streams`: `assemble` (frames ->
the synchronous answer that they add up to), `has_ended` (whether its last event came) and `disassemble`, which reverses
`assemble`. Streamed and synchronous answers give the same attributes because one reader handles both. Nothing here raises on
any bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, TypeAlias

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Chunk, Request, Response
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer, Compose, Disassemble, ErrorBody, Split, error_object, in_one_piece, whole
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, dump, parse
from freezeframe_schemas.wire.frames import DONE, DecodedBody, Form, Frame, read_body, write_frames

ReadDocument = Callable[[JsonObject, AttributeWriter], None]
ReadHeaders = Callable[[Mapping[str, str], AttributeWriter], None]
Assemble = Callable[[Sequence[Frame]], JsonObject]
HasEnded = Callable[[DecodedBody], bool | None]
"""True if a stream holds the event that its protocol ends with.

None: the protocol has no such event, or its frames do not follow the protocol, so only the end of the HTTP body
shows the end.
"""

ErrorFrame: TypeAlias = "Callable[[JsonValue], Frame | None]"
"""The provider's error -> the frame that carries it in the middle of a stream; None if the other frames hold it."""

_FIRST_ERROR_STATUS: Final = 400


def _last_object(frames: Sequence[Frame]) -> JsonObject:
    """Return the last object among the frames: the `assemble` of an API that answers in one piece."""
    return next((frame.value for frame in reversed(frames) if isinstance(frame.value, dict)), {})


def _never_shows(body: DecodedBody) -> None:
    """Let the end of the HTTP body decide: the `has_ended` of an API that does not stream, or that we cannot read."""
    del body


def _error_frame(error: JsonValue) -> Frame:
    return Frame(value={"error": error})


@dataclass(frozen=True, slots=True)
class Documents:
    """The functions of a format's documents: request and synchronous answer."""

    read_request: ReadDocument
    read_response: ReadDocument
    compose: Compose


@dataclass(frozen=True, slots=True)
class Streams:
    assemble: Assemble = _last_object
    has_ended: HasEnded = _never_shows
    disassemble: Disassemble = in_one_piece
    _: KW_ONLY
    form: Form = Form.EVENTS
    asks_for_events: str = ""
    """The part of a URL that asks for server-sent events anyway."""
    unasked: bool = False
    """Answers are streamed unless the request says otherwise."""
    error_frame: ErrorFrame = _error_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class WireDialect:
    """One wire format. `model` and `stream` come from the URL, if it has them.

    Attributes do not hold the provider's name: that is `Match.provider`.
    """

    name: str
    """``openai.chat``, ``anthropic.messages``, ..."""
    operation: str
    """``gen_ai.operation.name``."""
    provider: str
    """Provider name if the host does not show it."""
    documents: Documents
    streams: Streams = Streams()
    error_body: ErrorBody = error_object
    read_headers: ReadHeaders | None = None
    transient_fields: frozenset[str] = frozenset()
    """Top-level request fields that never decide the answer, and so are in no replay key."""
    set_system: prompts.SetSystem = prompts.unknown
    settings: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    """Field of a request -> the parameters in it. All others are at the top level."""
    call_path: str = ""
    """The part after the base URL in the URL of a request, if the base URL has a path (``/v1``)."""
    honours_retry_after: bool = False
    """Before the next attempt, its SDKs wait as long as the header ``retry-after-ms`` says."""
    model: str | None = None
    stream: bool | None = None

    def set_parameter(self, request: JsonObject, name: str, value: JsonValue) -> JsonObject:
        """Return the request with one parameter set, by the provider's name for it (``temperature``)."""
        holders = [holder for holder, names in self.settings.items() if name in names]
        # Formats that share a URL (Bedrock) have several fields: the one that the request uses.
        holder = next((holder for holder in holders if holder in request or len(self.settings) == 1), None)
        if holder is None:
            return {**request, name: value}
        return {**request, holder: {**as_object(request.get(holder)), name: value}}

    def request_attributes(self, body: bytes) -> dict[str, AttributeValue]:
        """Return the attributes of a request, the operation's name included."""
        out = AttributeWriter(self.operation)
        out.text(genai.REQUEST_MODEL, self.model)
        out.flag(genai.REQUEST_STREAM, self.stream)
        self.documents.read_request(as_object(parse(body)), out)
        return out.attributes

    def requested_form(self, request: Request) -> Form:
        """Return the form in which the request asks for its answer."""
        stream = as_object(parse(request.body)).get("stream")
        streamed = self.stream if self.stream is not None else stream is True or (stream is None and self.streams.unasked)
        if not streamed:
            return Form.DOCUMENT
        by_url = self.streams.asks_for_events
        return Form.EVENTS if by_url and by_url in request.url else self.streams.form

    def write(self, document: JsonObject, *, form: Form = Form.DOCUMENT, split: Split = whole) -> Response:
        """Return the response that carries a synchronous answer, or the stream that adds up to it."""
        if form is Form.DOCUMENT:
            return _response(200, form, [dump(document).encode()])
        frames = list(self.streams.disassemble(document, split)) if document else []
        if (error := document.get("error")) and (last := self.streams.error_frame(error)) is not None:
            frames = [*(frame for frame in frames if frame is not DONE), last]
        return _response(200, form, write_frames(frames, form))

    def write_answer(self, answer: Answer, request: Request, *, form: Form | None = None) -> Response:
        """Return the response that carries an answer, in the form that the request asks for.

        Raises:
            WireError: the format has no place for such an answer.
        """
        request_document: JsonObject = {"model": self.model, **as_object(parse(request.body))}
        try:
            if (self.operation == genai.OP_EMBEDDINGS) != bool(answer.vectors):
                raise WireError("gives vectors and nothing else" if not answer.vectors else "gives no vectors")
            if self.operation == genai.OP_TEXT_COMPLETION and answer.tool_calls:
                raise WireError("cannot ask for a tool")
            document = self.documents.compose(answer, request_document)
        except WireError as error:
            raise WireError(f"an answer of {self.name} {error.message}") from None
        return self.write(document, form=self.requested_form(request) if form is None else form, split=answer.split)

    def write_error(self, status: int, message: str) -> Response:
        """Return the provider's error response. A client that retries does not wait long."""
        return _response(status, Form.DOCUMENT, [dump(self.error_body(status, message)).encode()], ("retry-after-ms", "1"))

    def response_attributes(
        self, body: bytes, *, content_type: str, status: int, headers: Sequence[tuple[str, str]] = ()
    ) -> dict[str, AttributeValue]:
        """Return the attributes of an answer; for a stream that was cut, of the part that arrived. `body` is content-decoded.

        `headers` matter if a provider has values only there (AWS: the kind of error, some token counts).
        """
        out = AttributeWriter()
        document = self.response_document(body, content_type=content_type)
        failed = status >= _FIRST_ERROR_STATUS
        if not failed:
            self.documents.read_response(document, out)
        if failed or document.get("error"):
            _read_error(document, status, out)
        if self.read_headers is not None:
            self.read_headers({name.lower(): value for name, value in headers}, out)
        return out.attributes

    def response_document(self, body: bytes, *, content_type: str) -> JsonObject:
        """Return the synchronous answer, or the one that a stream adds up to; empty if unreadable."""
        read = read_body(body, content_type)
        if read.frames is not None:
            return self._assemble(read.frames)
        return as_object(read.document)

    def is_whole(self, body: bytes, *, content_type: str, streamed: bool) -> bool | None:
        """Return whether an answer reached the end that its protocol defines.

        True: it did, whatever follows. False: it did not, even if the HTTP body ended properly. None: the bytes do not
        show it, and the answer is as complete as its HTTP body. `streamed` is what the request asked for.
        """
        if self.streams.has_ended is _never_shows:
            return None
        if (last := _last_event(body)) is not None and self._is_ended(read_body(last, "text/event-stream")):
            return True
        read = read_body(body, content_type)
        if read.frames is None:
            cut = read.document is None and (streamed or body.lstrip()[:1] in (b"{", b"["))
            return False if cut else None
        return self._is_ended(read) if read.frames or read.done else False

    def _is_ended(self, body: DecodedBody) -> bool | None:
        """Return whether the frames end as the protocol says, or with an error among them: nothing follows one."""
        if any(as_object(frame.value).get("error") for frame in body.frames or ()):
            return True
        return self.streams.has_ended(body)

    def _assemble(self, frames: Sequence[Frame]) -> JsonObject:
        document = self.streams.assemble(frames)
        for frame in frames:
            if error := as_object(frame.value).get("error"):
                return {**document, "error": error}
        return document


def _response(status: int, form: Form, pieces: Sequence[bytes], *headers: tuple[str, str]) -> Response:
    chunks = tuple(Chunk(data=piece) for piece in pieces)
    return Response(status=status, headers=(("content-type", form.value), *headers), chunks=chunks)


def ended_by(body: DecodedBody, ends: Callable[[Frame], bool], speaks: Callable[[Frame], bool]) -> bool | None:
    """Return whether a frame `ends` the stream. None if no frame `speaks` the protocol, so that its end means nothing."""
    frames = body.frames or ()
    if any(ends(frame) for frame in frames):
        return True
    return False if any(speaks(frame) for frame in frames) else None


def ended_by_event(key: str, *last: JsonValue) -> HasEnded:
    """Return the `has_ended` of a stream whose last frame has one of the `last` at `key`, and whose frames all have the key."""

    def ends(frame: Frame) -> bool:
        return as_object(frame.value).get(key) in last

    return lambda body: ended_by(body, ends, lambda frame: key in as_object(frame.value))


def _last_event(body: bytes) -> bytes | None:
    """Return the last server-sent event: most streams end there, and need not be read from the start to find out."""
    trimmed = body.rstrip()
    start = trimmed.rfind(b"\n\n")
    last = trimmed[start + 2 :]
    return last if start >= 0 and last.startswith((b"data:", b"event:")) else None


def _read_error(document: JsonObject, status: int, out: AttributeWriter) -> None:
    """Write ``error.type`` (the provider's own code if it has one, else the status) and the error verbatim.

    OpenAI ``{"error": {"code", "type"}}``, Anthropic ``{"error": {"type"}}``, Google ``{"error": {"status"}}``, Mistral and
    AWS top-level ``{"type" | "__type", "message"}``, Ollama ``{"error": "text"}``.
    """
    error: JsonValue = document.get("error") or document or None
    detail = as_object(error)
    kinds = (detail.get("code"), detail.get("status"), detail.get("type"), detail.get("__type"))
    named = (kind for kind in kinds if isinstance(kind, str) and kind and kind != "error")
    fallback = str(status) if status >= _FIRST_ERROR_STATUS else "error"
    out.text(genai.ERROR_TYPE, next(named, fallback))
    out.json(genai.RESPONSE_ERROR, error)
