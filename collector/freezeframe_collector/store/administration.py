"""Administration of a store:

JSON requests and answers for `freezeframe store`, whichever process holds the store. A running collector
accepts requests on its ClickHouse HTTP port, from anyone who can read the token in its data directory; if none
runs, and for a server, ``python -m freezeframe_collector.store DSN`` takes one on stdin. Both end here.

    {"action": "delete", "user": "anna#3f", "note": "asked on 3 May"} -> {"runs": 2, "spans": 31, "left": 0}
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from freezeframe_collector.settings.config import parse_tenant_days
from freezeframe_collector.store import deleting, retention
from freezeframe_collector.store.backup import backup, restore
from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.rewriting import rewrite
from freezeframe_collector.store.store import Store
from freezeframe_schemas.errors import ConfigError, RetryableStoreError, RunError, StoreError
from freezeframe_schemas.tables.columns import RESOURCE_REFS

Request = Mapping[str, Any]

TABLES: Final = ("piece_rows", "span_rows", "run_rows", "call_rows")
_BODIES: Final = "piece_rows"
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_MIN_DIGITS: Final = 4


def administer(store: Store, request: Request) -> dict[str, Any]:
    """Carry out one request and return its result.

    Raises:
        ConfigError: the action is unknown, or it lacks a field.
        FreezeframeError: as the action itself raises.
    """
    action = _ACTIONS.get(str(request.get("action")))
    if action is None:
        raise ConfigError(f"store: found action {request.get('action')!r}, expected one of {', '.join(sorted(_ACTIONS))}")
    return action(store, request)


def _stats(store: Store, request: Request) -> dict[str, Any]:
    stats = store.stats()
    by_name = {table.table: table for table in stats.tables}
    _, counted = store.query(f"SELECT count() FROM {store.database}.span_rows FINAL")
    spans: int = counted[0][0]
    _, kinds = store.query(
        f"SELECT if(exchange_kind = '', 'other', exchange_kind) AS kind, count(), sum(payload_bytes)"
        f" FROM {store.database}.span_rows FINAL GROUP BY kind ORDER BY kind"
    )
    _, shape = store.query(
        f"SELECT uniqExact(tenant, trace_id), uniqExact(toDate(run_hour)), uniqExactIf(trace_id, kept = 1)"
        f" FROM {store.database}.span_rows"
    )
    runs, days, kept = shape[0]
    _, disks = store.query(
        "SELECT disk_name, sum(bytes_on_disk) FROM system.parts WHERE database = {db:String} AND active"
        " GROUP BY disk_name ORDER BY disk_name",
        {"db": store.database},
    )
    return {
        "runs": runs,
        "spans": spans,
        "days": days,
        "kept_runs": kept,
        "disk_bytes": stats.disk_bytes,
        "disk_bytes_per_span": round(stats.disk_bytes / spans, 1) if spans else 0,
        "payload": {
            "referenced_bytes": stats.referenced_bytes,
            "stored_bytes": stats.payload_bytes,
            "disk_bytes": by_name[_BODIES].disk_bytes if _BODIES in by_name else 0,
            "dedup_ratio": _ratio(stats.referenced_bytes, stats.payload_bytes),
        },
        "disks": {str(disk): size for disk, size in disks},
        "by_kind": {str(kind): {"spans": count, "payload_bytes": size} for kind, count, size in kinds},
        "tables": {
            table.table: {
                "rows": table.rows,
                "disk_bytes": table.disk_bytes,
                "raw_bytes": table.raw_bytes,
                "compression": _ratio(table.raw_bytes, table.disk_bytes),
                "parts": table.parts,
            }
            for table in stats.tables
        },
    }


def _pin(store: Store, request: Request) -> dict[str, Any]:
    run = _run(store, request)
    retention.pin(store, run, note=str(request.get("note", "")))
    return {"run": run, "pinned": True}


def _unpin(store: Store, request: Request) -> dict[str, Any]:
    run = _run(store, request)
    retention.unpin(store, run, note=str(request.get("note", "")))
    return {"run": run, "pinned": False}


def _label(store: Store, request: Request) -> dict[str, Any]:
    """Label a run, or a step of it, and add a note; without label and note, remove both."""
    run, texts = _run(store, request), {name: str(request.get(name) or "") for name in ("span_id", "label", "note", "author")}
    retention.label(store, run, texts)
    return {"run": run, **texts}


def _replayed(store: Store, request: Request) -> dict[str, Any]:
    """Note that a replay of a run was identical."""
    run = _run(store, request)
    retention.note_replay(store, run)
    return {"run": run}


def _delete(store: Store, request: Request) -> dict[str, Any]:
    """Delete a run, a user or a tenant (with ``dry_run`` only return how much there is), or ``runs`` that mention a person."""
    if "runs" in request:
        runs = [_run(store, {**request, "run": run}) for run in request["runs"]]
        return {**asdict(deleting.delete_runs(store, runs, note=str(request.get("note", "")))), "left": 0}
    names = [name for name in deleting.SUBJECTS if name in request]
    if len(names) != 1:
        raise ConfigError(f"store delete: expected exactly one of run, user and tenant, found {', '.join(names) or 'none'}")
    subject = names[0]
    name = _run(store, request) if subject == "run" else _text(request, subject)
    if request.get("dry_run"):
        return {**asdict(deleting.count(store, subject, name)), "dry_run": True}
    deleted = deleting.delete(store, subject, name, note=str(request.get("note", "")))
    return {**asdict(deleted), "left": deleting.count(store, subject, name).spans}


def _rewrite(store: Store, request: Request) -> dict[str, Any]:
    """Replace a run's spans by those of a file, redacted again."""
    done = rewrite(store, _text(request, "run"), Path(_text(request, "file")), note=str(request.get("note", "")))
    return {"run": request["run"], **asdict(done)}


