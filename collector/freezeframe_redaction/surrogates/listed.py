"""The list of surrogates that a redacted span carries: what says of a text that it is a surrogate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import orjson

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import SpanRecord


def surrogates_of(spans: Iterable[SpanRecord]) -> dict[str, str]:
    """Return every surrogate that the spans list, with its class.

    Raises:
        WireError: a span's list is not a JSON object.
    """
    found: dict[str, str] = {}
    for span in spans:
        listed = span.text(genai.REDACTION_SURROGATES)
        if not listed:
            continue
        try:
            held: object = orjson.loads(listed)
        except orjson.JSONDecodeError:
            held = None
        if not isinstance(held, dict):
            raise WireError(f"span {span.span_id}: {genai.REDACTION_SURROGATES}: expected a JSON object")
        found.update({str(name): str(class_) for name, class_ in cast("Mapping[object, object]", held).items()})
    return found
