"""Normalise: vendors' attributes to the pinned GenAI conventions, keeping the originals.

Pure and idempotent: a derived value never replaces a sent one, but the operation of half a call (`logfire`). A normalised
span is left alone, and anything that no dialect knows passes unchanged. Annotations become events: see `feedback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode
from freezeframe_schemas.vendors import DIALECTS, HISTORY
from freezeframe_schemas.vendors.dialect import Dialect
from freezeframe_schemas.vendors.feedback import with_evaluations
from freezeframe_schemas.vendors.logfire import with_one_call_of_a_stream
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import parse

_LISTS: Final = (genai.RESPONSE_FINISH_REASONS, genai.REQUEST_STOP_SEQUENCES)
"""Arrays that some senders write as JSON text."""


def normalise(span: SpanRecord) -> SpanRecord:
    """Return the span with the GenAI attributes that its vendor's attributes imply."""
    if genai.NORMALISED_FROM in span.attributes:
        return span
    span = with_one_call_of_a_stream(with_evaluations(span))
    if genai.NORMALISED_FROM in span.attributes:
        return span
    changes: dict[str, AttributeValue] = {}
    source = ""
    for dialect in _dialects_of(span):
        out = AttributeWriter()
        dialect.derive(span, out)
        added = {name: value for name, value in out.attributes.items() if name not in span.attributes and name not in changes}
        if added and not source:
            source = dialect.name
        changes.update(added)
    if span.status_code is StatusCode.ERROR and (changes or genai.OPERATION_NAME in span.attributes):
        changes |= _raised(span)
    lists = _mended_lists(span.attributes)
    if not changes and not lists:
        return span
    return span.with_attributes({**changes, **lists, genai.NORMALISED_FROM: source or HISTORY.name})


def _dialects_of(span: SpanRecord) -> list[Dialect]:
    """Return the vendor's dialect, if one fits, and that of the conventions' own past, if it fits."""
    found: list[Dialect] = []
    for dialect in DIALECTS:
        if dialect.fits(span):
            found.append(dialect)
            break
    if HISTORY.fits(span):
        found.append(HISTORY)
    return found


def _raised(span: SpanRecord) -> dict[str, AttributeValue]:
    """Return the class of the exception with which a foreign span failed, from its event: some name it only there."""
    kinds = (event.attributes.get(genai.EXCEPTION_TYPE) for event in span.events)
    kind = next((kind for kind in kinds if isinstance(kind, str)), None)
    has_own = kind is None or genai.ERROR_TYPE in span.attributes or span.scope.name == genai.SCOPE
    return {} if has_own else {genai.ERROR_TYPE: kind}


def _mended_lists(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    """Return the arrays that arrived as JSON text, in the form that the conventions ask for."""
    mended: dict[str, AttributeValue] = {}
    for name in _LISTS:
        value = attributes.get(name)
        if isinstance(value, str) and value.startswith("["):
            items = parse(value)
            if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
                mended[name] = tuple(str(item) for item in items)
    return mended
