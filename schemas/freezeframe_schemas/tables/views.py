"""The views that answer the questions people ask: files in ``sql/views``, and two generated from the replay kit.

Each column is described in the file, after it, or by the table's column of that name: see `view_columns`.

`replay_kit` and `readiness` are the SQL form of `freezeframe_schemas.run`, from the same rows (`run.KIT`); a
test checks that they agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.gaps import CEILINGS, GapKind
from freezeframe_schemas.run import (
    KINDS_IN,
    KIT,
    LEVELS,
    NO_EXCHANGES,
    NOT_VERIFIED,
    OPERATION_IN,
    RE_ENACTED_FROM,
    UNSEEN,
    KitField,
    KitScope,
)
from freezeframe_schemas.tables.columns import RUN_COLUMNS, SPAN_COLUMNS
from freezeframe_schemas.tables.ddl import TABLES, UNFINISHED, described, quoted, with_names

_CHUNK_COLUMN: Final = {genai.RESPONSE_CHUNK_SIZES: "chunk_sizes", genai.RESPONSE_CHUNK_OFFSETS_NS: "chunk_gaps"}
_ENTRY_RANK: Final = (
    "toUInt8(multiIf(s.entry_kind != '', 0, s.parent_span_id = '', 1, 2)), s.start_time,"
    " if(s.begun = '', s.span_id, s.parent_span_id), s.begun != ''"
)
"""The same order as in `run.build_run`: the marked span, else the root, else the first. A pending span comes after
its entry span, and replaces it if it is missing."""
_PLACES: Final = {
    key: at
    for at, key in enumerate(
        dict.fromkeys(
            (name, field.scope is KitScope.RESOURCE)
            for field in KIT
            for name in (*field.attributes, field.omitted)
            if name is not None
        )
    )
}
"""Attribute of the kit, and whether it is the resource's -> its bit in `carried_sql`."""

_USED: Final = 4 + 8
_REPORTED: Final = 64 + 128
"""Bits of `run_rows.marks`: an exchange with a tool or a retriever; a span that describes one."""


def views() -> list[tuple[str, str]]:
    """Return the views as (name, SQL), in an order such that each comes after those it reads."""
    folder = resources.files("freezeframe_schemas") / "sql" / "views"
    texts = {item.name[:-4]: item.read_text(encoding="utf-8") for item in folder.iterdir() if item.name.endswith(".sql")}
    texts["020_runs"] = texts["020_runs"].replace("{OF_LEVEL}", _level_sql()).replace("{LEVEL}", _LEVEL)
    texts["040_replay_kit"] = replay_kit_sql()
    texts["041_readiness"] = readiness_sql()
    whole = ((name, with_names(sql)) for name, sql in sorted(texts.items()))
    return [(name, sql + comments_sql(sql)) for name, sql in whole]


def carried_sql() -> str:
    """Return a SQL expression over a row of ``span_rows``: a bit for each attribute of the kit that it or its resource has.

    One number, because the engine plans the feed anew for each insert, and each call in it costs it some 0.1 ms.
    """
    span = "mapKeys(attributes), mapKeys(refs)" + "".join(
        f", if(notEmpty({column}), [{quoted(name)}], [])" for name, column in _CHUNK_COLUMN.items() if (name, False) in _PLACES
    )
    resource = "JSONExtractKeys(origin, 'resource'), JSONExtractKeys(origin, 'refs')"
    return " + ".join(
        f"arraySum(name -> transform(toString(name), [{', '.join(map(quoted, bits))}], {[*bits.values()]}, 0),"
        f" arrayConcat({names}))"
        for is_resource, names in ((False, span), (True, resource))
        if (bits := {name: 1 << at for (name, of_resource), at in _PLACES.items() if of_resource is is_resource})
    )


def _needs(kit_field: KitField) -> tuple[int, int]:
    """Return the bits of `carried_sql` of which a row has to have one, and those of which it may have none."""
    resource = kit_field.scope is KitScope.RESOURCE
    omitted = 0 if kit_field.omitted is None else 1 << _PLACES[kit_field.omitted, resource]
    return sum(1 << _PLACES[name, resource] for name in kit_field.attributes), omitted


