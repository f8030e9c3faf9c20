"""A second pass of the redactor, as a span gets one: with the list of the surrogates that the first pass made."""

from __future__ import annotations

from freezeframe_redaction import Redacted, Redactor
from freezeframe_schemas.span import AttributeValue


def again(redactor: Redactor, made: Redacted) -> AttributeValue:
    """Return what becomes of a redacted value when it is redacted again."""
    return redactor.with_known_surrogates(made.surrogates).redact(made.value).value
