"""Reading stored runs back as spans, for the collector itself: what a settled run's spans are rewritten from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.store import Store
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import run_parts, spans_from_blocks


def load_runs(store: Store, trace_ids: Sequence[str]) -> list[SpanRecord]:
    """Return all spans of some runs, exactly as stored, by start; none of a run that is not there.

    Raises:
        WireError: the stored run is damaged.
        StoreError: the store does not answer.
    """
    runs = f"trace_id IN ({', '.join(map(quote_text, trace_ids))})"
    place = f"(tenant, run_hour) IN (SELECT tenant, run_hour FROM run_rows WHERE {runs}) AND {runs}"
    parts = [re.sub(r"\b(\w+_rows)\b", rf"{store.database}.\1", part) for part in run_parts(place)]
    parts[0] = parts[0].replace(" PREWHERE ", " FINAL PREWHERE ", 1)
    return spans_from_blocks(b"".join(block for part in parts for block in store.engine.blocks(part)))