def replay_kit_sql() -> str:
    """Return the view `replay_kit`: one row per run, and for each kit field how many of its spans lack it.

    Over the table, not the view ``spans``, which spells every hash of `refs` in hex: here only the keys of the maps are read.
    """
    counts = [f"    {_lacking(field)} AS lacks_{field.name}" for field in KIT]
    notes = [f" -- Spans that should carry {field.name} and do not" for field in KIT]
    columns = "\n".join(f"{count}{',' * (count != counts[-1])}{note}" for count, note in zip(counts, notes, strict=True))
    return f"""-- Generated from freezeframe_schemas.run.KIT.
CREATE OR REPLACE VIEW {{db}}.replay_kit {{on_cluster}} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    anyIf(s.run_id, s.run_id != '') AS run_id,
    min(s.start_time) AS start_time, -- First start of a span
    countIf(begun = '') AS spans, -- Spans
    countIf(exchange_kind != '') AS exchanges, -- Exchanges
    arraySort(arrayDistinct(arrayConcat(
        arrayFlatten(groupArray(gaps)),
        if(hasAll(arrayConcat(groupArray(span_id), groupArrayIf(parent_span_id, begun != ''), ['']),
            groupArray(parent_span_id)), [], ['{GapKind.ORPHAN_SPANS}']),
        if(sum(toUInt64OrZero(s.attributes['{genai.ENTRY_EXCHANGES}'])) > exchanges, ['{GapKind.EXCHANGES_LOST}'], []),
        if(hasAll(groupArray(span_id), groupArrayIf(parent_span_id, begun != '')), [], ['{GapKind.UNFINISHED}']))))
        AS run_gaps, -- What spans of it are known to lack
{columns}
FROM (SELECT *, {{COMPUTED_COLUMNS}}, ({_ENTRY_RANK}) AS entry_rank, {carried_sql()} AS carried
    FROM {{db}}.span_rows AS s FINAL) AS s
GROUP BY s.tenant, s.trace_id
COMMENT 'One row per run: for each field of the replay kit, how many of the spans that need it lack it';
"""


def _level_sql() -> str:
    """Return expressions for a WITH over a row `r` of `run_rows` joined with `exchanges`: `level`, and its inputs."""
    fields = ", ".join(f"({quoted(f.name)}, {f.level - 1}, {bit}, {int(f.scope in OPERATION_IN)})" for bit, f in enumerate(KIT))
    kinds = ", ".join(quoted(kind.value) for kind in CEILINGS)
    ceilings = ", ".join(str(ceiling) for ceiling in CEILINGS.values())
    return f"""\
    arrayFilter(field -> bitTest(bitOr(r.lacks, r.entry_lacks.lacks), field.3) AND (field.4 = 0 OR exchanges = 0), [{fields}])
        AS lacking,
    arraySort(arrayConcat(r.gaps,
        if(hasAll(arrayConcat(mapKeys(r.marks), r.begun), r.parents), [], ['{GapKind.ORPHAN_SPANS}']),
        if(arraySum(mapValues(r.made)) > exchanges, ['{GapKind.EXCHANGES_LOST}'], []),
        if({UNFINISHED}, ['{GapKind.UNFINISHED}'], []))) AS known_gaps,
    arrayConcat(arrayMap(field -> (field.1, toUInt8(field.2)), lacking),
        arrayMap(gap -> (gap, toUInt8(transform(gap, [{kinds}], [{ceilings}], 5))), known_gaps)) AS lowered,
    arrayConcat(lowered, if(arrayExists(ceiling -> ceiling.2 < {max(LEVELS)}, lowered) OR {VERIFIED},
        [], [('{NOT_VERIFIED}', toUInt8({max(LEVELS) - 1}))])) AS ceilings,
    arrayMin(arrayPushBack(arrayMap(ceiling -> ceiling.2, ceilings), toUInt8({max(LEVELS)}))) AS lowest,
    if(exchanges = 0, least(lowest, 2), lowest) AS reached,
    arrayExists(mark -> bitAnd(mark, if(exchanges = 0, {_REPORTED}, {_USED})) > 0, mapValues(r.marks)) AS used_tools"""


