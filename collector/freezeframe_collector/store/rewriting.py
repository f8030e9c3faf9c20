"""Replace the stored spans of a run that was redacted again, under a newer policy.

The spans come in a file, which survives any failure here: between deleting and inserting, it is the run's only
copy. A rewrite that stopped midway is repeated with the same file.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from freezeframe_collector.store.deleting import RUN_TABLES, begin_deletion, delete_rows, of_runs, wait_deleted, write_audit
from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.store import Store
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, WireError
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import run_parts, spans_from_blocks, tenant_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """Result of a rewrite."""

    spans: int
    policy: str


def rewrite(store: Store, trace_id: str, file: Path, *, note: str = "") -> Rewritten:
    """Replace every stored span of the run by those in the file, one line of OTLP/JSON; pins stay.

    Raises:
        ConfigError: the file holds anything other than this run, redacted, or fewer spans than the store.
        PermanentStoreError: the spans were not all found afterwards.
    """
    spans = _read(file, trace_id)
    _, held = store.query(
        f"SELECT DISTINCT tenant, span_id FROM {store.database}.span_rows WHERE trace_id = {{trace_id:String}}",
        {"trace_id": trace_id},
    )
    missing = {str(span_id) for _, span_id in held} - {span.span_id for span in spans}
    if missing:
        raise ConfigError(
            f"{file}: {len(missing)} spans of the stored run are not in it", do="redact the run again: it has grown"
        )
    replace_runs(store, spans, {(str(tenant), trace_id) for tenant, _ in held}, again=f"give {file} again")
    policy = spans[0].text(genai.REDACTION_POLICY) or ""
    write_audit(store, "redact_run", trace_id, len(spans), f"{policy} {note}".strip())
    return Rewritten(spans=len(spans), policy=policy)


def replace_runs(store: Store, spans: Sequence[SpanRecord], held: Collection[tuple[str, str]] = (), *, again: str) -> None:
    """Replace all stored spans of these runs by the given ones. Durable; after a stop midway only the caller has them.

    `held` are further places (tenant, run) with rows of these runs; `again` is the advice if this fails.

    Raises:
        PermanentStoreError: the store does not have exactly these spans afterwards.
    """
    begin_replacing(store, spans, held)
    finish_replacing(store, spans, again=again)


def begin_replacing(store: Store, spans: Sequence[SpanRecord], held: Collection[tuple[str, str]] = ()) -> None:
    """Put the spans in the store, visible to readers at once, while the old ones are still being deleted.

    No other spans of these runs may be inserted meanwhile.
    """
    conditions = of_runs(sorted({(tenant_of(span), span.trace_id) for span in spans} | {*held}))
    if store.cluster is None:
        begin_deletion(store, conditions)
    else:  # the progress of the other nodes cannot be seen from here
        delete_rows(store, conditions, RUN_TABLES)
    store.insert(spans, token=f"rewrite/{time.time_ns()}")  # start over: what an earlier try inserted is gone


def finish_replacing(store: Store, spans: Sequence[SpanRecord], *, again: str) -> None:
    """Wait until the replaced spans are deleted; raises as `replace_runs`."""
    if store.cluster is None:
        wait_deleted(store)
    sought = {(span.trace_id, span.span_id) for span in spans}
    found: list[tuple[str, str]] = []
    for condition in of_runs(sorted({(tenant_of(span), span.trace_id) for span in spans})):
        _, rows = store.query(f"SELECT trace_id, span_id FROM {store.database}.span_rows WHERE {condition}")
        found += [(str(trace_id), str(span_id)) for trace_id, span_id in rows]
    if missing := sought.difference(found):
        raise PermanentStoreError(f"run {min(missing)[0]}: some of its spans are missing after rewriting", do=again)


def _read(file: Path, trace_id: str) -> list[SpanRecord]:
    try:
        spans = spans_from_otlp_json(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, WireError) as error:
        raise ConfigError(f"{file}: cannot be read as a line of OTLP/JSON ({type(error).__name__})") from None
    if not spans or any(span.trace_id != trace_id for span in spans):
        raise ConfigError(f"{file}: found other spans than those of run {trace_id}, or none")
    if any(not span.text(genai.REDACTION_POLICY) for span in spans):
        raise ConfigError(f"{file}: found spans that no redaction policy was applied to", do="redact them first")
    return spans


def load_runs(store: Store, trace_ids: Sequence[str]) -> list[SpanRecord]:
    """Return all spans of some runs, exactly as stored, by start; none of a missing run.

    Raises:
        WireError: the stored run is damaged.
        StoreError: the store does not answer.
    """
    runs = f"trace_id IN ({', '.join(map(quote_text, trace_ids))})"
    place = f"(tenant, run_hour) IN (SELECT tenant, run_hour FROM run_rows WHERE {runs}) AND {runs}"
    parts = [re.sub(r"\b(\w+_rows)\b", rf"{store.database}.\1", part) for part in run_parts(place)]
    parts[0] = parts[0].replace(" PREWHERE ", " FINAL PREWHERE ", 1)
    return spans_from_blocks(b"".join(block for part in parts for block in store.engine.blocks(part)))
