"""What a reader of the store may not do: write, read files, reach the network, start programs, exhaust the machine."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from freezeframe_collector.store import Store

pytestmark = pytest.mark.long  # some hundred statements against a real engine

SECRET = "the-secret-in-a-file"

WRITES = [
    "INSERT INTO spans_x VALUES (1)",
    "INSERT INTO span_rows (trace_id) SELECT 'x'",
    "INSERT INTO FUNCTION file('/srv/out.csv') SELECT 1",
    "INSERT INTO FUNCTION url('http://127.0.0.1:9/x', CSV, 'a Int8') VALUES (1)",
    "DROP TABLE span_rows",
    "DROP DATABASE freezeframe",
    "TRUNCATE TABLE span_rows",
    "ALTER TABLE span_rows DELETE WHERE 1",
    "ALTER TABLE span_rows DROP PARTITION ID 'all'",
    "ALTER TABLE span_rows UPDATE name = 'x' WHERE 1",
    "DELETE FROM span_rows WHERE 1",
    "UPDATE span_rows SET name = 'x' WHERE 1",
    "CREATE TABLE t (a Int8) ENGINE = Memory",
    "CREATE TEMPORARY TABLE t (a Int8)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE DATABASE d",
    "CREATE FUNCTION f AS x -> x",
    "CREATE USER u IDENTIFIED BY 'x'",
    "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(FILE(path '/etc/passwd' format 'CSV')) LIFETIME(0) LAYOUT(FLAT())",
    "CREATE NAMED COLLECTION c AS a = 1",
    "RENAME TABLE span_rows TO x",
    "EXCHANGE TABLES span_rows AND piece_rows",
    "OPTIMIZE TABLE span_rows FINAL",
    "DETACH TABLE span_rows",
    "GRANT ALL ON *.* TO default",
    "REVOKE ALL ON *.* FROM default",
    "SYSTEM SHUTDOWN",
    "SYSTEM STOP MERGES",
    "SYSTEM DROP MARK CACHE",
    "KILL QUERY WHERE 1",
    "BACKUP DATABASE freezeframe TO File('/srv/b')",
    "RESTORE DATABASE freezeframe FROM File('/srv/b')",
    "SET ROLE admin",
    "EXPLAIN INSERT INTO span_rows SELECT * FROM span_rows",
    "SELECT 1; DROP TABLE span_rows",
    "/* SELECT 1 */ DROP TABLE span_rows",
    "WITH 1 AS a INSERT INTO span_rows (trace_id) SELECT toString(a)",
    "EXECUTE AS default DROP TABLE span_rows",
    "MOVE USER default TO disk",
    "UNDROP TABLE span_rows",
    "ATTACH TABLE x FROM '/etc'",
]
READS_OUTSIDE = [
    "SELECT * FROM file('{path}', LineAsString)",
    "SELECT * FROM file({{p:String}}, LineAsString)",
    "SELECT file('{path}')",
    "SELECT (SELECT file('{path}'))",
    "SELECT * FROM view(SELECT * FROM file('{path}', LineAsString))",
    "SELECT 1 WHERE 1 IN (SELECT 1 FROM file('{path}', LineAsString))",
    "WITH x AS (SELECT * FROM file('{path}', LineAsString)) SELECT * FROM x",
    "SELECT * FROM fileCluster('c', '{path}', LineAsString)",
    "SELECT * FROM default.`{path}`",
    "SELECT * FROM `default`.`{path}`",
    "SELECT * FROM `{path}`",
    "SELECT * FROM '{path}'",
    'SELECT * FROM "{path}"',
    "SELECT * FROM {{t:Identifier}}",
    "SELECT * FROM default.{{p:Identifier}}",
    "SELECT * FROM merge('default', '.*')",
    "SELECT * FROM merge(REGEXP('.*'), '.*')",
    "SELECT * FROM url('file://{path}', LineAsString)",
    "SELECT * FROM url('http://127.0.0.1:9/', LineAsString)",
    "SELECT * FROM s3('http://127.0.0.1:9/b/x.csv')",
    "SELECT * FROM remote('127.0.0.1:9000', system.one)",
    "SELECT * FROM remoteSecure('127.0.0.1:9440', system.one)",
    "SELECT * FROM cluster('default', system.one)",
    "SELECT * FROM clusterAllReplicas('default', system.one)",
    "SELECT * FROM mysql('127.0.0.1:3306', 'a', 'b', 'c', 'd')",
    "SELECT * FROM postgresql('127.0.0.1:5432', 'a', 'b', 'c', 'd')",
    "SELECT * FROM mongodb('127.0.0.1:27017', 'a', 'b', 'c', 'd', 'a Int8')",
    "SELECT * FROM redis('127.0.0.1:6379', 'k', 'k String')",
    "SELECT * FROM sqlite('{path}', 'x')",
    "SELECT * FROM hdfs('hdfs://127.0.0.1/x', 'CSV')",
    "SELECT * FROM azureBlobStorage('http://127.0.0.1:9', 'c', 'x')",
    "SELECT * FROM iceberg('http://127.0.0.1:9/x')",
    "SELECT * FROM deltaLake('http://127.0.0.1:9/x')",
    "SELECT * FROM jdbc('jdbc:x', 'y')",
    "SELECT * FROM odbc('DSN=x', 'y')",
    "SELECT * FROM executable('cat {path}', LineAsString, 'l String')",
    "SELECT * FROM executable('id', TSV, 'l String')",
    "SELECT * FROM python('os')",
    "SELECT * FROM Python(os)",
    "SELECT * FROM input('a Int8')",
    "SELECT * FROM dictionary('d')",
    "SELECT catboostEvaluate('{path}', 1)",
    "DESCRIBE TABLE file('{path}', LineAsString)",
    "DESCRIBE file('{path}')",
    "EXPLAIN SELECT * FROM file('{path}', LineAsString)",
    "SELECT 1 INTO OUTFILE '{path}.out'",
    "SELECT 1 INTO OUTFILE '{path}.out' FORMAT CSV",
    "SHOW TABLES FROM default",
    "USE default; SELECT * FROM `{path}`",
    "SELECT * FROM format(LineAsString, file('{path}'))",
    "SELECT * FROM system.users",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.named_collections",
]
# expressions in places that the tree of a statement does not show, or in which a lexer may lose its way
HIDDEN = [
    "SELECT * APPLY(file) FROM (SELECT '{path}' AS a)",
    "SELECT * APPLY file FROM (SELECT '{path}' AS a)",
    "SELECT * APPLY(FILE) FROM (SELECT '{path}' AS a)",
    "SELECT * APPLY(`file`) FROM (SELECT '{path}' AS a)",
    "SELECT * APPLY(\"\\x66ile\") FROM (SELECT '{path}' AS a)",
    "SELECT * APPLY(toString) APPLY(file) FROM (SELECT '{path}' AS a)",
    "SELECT * /* APPLY(toString) */ APPLY(file) FROM (SELECT '{path}' AS a)",
    "SELECT 'APPLY(toString)', * APPLY(file) FROM (SELECT '{path}' AS a)",
    "SELECT a$x$, * APPLY(file) FROM (SELECT '{path}' AS a$x$)",
    "SELECT COLUMNS('.*') APPLY(x -> file('{path}')) FROM prices",
    "SELECT * REPLACE (file('{path}') AS note) FROM prices",
    "SELECT * FROM format(JSONEachRow, 'a String, b String DEFAULT file(\\'{path}\\')', '{{\"a\": \"x\"}}')",
    "SELECT * FROM format(Values, 'a String', '(file(\\'{path}\\'))')",
    "SELECT * FROM format(Values, 'a String', '((SELECT file(\\'{path}\\')))')",
    "SELECT * FROM null('a String DEFAULT file(\\'{path}\\')')",
    "SELECT * FROM generateRandom('a String DEFAULT file(\\'{path}\\')') LIMIT 1",
    "SELECT * FROM search(words = file('{path}'))",
    "SELECT * FROM prices ORDER BY 1 WITH FILL FROM file('{path}') TO 1",
    "SELECT * FROM prices ORDER BY prefix INTERPOLATE (note AS file('{path}'))",
    "SELECT count() FILTER (WHERE file('{path}') != '') FROM prices",
    "SELECT * FROM prices QUALIFY file('{path}') != ''",
    "SELECT sum(1) OVER (ORDER BY file('{path}')) FROM prices",
    "SELECT * FROM (EXPLAIN SYNTAX SELECT file('{path}'))",
    "SELECT `file`('{path}')",
    "SELECT f/**/ile('{path}')",
    "EXISTS TABLE default.`{path}`",
    "SHOW CREATE TABLE default.`{path}`",
    "SHOW COLUMNS FROM `{path}` FROM default",
    "SHOW COLUMNS FROM x FROM `\\x64efault`",
    "SELECT hasColumnInTable('127.0.0.1:9', 'system', 'one', 'dummy')",
    "SELECT aiGenerate('x', 'y')",
]
OTHERS = [
    "SHOW PROCESSLIST",
    "SHOW GRANTS",
    "SHOW ACCESS",
    "CHECK TABLE span_rows",
    "CHECK ALL TABLES",
    "SELECT * FROM merge('system', '^processes$')",
    "SELECT * FROM merge(REGEXP('sys.*'), '^processes$')",
    "SELECT * FROM mergeTreeIndex('system', 'x')",
    "SELECT * FROM system.user_query_log",
    "SELECT * FROM system.session_query_ids",
    "SELECT * FROM system.statements",
    "SELECT * FROM system.stack_trace",
    "SELECT * FROM system.query_condition_cache",
    "SELECT * FROM system.jemalloc_stats",
    "SELECT * FROM System.Processes",
    "SELECT * FROM `system`.`processes`",
    "USE system",
    "SELECT getServerSetting('path')",
    "SELECT logTrace('x')",
]
EXHAUSTION = [
    "SELECT 1 SETTINGS max_execution_time = 0",
    "SELECT 1 SETTINGS max_execution_time = 100000",
    "SELECT 1 SETTINGS max_memory_usage = 0",
    "SELECT 1 SETTINGS max_memory_usage = 999999999999",
    "SELECT 1 SETTINGS max_threads = 1000",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT 1 SETTINGS allow_ddl = 1",
    "SELECT 1 SETTINGS allow_introspection_functions = 1",
    "SELECT * FROM (SELECT 1 SETTINGS max_memory_usage = 999999999999)",
    "SELECT 1 /* x */ SETTINGS /* y */ `max_memory_usage` = 999999999999",
    "SELECT 1 SETTINGS max_threads = 2, max_memory_usage = 999999999999",
    "SELECT sleep(3)",
    "SELECT sleepEachRow(1) FROM numbers(100)",
    "SELECT groupArray(number) FROM numbers(1000000000)",
    "SELECT 1 FORMAT JSON SETTINGS max_memory_usage = 999999999999",
    "SET max_memory_usage = 999999999999",
    "SET readonly = 0",
    "SET allow_ddl = 1",
    "SELECT 1 AS a$x$ SETTINGS max_memory_usage = 999999999999 -- $x$",
    "SELECT $ ' $ 1 $ ' $ AS a SETTINGS max_memory_usage = 999999999999",
    "SELECT \u2018 ' \u2019 AS a SETTINGS max_memory_usage = 999999999999 -- '",
    "SELECT 1 SETTINGS final, max_memory_usage = 999999999999",
    "SELECT 1 SETTINGS allow_introspection_functions",
    "SELECT 1 SETTINGS log_comment = {p:String}, max_memory_usage = 999999999999",
    "SELECT 1 SETTINGS a.b = 1, max_memory_usage = 999999999999",
    "SELECT 1 SETTINGS join_algorithm = ['hash'], max_memory_usage = 999999999999",
    "SELECT 1 SETTINGS max_memory_usage = DEFAULT",
    "SELECT 1 SETTINGS max_threads = 2 SETTINGS max_memory_usage = 999999999999",
    "SELECT 1 SETTINGS profile = 'default'",
    "SELECT repeat('x', 10000000000)",
    "SELECT length(range(10000000000))",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count() FROM t",
]


def ask(url: str, sql: str, **parameters: str) -> tuple[int, str]:
    """Send one statement as curl would."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("POST", "/?" + urlencode(parameters), body=sql.encode())
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outside") / "secret.csv"
    path.write_text(SECRET)
    return path