REPLAYED: Final = "replay"
"""Span id of the row of `labels` that records an identical replay of the run."""
VERIFIED: Final = f"(r.tenant, r.trace_id) IN (SELECT tenant, trace_id FROM {{db}}.labels WHERE span_id = '{REPLAYED}')"
_LEVEL: Final = "if(reached = 2 AND NOT used_tools, 1, reached) AS level, -- How far the run can be re-enacted"
"""A column over the expressions of `_level_sql`."""


def readiness_sql() -> str:
    """Return the view `readiness`: the level that each run reaches, and the kit fields that it lacks by name.

    Over `run_rows`, which has each run's bits: `replay_kit` counts, so it reads every span. Reads as `runs` does.
    """
    names = ", ".join(f"{level}, {quoted(text)}" for level, text in LEVELS.items())
    return f"""-- Generated from freezeframe_schemas.run.KIT and LEVELS, and gaps.CEILINGS; says what run.readiness says.
CREATE OR REPLACE VIEW {{db}}.readiness {{on_cluster}} AS
WITH
{_level_sql()}
SELECT
    r.tenant AS tenant,
    r.trace_id AS trace_id,
    r.run_id::String AS run_id,
    r.start_time::DateTime64(9, 'UTC') AS start_time, -- First start of a span
    {_LEVEL}
    concat(map({names})[toUInt8(level)], if(has(missing_for_next, '{NOT_VERIFIED}'), '{UNSEEN}', ''))
        AS level_name, -- The level in words
    level < {RE_ENACTED_FROM} AS cold, -- True where it cannot be re-enacted by itself
    arrayMap(field -> field.1, lacking) AS missing, -- Fields of the replay kit that it lacks
    if(exchanges = 0, ['{NO_EXCHANGES}'],
        arraySort(arrayMap(ceiling -> ceiling.1, arrayFilter(ceiling -> ceiling.2 = lowest, ceilings))))
        AS missing_for_next, -- What keeps it from the next level: fields and gaps, or {NO_EXCHANGES}
    known_gaps AS gaps, -- What spans of it are known to lack
    arrayCount(mark -> bitAnd(mark, 30) > 0, mapValues(r.marks)) AS exchanges -- Exchanges
FROM (SELECT * FROM {{db}}.run_rows FINAL) AS r
COMMENT 'The level that each run reaches (run.LEVELS), and the fields of the replay kit that it lacks by name';
"""


def run_rows_sql() -> str:
    """Return the feed of `run_rows`, and the statement that rebuilds the rows of all runs: applied whenever its text changes.

    So the kit changes in `run.KIT` alone. Spans that arrive meanwhile are gathered twice, which changes nothing.
    """
    text = (resources.files("freezeframe_schemas") / "sql" / "run_rows.sql").read_text(encoding="utf-8")
    by_kind = ", ".join(f"{_in_scope(scope)}, {_fields(scope)}" for scope in (*KINDS_IN, *OPERATION_IN))
    select = with_names(
        text.replace("{ENTRY_RANK}", _ENTRY_RANK)
        .replace("{CARRIED}", carried_sql())
        .replace("{KIT_OF_EXCHANGES}", _bits(f"multiIf({by_kind}, [])"))
        .replace("{KIT_OF_ENTRY}", _bits(_fields(KitScope.ENTRY, KitScope.RESOURCE)))
    )
    columns = ", ".join(column.name for column in RUN_COLUMNS)
    return f"""DROP VIEW IF EXISTS {{db}}.run_rows_feed {{on_cluster}};

TRUNCATE TABLE {{db}}.run_rows{{sfx}} {{on_cluster}};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{db}}.run_rows_feed {{on_cluster}} TO {{db}}.run_rows{{sfx}} AS
{select};

INSERT INTO {{db}}.run_rows{{sfx}} ({columns})
{select}
SETTINGS max_partitions_per_insert_block = 0;
"""


def _bits(kit: str) -> str:
    """Return which fields of a list of `_fields` a row `s` of spans lacks, one bit each by its place in the kit."""
    return f"toUInt32(arraySum(f -> if(bitAnd(s.carried, f.1) = 0 OR bitAnd(s.carried, f.2) != 0, f.3, 0), {kit}))"


def _fields(*scopes: KitScope) -> str:
    """Return the kit's fields of these scopes in SQL: the `_needs` of each, and its bit."""
    return str([(*_needs(kit_field), 1 << bit) for bit, kit_field in enumerate(KIT) if kit_field.scope in scopes])


