"""Deleting runs for good: one run, every run of a user, runs that mention a person, everything of a tenant.

It is verified that they are gone, and noted in `audit`.

Rows are deleted from every table that names the subject. The row of `audit` stays: because of it, a backup that is restored
later does not bring back users and tenants who were deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.own_rows import insert_row
from freezeframe_collector.store.store import Store
from freezeframe_schemas.errors import ConfigError, PermanentStoreError

SUBJECTS: Final = ("run", "user", "tenant")
"""Subjects that can be deleted as a whole."""
RUN_TABLES: Final = ("run_rows", "call_rows", "piece_rows", "span_rows")
"""The tables of a run's rows. Spans go last: they show which runs are meant, so a deletion that stopped can be repeated."""
_NAMING_RUNS: Final = ("rejected_rows", "pins", "labels", "unsettled_rows", *RUN_TABLES)
_NAMING_TENANTS: Final = ("policy_rows", *_NAMING_RUNS)
_LOOK_S: Final = 0.05
_RUNS_PER_STATEMENT: Final = 1000
"""The engine parses statements of up to 256 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    runs: int
    spans: int


def delete(store: Store, subject: str, name: str, *, note: str = "") -> Deleted:
    """Delete a run (by trace id), every run of a user, or everything of a tenant, and verify that it is gone.

    A user is named as the store knows them: by a surrogate if the policy redacts.

    Raises:
        ConfigError: the kind of subject is unknown.
        PermanentStoreError: rows are still there.
    """
    deleted = count(store, subject, name)
    _delete(store, subject, name)
    write_audit(store, f"delete_{subject}", name, deleted.spans, note)
    store.on_deleted()
    return deleted


def delete_runs(store: Store, trace_ids: Sequence[str], *, note: str = "") -> Deleted:
    """Delete the runs that mention a person, and verify that they are gone.

    Each is noted in `audit` before it goes: what a crash leaves is deleted when the order is repeated.

    Raises:
        PermanentStoreError: rows are still there.
    """
    runs = spans = 0
    for at in range(0, len(trace_ids), _RUNS_PER_STATEMENT):
        named = ", ".join(map(quote_text, trace_ids[at : at + _RUNS_PER_STATEMENT]))
        _, held = store.query(
            f"SELECT tenant, trace_id, uniqExact(span_id) FROM {store.database}.span_rows WHERE trace_id IN ({named})"
            " GROUP BY tenant, trace_id"
        )
        for _, trace_id, count_of_spans in held:
            write_audit(store, "delete_person", trace_id, count_of_spans, note)
            spans += count_of_spans
        delete_rows(store, of_runs(held), _NAMING_RUNS)
        runs += len(held)
    store.on_deleted()
    return Deleted(runs=runs, spans=spans)


def count(store: Store, subject: str, name: str) -> Deleted:
    """Return the number of runs and spans that `delete` would delete.

    Raises:
        ConfigError: the kind of subject is unknown.
    """
    _, rows = store.query(
        f"SELECT uniqExact(trace_id), uniqExact(trace_id, span_id) FROM {store.database}.span_rows"
        f" WHERE {_spans_of(store, subject, name)}"
    )
    return Deleted(runs=rows[0][0], spans=rows[0][1])


def delete_again(store: Store) -> int:
    """Delete users, persons and tenants whom a backup brought back, although `audit` says that they were deleted.

    A run that was deleted by itself stays, because it may be the reason for the restore. Return how many runs were deleted.
    """
    _, found = store.query(
        f"SELECT substring(action, 8), subject, toString(max(time)) FROM {store.database}.audit"
        " WHERE action IN ('delete_user', 'delete_person', 'delete_tenant') GROUP BY action, subject"
    )
    again = 0
    for subject, name, last in found:
        then = f"start_time < toDateTime64({quote_text(last)}, 3, 'UTC')"  # a tenant may have come back since
        runs = runs_where(store, f"{then} AND {_spans_of(store, subject, name)}")
        if runs:
            delete_rows(store, of_runs(runs), _NAMING_RUNS)
            write_audit(store, "delete_again", name, len(runs), "after a backup was restored")
        again += len(runs)
    return again


def runs_where(store: Store, condition: str) -> Sequence[Sequence[Any]]:
    """Return tenant and trace id of the runs that have a row of `span_rows` for which the condition is true."""
    return store.query(f"SELECT DISTINCT tenant, trace_id FROM {store.database}.span_rows WHERE {condition}")[1]


def of_runs(runs: Sequence[Sequence[Any]]) -> list[str]:
    """Return conditions that together match the rows of these runs, each short enough for one statement."""
    named = [f"({quote_text(tenant)}, {quote_text(trace_id)})" for tenant, trace_id, *_ in runs]
    return [
        f"(tenant, trace_id) IN ({', '.join(named[at : at + _RUNS_PER_STATEMENT])})"
        for at in range(0, len(named), _RUNS_PER_STATEMENT)
    ]


def delete_rows(store: Store, conditions: Iterable[str], tables: Sequence[str] = RUN_TABLES) -> None:
    """Delete the rows that match one of the conditions, and check whether any is left.

    Raises:
        PermanentStoreError: rows are still there.
    """
    for condition in conditions:
        for table in tables:
            store.engine.command(f"ALTER TABLE {store.stored(table)} DELETE WHERE {condition} SETTINGS mutations_sync = 2")
            _, left = store.query(f"SELECT count() FROM {store.database}.{table} WHERE {condition}")
            if left[0][0]:
                raise PermanentStoreError(f"{table}: {left[0][0]} rows still exist after their deletion", do="delete again")
    store.forget()


def begin_deletion(store: Store, conditions: Iterable[str], tables: Sequence[str] = RUN_TABLES) -> None:
    """Start deleting the current rows that match one of the conditions; `wait_deleted` waits for it.

    Rows inserted from now on stay, even if they match.
    """
    for condition in conditions:
        for table in tables:
            store.engine.command(f"ALTER TABLE {store.stored(table)} DELETE WHERE {condition} SETTINGS mutations_sync = 0")
    store.forget()


def wait_deleted(store: Store, tables: Sequence[str] = RUN_TABLES) -> None:
    """Wait until every deletion that was begun in these tables is done.

    Raises:
        PermanentStoreError: one cannot be carried out.
    """
    named = ", ".join(map(quote_text, tables))
    while True:
        _, rows = store.query(
            "SELECT table, latest_fail_reason FROM system.mutations WHERE database = {db:String} AND NOT is_done"
            f" AND table IN ({named}) ORDER BY latest_fail_reason DESC LIMIT 1",
            {"db": store.database},
        )
        if not rows:
            return
        if rows[0][1]:
            raise PermanentStoreError(f"{rows[0][0]}: rows cannot be deleted: {str(rows[0][1])[:300]}", do="look at its disk")
        time.sleep(_LOOK_S)


def write_audit(store: Store, action: str, subject: str, rows: int, note: str) -> None:
    """Note a retention or deletion, with its reason."""
    row = {"action": quote_text(action), "subject": quote_text(subject), "rows": str(rows), "note": quote_text(note)}
    insert_row(store.engine, f"{store.database}.audit", row)


def _delete(store: Store, subject: str, name: str) -> None:
    match subject:
        case "run":
            delete_rows(store, [f"trace_id = {quote_text(name)}"], _NAMING_RUNS)
        case "tenant":
            delete_rows(store, [f"tenant = {quote_text(name)}"], _NAMING_TENANTS)
        case _:
            # named one by one: as rows are deleted, fewer and fewer show which runs are the user's
            delete_rows(store, of_runs(runs_where(store, _spans_of(store, subject, name))), _NAMING_RUNS)


def _spans_of(store: Store, subject: str, name: str) -> str:
    """Return the condition on rows of `span_rows` that are a subject's."""
    quoted = quote_text(name)
    match subject:
        case "run" | "person":  # a person's deletion names each run
            return f"trace_id = {quoted}"
        case "user":
            return f"trace_id IN (SELECT DISTINCT trace_id FROM {store.database}.span_rows WHERE user_id = {quoted})"
        case "tenant":
            return f"tenant = {quoted}"
        case _:
            raise ConfigError(f"delete: found {subject!r}, expected one of {', '.join(SUBJECTS)}")
