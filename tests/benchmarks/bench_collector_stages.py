"""Where the time of a span goes on its way through the collector, stage by stage; the last line is one JSON object.

    python tests/benchmarks/bench_collector_stages.py [--policy strict] [--rounds 7]

One process, one thread, the embedded store, no sockets: what HTTP, threads and the disk's syncs add is `bench_collector`'s to
tell. Each figure is the least CPU time of several rounds, each of new spans, so that it can be had on a busy machine too. Of an
insert it is that of the whole process, since the engine works in threads of its own; merges fall into it or beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from collector_load import LOADS, Load, Texts, make_requests

from freezeframe_collector.batch import encode_spans
from freezeframe_collector.memory import collect_rarely
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.settings.policies import Policies
from freezeframe_collector.store import Store, open_store
from freezeframe_collector.wal.format import Counts, Extent, frame
from freezeframe_redaction.keyring.keys import load_or_create_keys
from freezeframe_redaction.policies.policy import load_policy
from freezeframe_schemas.otlp.decode import Limits, decode_traces
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import CutMemory, rows_from_spans
from freezeframe_schemas.vendors.normalise import normalise

STAGES = (
    "decode",
    "normalise",
    "redact",
    "encode",
    "frame for the log",
    "make rows",
    "make blocks",
    "insert pieces",
    "insert spans",
)
SPANS = {200: 3_000, 50: 1_500, 5: 200}
"""Spans of a round, by the spans of a request."""
Clock = Callable[[], float]


class Stopwatch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def time(self, stage: str, clock: Clock = time.thread_time) -> Generator[None]:
        """Add what the block takes to the stage."""
        before = clock()
        yield
        self.seconds[stage] += clock() - before


def run_round(bodies: list[bytes], redact: RedactStage, store: Store, memory: CutMemory, token: str) -> dict[str, float]:
    """Carry the requests from their bytes into the store; return the seconds of each stage."""
    watch = Stopwatch()
    spans: list[SpanRecord] = []
    for body in bodies:
        with watch.time("decode"):
            read = decode_traces(body, Limits()).spans
        with watch.time("normalise"):
            read = [normalise(span) for span in read]
        with watch.time("redact"):
            read = [redact(span, "") for span in read]
        with watch.time("encode"):
            encoded = encode_spans(read)
        with watch.time("frame for the log"):
            b"".join(frame(bytes(8), Extent(), Counts(received=len(encoded)), (), encoded))
        spans += read
    with watch.time("make rows"):
        rows = rows_from_spans(spans, memory=memory)
    for name, batch, table in (("pieces", rows.payloads, "piece_rows"), ("spans", rows.spans, "span_rows")):
        with watch.time("make blocks"):
            block = batch.encode()
        with watch.time(f"insert {name}", time.process_time):
            store.engine.insert(f"{store.database}.{table}", list(batch.columns), block, f"{token}-{name}")
    return {stage: seconds / len(spans) * 1e6 for stage, seconds in watch.seconds.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="strict", help="redaction policy")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    loads = LOADS[:3]  # one span per request costs the stages the same as many: what it costs in addition is not in them
    texts = Texts(seed=7)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-stages-") as name:
        directory = Path(name)
        redact = RedactStage(Policies(default=load_policy(options.policy)), load_or_create_keys(directory / "keys"))
        store = open_store(f"chdb://{directory / 'store'}")
        store.migrate()
        memory = CutMemory()
        collect_rarely()  # as the service does
        for load in loads:
            size = Load(
                name=load.name,
                span_bytes=load.span_bytes,
                spans_per_request=load.spans_per_request,
                requests=SPANS[load.spans_per_request] // load.spans_per_request,
            )
            rounds = [
                run_round(make_requests(size, texts), redact, store, memory, f"{load.name}-{number}")
                for number in range(options.rounds)
            ]
            found[load.name] = {stage: min(seconds[stage] for seconds in rounds) for stage in STAGES}
        store.close()
    print(f"{f'us per span, policy {options.policy}':<28}" + "".join(f"{load.name:>14}" for load in loads))
    for stage in STAGES:
        print(f"{stage:<28}" + "".join(f"{found[load.name][stage]:>14.1f}" for load in loads))
    print(f"{'all':<28}" + "".join(f"{sum(found[load.name].values()):>14.1f}" for load in loads))
    rows = [
        {"name": f"{load}, {stage}", "value": round(figure, 2), "unit": "us/span", "goal": None, "met": None}
        for load, stages in found.items()
        for stage, figure in stages.items()
    ]
    print(json.dumps({"bench": "collector stages", "rows": rows}))


if __name__ == "__main__":
    main()
