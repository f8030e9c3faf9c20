"""Wire dialects: the bytes of a provider's requests and answers, read into GenAI attributes. Pure functions, no I/O.

    match = find_dialect("POST", "https://api.openai.com/v1/chat/completions")
    match.dialect.request_attributes(body)    # {"gen_ai.request.model": "gpt-4o", ...}
    match.provider                            # "openai"

A new provider is one module (a `WireDialect`) and one row in `registry`. Each name below is imported when it is first used: who
only reads a document does not load the dialects.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from freezeframe_schemas.wire.dialect import WireDialect
    from freezeframe_schemas.wire.encoding import decode_body
    from freezeframe_schemas.wire.registry import Match, find_dialect, find_dialect_of

__all__ = ["Match", "WireDialect", "decode_body", "find_dialect", "find_dialect_of"]

_HOMES: Final = {
    "Match": "registry",
    "WireDialect": "dialect",
    "decode_body": "encoding",
    "find_dialect": "registry",
    "find_dialect_of": "registry",
}
"""Public name -> its module."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value
