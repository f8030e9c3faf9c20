"""Rewrites the stored spans of a run with its whole cast, under the key and the policy that each span went through."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from freezeframe_collector.casts.found import RunKey
from freezeframe_collector.casts.sealing import Seal
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.processors.seal import Sealer
from freezeframe_collector.settings.policies import Policies
from freezeframe_redaction.casts.book import texts_of
from freezeframe_redaction.keyring.keys import KeyRing
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord


class Rewriter:
    """Rewrites runs. Used by one thread at a time."""

    def __init__(
        self,
        keys: KeyRing,
        policies: Callable[[], Policies],
        sealer: Sealer | None = None,
        *,
        stage: Callable[[], RedactStage | None] = lambda: None,
    ) -> None:
        """`policies` are those in force; `sealer` keeps the originals of the replaced values.

        The redactors of `stage` are used if the key is the newest; others are built when a run needs them,
        which takes seconds.
        """
        self._stage = stage
        self._keys = keys
        self._seal = Seal(keys)
        self._policies = policies
        self._sealer = sealer
        self._redactors: dict[tuple[str, str, str], Redactor] = {}

    def rewrite(self, run: RunKey, sealed: Sequence[bytes], spans: Sequence[SpanRecord]) -> list[SpanRecord]:
        """Return the spans of a run in the same order, the same objects where nothing was left to replace.

        Raises:
            StoreError: the key that sealed the run's cast is gone.
        """
        tenant = run[0] or "default"
        own = [span for span in spans if _key_tenant(span) == tenant]
        cast = self._seal.open(run, sealed).weighed(text for span in own for text in texts_of(span))
        made = list(spans)
        for index, span in enumerate(spans):
            if _key_tenant(span) == tenant:
                redactor = self._redactor(tenant, _key_id(span))
                made[index] = redactor.rewrite(span, cast)
                if made[index] is not span and self._sealer is not None:
                    self._sealer.seal(made[index], tenant, redactor)
        return made

    def _redactor(self, tenant: str, key_id: str) -> Redactor:
        stage = self._stage()
        if stage is not None and key_id == self._keys.current(tenant).id:
            return stage.redactor_of("" if tenant == "default" else tenant)
        policy = self._policies().of(tenant)
        place = (tenant, key_id, policy.label)
        redactor = self._redactors.get(place)
        if redactor is None:
            key = self._keys.by_id(key_id) or self._keys.current(tenant)
            redactor = Redactor(policy, key, hot=True, keep_originals=self._sealer is not None)
            self._redactors[place] = redactor
        return redactor


def _key_id(span: SpanRecord) -> str:
    return (span.text(genai.REDACTION_KEY_ID) or "").rpartition(",")[2]


def _key_tenant(span: SpanRecord) -> str:
    """Return the tenant whose key redacted the span: its own tenant attribute proves nothing if senders need no token."""
    return _key_id(span).rpartition("/")[0]
