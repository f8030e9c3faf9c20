"""OpenAI embeddings. The texts are not repeated as attributes: the conventions give an embeddings span no messages.

Source: https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.dialect import Documents, WireDialect
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects
from freezeframe_schemas.wire.openai_chat import COUNTS, TRANSIENT_FIELDS

_REQUEST_FIELDS: Final = frozenset({"model", "input", "encoding_format", "dimensions"})
_FLOAT_BYTES: Final = 4


def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of an embeddings request."""
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.texts(genai.REQUEST_ENCODING_FORMATS, document.get("encoding_format"))
    out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, document.get("dimensions"))
    out.rest(document, _REQUEST_FIELDS)


def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a list of embeddings; the dimensions are counted in the first vector."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    rows = as_objects(document.get("data"))
    if rows:
        out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, dimensions(rows[0].get("embedding")))
    out.usage(as_object(document.get("usage")), COUNTS)


def dimensions(vector: JsonValue) -> int | None:
    """Return the length of a vector: an array of numbers, or base64 of 32-bit floats."""
    if isinstance(vector, list):
        return len(vector)
    if isinstance(vector, str):
        try:
            return len(b64decode(vector, validate=True)) // _FLOAT_BYTES
        except (binascii.Error, ValueError):
            return None
    return None


def compose(answer: Answer, request: JsonObject) -> JsonObject:
    """Return a list of embeddings, in the encoding that the request asks for."""
    encoded = request.get("encoding_format") == "base64"
    rows: list[JsonValue] = [
        {"object": "embedding", "index": index, "embedding": _base64(vector) if encoded else list(vector)}
        for index, vector in enumerate(answer.vectors)
    ]
    usage: JsonObject = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "data": rows, "model": answer.model, "usage": usage}


def _base64(vector: Sequence[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


DIALECT: Final = WireDialect(
    name="openai.embeddings",
    operation=genai.OP_EMBEDDINGS,
    provider="openai",
    documents=Documents(read_request, read_response, compose),
    transient_fields=TRANSIENT_FIELDS,
    set_system=prompts.without,
    call_path="/embeddings",
    honours_retry_after=True,
)
