"""Allow a reader only one reading statement, over the store's own tables, with bounded settings.

The statement is parsed by the engine itself (``classify_query``, ``EXPLAIN AST``), never by guessing; only the settings
in it are found by tokens, as the parser does not show them. ``tests/store/test_attacks.py`` lists what must be refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from freezeframe_collector.readers.errors import ClickHouseError, denied, from_engine, unknown_function

ENGINE: Final = "26.9.0"
"""The version of chdb-core whose functions the file lists."""
ALLOWED, ELSE = (frozenset(part.split()) for part in Path(__file__).with_name("functions.txt").read_text().split("\n\n"))
_FORMS: Final = frozenset({"lambda", "exists", "grouping", "untuple"})
"""Written as functions in a tree, but not in the engine's list."""
_COMBINATORS: Final = re.compile(
    r"(?:if|array|map|state|merge|simplestate|foreach|distinct|ordefault|ornull|resample|argmin|argmax|tuple|null)$"
)


def is_allowed(name: str) -> bool:
    """Return whether a function may be called: it is in the list, or an aggregate function of it with combinators."""
    name = name.lower()
    while name not in ALLOWED and name not in _FORMS:
        shorter = _COMBINATORS.sub("", name)
        if name in ELSE or shorter == name:
            return False
        name = shorter
    return True


def _installed() -> str:
    try:
        return version("chdb-core")
    except PackageNotFoundError:
        return ""


_KNOWS_ENGINE: Final = _installed() == ENGINE


def refused_among(names: Iterable[str], handle: Any) -> set[str]:
    """Return those that are names of the engine's functions and not allowed: ``arrayMap(file, ...)`` takes one by its name.

    The functions of an engine of another version are queried, which costs some 30 ms.
    """
    refused = {name.lower() for name in names} - ALLOWED
    if _KNOWS_ENGINE or not refused:
        return refused & ELSE
    listed = handle.query("SELECT lower(name) FROM system.functions", "TSV").bytes().decode()
    return refused & set(listed.split())


DATABASES: Final = frozenset({"system", "information_schema"})
STATEMENTS: Final = frozenset(
    {
        *("SelectWithUnionQuery", "Explain", "DescribeQuery", "ExistsTableQuery", "ExistsViewQuery", "ExistsDatabaseQuery"),
        *("ShowTables", "ShowColumns", "ShowIndexes", "ShowFunctions", "ShowSetting", "ShowEngineQuery"),
        *("ShowCreateTableQuery", "ShowCreateViewQuery", "ShowCreateDatabaseQuery"),
    }
)
"""Roots of the trees of allowed statements.

Some reading ones are left out: SHOW PROCESSLIST shows others' statements, CHECK reads every file.
"""
NODES: Final = STATEMENTS | {
    *("SelectQuery", "SelectIntersectExceptQuery", "Subquery", "WithElement", "ExpressionList", "Literal", "Set"),
    *("Identifier", "TableIdentifier", "Function", "WindowDefinition", "WindowListElement", "OrderByElement"),
    *("TablesInSelectQuery", "TablesInSelectQueryElement", "TableExpression", "TableJoin", "ArrayJoin", "SampleRatio"),
    *("Asterisk", "QualifiedAsterisk", "ColumnsListMatcher", "ColumnsRegexpMatcher", "InterpolateElement"),
    *("QualifiedColumnsListMatcher", "QualifiedColumnsRegexpMatcher", "ColumnsTransformerList", "ColumnsApplyTransformer"),
    *("ColumnsExceptTransformer", "ColumnsReplaceTransformer", "ColumnsReplaceTransformer::Replacement"),
}
"""All allowed nodes of a tree."""
_PARSE: Final = "EXPLAIN AST "
_PLACE: Final = re.compile(r"(failed at position |\(line 1, col )(\d+)")
EXPLAINED: Final = frozenset(
    {
        *("EXPLAIN", "EXPLAIN PIPELINE", "EXPLAIN QUERY TREE", "EXPLAIN SYNTAX", "EXPLAIN ESTIMATE", "EXPLAIN AST"),
        "EXPLAIN ANALYZE",
    }
)
"""Kinds of EXPLAIN that hold a SELECT. EXPLAIN TABLE OVERRIDE holds a table function, and connects to its server."""
TABLE_FUNCTIONS: Final = frozenset(
    {
        *("numbers", "numbers_mt", "zeros", "zeros_mt", "generate_series", "generateseries", "values", "view", "viewexplain"),
        "search",
    }
)
"""Those with a table's structure or rows as text (`format`, ``generateRandom``, `null`) are not here: a DEFAULT in a structure
and a row of `Values` are expressions that no tree shows. Nor is `merge`, which reads tables of any database.
"""
SYSTEM_TABLES: Final = frozenset(
    {
        *("one", "numbers", "numbers_mt", "zeros", "zeros_mt", "primes"),
        *("databases", "tables", "columns", "parts", "parts_columns", "data_skipping_indices", "projections", "constraints"),
        *("functions", "aggregate_function_combinators", "table_functions", "data_type_families", "table_engines", "formats"),
        *("database_engines", "codecs", "collations", "keywords", "completions", "documentation", "time_zones", "tokenizers"),
        *("settings", "merge_tree_settings", "build_options", "contributors", "licenses", "metrics", "events", "errors"),
        *("dictionaries", "clusters", "replicas", "merges", "mutations", "user_defined_functions", "data_skipping_index_types"),
    }
)
"""System tables that clients query or that describe the store.

Not those that show other readers' statements, users, disks and caches.
"""

