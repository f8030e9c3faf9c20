"""The redaction stage: each tenant's spans through the redactor with the tenant's own key. Fails closed: see `Stage`.

The model tier, where the policy asks for it, comes later: see `read_prose`.
"""

from __future__ import annotations

import threading
from typing import Final

from freezeframe_redaction.keys import KeyRing
from freezeframe_redaction.policy import Policy
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas.span import SpanRecord

_WARM_UP: Final = SpanRecord(
    trace_id="1" * 32,
    span_id="1" * 16,
    name="warm up",
    start_time_unix_nano=0,
    end_time_unix_nano=0,
    attributes={"text": "call Jane Roe on +1 415 555 0100"},
)


class RedactStage:
    """One redactor per tenant. Patterns are compiled at once, so that no request waits for it; a tenant costs only its key."""

    def __init__(self, policy: Policy, keys: KeyRing) -> None:
        self.policy = policy
        self._keys = keys
        self._redactors: dict[str, Redactor] = {}
        self._lock = threading.Lock()
        self._redactor_of("").redact_span(_WARM_UP)

    def __call__(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Return the span with every finding replaced.

        Raises:
            FreezeframeError: the span cannot be redacted.
        """
        return (self._redactors.get(tenant) or self._redactor_of(tenant)).redact_span(span)

    def _redactor_of(self, tenant: str) -> Redactor:
        with self._lock:
            redactor = self._redactors.get(tenant) or Redactor(self.policy, self._keys.current(tenant or "default"), hot=True)
            self._redactors[tenant] = redactor
            return redactor