def _backup(store: Store, request: Request) -> dict[str, Any]:
    directory = Path(_text(request, "directory"))
    return {"directory": str(directory), "rows": backup(store, directory)}


def _restore(store: Store, request: Request) -> dict[str, Any]:
    directory = Path(_text(request, "directory"))
    rows = restore(store, directory)
    again = 0 if request.get("with_deleted") else deleting.delete_again(store)
    return {"directory": str(directory), "rows": rows, "deleted_again": again}


def _optimize(store: Store, request: Request) -> dict[str, Any]:
    """Merge each table's parts into one per day: smaller, and quicker to read."""
    before = store.stats().disk_bytes
    for table in TABLES:
        store.engine.command(f"OPTIMIZE TABLE {store.stored(table)} FINAL")
    return {"disk_bytes_before": before, "disk_bytes": store.stats().disk_bytes}


def _check(store: Store, request: Request) -> dict[str, Any]:
    """Read every part of the store and compare it with its checksums, and texts with their names."""
    return {"damaged": damage(store, TABLES)}


def _expire(store: Store, request: Request) -> dict[str, Any]:
    rule = retention.Retention(
        days=int(request.get("days", 14)),
        failed_days=int(request.get("failed_days", 90)),
        tenant_days=parse_tenant_days(str(request.get("tenants", ""))),
    )
    dry_run = bool(request.get("dry_run"))
    done = retention.expire(store, rule, today=dt.datetime.now(dt.UTC).date(), dry_run=dry_run)
    return {"days": [{**asdict(day), "day": day.day.isoformat()} for day in done], "dry_run": dry_run}


def _search_index(store: Store, request: Request) -> dict[str, Any]:
    retention.enable_search(store)
    return {"search_index": True}


_ACTIONS: Final[Mapping[str, Callable[[Store, Request], dict[str, Any]]]] = {
    "stats": _stats,
    "pin": _pin,
    "unpin": _unpin,
    "label": _label,
    "replayed": _replayed,
    "delete": _delete,
    "redact": _rewrite,
    "backup": _backup,
    "restore": _restore,
    "optimize": _optimize,
    "check": _check,
    "expire": _expire,
    "search-index": _search_index,
}


def _text(request: Request, name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"store {request.get('action')}: found {value!r}, expected text in the field {name!r}")
    return value


def _run(store: Store, request: Request) -> str:
    """Return the trace id of the run that a request names: by it, by its first digits, as ``last`` or as ``last-failed``.

    Raises:
        RunError: there is no such run, or there are several.
    """
    name = _text(request, "run")
    if _TRACE_ID.fullmatch(name):
        return name
    if name in {"last", "last-failed"}:
        test = "status = 'error'" if name == "last-failed" else "1"
    else:
        test = f"startsWith(trace_id, {quote_text(name.lower())})"
    _, rows = store.query(f"SELECT trace_id FROM {store.database}.runs WHERE {test} ORDER BY start_time DESC, trace_id LIMIT 6")
    found = [str(row[0]) for row in rows]
    if not found:
        raise RunError(f"run {name!r}: not in the store", do="give its trace id, the first digits of it, last or last-failed")
    if test.startswith("startsWith") and (len(found) > 1 or len(name) < _MIN_DIGITS):
        raise RunError(f"run {name!r}: may be {', '.join(found[:5])}", do="give more digits of the run's id")
    return found[0]


