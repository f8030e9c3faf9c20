"""A ClickHouse server that may be down when the collector starts: opened by the writer, again and again, until it answers.

Senders are served from the log meanwhile. (The embedded store is opened at the start: if that fails, it will not heal.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from freezeframe_collector.store import Rejected, Store, open_store
from freezeframe_collector.store.tiers import ColdTier
from freezeframe_schemas.errors import FreezeframeError, RetryableStoreError
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)


class LateStore:
    """The writer's view of a store on a server that is opened on first use. Used by one thread at a time."""

    def __init__(self, dsn: str, *, policies: Mapping[str, str] = MappingProxyType({}), cold: ColdTier | None = None) -> None:
        """`policies` and `cold`: as `open_store` takes them."""
        self._dsn = dsn
        self._policies = policies
        self._cold = cold
        self._store: Store | None = None

    def insert(self, spans: Sequence[SpanRecord], token: str) -> None:
        """Store the spans.

        Raises:
            RetryableStoreError: the server is down, or its schema is not (yet) one that this version can write to.
            PermanentStoreError: these spans cannot be stored.
        """
        self.opened().insert(spans, token)

    def insert_rejected(self, rejected: Sequence[Rejected], token: str) -> None:
        """Store the reasons of rejected spans; raises as `insert`."""
        self.opened().insert_rejected(rejected, token)

    def holds(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether the store has these spans; raises as `insert`."""
        return self.opened().holds(spans)

    def close(self) -> None:
        """Close the connection if there is one."""
        if self._store is not None:
            self._store.close()

    def opened(self) -> Store:
        """Return the store, opened if it was not; raises a RetryableStoreError as long as it cannot be."""
        if self._store is None:
            try:
                store = open_store(self._dsn, policies=self._policies, cold=self._cold)
                store.migrate()
            except FreezeframeError as error:
                # Whatever keeps the store from opening is not the fault of a span, so no span may be set aside for it.
                raise RetryableStoreError(f"the store cannot be opened: {error.message}") from error
            self._store = store
            _LOG.info("the store is open")
        return self._store
