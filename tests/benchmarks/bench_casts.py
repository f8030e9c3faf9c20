"""What the cast of a run costs in the collector: a span's redaction with it and without, and the memory of open runs.

    make bench-casts ARGS="--runs 30"

The recorded airline runs, each model call a span whose request carries the whole history, as agents send it; in requests of
four spans. Both stages redact the same runs in turns, so that a busy machine slows both alike. The memory is that of the book
of the log's owner and of a process that redacts, with runs that found ten values each. Settling is what the collector does to a
run that has ended, if something was found late. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from airline import load_runs

from freezeframe_collector.casts.book import RunCasts
from freezeframe_collector.casts.found import Found
from freezeframe_collector.casts.known import KnownCasts
from freezeframe_collector.casts.sealing import Seal
from freezeframe_collector.memory import collect_rarely
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.processors.rewrite import Rewriter
from freezeframe_collector.settings.config import CastConfig, RedactionConfig
from freezeframe_collector.settings.policies import load_policies
from freezeframe_redaction.casts.book import Cast, Member
from freezeframe_redaction.keyring.keys import load_or_create_keys
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

OPEN_RUNS = 10_000
VALUES = 10


def spans_of(number: int, run: dict[str, Any]) -> Iterator[SpanRecord]:
    """Yield a span for each answer of the model: the history so far, and what was answered."""
    messages: list[dict[str, Any]] = run["traj"]
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            body = json.dumps({"model": "gpt-4o", "messages": messages[:place]})
            yield SpanRecord(
                trace_id=f"{number + 1:032x}",
                span_id=f"{place + 1:016x}",
                parent_span_id="f" * 16,
                name="chat gpt-4o",
                start_time_unix_nano=place,
                end_time_unix_nano=place + 1,
                attributes={
                    genai.EXCHANGE_KIND: "model",
                    genai.REQUEST_BODY: body,
                    genai.RESPONSE_BODY: json.dumps({"choices": [{"message": message}]}),
                },
            )


@dataclass
class Redacted:
    """What became of a run."""

    seconds: float = 0.0
    """CPU time."""
    found: int = 0
    """Requests that found a value."""
    late: int = 0
    """Those of them that were not the run's first."""
    spans: list[SpanRecord] = field(default_factory=list[SpanRecord])
    sealed: list[bytes] = field(default_factory=list[bytes])
    unsettled: bool = False


def redacted(stage: RedactStage, spans: Sequence[SpanRecord]) -> Redacted:
    """Return the run, redacted in requests of four spans."""
    made = Redacted()
    started = time.thread_time()
    for number, request in enumerate(spans[at : at + 4] for at in range(0, len(spans), 4)):
        whole = stage.begin()
        first = [whole(span, "") for span in request]
        made.spans += [whole.finish(span, "") for span in first]
        for one in whole.found():
            made.unsettled |= one.waits or (number > 0 and bool(one.sealed))
            if one.sealed and stage.casts is not None:
                known = stage.casts.of(one.run)
                stage.casts.learn(one.run, known.number + 1, one.sealed)
                made.sealed.append(one.sealed)
                made.found += 1
                made.late += number > 0
    made.seconds = time.thread_time() - started
    return made


@dataclass
class Settling:
    """What settling cost, of all runs."""

    runs: int = 0
    """Those that had to be looked at again."""
    rewritten: int = 0
    """Those of them in which a form was left."""
    spans: int = 0
    """Spans that were rewritten."""
    seconds: float = 0.0

    def settle(self, rewriter: Rewriter, number: int, made: Redacted) -> None:
        """Settle a run if it has to be."""
        if not made.unsettled:
            return
        started = time.thread_time()
        after = rewriter.rewrite(("", f"{number + 1:032x}"), made.sealed, made.spans)
        self.seconds += time.thread_time() - started
        changed = sum(one is not before for one, before in zip(after, made.spans, strict=True))
        self.runs, self.rewritten, self.spans = self.runs + 1, self.rewritten + (changed > 0), self.spans + changed


def memory(seal: Seal, folder: Path) -> dict[str, float]:
    """Return the bytes of an open run in the book, and in a process that redacts."""
    tracemalloc.start()
    book = RunCasts(folder, CastConfig(runs=OPEN_RUNS))
    sealed: list[Found] = []
    for number in range(OPEN_RUNS):
        run = ("", f"{number:032x}")
        members = tuple(Member(class_="PERSON", spelling=f"Person{number}x{at}", kind="") for at in range(VALUES))
        sealed.append(Found(tenant="", trace_id=run[1], based_on=0, sealed=seal.close(run, Cast(members=members))))
    before = tracemalloc.get_traced_memory()[0]
    book.note(sealed, 1)
    in_book = tracemalloc.get_traced_memory()[0] - before + sum(len(one.sealed) for one in sealed)
    known = KnownCasts(seal, OPEN_RUNS)
    before = tracemalloc.get_traced_memory()[0]
    for one in sealed:
        known.learn(one.run, 1, one.sealed)
    redacting = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    started = time.perf_counter()
    book.save()
    return {
        "book_bytes": round(in_book / OPEN_RUNS),
        "redacting_bytes": round(redacting / OPEN_RUNS),
        "file_bytes": round((folder / "casts.db").stat().st_size / OPEN_RUNS),
        "save_all_s": round(time.perf_counter() - started, 3),
    }


def main() -> None:
    """Print the table and the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keys = load_or_create_keys(Path(folder) / "keys")
        policies = load_policies(RedactionConfig())
        without = RedactStage(policies, keys)
        with_cast = RedactStage(policies, keys, casts=KnownCasts(Seal(keys), 10_000))
        plain_s = cast_s = 0.0
        collect_rarely()  # as the collector does
        spans = found = late = size = 0
        settling, rewriter = Settling(), Rewriter(keys, lambda: policies, stage=lambda: with_cast)
        for number, run in enumerate(load_runs()[: arguments.runs]):
            of_run = list(spans_of(number, run))
            plain_s += redacted(without, of_run).seconds
            made = redacted(with_cast, of_run)
            cast_s, found, late = cast_s + made.seconds, found + made.found, late + made.late
            settling.settle(rewriter, number, made)
            spans += len(of_run)
            size += sum(len(str(span.attributes[genai.REQUEST_BODY])) for span in of_run)
        result = {
            "spans": spans,
            "bytes_per_span": size // spans,
            "without_us": round(plain_s / spans * 1e6),
            "with_us": round(cast_s / spans * 1e6),
            "ratio": round(cast_s / plain_s, 2),
            "findings_per_run": round(found / arguments.runs, 1),
            "late_findings_per_run": round(late / arguments.runs, 1),
            "settled_share": round(settling.runs / arguments.runs, 2),
            "rewritten_share": round(settling.rewritten / arguments.runs, 2),
            "rewritten_spans_share": round(settling.spans / spans, 3),
            "settling_us_per_run": round(settling.seconds / max(1, settling.runs) * 1e6),
            **memory(Seal(keys), Path(folder) / "wal"),
        }
    for name, value in result.items():
        print(f"{name:24} {value:>12,}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
