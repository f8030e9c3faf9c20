"""How fast recordings of other tools are read into requests, and runs are written in other tools' forms; in how much memory.

Each file holds the recorded call of `tests/data/recordings` again and again; nothing is sent. MB/s are of CPU time, so that
they can be had on a busy machine: one thread does all of it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from recording_files import ALL

from freezeframe_replay.sources.exports.kinds import EXPORTS, Export, Exported
from freezeframe_replay.sources.recordings.kinds import RECORDINGS, requests_of_recording
from freezeframe_replay.sources.span_file import load_run_of_file

_DATA = Path(__file__).parents[1] / "data"
_LINES = ("langsmith", "jsonl", "bedrock", "braintrust")
"""Kinds whose files go on after their end: lines, and flows."""
_ARRAYS = {"har": "log.entries", "phoenix": "data", "langfuse": "observations", "tau-bench": ""}
"""Kinds whose files hold an array: the way to it."""
_READ = (*_ARRAYS, *_LINES)
_WRITTEN = ("otlp", "phoenix", "vcr", "har", "inspect")


def _parts(kind: str) -> tuple[bytes, bytes, bytes]:
    """Return how a file of a kind begins, what is repeated in it, and how it ends."""
    whole = ALL[kind].read_bytes()
    if kind in _LINES:
        return b"", whole.rstrip(b"\n") + b"\n", b""
    document: Any = json.loads(whole)
    if not _ARRAYS[kind]:
        return b"[", json.dumps(document)[1:-1].encode(), b"]"
    *way, last = _ARRAYS[kind].split(".")
    holder = document
    for name in way:
        holder = holder[name]
    items, holder[last] = holder[last], ["HERE"]
    head, tail = json.dumps(document).split('"HERE"')
    return head.encode(), json.dumps(items)[1:-1].encode(), tail.encode()


def _import(kind: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        path = Path(scratch) / "recording"
        head, piece, tail = _parts(kind)
        with path.open("wb") as file:
            file.write(head + piece)
            while file.tell() < size:
                file.write((b",\n" if head else b"") + piece)
            file.write(tail)
        start = time.process_time()
        made = sum(len(request.body) for request in requests_of_recording(path, RECORDINGS[kind]))
        took = time.process_time() - start
        return _row("import", kind, path.stat().st_size, took, requests_mb=made / 1e6)


def _export(kind: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        path = Path(scratch) / "sent.jsonl"
        path.write_bytes(gzip.decompress((_DATA / "backends" / "sent.jsonl.gz").read_bytes()))
        run = load_run_of_file(path)
    one = Exported(run_id=run.trace_id, spans=run.spans, exchanges=run.exchanges)
    row = EXPORTS[kind]
    runs = [one] * max(size // 80_000, 1)  # the run has 80 kB
    start = time.process_time()
    written = sum(len(piece) for piece in row.write(runs, Export(form=row.forms[0])))
    return _row("export", kind, written, time.process_time() - start)


def _row(what: str, kind: str, size: int, took: float, **more: float) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = size / 1e6 / took
    return {"what": what, "kind": kind, "mb": round(size / 1e6, 1), "mb_per_s": round(rate, 1), "peak_mib": round(peak), **more}


def main() -> None:
    """Measure each kind in a process of its own, whose memory is then its."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=64, help="size of each file")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        what, kind = arguments.one
        measure = _import if what == "import" else _export
        print(json.dumps(measure(kind, arguments.mb * 1_000_000)))
        return
    rows: list[dict[str, Any]] = []
    for what, kinds in (("import", _READ), ("export", _WRITTEN)):
        for kind in kinds:
            command = [sys.executable, __file__, "--mb", str(arguments.mb), "--one", what, kind]
            told = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(told.stdout))
            print("{what:7} {kind:13} {mb:8.1f} MB {mb_per_s:8.1f} MB/s {peak_mib:6} MiB".format(**rows[-1]), flush=True)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
