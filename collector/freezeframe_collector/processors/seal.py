"""Keeps the originals of surrogates in the vault, under their run. Off by default.

Fails closed: a span whose originals cannot be sealed is refused like one that cannot be redacted.
"""

from __future__ import annotations

from typing import Final

from freezeframe_redaction.keyring.vault import Vault
from freezeframe_redaction.redactor import Redactor
from freezeframe_redaction.surrogates.known import surrogates_of
from freezeframe_schemas.errors import RunError
from freezeframe_schemas.span import SpanRecord

_MAX_REMEMBERED: Final = 200_000


class Sealer:
    """Seals the originals of redacted spans. Safe to share between threads; processes share the vault's file."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._sealed: set[tuple[str, str, str]] = set()

    def seal(self, span: SpanRecord, tenant: str, redactor: Redactor) -> None:
        """Seal the originals of the span's surrogates. A surrogate that arrived as one has no original here.

        Raises:
            PermanentStoreError: the vault cannot be written.
        """
        listed = surrogates_of([span])
        run = span.trace_id
        fresh = [surrogate for surrogate in listed if (tenant, run, surrogate) not in self._sealed]
        if not fresh:
            return
        made = redactor.originals_of(fresh)
        try:
            if originals := {surrogate: original for surrogate, original in made.items() if original is not None}:
                self._vault.seal(tenant, run, originals)
            # Texts that were redacted long ago are recalled whole: what they held is sealed for another run.
            if older := [surrogate for surrogate in fresh if surrogate not in made]:
                self._vault.seal_again(tenant, run, older)
        except RunError:
            return  # this run was forgotten: nothing of it is kept again
        if len(self._sealed) > _MAX_REMEMBERED:
            self._sealed = set()
        self._sealed.update((tenant, run, surrogate) for surrogate in fresh)
