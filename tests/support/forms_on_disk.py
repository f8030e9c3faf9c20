"""Find forms of private values in the files of a directory, in any encoding."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

_SETTLED = """
import sys, time
from freezeframe_collector.store import open_store
store = open_store(f"chdb://{sys.argv[1]}")
tables = ("span_rows", "piece_rows", "run_rows", "call_rows")
soon = "old_parts_lifetime = 0, cleanup_delay_period = 1, max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0"
for table in tables:
    store.engine.command(f"ALTER TABLE {store.database}.{table} MODIFY SETTING {soon}")
    store.engine.command(f"DETACH TABLE {store.database}.{table}")  # what removes files looks at its settings as it starts
    store.engine.command(f"ATTACH TABLE {store.database}.{table}")
named = ", ".join(repr(table) for table in tables)
while store.query(f"SELECT count() FROM system.parts WHERE NOT active AND table IN ({named})")[1][0][0]:
    time.sleep(0.1)
held = f"SELECT name FROM system.tables WHERE database = '{store.database}' AND engine LIKE '%MergeTree%'"
for (table,) in store.query(held)[1]:
    print(store.query(f"SELECT groupArray(toString(tuple(*))) FROM {store.database}.{table}")[1])
store.close()
"""


def rows_of_a_stopped_store(store: Path) -> str:
    """Return all rows as text, once the engine has removed the files of rows that were deleted."""
    return subprocess.run(
        [sys.executable, "-c", _SETTLED, str(store)], capture_output=True, text=True, check=True, timeout=200
    ).stdout


def spellings(value: str) -> Iterator[bytes]:
    """Yield what a value looks like in a file, in small letters except base64: as text, in URLs, JSON, hex and base64."""
    for text in {
        value.lower(),
        value.lower().replace(" ", "_"),
        value.lower().replace(" ", "-"),
        value.lower().replace(" ", ""),
    }:
        data = text.encode()
        yield from {data, json.dumps(text)[1:-1].encode()}
        yield from {quote(text).lower().encode(), quote_plus(text).lower().encode()}
        yield from {text.encode("utf-16-le"), text.encode("utf-16-be")}
    yield from {text.encode().hex().encode() for text in (value, value.lower(), value.upper())}


def in_base64(value: str) -> Iterator[bytes]:
    """Yield what is the same in base64 wherever in a text the value begins."""
    for text in {value, value.lower(), value.upper()}:
        for before in range(3):
            coded = base64.b64encode(b"\0" * before + text.encode())
            yield coded[(0, 2, 3)[before] : (before + len(text.encode())) * 8 // 6]


def forms_in(data: bytes, values: Iterable[str]) -> list[str]:
    """Return the values of which a form lies in the bytes."""
    small = data.lower()
    return [
        value
        for value in values
        if any(form in small for form in spellings(value)) or any(form in data for form in in_base64(value))
    ]


def forms_on_disk(directory: Path, values: Iterable[str]) -> list[str]:
    """Return where a form of a value lies in the bytes of a file below the directory."""
    wanted = tuple(values)
    return [
        f"{path.relative_to(directory)}: {value}"
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        for value in forms_in(path.read_bytes(), wanted)
    ]
