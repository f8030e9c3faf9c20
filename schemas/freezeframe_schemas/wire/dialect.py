"""Dialect: what every wire format answers; WireDialect: the machinery they share, so that a provider is three functions.

A provider's module gives `read_request` (request document -> attributes), `read_response` (synchronous answer -> attributes)
and `assemble` (frames of a stream -> the synchronous answer that they amount to). Streamed and synchronous answers give the
same attributes because there is one reader for both. Nothing here raises on any bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, parse
from freezeframe_schemas.wire.frames import Frame, read_body

ReadDocument = Callable[[JsonObject, AttributeWriter], None]
ReadHeaders = Callable[[Mapping[str, str], AttributeWriter], None]
Assemble = Callable[[Sequence[Frame]], JsonObject]

_FIRST_ERROR_STATUS: Final = 400


class Dialect(Protocol):
    """One wire format. Attributes do not hold the provider's name: that is `Match.provider`."""

    @property
    def name(self) -> str:
        """``openai.chat``, ``anthropic.messages``, ..."""
        ...

    @property
    def operation(self) -> str:
        """``gen_ai.operation.name``."""
        ...

    @property
    def transient_fields(self) -> frozenset[str]:
        """Top-level request fields that never decide the answer, and so no replay key."""
        ...

    def request_attributes(self, body: bytes) -> dict[str, AttributeValue]:
        """Return what the request says, the operation's name included."""
        ...

    def response_attributes(
        self, body: bytes, *, content_type: str, status: int, headers: Sequence[tuple[str, str]] = ()
    ) -> dict[str, AttributeValue]:
        """Return what the answer says; of a stream that was cut, what came. `body` after content-decoding.

        `headers` matter where a provider says something there alone (AWS: the kind of error, some token counts).
        """
        ...

    def response_document(self, body: bytes, *, content_type: str) -> JsonObject:
        """Return the synchronous answer, or the one that a stream amounts to; empty where unreadable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WireDialect:
    """A dialect made of a provider's three functions. `model` and `stream` are what the URL says, where it does."""

    name: str
    operation: str
    provider: str
    """Provider name where the host does not tell."""
    read_request: ReadDocument
    read_response: ReadDocument
    assemble: Assemble
    read_headers: ReadHeaders | None = None
    transient_fields: frozenset[str] = frozenset()
    model: str | None = None
    stream: bool | None = None

    def request_attributes(self, body: bytes) -> dict[str, AttributeValue]:
        """Return what the request says."""
        out = AttributeWriter(self.operation)
        out.text(genai.REQUEST_MODEL, self.model)
        out.flag(genai.REQUEST_STREAM, self.stream)
        self.read_request(as_object(parse(body)), out)
        return out.attributes

    def response_attributes(
        self, body: bytes, *, content_type: str, status: int, headers: Sequence[tuple[str, str]] = ()
    ) -> dict[str, AttributeValue]:
        """Return what the answer says."""
        out = AttributeWriter()
        document = self.response_document(body, content_type=content_type)
        failed = status >= _FIRST_ERROR_STATUS
        if not failed:
            self.read_response(document, out)
        if failed or document.get("error"):
            _read_error(document, status, out)
        if self.read_headers is not None:
            self.read_headers({name.lower(): value for name, value in headers}, out)
        return out.attributes

    def response_document(self, body: bytes, *, content_type: str) -> JsonObject:
        """Return the answer as one document."""
        read = read_body(body, content_type)
        if read.frames is not None:
            return self._assemble(read.frames)
        if isinstance(read.document, list):
            # Gemini without alt=sse streams one JSON array; its errors come in one, too.
            return self._assemble([Frame(value=item) for item in read.document])
        return as_object(read.document)

    def _assemble(self, frames: Sequence[Frame]) -> JsonObject:
        document = self.assemble(frames)
        for frame in frames:
            if error := as_object(frame.value).get("error"):
                return {**document, "error": error}
        return document


def never_streamed(frames: Sequence[Frame]) -> JsonObject:
    """Return the last object among the frames: the `assemble` of an API that answers in one piece."""
    return next((frame.value for frame in reversed(frames) if isinstance(frame.value, dict)), {})


def _read_error(document: JsonObject, status: int, out: AttributeWriter) -> None:
    """Write ``error.type`` (the provider's own code where it has one, else the status) and the error verbatim.

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
