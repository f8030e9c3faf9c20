"""Semantic Kernel: message events as log records, which the history reads, and the finish reason in its own form.

The messages of its agent spans are OpenAI's under the conventions' name; they stay as they were sent, like everything else.

Source: https://github.com/microsoft/semantic-kernel, python/semantic_kernel/utils/telemetry
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect
from freezeframe_schemas.wire.attributes import AttributeWriter

_SCOPE: Final = "semantic_kernel."


def _fits(span: SpanRecord) -> bool:
    return span.scope.name.startswith(_SCOPE)


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    reason = span.text(genai.PAST_FINISH_REASON)
    if reason:
        # Python's name of the member: FinishReason.TOOL_CALLS, None if there was none.
        word = reason.rpartition(".")[2].lower()
        out.texts(genai.RESPONSE_FINISH_REASONS, None if word == "none" else word)


DIALECT: Final = Dialect(name="semantic_kernel", fits=_fits, derive=_derive)