def _lacking(kit_field: KitField) -> str:
    if kit_field.scope in (KitScope.ENTRY, KitScope.RESOURCE):
        return f"toUInt64(argMin({_absent(kit_field)}, entry_rank))"
    count = f"countIf({_in_scope(kit_field.scope)} AND {_absent(kit_field)})"
    return f"if(exchanges = 0, {count}, 0)" if kit_field.scope in OPERATION_IN else count


def _in_scope(scope: KitScope) -> str:
    """Return a SQL condition over a row `s` of spans: whether it must carry the fields of the scope."""
    if scope in OPERATION_IN:
        return f"s.exchange_kind = '' AND s.operation = {quoted(OPERATION_IN[scope])}"
    return f"s.exchange_kind IN ({', '.join(quoted(kind.value) for kind in KINDS_IN[scope])})"


def _absent(kit_field: KitField) -> str:
    """Return a SQL condition over a row `s` of spans: whether it lacks the field."""
    needed, omitted = _needs(kit_field)
    return f"(bitAnd(s.carried, {needed}) = 0" + (f" OR bitAnd(s.carried, {omitted}) != 0)" if omitted else ")")


# -- The descriptions of a view's columns, read from its SQL file for the database and the page of tables --------------
# A file has one SELECT that makes the columns, with one or more lines for each; the description follows the last of them::
#
#     row_number() OVER (...) AS step, -- Place in the run, from 1
#
# A column without one has the description of the table's column of that name. ``*`` is all columns of the table in FROM.


VIEW_NAME: Final = re.compile(r"VIEW \{db\}\.(\w+)(\{sfx\})?")
_SELECT: Final = r"^{0}SELECT\b(.*?)^{0}FROM "
_OUTER: Final = re.compile(_SELECT.format(""), re.DOTALL | re.MULTILINE)
_INNER: Final = re.compile(_SELECT.format("    "), re.DOTALL | re.MULTILINE)
_ALL: Final = re.compile(r"^\s*(?:\w+\.)?\*(?: EXCEPT \(([\w, ]+)\))?")
_TABLE: Final = re.compile(r"^FROM \{db\}\.(\w+)", re.MULTILINE)
_NAMED: Final = re.compile(r"(?:\bAS|^) ?`?([\w.]+)`?(?=,|$)")
_SPAN_TEXTS: Final = {column.name: described(column) for column in SPAN_COLUMNS}


def view_columns(sql: str) -> dict[str, str]:
    """Return the columns of a view in order, each with its description."""
    select = _OUTER.search(sql)
    if select is None:
        raise ValueError(f"{sql[:60]!r}: found no SELECT at the start of a line, expected one that makes the view's columns")
    return dict(_columns(select[1], sql))


def comments_sql(sql: str) -> str:
    """Return the statement that stores a view's column descriptions in the database; none if they depend on a parameter."""
    name = VIEW_NAME.search(sql)
    if name is None or ":String}" in sql:
        return ""
    comments = ", ".join(f"COMMENT COLUMN `{column}` {quoted(text)}" for column, text in view_columns(sql).items())
    return (
        f"{'' if sql.rstrip().endswith(';') else ';'}\nALTER TABLE {{db}}.{name[1]}{name[2] or ''} {{on_cluster}} {comments};\n"
    )


def _columns(select: str, sql: str) -> Iterator[tuple[str, str]]:
    depth = 0
    for line in select.splitlines():
        made, _, text = line.partition(" -- ")
        if not depth and (every := _ALL.match(made)):
            yield from _all_columns(sql, {name.strip() for name in (every[1] or "").split(",")})
        depth += made.count("(") - made.count(")")
        names = _NAMED.findall(made.strip()) if not depth else []
        for name in names:
            yield name, text if text and name == names[-1] else _SPAN_TEXTS.get(name, "")


def _all_columns(sql: str, left_out: set[str]) -> Iterator[tuple[str, str]]:
    inner = _INNER.search(sql)
    if inner is not None:
        yield from _columns(inner[1], sql)
        return
    table = _TABLE.search(sql)
    assert table is not None
    stored = (column for column in dict(TABLES)[table[1]] if not column.alias and column.name not in left_out)
    yield from ((column.name, described(column)) for column in stored)