@pytest.fixture(autouse=True)
def unchanged(store: Store) -> object:
    """Every attack leaves the tables as they were."""

    def state() -> object:
        tables = store.query("SELECT name FROM system.tables WHERE database = 'freezeframe' ORDER BY name")
        return tables, store.query("SELECT count() FROM freezeframe.span_rows")

    before = state()
    yield
    assert state() == before
    return None


@pytest.mark.parametrize("sql", WRITES)
def test_a_reader_cannot_write(facade_url: str, sql: str) -> None:
    status, text = ask(facade_url, sql)
    assert status >= 400, text
    assert "Code: " in text


@pytest.mark.parametrize("sql", READS_OUTSIDE)
def test_a_reader_cannot_leave_the_store(facade_url: str, secret_file: Path, sql: str) -> None:
    status, text = ask(facade_url, sql.format(path=secret_file), param_p=str(secret_file), param_t=f"default.{secret_file}")
    assert status >= 400, text
    assert SECRET not in text
    assert not Path(f"{secret_file}.out").exists()


@pytest.mark.parametrize("sql", HIDDEN)
def test_no_expression_escapes_the_check(facade_url: str, secret_file: Path, sql: str) -> None:
    status, text = ask(facade_url, sql.format(path=secret_file))
    assert status >= 400, text
    assert SECRET not in text


