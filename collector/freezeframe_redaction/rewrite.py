"""Redact stored runs again, under a newer policy or key, so that they still replay: a pure function over spans.

What is already a surrogate stays one: the run keeps matching itself and the fixtures made from it. Only what the older policy
let through is replaced, in the same way everywhere in the run. The store writes the result back.
"""

from __future__ import annotations

from collections.abc import Sequence

from freezeframe_redaction.keyring.keys import TenantKey
from freezeframe_redaction.policies.policy import Policy
from freezeframe_redaction.redactor import Redactor
from freezeframe_redaction.surrogates.listed import surrogates_of
from freezeframe_schemas.span import SpanRecord


def redact_run(spans: Sequence[SpanRecord], policy: Policy, key: TenantKey) -> tuple[SpanRecord, ...]:
    """Return the spans of one run, redacted again; a run that needs nothing comes back with a new stamp only.

    Give all spans of the run together: surrogates are recognised by the lists of all of them.
    """
    redactor = Redactor(policy, key, surrogates=surrogates_of(spans))
    return tuple(redactor.redact_span(span) for span in spans)
