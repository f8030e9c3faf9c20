"""Count what a stored span costs the collector, and what a run by id costs the store and its client.

python tests/costs/collector_costs.py      prints the counts as one JSON object
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]

from collector_load import Load, Texts, make_requests  # noqa: E402 - found by the line above
from counting import counted  # noqa: E402

from freezeframe_collector.batch import encode_spans  # noqa: E402
from freezeframe_collector.facade.own_statements import RequestedRun, answer  # noqa: E402
from freezeframe_collector.processors.redact import RedactStage  # noqa: E402
from freezeframe_collector.settings.policies import Policies  # noqa: E402
from freezeframe_collector.store import Store, open_store  # noqa: E402
from freezeframe_collector.wal.format import (  # noqa: E402
    Counts,
    Extent,
    frame,
)
from freezeframe_redaction.keyring.keys import KeyRing, TenantKey  # noqa: E402
from freezeframe_redaction.policies.policy import load_policy  # noqa: E402
from freezeframe_schemas.otlp.decode import Limits, decode_traces  # noqa: E402
from freezeframe_schemas.run import build_run  # noqa: E402
from freezeframe_schemas.span import SpanRecord  # noqa: E402
from freezeframe_schemas.tables import (  # noqa: E402
    CutMemory,
    rows_from_spans,
    spans_from_blocks,
)
from freezeframe_schemas.vendors.normalise import normalise  # noqa: E402

LOADS: Final = (
    Load(name="1KB", span_bytes=1_000, spans_per_request=20, requests=1),
    Load(name="9KB", span_bytes=9_000, spans_per_request=10, requests=1),
    Load(name="200KB", span_bytes=200_000, spans_per_request=2, requests=1),
)
OF_THE_ENGINE: Final = {
    "Query": "statements",
    "SelectedRows": "rows_read",
    "SelectedBytes": "bytes_read",
    "SelectedMarks": "marks_read",
    "InsertedRows": "rows_written",
    "InsertedBytes": "bytes_written",
}
"""Event of ``system.events`` -> figure."""


def main() -> None:
    """Print the counts."""
    found: dict[str, dict[str, int]] = {}
    texts = Texts(seed=7)
    memory = CutMemory()
    with tempfile.TemporaryDirectory() as folder:
        keys = KeyRing(directory=Path(folder), keys=(TenantKey(id="default/1", secret=bytes(32)),))
        for policy in ("off", "strict"):
            redact = RedactStage(Policies(default=load_policy(policy)), keys)
            for load in LOADS:
                _send(make_requests(load, texts)[0], redact, memory)
                # Once by calls and once by instructions: a span that was seen before costs less.
                bodies = iter([make_requests(load, texts)[0] for _ in range(2)])
                figures = counted(partial(_send_next, bodies, redact, memory), rounds=1)
                per_span = {name: round(number / load.spans_per_request) for name, number in figures.items()}
                found[f"collector.{policy}.{load.name}"] = per_span
        store = open_store(f"chdb://{Path(folder, 'store')}")
        store.migrate()
        found |= _of_the_store(store, texts)
        store.close()
    print(json.dumps(found))


def _send_next(bodies: Iterator[bytes], redact: RedactStage, memory: CutMemory) -> None:
    _send(next(bodies), redact, memory)


def _send(body: bytes, redact: RedactStage, memory: CutMemory) -> None:
    """Carry a request to where the disk and the engine take over."""
    spans = [redact(normalise(span), "") for span in decode_traces(body, Limits()).spans]
    encoded = encode_spans(spans)
    b"".join(frame(bytes(8), Extent(), Counts(received=len(encoded)), (), encoded))
    rows = rows_from_spans(spans, memory=memory)
    rows.payloads.encode()
    rows.spans.encode()


def _of_the_store(store: Store, texts: Texts) -> dict[str, dict[str, int]]:
    """Return the counts of inserting a group of spans, and of loading a run by its id."""
    spans: list[SpanRecord] = []

    def insert() -> None:
        load = Load(name="", span_bytes=2_000, spans_per_request=100, requests=1)
        batch = decode_traces(make_requests(load, texts)[0], Limits()).spans
        store.insert(batch, f"group-{len(spans)}")
        spans.extend(batch)

    insert()
    store.engine.command(f"SYSTEM STOP MERGES {store.database}.span_rows")
    found = {"store.insert of 100 spans": _of_the_engine(store, insert)}
    trace_id = spans[150].trace_id
    run = RequestedRun(trace_id=trace_id, tenant=None)
    with ThreadPoolExecutor(1) as beside:

        def load() -> list[SpanRecord]:
            pieces = [piece for piece in answer(store.engine, store.database, run, beside) if isinstance(piece, bytes)]
            return list(build_run(spans_from_blocks(b"".join(pieces))).spans)

        assert {span.span_id for span in load()} == {span.span_id for span in spans if span.trace_id == trace_id}
        found["store.run by id"] = {**_of_the_engine(store, load), **counted(load)}
    found["store.insert of 100 spans"] |= counted(insert, rounds=1)
    return found


def _of_the_engine(store: Store, act: Callable[[], object]) -> dict[str, int]:
    """Return what the engine counted while the act ran; the statement that asks for the counts is not in them."""
    sql = f"SELECT event, value FROM system.events WHERE event IN ({', '.join(map(repr, OF_THE_ENGINE))})"

    def events() -> dict[str, int]:
        return {str(event): int(value) for event, value in store.query(sql)[1]}

    before, middle = events(), events()
    act()
    after = events()
    return {name: after[event] - 2 * middle[event] + before[event] for event, name in OF_THE_ENGINE.items()}


if __name__ == "__main__":
    main()