def _ratio(whole: int, part: int) -> float:
    return round(whole / part, 2) if part else 0.0


# -- Damage in a store, and the runs that it touches -------------------------------------------------------------------
# Parts that do not match the engine's checksums, and texts that do not match. their names.
#
# The engine detects bytes that changed on the disk. A text's name, its hash, also shows a text that is
# missing, or was changed before it was written.


_GRANULE: Final = 256
"""Stop narrowing down an unreadable range at this many rows."""
_MAX_RANGES: Final = 50
"""Limit of damaged ranges; beyond it, the rest of the part counts as damaged: each range costs two statements."""
_MAX_RUNS: Final = 1000
"""Number of runs whose texts one statement checks."""


def damage(store: Store, tables: Sequence[str]) -> list[dict[str, Any]]:
    """Read every part and return the damage; without any, the missing texts.

    Shape: ``{"table": "piece_rows", "part": "0-20261118_1_2_2", "fault": "Checksum doesn't match", "runs": ["4bf9..."]}``;
    `part` is empty for the texts of one run.
    """
    damaged: list[dict[str, Any]] = []
    for table in tables:
        columns, rows = store.query(f"CHECK TABLE {store.database}.{table}")
        for row in (dict(zip(columns, row, strict=True)) for row in rows):
            if not row["is_passed"]:
                part = str(row["part_path"])
                runs = _runs_touched(store, table, part)
                damaged.append({"table": table, "part": part, "fault": str(row["message"]), "runs": runs})
    return damaged or [
        {"table": "piece_rows", "part": "", "fault": f"{texts} texts are missing, or not what their names say", "runs": [run]}
        for run, texts in _lost_texts(store)
    ]


def _runs_touched(store: Store, table: str, part: str) -> list[str]:
    """Return the runs with rows that cannot be read; empty if not even their ids can be read."""
    named = {"db": store.database, "table": table, "part": part}
    _, counted = store.query(
        "SELECT rows FROM system.parts WHERE database = {db:String} AND table = {table:String} AND name = {part:String}", named
    )
    rows_of_part = f"FROM {store.database}.{table} WHERE _part = {quote_text(part)}"
    ranges, damaged = [(0, int(rows)) for (rows,) in counted], list[str]()
    while ranges:
        first, end = ranges.pop()
        these = f"{rows_of_part} AND _part_offset >= {first} AND _part_offset < {end}"
        if _readable(store, f"SELECT sum(cityHash64(*)) {these}") is not None:
            continue
        if end - first <= _GRANULE or len(damaged) >= _MAX_RANGES:
            damaged.append(these)
        else:
            middle = first + max(1, (end - first) // (2 * _GRANULE)) * _GRANULE
            ranges += [(first, middle), (middle, end)]
    found = [_readable(store, f"SELECT DISTINCT trace_id {these}") or () for these in damaged]
    return sorted({str(run) for rows in found for (run,) in rows})


def _readable(store: Store, sql: str) -> Sequence[Sequence[Any]] | None:
    """Return the rows, or None if they cannot be read."""
    try:
        return store.query(sql)[1]
    except RetryableStoreError:
        raise
    except StoreError:
        return None


def _lost_texts(store: Store) -> list[tuple[str, int]]:
    """Return the runs that name missing texts, and their number."""
    names = f"arrayFlatten(arrayConcat(mapValues(refs), mapValues({RESOURCE_REFS})))"

    def lost(spans: str, pieces: str) -> list[tuple[str, int]]:
        named = f"SELECT DISTINCT trace_id, arrayJoin({names}) AS digest FROM {store.database}.span_rows WHERE {spans}"
        _, rows = store.query(
            f"SELECT trace_id, count() FROM ({named}) WHERE (trace_id, digest) NOT IN"
            f" (SELECT trace_id, hash FROM {store.database}.piece_rows WHERE {pieces}) GROUP BY trace_id ORDER BY trace_id"
        )
        return [(str(run), int(texts)) for run, texts in rows]

    found: list[tuple[str, int]] = []
    _, hours = store.query(f"SELECT DISTINCT toUnixTimestamp(run_hour) FROM {store.database}.span_rows ORDER BY 1")
    for (hour,) in hours:  # one at a time, for memory
        place = f"run_hour = toDateTime({hour}, 'UTC')"
        suspected = [run for run, _ in lost(place, place)]
        for at in range(0, len(suspected), _MAX_RUNS):
            runs = f"trace_id IN ({', '.join(map(quote_text, suspected[at : at + _MAX_RUNS]))})"
            found += lost(f"{place} AND {runs}", runs)  # a run's texts are in its hour, unless a collector forgot it
    return found
