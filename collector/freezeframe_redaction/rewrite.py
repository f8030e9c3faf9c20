"""Redact stored runs again, under a newer policy or key, so that they still replay: a pure function over spans.

What is already a surrogate stays one: the run keeps matching itself and the fixtures made from it. Only what the older policy
let through is replaced, in the same way everywhere in the run. The store writes the result back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import orjson

from freezeframe_redaction.keys import TenantKey
from freezeframe_redaction.policy import Policy
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import SpanRecord


def surrogates_of(spans: Sequence[SpanRecord]) -> dict[str, str]:
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


def redact_run(spans: Sequence[SpanRecord], policy: Policy, key: TenantKey) -> tuple[SpanRecord, ...]:
    """Return the spans of one run, redacted again; a run that needs nothing comes back with a new stamp only.

    Give all spans of the run together: surrogates are recognised by the lists of all of them.
    """
    redactor = Redactor(policy, key, surrogates=surrogates_of(spans))
    return tuple(redactor.redact_span(span) for span in spans)
