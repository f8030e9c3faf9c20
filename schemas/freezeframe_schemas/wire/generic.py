"""The fallback: a request to a known provider in a format that we do not read (threads, files, batches, rerank, ...).

It is recorded and replayed like any other exchange; the attributes are the few that mean the same everywhere.
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire.answer import not_written
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.dialect import Documents, WireDialect
from freezeframe_schemas.wire.document import JsonObject, as_object

OPERATION: Final = "request"
"""Not an operation of the conventions; they allow a custom word if no listed one fits."""


def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the model and the stream flag if they are in their usual places."""
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.flag(genai.REQUEST_STREAM, document.get("stream"))


def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write id, model and the unchanged usage object."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    out.json(genai.USAGE_DETAILS, as_object(document.get("usage")) or None)


DIALECT: Final = WireDialect(
    name="generic",
    operation=OPERATION,
    provider="unknown",
    documents=Documents(read_request, read_response, not_written),
)
