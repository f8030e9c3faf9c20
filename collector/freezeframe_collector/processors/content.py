"""Read what spans point to, from the places that the configuration names, before it is redacted like any content.

One request may read so much for so long; the rest stays where it is, and the span records why.
"""

from __future__ import annotations

from typing import Final

from freezeframe_collector.casts.found import Found
from freezeframe_schemas.content_references import ContentReader
from freezeframe_schemas.span import SpanRecord

_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_S: Final = 20.0


class ContentOfRequest:
    """Reads for one request."""

    def __init__(self, places: ContentReader) -> None:
        self._reader = places.within(_MAX_BYTES, _MAX_S)

    def __call__(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Return the span with the content that it points to."""
        del tenant
        return self._reader.with_content(span)

    def finish(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Return the span as it is."""
        del tenant
        return span

    def found(self) -> tuple[Found, ...]:
        """Return nothing: redaction comes later."""
        return ()
