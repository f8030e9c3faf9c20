"""The views that answer the questions people ask: files in ``sql/views``, and two generated from the replay kit.

`replay_kit` and `readiness` say in SQL what `freezeframe_schemas.run` says in Python, from the same rows (`run.KIT`); a test
holds that they agree.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from freezeframe_schemas.run import KIT, LEVELS, KitField, Scope
from freezeframe_schemas.tables.columns import ATTRIBUTE_COLUMNS, RESOURCE_COLUMNS
from freezeframe_schemas.tables.ddl import quoted, with_names

_COLUMN_OF: Final = {column.attribute: column for column in ATTRIBUTE_COLUMNS}
_RESOURCE_COLUMN_OF: Final = {column.attribute: column for column in RESOURCE_COLUMNS}
_ENTRY_RANK: Final = "(multiIf(entry_kind != '', 0, parent_span_id = '', 1, 2), start_time, span_id)"
"""As `run.build_run` finds the entry point: the span that is marked, else the root, else the first."""


def views() -> list[tuple[str, str]]:
    """Return the views as (name, SQL), in an order in which each finds those it reads."""
    folder = resources.files("freezeframe_schemas") / "sql" / "views"
    texts = {item.name[:-4]: item.read_text(encoding="utf-8") for item in folder.iterdir() if item.name.endswith(".sql")}
    texts["040_replay_kit"] = replay_kit_sql()
    texts["041_readiness"] = readiness_sql()
    return [(name, with_names(sql)) for name, sql in sorted(texts.items())]


def presence(attribute: str, *, resource: bool = False) -> str:
    """Return a SQL condition over a row of spans: does it carry the attribute?"""
    column = (_RESOURCE_COLUMN_OF if resource else _COLUMN_OF).get(attribute)
    name = quoted(attribute)
    texts, refs = ("resource", "resource_refs") if resource else ("attributes", "refs")
    tests = [f"mapContains({texts}, {name})", f"mapContains({refs}, {name})"]
    if column is not None:
        if column.type.startswith("Nullable("):
            tests.insert(0, f"{column.name} IS NOT NULL")
        elif column.type.startswith("Array("):
            tests.insert(0, f"notEmpty({column.name})")
        else:
            tests.insert(0, f"{column.name} != ''")
    return f"({' OR '.join(tests)})"


def replay_kit_sql() -> str:
    """Return the view `replay_kit`: one row per run, and for each kit field how many of its spans lack it.

    Over the table, not the view ``spans``, which spells every hash of `refs` in hex: here only the keys of the maps are read.
    """
    lines = [f"    {_lacking(kit_field)} AS lacks_{kit_field.name}" for kit_field in KIT]
    columns = ",\n".join(lines)
    return f"""-- Generated from freezeframe_schemas.run.KIT.
CREATE OR REPLACE VIEW {{db}}.replay_kit {{on_cluster}} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    anyIf(s.run_id, s.run_id != '') AS run_id,
    min(s.start_time) AS start_time,
    count() AS spans,
    countIf(exchange_kind != '') AS exchanges,
    arraySort(arrayDistinct(arrayConcat(
        arrayFlatten(groupArray(gaps)),
        if(hasAll(arrayConcat(groupArray(span_id), ['']), groupArray(parent_span_id)), [], ['orphan_spans'])))) AS run_gaps,
{columns}
FROM (SELECT *, {_ENTRY_RANK} AS entry_rank FROM {{db}}.span_rows FINAL) AS s
GROUP BY s.tenant, s.trace_id
COMMENT 'One row per run: for each field of the replay kit, how many of the spans that need it lack it';
"""


def readiness_sql() -> str:
    """Return the view `readiness`: the level that each run reaches, and the kit fields that it lacks by name."""
    missing = ",\n        ".join(f"if(lacks_{f.name} > 0, [({quoted(f.name)}, {f.level})], [])" for f in KIT)
    names = ", ".join(f"{level}, {quoted(text)}" for level, text in LEVELS.items())
    return f"""-- Generated from freezeframe_schemas.run.KIT and LEVELS; says what run.readiness says.
CREATE OR REPLACE VIEW {{db}}.readiness {{on_cluster}} AS
WITH arrayConcat(
        {missing}) AS lacking
SELECT
    tenant,
    trace_id,
    run_id,
    start_time,
    multiIf(exchanges = 0, 1, least(
        if(empty(lacking), 7, arrayMin(arrayMap(field -> field.2, lacking))) - 1,
        if(empty(run_gaps), 6, 5))) AS level,
    map({names})[toUInt8(level)] AS level_name,
    level < 3 AS cold,
    arrayMap(field -> field.1, lacking) AS missing,
    arrayMap(field -> field.1, arrayFilter(field -> field.2 <= level + 1, lacking)) AS missing_for_next,
    run_gaps AS gaps,
    exchanges
FROM {{db}}.replay_kit
COMMENT 'The level that each run reaches (run.LEVELS), and the fields of the replay kit that it lacks by name';
"""


def _lacking(kit_field: KitField) -> str:
    resource = kit_field.scope is Scope.RESOURCE
    lacks = " AND ".join(f"NOT {presence(name, resource=resource)}" for name in kit_field.attributes)
    if kit_field.omitted is not None:
        lacks = f"({lacks} OR {presence(kit_field.omitted, resource=resource)})"
    if kit_field.omitted is not None:
        lacks = f"({lacks} OR {presence(kit_field.omitted)})"
    if kit_field.scope in (Scope.ENTRY, Scope.RESOURCE):
        return f"toUInt64(argMin({lacks}, entry_rank))"
    return f"countIf(exchange_kind = {quoted(kit_field.scope.value)} AND {lacks})"
