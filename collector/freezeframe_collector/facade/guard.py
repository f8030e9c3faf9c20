"""What a reader may run: one reading statement, over the store's own tables, with bounded settings.

The statement is parsed by the engine itself (``classify_query``, ``EXPLAIN AST``), never by a guess of ours; only the settings
in it are found by tokens, as the parser does not show them. ``tests/store/test_attacks.py`` lists what must be refused.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from freezeframe_collector.facade.errors import ClickHouseError, denied

DATABASES: Final = frozenset({"system", "information_schema"})
TABLE_FUNCTIONS: Final = frozenset(
    {
        *("numbers", "numbers_mt", "zeros", "zeros_mt", "generate_series", "generateseries", "generaterandom"),
        *("values", "null", "view", "viewexplain", "format", "merge", "mergetreeindex", "mergetreetextindex", "search"),
    }
)
FUNCTIONS_REFUSED: Final = frozenset(
    {
        *("file", "python", "catboostevaluate", "executable", "url", "remote", "cluster", "s3", "getclienthttpheader"),
        *("addresstoline", "addresstosymbol", "addresstolinewithinlines", "demangle", "dictgetkeys", "displayname_"),
        *("sleep", "sleepeachrow", "generateuserdefined", "shownone", "filesystemavailable", "filesystemcapacity"),
    }
)
SYSTEM_TABLES_REFUSED: Final = frozenset(
    {
        *("users", "roles", "grants", "role_grants", "current_roles", "enabled_roles", "quotas", "quota_usage", "processes"),
        *("settings_profiles", "settings_profile_elements", "row_policies", "query_log", "query_thread_log", "session_log"),
        *("text_log", "server_settings", "disks", "storage_policies", "remote_data_paths", "named_collections", "certificates"),
        *("zookeeper", "dropped_tables", "user_directories", "query_cache", "blob_storage_log", "s3queue", "stack_trace"),
        *("symbols", "trace_log", "crash_log", "backups", "filesystem_cache", "macros", "user_processes", "warnings"),
    }
)

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
        )
    ),
}
_SETTING_FAMILIES: Final = re.compile(r"(output|input)_format_(?!schema)\w+|format_(csv|tsv|custom|binary|display)\w*|show_\w+")
_REMEMBERED: Final = 256
_REMEMBERED_BYTES: Final = 16 << 10
_NAMES_BY_PARAMETER: Final = b"identifier"
"""In a statement with ``{name:Identifier}`` a parameter can name a table; any other parameter is a value, whatever it holds."""

_TOKEN: Final = re.compile(
    rb"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`|--[^\n]*|/\*.*?\*/|\#[ !][^\n]*"""
    rb"""|\$(\w*)\$.*?\$\1\$|[A-Za-z_]\w*|[\d.]+(?:[eE][+-]?\d+)?|\s+|.""",
    re.DOTALL,
)


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
    """Checks statements against one database."""

    def __init__(self, open_handle: Any, database: str) -> None:
        self._handle = open_handle()
        self._handle.query(f"USE `{database}`")
        self._handle.query("SET readonly=2")
        self._lock = threading.Lock()
        self._databases = DATABASES | {database}
        self._known: OrderedDict[bytes, Checked] = OrderedDict()

    def check(self, raw: bytes, parameters: Mapping[str, str]) -> Checked:
        """Return the statement as one that may run. It is parsed with its parameters: an ``Identifier`` may name any table.

        What may run is remembered: clients ask the same few statements with other parameters, and to parse one that names a
        hundred columns takes as long as to run it.

        Raises:
            ClickHouseError: it may not, or it does not parse.
        """
        with self._lock:
            known = self._known.get(raw)
            if known is not None:
                self._known.move_to_end(raw)
                return known
        checked = self._check(raw, parameters)
        if len(raw) <= _REMEMBERED_BYTES and _NAMES_BY_PARAMETER not in raw.lower():
            with self._lock:
                self._known[raw] = checked
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        return checked

    def _check(self, raw: bytes, parameters: Mapping[str, str]) -> Checked:
        try:
            sql = raw.strip().removesuffix(b";").decode()
        except UnicodeDecodeError:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: the statement is not UTF-8") from None
        if not sql:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: empty statement")
        with self._lock:
            classified = self._handle._conn.classify_query(sql, "default")
        if classified["statement_count"] > 1:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: Multi-statements are not allowed")
        for name, value in settings_in(raw):
            check_setting(name, value)
        query_class: str = classified["query_class"].name
        if query_class == "CONTROL":
            return self._control(sql)
        if query_class == "UNKNOWN":
            self._parse(sql, parameters)  # raises the parser's own words
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: not a statement that this endpoint knows")
        if query_class != "READ_ONLY":
            raise ClickHouseError(164, "READONLY", "Cannot execute query in readonly mode: this endpoint only reads the store")
        tree = self._parse(sql, parameters)
        found = self._walk(tree)
        if tree.startswith("ShowTables") and any(word.strip(b'`"').lower() == b"default" for word in tokens(raw)):
            raise denied("the engine's own database")
        select = tree.startswith("SelectWithUnionQuery")
        return Checked(sql=sql, format=found if select else _last_format(raw), select=select, control=False)

    def close(self) -> None:
        """Close the handle that parses."""
        self._handle.close()

    def _control(self, sql: str) -> Checked:
        words = sql.split()
        match words[0].upper():
            case "SET" if len(words) > 1 and words[1].upper() not in {"ROLE", "DEFAULT", "TRANSACTION"}:
                for name, value in _assignments(list(tokens(sql.encode()))[1:]):
                    check_setting(name, value)
            case "USE" if words[-1].strip('`"').lower() in {*self._databases, "default"}:
                pass
            case _:
                raise ClickHouseError(
                    164, "READONLY", "Cannot execute query in readonly mode: this endpoint only reads the store"
                )
        return Checked(sql=sql, format=None, select=False, control=True)

    def _parse(self, sql: str, parameters: Mapping[str, str]) -> str:
        with self._lock:
            return self._handle.query(f"EXPLAIN AST {sql}", "TSVRaw", params=dict(parameters)).bytes().decode(errors="replace")

    def _walk(self, tree: str) -> str | None:
        """Refuse what a reader may not touch; return the FORMAT."""
        found: str | None = None
        parents: list[str] = []
        for line in tree.splitlines():
            depth = len(line) - len(line.lstrip(" "))
            node, _, rest = line.strip().partition(" ")
            name = rest.partition(" (")[0]
            del parents[depth:]
            parent = parents[-1] if parents else ""
            parents.append(node)
            if node == "Function":
                if parent == "TableExpression":
                    if name.lower() not in TABLE_FUNCTIONS:
                        raise denied(f"table function {name}")
                elif name.lower() in FUNCTIONS_REFUSED:
                    raise denied(f"function {name}")
            elif node == "TableIdentifier":
                self._check_table(name)
            elif depth == 1 and node == "Literal":
                raise denied("INTO OUTFILE")
            elif depth == 1 and node == "Identifier":
                found = name
        return found

    def _check_table(self, name: str) -> None:
        database, dot, table = name.partition(".")
        if not dot:
            return
        if database.lower() not in self._databases:
            raise denied(f"table {name}")
        if database.lower() == "system" and table.lower() in SYSTEM_TABLES_REFUSED:
            raise denied(f"table {name}")