SETTINGS: Final[Mapping[str, float | None]] = {
    # bounded: the largest value that a reader may ask for
    "max_execution_time": 300,
    "max_memory_usage": 2e9,
    "max_threads": 8,
    "max_block_size": 1e6,
    "max_result_rows": 1e9,
    "max_result_bytes": 8e9,
    "max_rows_to_read": 1e12,
    "max_bytes_to_read": 1e13,
    # free
    **dict.fromkeys(
        (
            *("readonly", "session_timezone", "timezone", "limit", "offset", "extremes", "result_overflow_mode"),
            *("timeout_overflow_mode", "read_overflow_mode", "join_use_nulls", "final", "prefer_column_name_to_alias"),
            *("date_time_input_format", "date_time_output_format", "low_cardinality_allow_in_native_format"),
            *("send_progress_in_http_headers", "wait_end_of_query", "buffer_size", "enable_http_compression"),
            *("max_query_size", "max_ast_depth", "max_ast_elements", "max_expanded_ast_elements", "log_queries", "log_comment"),
            *("join_algorithm", "optimize_move_to_prewhere", "use_skip_indexes", "count_distinct_implementation"),
            *("async_insert", "wait_for_async_insert", "insert_deduplicate", "log_query_threads", "use_query_cache"),
            *("group_by_overflow_mode", "max_rows_to_group_by", "any_join_distinct_right_table_keys", "transform_null_in"),
            *("implicit_select", "cast_keep_nullable", "cast_string_to_dynamic_use_inference", "select_sequential_consistency"),
            *("http_headers_progress_interval_ms", "allow_suspicious_low_cardinality_types", "optimize_read_in_order"),
            *("priority", "max_columns_to_read", "preferred_block_size_bytes", "connect_timeout", "receive_timeout"),
            *("allow_experimental_variant_type", "allow_experimental_dynamic_type", "allow_experimental_json_type"),
            *("allow_experimental_qbit_type", "enable_time_time64_type", "json_type_escape_dots_in_keys"),
            "insert_deduplication_token",
        )
    ),
}
_SETTING_FAMILIES: Final = re.compile(
    r"(?:output|input)_format_(?:allow|always|arrow|avro|binary|bson|capn|column|compression|csv|custom|decimal|defaults|enable"
    r"|float|force|geojson|hive|image|import|ipv[46]|json|markdown|max|msgpack|mysql|native|null|orc|parallel|parquet|pretty"
    r"|protobuf|read|skip|sql|trim|try|tsv|with|write)_\w+|output_format_values_\w+|format_(?:binary|csv|custom|tsv)_\w+"
    r"|show_(?:create|table)_\w+"
)
"""Prefixes of settings for reading and writing values.

None of these names a file, as ``input_format_record_errors_file_path`` does.
"""

