"""Replacing the stored spans of a run: one that was redacted again, under a newer policy.

The spans come in a file, which outlives whatever happens here: between deleting and inserting, it is all there is of the run. A
rewrite that stopped midway is repeated with the same file.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from freezeframe_collector.store.deleting import RUN_TABLES, delete_rows, of_runs, write_audit
from freezeframe_collector.store.store import Store
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, WireError
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.span import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a rewrite put in place."""

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
    tenants = {str(tenant) for tenant, _ in held} or {spans[0].text(genai.TENANT) or ""}
    delete_rows(store, of_runs([(tenant, trace_id) for tenant in sorted(tenants)]), RUN_TABLES)
    store.insert(spans, token=f"rewrite/{trace_id}/{time.time_ns()}")  # anew: what an earlier try put in is gone
    _, counted = store.query(
        f"SELECT uniqExact(span_id) FROM {store.database}.span_rows WHERE trace_id = {{trace_id:String}}",
        {"trace_id": trace_id},
    )
    if counted[0][0] != len({span.span_id for span in spans}):
        raise PermanentStoreError(f"run {trace_id}: some of its spans are missing after rewriting", do=f"give {file} again")
    policy = spans[0].text(genai.REDACTION_POLICY) or ""
    write_audit(store, "redact_run", trace_id, len(spans), f"{policy} {note}".strip())
    return Rewritten(spans=len(spans), policy=policy)


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
