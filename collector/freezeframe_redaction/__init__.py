"""freezeframe's redactor: no private data in the store, and the run still replays.

One door for every ingest route and for the live side of a replay. It never logs a value, and never keeps one beyond its cache.
Each name below is imported when it is first used: a caller that needs only a key does not load the detectors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from freezeframe_redaction.casts.book import Cast
    from freezeframe_redaction.keyring.keys import KeyRing, TenantKey, find_key, load_or_create_keys
    from freezeframe_redaction.marks.marker import Aliaser
    from freezeframe_redaction.model import Finding, Redacted
    from freezeframe_redaction.policies.policy import Policy, load_policy
    from freezeframe_redaction.redactor import Redactor, redact, redact_run

__all__ = [
    "Aliaser",
    "Cast",
    "Finding",
    "KeyRing",
    "Policy",
    "Redacted",
    "Redactor",
    "TenantKey",
    "find_key",
    "load_or_create_keys",
    "load_policy",
    "redact",
    "redact_run",
]

_HOMES: Final = {
    "Aliaser": "marks.marker",
    "Cast": "casts.book",
    "Finding": "model",
    "KeyRing": "keyring.keys",
    "Policy": "policies.policy",
    "Redacted": "model",
    "Redactor": "redactor",
    "TenantKey": "keyring.keys",
    "find_key": "keyring.keys",
    "load_or_create_keys": "keyring.keys",
    "load_policy": "policies.policy",
    "redact": "redactor",
    "redact_run": "redactor",
}
"""Public name -> its module."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
