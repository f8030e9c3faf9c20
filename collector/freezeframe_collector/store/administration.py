"""Orders to a store as JSON, answers as JSON: what `freezeframe store` asks for, whoever holds the store.

A running collector takes orders on its ClickHouse HTTP port, from whoever can read the token in its data directory; where none
runs, and for a server, ``python -m freezeframe_collector.store DSN`` takes one on stdin. Both end here.

    {"action": "delete", "user": "anna#3f", "note": "asked on 3 May"} -> {"runs": 2, "spans": 31, "left": 0}
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from freezeframe_collector.config import parse_tenant_days
from freezeframe_collector.store import deleting, keeping
from freezeframe_collector.store.backup import backup, restore
from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.rewriting import rewrite
from freezeframe_collector.store.store import Store
from freezeframe_schemas.errors import ConfigError, RunError

Order = Mapping[str, Any]

TABLES: Final = ("piece_rows", "span_rows", "run_rows", "call_rows")
_BODIES: Final = "piece_rows"
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_LEAST_DIGITS: Final = 4


def administer(store: Store, order: Order) -> dict[str, Any]:
    """Carry out one order and return what was done.

    Raises:
        ConfigError: no such action, or it lacks a field.
        FreezeframeError: as the action itself raises.
    """
    action = _ACTIONS.get(str(order.get("action")))
    if action is None:
        raise ConfigError(f"store: found action {order.get('action')!r}, expected one of {', '.join(sorted(_ACTIONS))}")
    return action(store, order)


def _stats(store: Store, order: Order) -> dict[str, Any]:
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


def _pin(store: Store, order: Order) -> dict[str, Any]:
    run = _run(store, order)
    keeping.pin(store, run, note=str(order.get("note", "")))
    return {"run": run, "pinned": True}


def _unpin(store: Store, order: Order) -> dict[str, Any]:
    run = _run(store, order)
    keeping.unpin(store, run, note=str(order.get("note", "")))
    return {"run": run, "pinned": False}


def _delete(store: Store, order: Order) -> dict[str, Any]:
    """Delete a run, a user or a tenant; with ``dry_run`` only say how much there is."""
    names = [name for name in deleting.SUBJECTS if name in order]
    if len(names) != 1:
        raise ConfigError(f"store delete: expected exactly one of run, user and tenant, found {', '.join(names) or 'none'}")
    subject = names[0]
    name = _run(store, order) if subject == "run" else _text(order, subject)
    if order.get("dry_run"):
        return {**asdict(deleting.count(store, subject, name)), "dry_run": True}
    deleted = deleting.delete(store, subject, name, note=str(order.get("note", "")))
    return {**asdict(deleted), "left": deleting.count(store, subject, name).spans}


def _rewrite(store: Store, order: Order) -> dict[str, Any]:
    """Put the spans of a file, redacted again, in the place of a run's."""
    done = rewrite(store, _text(order, "run"), Path(_text(order, "file")), note=str(order.get("note", "")))
    return {"run": order["run"], **asdict(done)}


def _backup(store: Store, order: Order) -> dict[str, Any]:
    directory = Path(_text(order, "directory"))
    return {"directory": str(directory), "rows": backup(store, directory)}


def _restore(store: Store, order: Order) -> dict[str, Any]:
    directory = Path(_text(order, "directory"))
    rows = restore(store, directory)
    again = 0 if order.get("with_deleted") else deleting.delete_again(store)
    return {"directory": str(directory), "rows": rows, "deleted_again": again}


def _optimize(store: Store, order: Order) -> dict[str, Any]:
    """Merge each table's parts into one a day: smaller, and quicker to read."""
    before = store.stats().disk_bytes
    for table in TABLES:
        store.engine.command(f"OPTIMIZE TABLE {store.stored(table)} FINAL")
    return {"disk_bytes_before": before, "disk_bytes": store.stats().disk_bytes}


def _check(store: Store, order: Order) -> dict[str, Any]:
    """Read every part of the store and compare it with its checksums."""
    damaged: list[dict[str, str]] = []
    for table in TABLES:
        columns, rows = store.query(f"CHECK TABLE {store.database}.{table}")
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        damaged += [
            {"table": table, "part": str(row["part_path"]), "fault": str(row["message"])}
            for row in found
            if not row["is_passed"]
        ]
    return {"damaged": damaged}


def _expire(store: Store, order: Order) -> dict[str, Any]:
    retention = keeping.Retention(
        days=int(order.get("days", 14)),
        failed_days=int(order.get("failed_days", 90)),
        tenant_days=parse_tenant_days(str(order.get("tenants", ""))),
    )
    dry_run = bool(order.get("dry_run"))
    done = keeping.expire(store, retention, today=dt.datetime.now(dt.UTC).date(), dry_run=dry_run)
    return {"days": [{**asdict(day), "day": day.day.isoformat()} for day in done], "dry_run": dry_run}


def _search_index(store: Store, order: Order) -> dict[str, Any]:
    keeping.enable_search(store)
    return {"search_index": True}


_ACTIONS: Final[Mapping[str, Callable[[Store, Order], dict[str, Any]]]] = {
    "stats": _stats,
    "pin": _pin,
    "unpin": _unpin,
    "delete": _delete,
    "redact": _rewrite,
    "backup": _backup,
    "restore": _restore,
    "optimize": _optimize,
    "check": _check,
    "expire": _expire,
    "search-index": _search_index,
}


def _text(order: Order, name: str) -> str:
    value = order.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"store {order.get('action')}: found {value!r}, expected text in the field {name!r}")
    return value


def _run(store: Store, order: Order) -> str:
    """Return the trace id of the run that an order names: by it, by its first digits, as ``last`` or as ``last-failed``.

    Raises:
        RunError: no such run, or several.
    """
    name = _text(order, "run")
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
    if test.startswith("startsWith") and (len(found) > 1 or len(name) < _LEAST_DIGITS):
        raise RunError(f"run {name!r}: may be {', '.join(found[:5])}", do="give more digits of the run's id")
    return found[0]


def _ratio(whole: int, part: int) -> float:
    return round(whole / part, 2) if part else 0.0
