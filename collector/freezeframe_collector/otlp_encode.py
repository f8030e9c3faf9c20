"""SpanRecord -> OTLP protobuf in pieces: each span is one (`EncodedSpan`), which the log can leave out (a duplicate) without
encoding the rest again. The encoding itself is `freezeframe_schemas.otlp_encode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import xxhash

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp_encode import UNENCODABLE, encode_resource, encode_scope, encode_span, varint
from freezeframe_schemas.span import Resource, Scope, SpanRecord

HEAD_BYTES: Final = 4_096
"""Resources and scopes up to this size are remembered over requests."""
_HEADS_REMEMBERED: Final = 2_048
_H = TypeVar("_H", Resource, Scope)
_heads: dict[int, tuple[Resource | Scope, bytes]] = {}


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
    """Return the spans as pieces for `request_parts`.

    Raises:
        WireError: a value has no OTLP form (a lone surrogate in a text, an integer over 64 bits).
    """
    encoded: list[EncodedSpan] = []
    for span in spans:
        try:
            resource, scope = _head(span.resource, encode_resource), _head(span.scope, encode_scope)
            data = encode_span(span)
        except UNENCODABLE as error:
            raise WireError(f"span {span.span_id}: a value has no OTLP form ({type(error).__name__})") from None
        key = xxhash.xxh3_64_intdigest(data, xxhash.xxh3_64_intdigest(resource + scope))
        encoded.append(EncodedSpan(key=key, span=data, scope=scope, resource=resource))
    return encoded


def _head(value: _H, encode: Callable[[_H], bytes]) -> bytes:
    # By identity: the decoder gives a sender's resource and scope as the same objects each time.
    found = _heads.get(id(value))
    if found is None:
        found = (value, encode(value))
        if len(found[1]) <= HEAD_BYTES:
            if len(_heads) >= _HEADS_REMEMBERED:
                _heads.clear()
            # Holding the value keeps its id from being another one's.
            _heads[id(value)] = found
    return found[1]


def request_parts(spans: Sequence[EncodedSpan]) -> list[bytes]:
    """Return an ``ExportTraceServiceRequest`` in parts to be written one after the other, the spans uncopied among them.

    The spans of one resource and scope share it.
    """
    grouped: dict[bytes, dict[bytes, list[bytes]]] = {}
    for span in spans:
        data = span.span
        grouped.setdefault(span.resource, {}).setdefault(span.scope, []).extend((b"\x12" + varint(len(data)), data))
    parts: list[bytes] = []
    for resource, scopes in grouped.items():
        inner = [resource]
        for scope, members in scopes.items():
            length = len(scope) + sum(map(len, members))
            inner.append(b"\x12" + varint(length) + scope)
            inner.extend(members)
        parts.append(b"\x0a" + varint(sum(map(len, inner))))
        parts.extend(inner)
    return parts


def encode_traces(spans: Iterable[SpanRecord]) -> bytes:
    """Return the spans as an ``ExportTraceServiceRequest``.

    Raises:
        WireError: as `encode_spans`.
    """
    return b"".join(request_parts(encode_spans(spans)))
