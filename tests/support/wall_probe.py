"""Run statements as a reader would, with the walls that are named and no others, in this process; JSON in, JSON out.

python wall_probe.py '{"writer": ..., "walls": {"sandbox": true, "grants": false, "guard": false}}' < statements.json
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from freezeframe_collector.readers import sandbox
from freezeframe_collector.readers.catalog import make_catalog
from freezeframe_collector.readers.errors import ClickHouseError
from freezeframe_collector.readers.guard import Guard
from freezeframe_collector.readers.native import load_engine


def main() -> None:
    """Answer each statement with its output or its error."""
    given = json.loads(sys.argv[1])
    asked = json.load(sys.stdin)
    writer, walls = Path(given["writer"]), given["walls"]
    engine = load_engine()
    own = Path(tempfile.mkdtemp())
    target = make_catalog(writer, own, database="freezeframe", cold=None, grants=walls["grants"])
    os.environ.clear()
    if walls["sandbox"]:
        sandbox.enter(read=[writer / "store"], write=[own], file_bytes=1 << 30)
    handle = engine.connect(target)
    handle.query("USE freezeframe")
    handle.query("SET http_max_tries = 1, max_execution_time = 5, max_memory_usage = 1000000000")
    guard = Guard(handle, "freezeframe")
    answers: list[list[str]] = []
    for item in asked:
        try:
            sql = guard.check(item["sql"].encode(), item["parameters"]).sql if walls["guard"] else item["sql"]
            answers.append(["done", handle.query(sql, "TSV", params=item["parameters"]).bytes().decode(errors="replace")])
        except (ClickHouseError, RuntimeError) as error:
            answers.append(["refused", str(error)[:300]])
    sys.stdout.write(json.dumps(answers))
    sys.stdout.flush()
    os._exit(0)  # the engine's threads need no farewell


if __name__ == "__main__":
    main()
