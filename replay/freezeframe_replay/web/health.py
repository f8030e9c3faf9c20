"""One page: how the services do. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from freezeframe_replay.report.render import duration, size_text
from freezeframe_replay.web.markup import render


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A part of the data directory."""

    name: str
    size: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """State of the services and their data."""

    status: Any
    """The collector's own report; None if it does not answer."""
    wrong: str
    """Why the store does not answer."""
    redactions: Sequence[Sequence[Any]]
    """Class, places, surrogates, runs."""
    rejects: Sequence[Sequence[Any]]
    """Reason, spans."""
    tables: Sequence[Sequence[Any]]
    """Name, rows, bytes."""
    sizes: Sequence[Size]
    versions: Mapping[str, str]


def health_page(health: Health) -> str:
    """Return the page."""
    status: Any = health.status or {}
    return render(
        "health.html",
        health=health,
        strip=_strip(status) if status else {},
        up_since=dt.datetime.now(dt.UTC) - dt.timedelta(seconds=float(status.get("uptime_s") or 0)),
        facts=_facts(status) if status else {},
        why=str(status.get("not_ready_because") or ""),
        ready=bool(status.get("ready")),
        since_start={**(status.get("rejected_by_reason") or {})},
        dialects={**(status.get("spans_by_dialect") or {})},
        sizes=[(item.name, size_text(item.size), item.files) for item in health.sizes],
        tables=[(name, rows or 0, size_text(int(size or 0))) for name, rows, size in health.tables],
    )


def _strip(status: Mapping[str, Any]) -> dict[str, str]:
    spans, rates, log = (status.get(name) or {} for name in ("audit", "rates", "log"))
    return {
        "received": f"{rates.get('received', 0):,.1f} spans/s",
        "stored": f"{rates.get('stored', 0):,.1f} spans/s",
        "lag": duration(float(status.get("lag_s") or 0) * 1000),
        "log": size_text(int(log.get("bytes", 0))),
        "rejected": f"{spans.get('rejected', 0):,} spans",
        "missing": f"{spans.get('missing', 0) or 0:,} spans",
    }


def _facts(status: Mapping[str, Any]) -> dict[str, str]:
    spans, log, writer, readers = (status.get(name) or {} for name in ("audit", "log", "writer", "readers"))
    admission = status.get("admission") or {}
    rows = {
        "spans": ", ".join(
            f"{spans.get(key, 0):,} {word}"
            for key, word in (
                ("received", "received"),
                ("stored", "stored"),
                ("in_log", "in the log"),
                ("duplicate", "sent twice"),
            )
        ),
        "accounts": "balanced: each received span was stored, is in the log, was rejected or was sent twice"
        if spans.get("balanced")
        else "not balanced: `freezeframe status` shows what is missing or lost",
        "log": f"{log.get('segments', 0):,} segments, {log.get('failures', 0):,} failed writes, "
        f"{log.get('damaged_files', 0):,} damaged files, {size_text(int(log.get('disk_free_bytes', 0)))} free on its disk",
        "writer": f"{writer.get('spans', 0):,} spans in {writer.get('segments', 0):,} segments, "
        f"{writer.get('retries', 0):,} retries, {writer.get('set_aside', 0):,} set aside",
        "requests": f"{size_text(int(admission.get('in_flight_bytes', 0)))} in flight of "
        f"{size_text(int(admission.get('limit_bytes', 0)))}, {admission.get('refused', 0):,} refused",
        "readers": "sandboxed by the kernel" if readers.get("sandboxed") else str(readers.get("why_not") or ""),
        "last error": str(writer.get("last_error") or ""),
    }
    return {name: text for name, text in rows.items() if text}