def _last_format(raw: bytes) -> str | None:
    """Return the format that SHOW, DESCRIBE and EXPLAIN end with; their trees do not show it."""
    words = list(tokens(raw.strip().removesuffix(b";")))
    return words[-1].decode() if len(words) > 2 and words[-2].upper() == b"FORMAT" else None


def check_setting(name: str, value: str) -> None:
    """Refuse a setting that a reader may not change, or not so far.

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
    # 0 means without bound, except for threads
    if not (0 < number <= bound) and not (name == "max_threads" and number == 0):
        raise ClickHouseError(
            452, "SETTING_CONSTRAINT_VIOLATION", f"Setting {name} shouldn't be greater than {bound:g} (found {value})"
        )


def tokens(raw: bytes) -> Iterator[bytes]:
    """Yield the words and signs of a statement, without spaces and comments."""
    for match in _TOKEN.finditer(raw):
        token = match[0]
        if not (token.isspace() or token.startswith((b"--", b"/*", b"# ", b"#!"))):
            yield token


def settings_in(raw: bytes) -> Iterator[tuple[str, str]]:
    """Yield the settings that a statement's SETTINGS clauses change."""
    found = list(tokens(raw))
    for index, token in enumerate(found):
        if token.upper() == b"SETTINGS":
            yield from _assignments(found[index + 1 :])


def _assignments(words: list[bytes]) -> Iterator[tuple[str, str]]:
    at = 0
    while at + 2 < len(words) and words[at + 1] == b"=":
        value = words[at + 2]
        step = 3
        if value in {b"-", b"+"} and at + 3 < len(words):
            value += words[at + 3]
            step = 4
        yield words[at].decode().strip('`"'), value.decode().strip("'")
        at += step
        if at >= len(words) or words[at] != b",":
            return
        at += 1
