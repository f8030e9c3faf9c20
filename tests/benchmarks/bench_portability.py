"""How fast recordings of other tools are read into requests, and runs are written in other tools' forms; in how much memory.

Each file holds the recorded call of `tests/data/recordings` again and again; nothing is sent.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from freezeframe_replay.sources.exports.kinds import EXPORTS, Export, Exported
from freezeframe_replay.sources.recordings.kinds import RECORDINGS, requests_of_recording
from freezeframe_replay.sources.span_file import load_run_of_file

_DATA = Path(__file__).parents[1] / "data"


def _har(path: Path, size: int) -> None:
    document: Any = json.loads((_DATA / "recordings" / "search.har").read_text())
    entries = [json.dumps(entry) for entry in document["log"]["entries"]]
    with path.open("w", encoding="utf-8") as file:
        file.write('{"log": {"version": "1.2", "entries": [' + entries[0])
        while file.tell() < size:
            file.writelines(f",\n{entry}" for entry in entries)
        file.write("]}}")


def _langsmith(path: Path, size: int) -> None:
    lines = (_DATA / "recordings" / "weather.langsmith.jsonl").read_bytes()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(lines)


_READ: dict[str, Callable[[Path, int], None]] = {"har": _har, "langsmith": _langsmith}
_WRITTEN = ("otlp", "phoenix", "vcr", "har", "wiremock", "inspect")


def _import(kind: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        path = Path(scratch) / "recording"
        _READ[kind](path, size)
        start = time.perf_counter()
        made = sum(len(request.body) for request in requests_of_recording(path, RECORDINGS[kind]))
        took = time.perf_counter() - start
        return _row("import", kind, path.stat().st_size, took, requests_mb=made / 1e6)


def _export(kind: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        path = Path(scratch) / "sent.jsonl"
        path.write_bytes(gzip.decompress((_DATA / "backends" / "sent.jsonl.gz").read_bytes()))
        run = load_run_of_file(path)
    one = Exported(run_id=run.trace_id, spans=run.spans, exchanges=run.exchanges)
    row = EXPORTS[kind]
    runs = [one] * max(size // 80_000, 1)  # the run has 80 kB
    start = time.perf_counter()
    written = sum(len(piece) for piece in row.write(runs, Export(form=row.forms[0])))
    return _row("export", kind, written, time.perf_counter() - start)


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
            print("{what:7} {kind:10} {mb:8.1f} MB {mb_per_s:8.1f} MB/s {peak_mib:6} MiB".format(**rows[-1]), flush=True)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