def test_a_structure_as_text_evaluates_nothing(facade_url: str, secret_file: Path) -> None:
    _, text = ask(facade_url, f"SELECT * FROM values('a String, b String DEFAULT file(\\'{secret_file}\\')', ('x', 'y'))")
    assert SECRET not in text


@pytest.mark.parametrize("sql", OTHERS)
def test_a_reader_learns_nothing_of_others(facade_url: str, sql: str) -> None:
    status, text = ask(facade_url, sql)
    assert status >= 400, text


@pytest.mark.parametrize("parameters", [{"database": "system"}, {"session_id": "of-the-system"}])
def test_a_name_without_a_database_is_one_of_the_stores(facade_url: str, parameters: dict[str, str]) -> None:
    ask(facade_url, "USE system", **parameters)
    status, text = ask(facade_url, "SELECT * FROM processes", **parameters)
    assert status == 404, text


@pytest.mark.parametrize("asked", ["in the statement", "in the URL"])
def test_no_file_is_written_for_bad_rows(facade_url: str, tmp_path: Path, asked: str) -> None:
    setting = {"input_format_record_errors_file_path": str(tmp_path / "errors")}
    if asked == "in the URL":
        status, text = ask(facade_url, "SELECT 1", **setting)
    else:
        status, text = ask(facade_url, f"SELECT 1 SETTINGS input_format_record_errors_file_path = '{tmp_path / 'errors'}'")
    assert status >= 400, text
    assert not (tmp_path / "errors").exists()


