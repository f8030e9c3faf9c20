"""The redaction stage: each tenant's spans through its policy, with its own key. Fails closed: see `Stage`.

The model tier, if the policy asks for it, comes later: see `read_prose`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from freezeframe_collector.casts.found import Found, RunKey, ends_run
from freezeframe_collector.casts.known import KnownCast, KnownCasts
from freezeframe_collector.processors.seal import Sealer
from freezeframe_collector.settings.policies import Policies
from freezeframe_redaction.casts.book import NOTHING, Cast
from freezeframe_redaction.deadline import UNBOUNDED, Allowance
from freezeframe_redaction.keyring.keys import KeyRing
from freezeframe_redaction.policies.plugins import DetectorFailedError
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)

_LONG: Final = 2_000
"""Characters of a text that a later span of the request may repeat."""
_WARM_UP: Final = SpanRecord(
    trace_id="1" * 32,
    span_id="1" * 16,
    name="warm up",
    start_time_unix_nano=0,
    end_time_unix_nano=0,
    attributes={"text": "call Jane Roe on +1 415 555 0100"},
)


class RedactStage:
    """One redactor per tenant.

    Patterns are compiled at the start, so that no request waits for that; most tenants cost only a key.
    """

    def __init__(
        self,
        policies: Policies,
        keys: KeyRing,
        sealer: Sealer | None = None,
        *,
        casts: KnownCasts | None = None,
        span_cpu_s: float = math.inf,
        request_cpu_s: float = math.inf,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`sealer` keeps the originals; `casts` are those of open runs, None to redact each span by itself.

        For `request_cpu_s` see `begin`; for the others see `Redactor`.
        """
        self._request_cpu_s = request_cpu_s
        self._span_cpu_s = span_cpu_s
        self._cpu_clock = cpu_clock
        self.policies = policies
        self.casts = casts
        self._sealer = sealer
        self._keys = keys
        self._redactors: dict[str, Redactor] = {}
        self._lock = threading.Lock()
        self.on_collisions: Callable[[int], None] = lambda count: None
        """Called with the number of further values that share a surrogate."""
        self.on_unread: Callable[[], None] = lambda: None
        """Called for each span that was not read as a whole."""
        self.on_detector_failure: Callable[[], None] = lambda: None
        """Called for each span that a detector behind HTTP did not read."""
        for tenant in ("", *policies.tenants):
            self.redactor_of(tenant).redact_span(_WARM_UP)

    def begin(self) -> RequestRedaction:
        """Return the stage for one request: once it took `request_cpu_s`, all texts of its other spans become keyed hashes."""
        return RequestRedaction(self, Allowance(self._request_cpu_s, self._cpu_clock))

    def __call__(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Return the span with every finding replaced, by itself.

        Raises:
            FreezeframeError: the span cannot be redacted.
        """
        return self.redact(span, tenant, UNBOUNDED, None)[0]

    def redact(self, span: SpanRecord, tenant: str, allowance: Allowance, cast: Cast | None) -> tuple[SpanRecord, Cast]:
        """Return the span with every finding replaced, and the cast of its run with the findings; no cast, none is kept.

        Raises:
            FreezeframeError: the span cannot be redacted.
        """
        redactor = self.redactor_of(tenant)
        before = redactor.collisions
        was_over = allowance.to_read.has_passed()
        if cast is None:
            redacted, cast = redactor.redact_span(span, allowance), NOTHING
        else:
            redacted, cast = redactor.redact_in_run(span, cast, allowance)
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
            if not was_over and not (redacted.text(genai.REDACTION_UNREAD) or "").startswith("detector "):
                _LOG.warning(
                    "span %s: redaction took over %g s of CPU time; its longest texts are stored as keyed hashes"
                    " (redaction.span_cpu_s)",
                    span.span_id,
                    self._span_cpu_s,
                )
            self.on_unread()
        self.seal(redacted, tenant)
        return redacted, cast

    def _detector_failed(self, failed: DetectorFailedError) -> None:
        if failed.is_first:
            done = "go on without it" if failed.keeps else "are stored as keyed hashes"
            _LOG.warning("%s; it is not asked for a while, and the spans that it would read %s", failed.message, done)
        self.on_detector_failure()

    def seal(self, span: SpanRecord, tenant: str) -> None:
        """Keep the originals of the span's surrogates, if the vault is on."""
        if self._sealer is not None:
            self._sealer.seal(span, tenant or "default", self.redactor_of(tenant))

    def redactor_of(self, tenant: str) -> Redactor:
        """Return the tenant's redactor."""
        redactor = self._redactors.get(tenant)
        if redactor is not None:
            return redactor
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
                    on_failure=self._detector_failed,
                )
                self._redactors[tenant] = redactor
            return redactor


class RequestRedaction:
    """The stage for one request: a value found in one of its spans is replaced in all of them, and in the run's later spans."""

    def __init__(self, stage: RedactStage, allowance: Allowance) -> None:
        self._stage = stage
        self._allowance = allowance
        self._runs: dict[RunKey, _RunOfRequest] = {}

    def __call__(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Return the span with every value known so far replaced.

        Raises:
            FreezeframeError: the span cannot be redacted.
        """
        casts = self._stage.casts
        if casts is None or not self._stage.policies.of(tenant).redacts:
            return self._stage.redact(span, tenant, self._allowance, None)[0]
        key = (tenant, span.trace_id)
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _RunOfRequest(casts.of(key))
        redacted, run.cast = self._stage.redact(span, tenant, self._allowance, run.cast)
        run.ended |= ends_run(span)
        run.spans.append((span, run.cast))
        for name, value in redacted.attributes.items():
            if isinstance(value, str) and len(value) >= _LONG:
                run.searched[name] = value, run.cast
        return redacted

    def finish(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Return a span of the request, now that all are read, with the findings in later ones. Pass them in the same order.

        Raises:
            FreezeframeError: the span cannot be redacted.
        """
        run = self._runs.get((tenant, span.trace_id))
        if run is None:
            return span
        original, since = run.spans.popleft()
        if since is run.cast or genai.REDACTION_UNREAD in span.attributes:
            return span
        redactor = self._stage.redactor_of(tenant)
        searched = {name: text for name, (text, cast) in run.searched.items() if cast is run.cast}
        if not redactor.may_hold(span, run.cast, since, searched):
            return span
        # What the span holds is remembered: to read it again costs less than to search its result for forms.
        again, run.cast = redactor.redact_in_run(original, run.cast)
        self._stage.seal(again, tenant)
        return again

    def found(self) -> tuple[Found, ...]:
        """Return the values found in each run of the request, sealed."""
        casts = self._stage.casts
        if casts is None:
            return ()
        return tuple(
            Found(
                tenant=key[0],
                trace_id=key[1],
                based_on=run.known.number,
                sealed=b"" if run.cast is run.known.cast else casts.close(key, run.known, run.cast),
                ended=run.ended,
                waits=run.cast.waits,
            )
            for key, run in self._runs.items()
        )


class _RunOfRequest:
    __slots__ = ("cast", "ended", "known", "searched", "spans")

    def __init__(self, known: KnownCast) -> None:
        self.known = known
        self.cast = known.cast
        self.spans = deque[tuple[SpanRecord, Cast]]()
        """Each of its spans, and the cast after it."""
        self.searched = dict[str, tuple[str, Cast]]()
        """Attribute -> its latest long text, redacted, and the cast already searched for in it: later histories repeat it."""
        self.ended = False
