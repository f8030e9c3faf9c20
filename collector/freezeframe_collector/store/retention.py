"""Retention and deletion of runs: by run, never by span; decided late; verified.

All runs are kept for some days, failed and pinned ones longer: before a day's partition is dropped, the rows of
its kept runs are copied to a second partition (column `kept`), and the copy is counted. Dropping a partition
costs nothing; a TTL would rewrite it. Each step can be repeated after a crash: views see a row and its copy as
one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from freezeframe_collector.store.deleting import RUN_TABLES, delete_rows, of_runs, runs_where, write_audit
from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.own_rows import as_new, insert_row
from freezeframe_collector.store.store import Store
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RunError
from freezeframe_schemas.lifecycle import NOT_OK
from freezeframe_schemas.tables.ddl import searched_sql
from freezeframe_schemas.tables.views import REPLAYED

_NOT_OK: Final = f"status IN ({', '.join(quote_text(status.value) for status in NOT_OK)})"
_TABLES: Final = ("piece_rows", "span_rows", "call_rows")
"""Copied in this order: pieces before the spans that name them. `run_rows` is fed from `span_rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Days to keep runs, by the day on which they started."""

    days: int = 14
    failed_days: int = 90
    """Failed runs; pinned ones stay until they are unpinned."""
    tenant_days: Mapping[str, int] = field(default_factory=dict[str, int])
    """Other numbers of days than `days`, by tenant."""

    def __post_init__(self) -> None:
        """Refuse invalid numbers, all at once."""
        faults = [
            f"{name}: found {days}, expected 1 or more"
            for name, days in (("days", self.days), ("failed_days", self.failed_days), *self.tenant_days.items())
            if days < 1
        ]
        if faults:
            raise ConfigError("retention: " + "; ".join(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Result of one sweep."""

    day: dt.date
    kept_runs: int
    dropped_runs: int


def pin(store: Store, trace_id: str, *, note: str = "") -> None:
    """Keep a run until it is unpinned.

    Raises:
        RunError: there is no such run.
    """
    _set_pin(store, trace_id, pinned=True, note=note)


def unpin(store: Store, trace_id: str, *, note: str = "") -> None:
    """Unpin a run, so that it expires normally.

    Raises:
        RunError: there is no such run.
    """
    _set_pin(store, trace_id, pinned=False, note=note)


def expire(store: Store, retention: Retention, *, today: dt.date, dry_run: bool = False) -> list[Expired]:
    """Drop the expired runs, except those to keep; return the actual or planned actions, day by day.

    Raises:
        PermanentStoreError: a copy does not have the rows that it should; nothing of that day was dropped.
    """
    done: list[Expired] = []
    for kept, day in _partitions(store):
        age = (today - day).days
        if not kept and age > retention.days:
            over = _drop_day(store, day, _to_keep(store, retention, age, day), dry_run=dry_run)
        elif kept and age > retention.days:
            over = _delete_over(
                store, day, f"trace_id NOT IN ({_to_keep(store, retention, age, day)})", kept=1, dry_run=dry_run
            )
        else:
            tenants = [quote_text(tenant) for tenant, days in retention.tenant_days.items() if days < age <= retention.days]
            condition = f"tenant IN ({', '.join(tenants)}) AND trace_id NOT IN ({_pinned(store)})"
            over = _delete_over(store, day, condition, kept=int(kept), dry_run=dry_run) if tenants else None
        if over is not None:
            done.append(over)
            if not dry_run:
                write_audit(store, "expire", str(day), over.dropped_runs, f"{over.kept_runs} runs kept")
    if done and not dry_run:
        store.forget()
    return done


def enable_search(store: Store) -> None:
    """Build the full-text index on payloads, for stored and future ones.

    Searches become many times faster, and a span takes half as much disk again; figures in ``docs/operate/store.md``.
    `search` answers the same without it.
    """
    # bitpacking: a third less disk for the same CPU time
    index = "TYPE text(tokenizer = 'splitByNonAlpha', posting_list_codec = 'bitpacking')"
    for table, column in (("piece_rows", "body"), ("span_rows", "templates")):
        name = store.stored(table)
        store.engine.command(f"ALTER TABLE {name} ADD INDEX IF NOT EXISTS ix_text {searched_sql(column)} {index}")
        store.engine.command(f"ALTER TABLE {name} MATERIALIZE INDEX ix_text SETTINGS mutations_sync = 2")


def _partitions(store: Store) -> list[tuple[bool, dt.date]]:
    _, rows = store.query(
        f"SELECT DISTINCT kept, toString(toDate(run_hour)) AS day FROM {store.database}.span_rows ORDER BY day, kept"
    )
    return [(bool(kept), dt.date.fromisoformat(day)) for kept, day in rows]


def _to_keep(store: Store, retention: Retention, age: int, day: dt.date) -> str:
    """Return a SELECT of the runs of a day that outlive it."""
    db = store.database
    tests = [f"trace_id IN ({_pinned(store)})"]
    if age <= retention.failed_days:
        shorter = [quote_text(tenant) for tenant, days in retention.tenant_days.items() if days < retention.days]
        tests.append(f"{_NOT_OK} AND tenant NOT IN ({', '.join(shorter)})" if shorter else _NOT_OK)
    tests += [f"tenant = {quote_text(tenant)}" for tenant, days in retention.tenant_days.items() if age <= days]
    return f"SELECT trace_id FROM {db}.runs WHERE toDate(run_hour) = {_date(day)} AND ({' OR '.join(tests)})"


def _pinned(store: Store) -> str:
    return f"SELECT trace_id FROM {store.database}.pins FINAL WHERE pinned = 1"


def _drop_day(store: Store, day: dt.date, keep: str, *, dry_run: bool) -> Expired:
    """Drop a day as a whole, once the rows of the runs to keep are copied to a second partition."""
    db = store.database
    runs = _count_runs(store, f"kept = 0 AND toDate(run_hour) = {_date(day)}")
    kept_runs = _count_runs(store, f"kept = 0 AND toDate(run_hour) = {_date(day)} AND trace_id IN ({keep})")
    for table in () if dry_run else _TABLES:
        day_rows = f"{db}.{table} AS hot WHERE hot.kept = 0 AND toDate(hot.run_hour) = {_date(day)}"
        store.engine.command(
            f"INSERT INTO {db}.{table} SELECT * REPLACE (1 AS kept) FROM {day_rows} AND hot.trace_id IN ({keep})"
            f" SETTINGS {as_new()}"
        )
        _check_copy(store, table, day, keep)
    for table in () if dry_run else RUN_TABLES:
        store.engine.command(f"ALTER TABLE {store.stored(table)} DROP PARTITION (0, {_date(day)})")
    return Expired(day=day, kept_runs=kept_runs, dropped_runs=runs - kept_runs)


def _delete_over(store: Store, day: dt.date, condition: str, *, kept: int, dry_run: bool) -> Expired | None:
    """Delete some runs of a day; return None without any."""
    place = f"kept = {kept} AND toDate(run_hour) = {_date(day)}"
    over = runs_where(store, f"{place} AND {condition}")
    if not over:
        return None
    runs = _count_runs(store, place)
    if not dry_run:
        delete_rows(store, [f"kept = {kept} AND {theirs}" for theirs in of_runs(over)])
    return Expired(day=day, kept_runs=runs - len(over), dropped_runs=len(over))


def _check_copy(store: Store, table: str, day: dt.date, keep: str) -> None:
    key = "(tenant, trace_id, span_id)" if table != "piece_rows" else "(tenant, trace_id, hash)"
    _, rows = store.query(
        f"SELECT uniqExactIf({key}, kept = 0), uniqExactIf({key}, kept = 1) FROM {store.database}.{table}"
        f" WHERE toDate(run_hour) = {_date(day)} AND trace_id IN ({keep})"
    )
    there, copied = rows[0]
    if copied < there:
        raise PermanentStoreError(
            f"{table}, day {day}: copied {copied} rows of the runs to keep, expected {there}; the day was not dropped",
            do="run the sweep again; if it fails again, look for a full disk or a damaged part in the log",
        )


def _count_runs(store: Store, condition: str) -> int:
    _, rows = store.query(f"SELECT uniqExact(tenant, trace_id) FROM {store.database}.span_rows WHERE {condition}")
    return int(rows[0][0])


def _set_pin(store: Store, trace_id: str, *, pinned: bool, note: str) -> None:
    row, count = _place_of(store, trace_id)
    insert_row(store.engine, f"{store.database}.pins", {**row, "pinned": str(int(pinned)), "note": quote_text(note)})
    write_audit(store, "pin" if pinned else "unpin", trace_id, count, note)


def label(store: Store, trace_id: str, texts: Mapping[str, str]) -> None:
    """Label a run or a step. Shape of `texts`: ``{"span_id": "", "label": "bad", "note": "", "author": "ann"}``.

    Raises:
        RunError: no such run, or no such step.
    """
    row, _ = _place_of(store, trace_id, span_id=texts["span_id"])
    insert_row(store.engine, f"{store.database}.labels", {**row, **{name: quote_text(text) for name, text in texts.items()}})


def note_replay(store: Store, trace_id: str) -> None:
    """Note that a replay of the run was identical.

    Raises:
        RunError: no such run.
    """
    row, _ = _place_of(store, trace_id)
    insert_row(store.engine, f"{store.database}.labels", {**row, "span_id": quote_text(REPLAYED)})


def _place_of(store: Store, trace_id: str, *, span_id: str = "") -> tuple[dict[str, str], int]:
    """Return the columns that name a run, and the number of its spans.

    Raises:
        RunError: it is not in the store, or has no such span.
    """
    quoted = quote_text(trace_id)
    named = f"trace_id = {quoted}{f' AND span_id = {quote_text(span_id)}' if span_id else ''}"
    _, rows = store.query(f"SELECT any(tenant), count() FROM {store.database}.span_rows WHERE {named}")
    tenant, count = rows[0]
    if not count:
        where = f"run {trace_id}" if not span_id else f"run {trace_id}, span {span_id}"
        raise RunError(f"{where}: not in the store", do="give the whole trace id, as `freezeframe runs` shows it")
    return {"tenant": quote_text(tenant), "trace_id": quoted}, int(count)


def _date(day: dt.date) -> str:
    return f"toDate('{day.isoformat()}')"