@pytest.mark.parametrize("sql", EXHAUSTION)
def test_a_reader_cannot_lift_its_bounds(facade_url: str, sql: str) -> None:
    status, text = ask(facade_url, sql)
    assert status >= 400 or "__exception__" in text, text


@pytest.mark.parametrize(
    "setting",
    ["readonly=0", "max_memory_usage=0", "max_execution_time=9999", "allow_ddl=1", "format_schema=/etc/passwd", "no_such=1"],
)
def test_settings_in_the_url_are_bounded_too(facade_url: str, setting: str) -> None:
    name, _, value = setting.partition("=")
    status, text = ask(facade_url, "SELECT 1", **{name: value})
    assert status >= 400, text


def test_the_default_database_of_the_engine_is_out_of_reach(facade_url: str, secret_file: Path) -> None:
    status, text = ask(facade_url, f"SELECT * FROM `{secret_file}`", database="default")
    assert status >= 400
    assert SECRET not in text
    status, text = ask(facade_url, "SELECT currentDatabase()", database="default")
    assert (status, text) == (200, "freezeframe\n")


@pytest.mark.parametrize("header", [("Host", "evil.example:8123"), ("Origin", "https://evil.example")])
def test_another_web_page_cannot_ask_through_a_browser(facade_url: str, header: tuple[str, str]) -> None:
    parts = urlsplit(facade_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("POST", "/", body=b"SELECT 1", headers=dict([header]))
    answer = connection.getresponse()
    assert answer.status == 403
    connection.close()


def test_what_a_reader_may_do_is_done(facade_url: str) -> None:
    for sql in (
        "SELECT count() FROM runs",
        "SELECT count() FROM freezeframe.spans",
        "SHOW TABLES",
        "SHOW CREATE TABLE span_rows",
        "DESCRIBE TABLE spans",
        "EXPLAIN SELECT * FROM spans",
        "EXISTS TABLE spans",
        "SELECT name FROM system.tables LIMIT 1",
        "SELECT table_name FROM information_schema.tables LIMIT 1",
        "WITH 1 AS settings SELECT settings",
        "SELECT 'SETTINGS max_memory_usage = 0'",
        "SELECT 1 SETTINGS max_threads = 2, output_format_json_quote_64bit_integers = 0",
        "SELECT * APPLY(toString) FROM prices LIMIT 1",
        "SELECT COLUMNS('usd') APPLY(max) FROM prices",
        "SELECT settings, 2 FROM (SELECT 1 AS settings)",
        "SELECT 'ü‘$', \"note\" FROM prices LIMIT 1 -- ü",
        "SELECT * FROM (SELECT 1 SETTINGS max_threads = 1) AS x",
        "SELECT * FROM values('a Int8', (1))",
        "EXPLAIN indexes = 1 SELECT count() FROM runs",
        "EXISTS TABLE freezeframe.spans",
        "SHOW COLUMNS FROM runs FROM freezeframe",
        "SHOW TABLES FROM freezeframe LIKE 'r%'",
        "SHOW CREATE TABLE freezeframe.runs",
        "SELECT * FROM numbers(3) FORMAT JSON",
    ):
        status, text = ask(facade_url, sql)
        assert status == 200, (sql, text)
    assert json.loads(text)["rows"] == 3