TOKEN: Final = re.compile(
    rb"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`|--[^\n]*|/\*.*?\*/|\#[ !][^\n]*"""
    rb"""|[A-Za-z_]\w*|[\d.]+(?:[eE][+-]?\d+)?|\s+|.""",
    re.DOTALL,
)
_SIGNS: Final = frozenset(b"()[]{},;.:+-*/%=<>!?|@^")
_NAME: Final = re.compile(rb"[A-Za-z_]\w*|`[^`\\]*`|\"[^\"\\]*\"")
_NAMED_LAMBDA: Final = re.compile(r"^ *Function lambda \(alias (.+)\) \(children [0-9]+\)$", re.MULTILINE)
_AFTER_SETTINGS: Final = frozenset({b"FORMAT", b"UNION", b"EXCEPT", b"INTERSECT", b"INTO", b"SETTINGS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A statement that may run."""

    sql: str
    format: str | None
    """From its FORMAT clause."""
    select: bool
    """A SELECT, which can be streamed; else SHOW, DESCRIBE, EXPLAIN and the like."""
    control: bool
    """SET or USE, which only make sense in a session."""


class Guard:
    """Checks statements against one database, over the handle of the reader that is to run them."""

    def __init__(self, handle: Any, database: str) -> None:
        self._handle = handle
        self._databases = DATABASES | {database}

    def check(self, raw: bytes, parameters: Mapping[str, str]) -> Checked:
        """Return the statement if it may run. It is parsed with its parameters: an ``Identifier`` may name any table.

        Raises:
            ClickHouseError: it may not, or it does not parse.
        """
        try:
            sql = raw.strip().removesuffix(b";").decode()
        except UnicodeDecodeError:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: the statement is not UTF-8") from None
        if not sql:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: empty statement")
        words = list(tokens(raw))
        classified = self._handle.classify_query(sql, "default")
        if classified["statement_count"] > 1:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: Multi-statements are not allowed")
        for name, value in settings_in(words):
            check_setting(name, value)
        query_class: str = classified["query_class"].name
        if query_class == "CONTROL":
            return self._control(sql, words)
        if query_class == "UNKNOWN":
            self._parse(sql, parameters)  # raises the parser's own words
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: not a statement that this endpoint knows")
        if query_class != "READ_ONLY":
            raise _READ_ONLY
        tree = self._parse(sql, parameters)
        root = tree.split(maxsplit=1)[0]
        if root not in STATEMENTS:
            raise _READ_ONLY
        if root.startswith("Show"):
            _check_show(words)
        found = self._walk(tree, words)
        select = root == "SelectWithUnionQuery"
        return Checked(sql=sql, format=found if select else _last_format(words), select=select, control=False)

    def _control(self, sql: str, words: list[bytes]) -> Checked:
        match words[0].upper():
            case b"SET" if settings := list(_assignments(words[1:])):
                for name, value in settings:
                    check_setting(name, value)
            # not `system`: a name without a database is taken for one of the store's
            case b"USE" if _unquoted(words[-1]) in {*self._databases - {"system"}, "default"}:
                pass
            case _:
                raise _READ_ONLY
        return Checked(sql=sql, format=None, select=False, control=True)

    def _parse(self, sql: str, parameters: Mapping[str, str]) -> str:
        try:
            return self._handle.query(f"{_PARSE}{sql}", "TSVRaw", params=dict(parameters)).bytes().decode(errors="replace")
        except RuntimeError as error:  # its places count what stands before the statement
            message = _PLACE.sub(lambda found: f"{found[1]}{int(found[2]) - len(_PARSE)}", str(error))
            raise from_engine(RuntimeError(message)) from error

    def _walk(self, tree: str, words: list[bytes]) -> str | None:
        """Refuse everything that a reader may not touch; return the FORMAT."""
        found: str | None = None
        parents: list[str] = []
        applied = 0
        lambdas = set(_NAMED_LAMBDA.findall(tree))
        named: set[str] = set()
        for line in tree.splitlines():
            depth = len(line) - len(line.lstrip(" "))
            node, _, rest = line.strip().partition(" ")
            name = rest.partition(" (")[0]
            del parents[depth:]
            parent = parents[-1] if parents else ""
            parents.append(node)
            if node not in NODES:
                raise denied(f"{node} in a statement")
            if node == "Function":
                if parent == "TableExpression":
                    if name.lower() not in TABLE_FUNCTIONS:
                        raise denied(f"table function {name}")
                elif not is_allowed(name) and name not in lambdas:
                    raise denied(f"function {name}") if name.lower() in ELSE else unknown_function(name)
                named.add(name)
            elif node == "TableIdentifier":
                self._check_table(name)
            elif node == "ColumnsApplyTransformer":
                applied += 1
            elif node == "Explain" and name not in EXPLAINED:
                raise denied(name)
            elif depth == 0 and node.startswith(("Exists", "ShowCreate")):
                self._check_database(name.partition(" ")[0])
            elif depth == 1 and node == "Literal":
                raise denied("INTO OUTFILE")
            elif depth == 1 and node == "Identifier":
                found = name
            elif node == "Identifier":
                named.add(name.rpartition(".")[2])
        if refused := refused_among(named, self._handle):
            raise denied(f"{min(refused)}, which is the name of a function,")
        _check_applied(applied, words)
        return found

    def _check_table(self, name: str) -> None:
        database, dot, table = name.partition(".")
        if not dot:
            return
        self._check_database(database)
        if database.lower() == "system" and table.lower() not in SYSTEM_TABLES:
            raise denied(f"table {name}")

    def _check_database(self, name: str) -> None:
        if name and name.lower() not in self._databases:
            raise denied(f"database {name}")


_READ_ONLY: Final = ClickHouseError(
    164, "READONLY", "Cannot execute query in readonly mode: this endpoint only reads the store"
)


def _check_show(words: list[bytes]) -> None:
    """Refuse a SHOW that calls anything: the tree does not show its WHERE and LIMIT, which the engine puts into a SELECT."""
    if b"(" in words:
        raise denied("a parenthesis in SHOW")
    if "default" in {_unquoted(word) for word in words}:
        raise denied("the engine's own database")


def _check_applied(count: int, words: list[bytes]) -> None:
    """Refuse ``* APPLY(...)`` of anything but a function by its plain name: the tree does not show which function it is."""
    places = [at for at, word in enumerate(words) if word.upper() == b"APPLY"]
    if not count:
        return
    if len(places) != count:
        raise denied("APPLY beside a name like it")
    for at in places:
        inner = words[at + 1 : at + 4]
        name = inner[1] if inner[:1] == [b"("] else inner[0] if inner else b""
        plain = re.fullmatch(rb"[A-Za-z_]\w*", name) is not None
        if not plain or inner[2:3] == [b"-"] or not is_allowed(name.decode()):
            raise denied("APPLY of anything but the name of a function")


def _unquoted(word: bytes) -> str:
    return word.decode(errors="replace").strip('`"').lower()


def _last_format(words: list[bytes]) -> str | None:
    """Return the format that SHOW, DESCRIBE and EXPLAIN end with; their trees do not show it."""
    return words[-1].decode() if len(words) > 2 and words[-2].upper() == b"FORMAT" else None


def check_setting(name: str, value: str) -> None:
    """Refuse a setting that a reader may not change, or not that far.

    Raises:
        ClickHouseError: it is not in the list, or beyond its bound.
    """
    if name not in SETTINGS:
        if _SETTING_FAMILIES.fullmatch(name):
            return
        raise ClickHouseError(164, "READONLY", f"Cannot modify setting '{name}' in readonly mode")
    if name == "readonly" and value not in {"1", "2"}:
        raise ClickHouseError(164, "READONLY", "Cannot modify 'readonly' setting in readonly mode")
    bound = SETTINGS[name]
    if bound is None:
        return
    try:
        number = float(value)
    except ValueError:
        number = float("inf")
    # 0 means unbounded, except for threads
    if not (0 < number <= bound) and not (name == "max_threads" and number == 0):
        raise ClickHouseError(
            452, "SETTING_CONSTRAINT_VIOLATION", f"Setting {name} shouldn't be greater than {bound:g} (found {value})"
        )


def tokens(raw: bytes) -> Iterator[bytes]:
    """Yield the words and signs of a statement, without spaces and comments.

    Raises:
        ClickHouseError: a sign after which the engine's own lexer may split the rest differently: ``$``, which begins a
            heredoc or is part of a name, an escape in a name, a letter beyond ASCII (some are quotes) outside quotes, or
            anything else that SQL does not have.
    """
    for match in TOKEN.finditer(raw.strip().removesuffix(b";")):
        token = match[0]
        unknown = len(token) == 1 and token[0] not in _SIGNS and not (token.isalnum() or token.isspace() or token == b"_")
        if unknown or (token[:1] in b'`"' and b"\\" in token):
            raise ClickHouseError(
                62,
                "SYNTAX_ERROR",
                "Syntax error: $, an escaped name, a letter beyond ASCII or a sign that SQL lacks outside quotes",
            )
        if not (token.isspace() or token.startswith((b"--", b"/*", b"# ", b"#!"))):
            yield token


def settings_in(words: list[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the settings that a statement's SETTINGS clauses change."""
    for index, word in enumerate(words):
        if word.upper() == b"SETTINGS":
            yield from _assignments(words[index + 1 :])


def _assignments(words: list[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the settings of ``a = 1, b = 'x', c``; a name without a value is set to 1."""
    at = 0
    while at < len(words) and _NAME.fullmatch(words[at]):
        start = at
        while at < len(words) and words[at] not in {b"=", b","} and words[at].upper() not in _AFTER_SETTINGS:
            at += 1
        name = b"".join(words[start:at]).decode().strip('`"')
        value: list[bytes] = []
        depth = 0
        if at < len(words) and words[at] == b"=":
            at += 1
            while at < len(words) and (depth or (words[at] != b"," and words[at].upper() not in _AFTER_SETTINGS)):
                depth += (words[at] in b"([{") - (words[at] in b")]}")
                if depth < 0:  # the clause of a subquery ends
                    break
                value.append(words[at])
                at += 1
        elif at - start != 1 or (at < len(words) and words[at] != b","):
            return  # not a clause: a column or an alias of that name
        yield name, b"".join(value).decode().strip("'") if value else "1"
        if at >= len(words) or words[at] != b",":
            return
        at += 1
