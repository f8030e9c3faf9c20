"""Migrations: numbered files, checksummed, forward only. Views and the feed of `run_rows` are replaced when their
text changed.

The ledger is a table in the database itself. Each statement is idempotent, so a run that stopped midway is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from freezeframe_collector.store.engine import Engine, quote_identifier, quote_text
from freezeframe_collector.store.own_rows import insert_row
from freezeframe_schemas.errors import PermanentStoreError
from freezeframe_schemas.tables.ddl import TABLES, checksum, migrations
from freezeframe_schemas.tables.views import VIEW_NAME, run_rows_sql, views

_LEXEME: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|--[^\n]*|/\*.*?\*/|;|[^;'`/-]+|.", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_PART_INTO: Final = re.compile(r"\AINSERT INTO \{db\}\.(\w+)\{sfx\}")
_PART_FROM: Final = re.compile(r"\bFROM \{db\}\.(\w+)\{sfx\}")
_DURABLE: Final = ", fsync_after_insert = 1, fsync_part_directory = 1, old_parts_lifetime = 480"
"""A server's default is 480 s; chDB 26.9's is 0. A reader's statement keeps reading the parts that it began with."""
_LEDGER: Final = (
    "CREATE TABLE IF NOT EXISTS {db}.schema_migrations {on_cluster} (name String COMMENT 'File of the migration, or view/NAME',"
    " checksum String COMMENT 'SHA-256 of its text', applied_at DateTime64(3, 'UTC') DEFAULT now64(3))"
    " ENGINE = {replacing_at} ORDER BY name COMMENT 'What was applied to this database'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One applied (or, in a dry run, pending) step."""

    name: str
    statements: int


def migrate(engine: Engine, database: str, *, cluster: str | None = None, dry_run: bool = False) -> list[Migration]:
    """Bring `database` to this version's schema.

    Raises:
        PermanentStoreError: a migration in the ledger is unknown here (the database is newer), or its text was edited.
    """
    applied = _applied(engine, database)
    files = migrations()
    tables = [] if cluster is None else [("cluster/distributed", distributed_sql())]
    whole_views = [] if cluster is None else [("cluster/views", distributed_views_sql())]
    _refuse_newer(applied, {name for name, _ in files})
    for name, sql in files:
        if name in applied and applied[name] != checksum(sql):
            raise PermanentStoreError(
                f"migration {name}: the database {database} applied a text with checksum {applied[name][:12]}, this version "
                f"has {checksum(sql)[:12]}",
                do="never edit an applied migration: add a new one; install the version that created this database",
            )
    pending = [(name, sql) for name, sql in files if name not in applied]
    replaced = [("feed/run_rows", run_rows_sql()), *((f"view/{name}", sql) for name, sql in views())]
    changing = [*tables, *replaced, *whole_views]
    pending += [(name, sql) for name, sql in changing if applied.get(name) != checksum(sql)]
    if dry_run or not pending:
        return [Migration(name=name, statements=len(list(statements(sql)))) for name, sql in pending]
    engine.command(render("CREATE DATABASE IF NOT EXISTS {db} {on_cluster} ENGINE = Atomic", database, cluster))
    engine.command(render(_LEDGER, database, cluster))
    done: list[Migration] = []
    for name, sql in pending:
        count = 0
        for statement in statements(sql):
            engine.command(render(statement, database, cluster))
            count += 1
        applied_row = {"name": quote_text(name), "checksum": quote_text(checksum(sql))}
        insert_row(engine, f"{quote_identifier(database)}.schema_migrations", applied_row)
        done.append(Migration(name=name, statements=count))
    return done


def statements(sql: str) -> Iterator[str]:
    """Yield the statements of a SQL text, without comments."""
    parts: list[str] = []
    for match in _LEXEME.finditer(sql):
        lexeme = match[0]
        if lexeme.startswith(("--", "/*")):
            continue
        if lexeme == ";":
            if text := "".join(parts).strip():
                yield text
            parts = []
        else:
            parts.append(lexeme)
    if text := "".join(parts).strip():
        yield text


def render(statement: str, database: str, cluster: str | None = None) -> str:
    """Fill in ``{name}``; query parameters, ``{name:Type}``, stay.

    On a cluster a table whose name ends in ``{sfx}`` is a shard's part, behind a Distributed one; every other
    table is whole on each node. An INSERT from table to table runs on every shard.
    """
    if cluster and statement.startswith("INSERT INTO"):
        # ON CLUSTER does not work with INSERT; the Distributed tables may not be there yet
        statement = _PART_INTO.sub(
            r"INSERT INTO FUNCTION cluster({cluster}, {db_text}, '\1{sfx}', cityHash64(trace_id))", statement
        )
        statement = _PART_FROM.sub(r"FROM cluster({cluster}, {db_text}, '\1{sfx}')", statement)
    names = {
        "db": quote_identifier(database),
        "db_text": quote_text(database),
        "cluster": quote_text(cluster or ""),
        "on_cluster": f"ON CLUSTER {quote_text(cluster)}" if cluster else "",
        "sfx": "_local" if cluster else "",
        "replacing": "ReplacingMergeTree",
        "replacing_at": "ReplacingMergeTree(applied_at)",
        "replacing_version": "ReplacingMergeTree(version)",
        "aggregating": "AggregatingMergeTree",
        "merge_tree": "MergeTree",
        # a Replicated table deduplicates by itself
        "durable": _DURABLE + ("" if cluster else ", non_replicated_deduplication_window = 1000"),
    }
    if cluster:
        # the server's macros fill in the paths: by default one per shard, and for whole tables one for all nodes
        whole = "" if "{sfx}" in statement else "'/clickhouse/tables/{uuid}/all', '{shard}-{replica}'"
        names |= {
            "replacing": f"ReplicatedReplacingMergeTree({whole})",
            "replacing_at": f"ReplicatedReplacingMergeTree({', '.join(filter(None, (whole, 'applied_at')))})",
            "replacing_version": "ReplicatedReplacingMergeTree(version)",
            "aggregating": f"ReplicatedAggregatingMergeTree({whole})",
            "merge_tree": f"ReplicatedMergeTree({whole})",
        }
    return _PLACEHOLDER.sub(lambda match: names.get(match[1], match[0]), statement)


def distributed_sql() -> str:
    """Return the tables of a cluster that are in front of its shards' parts.

    A run is on one shard: its joins need no other. The tables keep the columns that the parts had at creation.
    So they are recreated, which loses nothing, if a column has changed: the comment makes this text change with
    it.
    """
    return "\n".join(
        f"-- {', '.join(column.name for column in columns)}\n"
        f"CREATE OR REPLACE TABLE {{db}}.{table} {{on_cluster}} AS {{db}}.{table}{{sfx}}"
        f" ENGINE = Distributed({{cluster}}, {{db_text}}, '{table}{{sfx}}', cityHash64(trace_id));"
        for table, columns in TABLES
    )


def distributed_views_sql() -> str:
    """Return the tables of a cluster that are in front of the views of its shards' parts: each shard answers for its own runs.

    Recreated whenever such a view changes: the comment holds its checksum.
    """
    return "\n".join(
        f"-- {checksum(sql)}\n"
        f"CREATE OR REPLACE TABLE {{db}}.{name[1]} {{on_cluster}} AS {{db}}.{name[1]}{{sfx}}"
        f" ENGINE = Distributed({{cluster}}, {{db_text}}, '{name[1]}{{sfx}}');"
        for _, sql in views()
        if (name := VIEW_NAME.search(sql)) is not None and name[2]
    )


def _applied(engine: Engine, database: str) -> dict[str, str]:
    _, found = engine.rows(
        "SELECT count() FROM system.tables WHERE database = {db:String} AND name = 'schema_migrations'", {"db": database}
    )
    if not found[0][0]:
        return {}
    _, rows = engine.rows(
        f"SELECT name, argMax(checksum, applied_at) FROM {quote_identifier(database)}.schema_migrations GROUP BY name"
    )
    return {str(row[0]): str(row[1]) for row in rows}


def _refuse_newer(applied: dict[str, str], known: set[str]) -> None:
    newer = sorted(name for name in applied if name not in known and not name.startswith(("view/", "cluster/", "feed/")))
    if newer:
        raise PermanentStoreError(
            f"the database has migrations that this version does not know: {', '.join(newer)}",
            do="upgrade freezeframe, or open a database that this version created",
        )
