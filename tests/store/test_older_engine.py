"""A store that an older engine wrote is read, written, merged and deleted from by today's."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import zstandard
from administered_store import answer

from freezeframe_schemas.otlp.decode import decode_traces

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[1]
KEPT = TESTS / "data" / "store_of_chdb_26_7" / "store.tar.zst"
# a separate process: one process opens one directory
READER = """
import json, sys
sys.path.insert(0, sys.argv[2])
from serving import serving
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_collector.store import open_store
from freezeframe_replay.sources.store import open_runs
store = open_store(sys.argv[1])
store.migrate()
with serving(store, admin_token="of the test", here=True) as url:
    runs = open_runs(url)
    spans = [span for row in runs.list_runs() for span in runs.load_spans(row.trace_id)]
    levels = runs.sql("SELECT level, count() FROM readiness GROUP BY level")[1]
    runs.close()
store.insert(spans[:1], token="again")
store.close()
sys.stdout.buffer.write(json.dumps([list(map(int, level)) for level in levels]).encode() + b"\\n" + encode_traces(spans))
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return the directory of the store, as the older engine left it."""
    raw = zstandard.ZstdDecompressor().stream_reader(KEPT.read_bytes())
    with tarfile.open(fileobj=raw, mode="r|") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_what_went_in_comes_out_and_merges_and_deletions_go_on(store: Path) -> None:
    recorded = decode_traces((store / "recorded.traces.pb").read_bytes()).spans
    reader = [sys.executable, "-c", READER, f"chdb://{store}", str(TESTS / "support")]
    ended = subprocess.run(reader, capture_output=True, timeout=400, check=False)
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    levels, _, raw = ended.stdout.partition(b"\n")
    found = decode_traces(raw).spans
    assert sorted(found, key=lambda span: span.span_id) == sorted(recorded, key=lambda span: span.span_id)
    assert sum(count for _, count in json.loads(levels)) == 3
    assert answer(store, "check") == {"damaged": []}
    assert answer(store, "optimize")["disk_bytes"] > 0
    assert answer(store, "delete", run=recorded[0].trace_id)["left"] == 0
    assert answer(store, "stats")["runs"] == 2
