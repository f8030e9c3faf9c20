"""The normalise stage: vendors' attributes to the pinned GenAI conventions, the originals kept.

Pure and idempotent. What no dialect knows passes unchanged.
"""

from __future__ import annotations

from freezeframe_schemas.span import SpanRecord


def normalise(span: SpanRecord, tenant: str) -> SpanRecord:
    """Return the span with the GenAI attributes that its vendor's attributes imply."""
    del tenant  # every tenant's spans mean the same
    return span
