"""Labels and notes of a run and its steps, as the store's table `labels` has them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas.errors import PermanentStoreError

_LABELS: Final = """
    SELECT span_id, label, note, author, applied_at FROM labels FINAL
    WHERE trace_id = {run:String} AND (label != '' OR note != '') ORDER BY applied_at LIMIT 1000
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What somebody says of a run or a step."""

    label: str
    """``good``, ``bad`` or any other word; may be empty if there is a note."""
    note: str
    author: str
    time: dt.datetime


def labels_of(store: RunStore, trace_id: str) -> dict[str, Label]:
    """Return span id -> label; the run's own under the empty id. None in a store of a version before labels.

    Raises:
        RetryableStoreError: the store does not answer.
    """
    try:
        _, rows = store.sql(_LABELS, {"run": trace_id})
    except PermanentStoreError:
        return {}
    return {str(row[0]): Label(label=row[1], note=row[2], author=row[3], time=row[4]) for row in rows}
