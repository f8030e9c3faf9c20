"""A span as the log keeps it: one piece (`EncodedSpan`) that can be left out (a duplicate) without encoding the rest again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import xxhash

from freezeframe_schemas.otlp.encode import encode_parts
from freezeframe_schemas.span import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSpan:
    """A span's OTLP bytes with the bytes of its resource and scope, each once per batch."""

    key: int
    """xxh3-64 over all three: equal keys are the same span sent twice."""
    span: bytes
    scope: bytes
    """The fields of ``ScopeSpans`` except its spans."""
    resource: bytes
    """The fields of ``ResourceSpans`` except its scopes."""

    @property
    def size(self) -> int:
        """Return the bytes of the span itself."""
        return len(self.span)

    @property
    def parts(self) -> tuple[bytes, bytes, bytes]:
        """Return the parts in the form that `request_parts` takes."""
        return self.resource, self.scope, self.span


def encode_spans(spans: Iterable[SpanRecord]) -> list[EncodedSpan]:
    """Return the spans as pieces.

    Raises:
        WireError: as `encode_parts`.
    """
    encoded: list[EncodedSpan] = []
    for resource, scope, data in map(encode_parts, spans):
        key = xxhash.xxh3_64_intdigest(data, xxhash.xxh3_64_intdigest(resource + scope))
        encoded.append(EncodedSpan(key=key, span=data, scope=scope, resource=resource))
    return encoded
