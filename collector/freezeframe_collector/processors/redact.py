"""The redaction stage: each tenant's spans through its policy, with its own key. Fails closed: see `Stage`.

The model tier, if the policy asks for it, comes later: see `read_prose`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from freezeframe_collector.policies import Policies
from freezeframe_collector.processors.seal import Sealer
from freezeframe_redaction.deadline import UNBOUNDED, Allowance
from freezeframe_redaction.keys import KeyRing
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)

_WARM_UP: Final = SpanRecord(
    trace_id="1" * 32,
    span_id="1" * 16,
    name="warm up",
    start_time_unix_nano=0,
    end_time_unix_nano=0,
    attributes={"text": "call Jane Roe on +1 415 555 0100"},
)


class RedactStage:
    """One redactor per tenant. Patterns are compiled at once, so that no request waits for it; most tenants cost only a key."""

    def __init__(
        self,
        policies: Policies,
        keys: KeyRing,
        sealer: Sealer | None = None,
        *,
        span_cpu_s: float = math.inf,
        request_cpu_s: float = math.inf,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`sealer` keeps the originals. For `request_cpu_s` see `begin`; for the others see `Redactor`."""
        self._request_cpu_s = request_cpu_s
        self._span_cpu_s = span_cpu_s
        self._cpu_clock = cpu_clock
        self.policies = policies
        self._sealer = sealer
        self._keys = keys
        self._redactors: dict[str, Redactor] = {}
        self._lock = threading.Lock()
        self.on_collisions: Callable[[int], None] = lambda count: None
        """Called with the number of further values that share a surrogate."""
        self.on_unread: Callable[[], None] = lambda: None
        """Called for each span that was not read as a whole."""
        for tenant in ("", *policies.tenants):
            self._redactor_of(tenant).redact_span(_WARM_UP)

    def begin(self) -> Callable[[SpanRecord, str], SpanRecord]:
        """Return the stage for one request: once it took `request_cpu_s`, all texts of its other spans become keyed hashes."""
        return partial(self, allowance=Allowance(self._request_cpu_s, self._cpu_clock))

    def __call__(self, span: SpanRecord, tenant: str, allowance: Allowance = UNBOUNDED) -> SpanRecord:
        """Return the span with every finding replaced.

        Raises:
            FreezeframeError: the span cannot be redacted.
        """
        redactor = self._redactors.get(tenant) or self._redactor_of(tenant)
        before = redactor.collisions
        was_over = allowance.to_read.has_passed()
        redacted = redactor.redact_span(span, allowance)
        if not was_over and allowance.to_read.has_passed():
            _LOG.warning(
                "span %s: with it, redaction of its request took over %g s of CPU time; all texts of the spans after it are"
                " stored as keyed hashes (redaction.request_cpu_s)",
                span.span_id,
                self._request_cpu_s,
            )
        if redactor.collisions > before:
            self.on_collisions(redactor.collisions - before)
        if genai.REDACTION_UNREAD in redacted.attributes and genai.REDACTION_UNREAD not in span.attributes:
            if not was_over:
                _LOG.warning(
                    "span %s: redaction took over %g s of CPU time; its longest texts are stored as keyed hashes"
                    " (redaction.span_cpu_s)",
                    span.span_id,
                    self._span_cpu_s,
                )
            self.on_unread()
        if self._sealer is not None:
            self._sealer.seal(redacted, tenant or "default", redactor)
        return redacted

    def _redactor_of(self, tenant: str) -> Redactor:
        with self._lock:
            redactor = self._redactors.get(tenant)
            if redactor is None:
                redactor = Redactor(
                    self.policies.of(tenant),
                    self._keys.current(tenant or "default"),
                    hot=True,
                    keep_originals=self._sealer is not None,
                    span_cpu_s=self._span_cpu_s,
                    cpu_clock=self._cpu_clock,
                )
                self._redactors[tenant] = redactor
            return redactor
