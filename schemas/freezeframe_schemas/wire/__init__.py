"""Wire dialects: the bytes of a provider's requests and answers, read into GenAI attributes. Pure functions, no I/O.

    match = find_dialect("POST", "https://api.openai.com/v1/chat/completions")
    match.dialect.request_attributes(body)    # {"gen_ai.request.model": "gpt-4o", ...}
    match.provider                            # "openai"

A new provider is one module (a `WireDialect`) and one row in `registry`.
"""

from __future__ import annotations

from freezeframe_schemas.wire.dialect import WireDialect
from freezeframe_schemas.wire.encoding import decode_body
from freezeframe_schemas.wire.registry import Match, find_dialect, find_dialect_of

__all__ = ["Match", "WireDialect", "decode_body", "find_dialect", "find_dialect_of"]
