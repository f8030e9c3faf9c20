"""freezeframe's redactor: no private data in the store, and the run still replays.

One door for every ingest route and for the live side of a replay. It never logs a value, and never keeps one beyond its cache.
"""

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
