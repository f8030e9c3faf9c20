"""The redaction stage: each tenant's spans through the redactor with the tenant's own key. Fails closed: see `Stage`."""

from __future__ import annotations

import threading

from freezeframe_redaction.policy import Policy
from freezeframe_redaction.redactor import Redactor

from freezeframe_redaction.keys import KeyRing
from freezeframe_schemas.span import SpanRecord


class RedactStage:
    """One redactor per tenant, made when its first span comes."""

    def __init__(self, policy: Policy, keys: KeyRing) -> None:
        self._policy = policy
        self._keys = keys
        self._redactors: dict[str, Redactor] = {}
        self._lock = threading.Lock()

    def __call__(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Return the span with every finding replaced.

        Raises:
            FreezeframeError: the span cannot be redacted.
        """
        redactor = self._redactors.get(tenant)
        if redactor is None:
            with self._lock:
                redactor = self._redactors.get(tenant) or Redactor(self._policy, self._keys.current(tenant or "default"))
                self._redactors[tenant] = redactor
        return redactor.redact_span(span)
