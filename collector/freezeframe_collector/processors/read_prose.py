"""The model tier of redaction, between the log and the store: reads prose for names that rules do not see, before the commit.

Requests are answered before that, after the rules; a slow model only makes the log longer. Fails closed: a
span that cannot be read is refused, and set aside like any that the store refuses. Off unless a policy says ``model_tier =
true``.
"""

from __future__ import annotations

from collections.abc import Sequence

from freezeframe_collector.processors.seal import Sealer
from freezeframe_collector.settings.policies import Policies
from freezeframe_collector.store import Rejected
from freezeframe_collector.writer import SpanSink
from freezeframe_redaction.keyring.keys import KeyRing
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas import genai
from freezeframe_schemas.errors import PermanentStoreError
from freezeframe_schemas.span import SpanRecord


class ProseReader:
    """A sink that redacts spans once more, with the model, before the next sink.

    The same spans give the same result, so a repeated insert is the same insert.
    """

    def __init__(self, sink: SpanSink, policies: Policies, keys: KeyRing, sealer: Sealer | None = None) -> None:
        """Load the model if a policy asks for it; `sealer` keeps the originals.

        Raises:
            ConfigError: it is not installed.
        """
        self._sink = sink
        self._policies = policies
        self._keys = keys
        self._sealer = sealer
        self._redactors: dict[str, Redactor | None] = {}
        for tenant in ("default", *policies.tenants):
            self._redactor(tenant)

    def insert(self, spans: Sequence[SpanRecord], token: str) -> None:
        """Read the spans and store them.

        Raises:
            PermanentStoreError: a span cannot be read; the message names it, without its content.
        """
        self._sink.insert([self._read(span) for span in spans], token)

    def insert_rejected(self, rejected: Sequence[Rejected], token: str) -> None:
        """Store the reasons of rejected spans."""
        self._sink.insert_rejected(rejected, token)

    def holds(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether the store has these spans."""
        return self._sink.holds(spans)

    def _read(self, span: SpanRecord) -> SpanRecord:
        if not span.text(genai.REDACTION_POLICY):
            return span  # about the collector itself, which holds no one's prose
        try:
            tenant = _tenant(span)
            redactor = self._redactor(tenant)
            if redactor is None:
                return span
            redacted = redactor.redact_span(span)
            if self._sealer is not None:
                self._sealer.seal(redacted, tenant, redactor)
            return redacted
        except Exception as error:
            raise PermanentStoreError(
                f"span {span.span_id}: cannot be read by the model tier of redaction ({type(error).__name__})"
            ) from None

    def _redactor(self, tenant: str) -> Redactor | None:
        """Return the redactor for this tenant's prose, None if its policy does not use the model."""
        if tenant not in self._redactors:
            policy = self._policies.of(tenant)
            reads = policy.model_tier and policy.redacts
            self._redactors[tenant] = (
                Redactor(policy, self._keys.current(tenant), keep_originals=self._sealer is not None) if reads else None
            )
        return self._redactors[tenant]


def _tenant(span: SpanRecord) -> str:
    """Return the tenant whose key the rules used: if senders need no token, a span's own tenant attribute proves nothing."""
    return (span.text(genai.REDACTION_KEY_ID) or "").rpartition(",")[2].rpartition("/")[0] or "default"
