"""SpanRecord -> OTLP protobuf in pieces: each span is one (`EncodedSpan`), which the log can leave out (a duplicate) without
encoding the rest again. The encoding itself is `freezeframe_schemas.otlp_encode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xxhash

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp_encode import UNENCODABLE, delimited, encode_resource, encode_scope, encode_span, varint
from freezeframe_schemas.span import Resource, Scope, SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSpan:
    """A span's OTLP bytes with the bytes of its resource and scope, each once per batch."""

    key: int
    """xxh3-64 over all three: equal keys are the same span sent twice."""
    span: bytes
    scope: bytes
    """The fields of ``ScopeSpans`` but its spans."""
    resource: bytes
    """The fields of ``ResourceSpans`` but its scopes."""

    @property
    def size(self) -> int:
        """Return the bytes of the span itself."""
        return len(self.span)


def encode_spans(spans: Iterable[SpanRecord]) -> list[EncodedSpan]:
    """Return the spans as pieces for `join_spans`.

    Raises:
        WireError: a value has no OTLP form (a lone surrogate in a text, an integer over 64 bits).
    """
    scopes: dict[int, tuple[Scope, bytes]] = {}
    resources: dict[int, tuple[Resource, bytes]] = {}
    encoded: list[EncodedSpan] = []
    for span in spans:
        try:
            # By identity: the decoder makes one Resource and Scope per batch; holding them keeps the ids from being reused.
            scope = scopes.get(id(span.scope))
            if scope is None:
                scope = scopes[id(span.scope)] = (span.scope, encode_scope(span.scope))
            resource = resources.get(id(span.resource))
            if resource is None:
                resource = resources[id(span.resource)] = (span.resource, encode_resource(span.resource))
            data = encode_span(span)
        except UNENCODABLE as error:
            raise WireError(f"span {span.span_id}: a value has no OTLP form ({type(error).__name__})") from None
        key = xxhash.xxh3_64_intdigest(data, xxhash.xxh3_64_intdigest(resource[1] + scope[1]))
        encoded.append(EncodedSpan(key=key, span=data, scope=scope[1], resource=resource[1]))
    return encoded


def join_spans(spans: Sequence[EncodedSpan]) -> bytes:
    """Return an ``ExportTraceServiceRequest``; neighbours of one resource and scope share it."""
    grouped: dict[bytes, dict[bytes, list[bytes]]] = {}
    for span in spans:
        grouped.setdefault(span.resource, {}).setdefault(span.scope, []).append(delimited(b"\x12", span.span))
    parts: list[bytes] = []
    for resource, scopes in grouped.items():
        inner = [resource]
        for scope, members in scopes.items():
            length = len(scope) + sum(map(len, members))
            inner.append(b"\x12" + varint(length) + scope)
            inner.extend(members)
        parts.append(b"\x0a" + varint(sum(map(len, inner))))
        parts.extend(inner)
    return b"".join(parts)


def encode_traces(spans: Iterable[SpanRecord]) -> bytes:
    """Return the spans as an ``ExportTraceServiceRequest``.

    Raises:
        WireError: as `encode_spans`.
    """
    return join_spans(encode_spans(spans))
