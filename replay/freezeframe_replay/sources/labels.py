"""Labels and notes of runs and steps, from the store's table `labels`. They are few, so all are kept in memory."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas.errors import PermanentStoreError, StoreError

_FRESH_S: Final = 20.0
"""Time after which labels are read again: one written elsewhere shows up after that."""
_LABELS: Final = """
    SELECT trace_id, span_id, label, note, author, applied_at FROM labels FINAL
    WHERE label != '' OR note != '' ORDER BY applied_at DESC LIMIT 20000
"""

Read = Callable[[RunStore], Mapping[str, Mapping[str, "Label"]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A reader's label of a run or a step."""

    label: str
    """``good``, ``bad`` or any other word; may be empty if there is a note."""
    note: str
    author: str
    time: dt.datetime


class Labels:
    """The newest labels of a store. Only the first look, and the first after `forget`, wait for the store."""

    def __init__(self, use: Callable[[Read], Mapping[str, Mapping[str, Label]]]) -> None:
        self._use = use
        self._lock = threading.Lock()
        self._known: Mapping[str, Mapping[str, Label]] | None = None
        self._until = 0.0

    def of_run(self, trace_id: str) -> Mapping[str, Label]:
        """Return span id -> label; the run's own under the empty id.

        Raises:
            RetryableStoreError: the store does not answer.
        """
        return self._look().get(trace_id, {})

    def _look(self) -> Mapping[str, Mapping[str, Label]]:
        with self._lock:
            known, is_due = self._known, time.monotonic() > self._until
            if is_due:
                self._until = time.monotonic() + _FRESH_S
        if known is None:
            known = self._read()
        elif is_due:
            threading.Thread(target=self._read_again, daemon=True).start()
        return known

    def of_runs(self) -> Mapping[str, Label]:
        """Return trace id -> label, for each run that has a label itself; raises as `of_run` does."""
        return {trace_id: found[""] for trace_id, found in self._look().items() if "" in found}

    def forget(self) -> None:
        """Read them again at the next look."""
        with self._lock:
            self._known, self._until = None, 0.0

    def _read(self) -> Mapping[str, Mapping[str, Label]]:
        known = self._use(_read)
        with self._lock:
            self._known, self._until = known, time.monotonic() + _FRESH_S
        return known

    def _read_again(self) -> None:
        try:
            self._read()
        except StoreError:  # what is known stays; the page itself says that the store does not answer
            return


def _read(store: RunStore) -> Mapping[str, Mapping[str, Label]]:
    """Return trace id -> span id -> label; nothing from a store of a version before labels."""
    try:
        _, rows = store.sql(_LABELS)
    except PermanentStoreError:
        return {}
    found: dict[str, dict[str, Label]] = {}
    for trace_id, span_id, label, note, author, applied_at in rows:
        found.setdefault(str(trace_id), {})[str(span_id)] = Label(label=label, note=note, author=author, time=applied_at)
    return found
