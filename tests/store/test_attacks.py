"""What a reader of the store may not do: write, read files, reach the network, start programs, exhaust the machine.

Statements that only the guard has to refuse or let through are answered in this process, where there are no other walls.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from reader_attacks import EXHAUSTION, HIDDEN, OTHERS, READS_OUTSIDE, SECRET, WRITES

from freezeframe_collector.store import Store

pytestmark = pytest.mark.long  # some hundred statements against a real engine


def ask(url: str, sql: str, **parameters: str) -> tuple[int, str]:
    """Send one statement as curl would."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
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


def some(attacks: Iterable[str]) -> list[Any]:
    """Return every third; the others are soak tests. All of them run against the walls, one by one, in `test_walls`."""
    return [pytest.param(sql, marks=pytest.mark.soak if number % 3 else ()) for number, sql in enumerate(attacks)]


@pytest.mark.proof("law a reader cannot write")
@pytest.mark.parametrize("sql", some(WRITES))
def test_a_reader_cannot_write(reader_url: str, sql: str) -> None:
    status, text = ask(reader_url, sql)
    assert status >= 400, text
    assert "Code: " in text


@pytest.mark.proof
@pytest.mark.parametrize("sql", some(READS_OUTSIDE))
def test_a_reader_cannot_leave_the_store(reader_url: str, secret_file: Path, sql: str) -> None:
    status, text = ask(reader_url, sql.format(path=secret_file), param_p=str(secret_file), param_t=f"default.{secret_file}")
    assert status >= 400, text
    assert SECRET not in text
    assert not Path(f"{secret_file}.out").exists()


@pytest.mark.proof
@pytest.mark.parametrize("sql", some(HIDDEN))
def test_no_expression_escapes_the_check(reader_url: str, secret_file: Path, sql: str) -> None:
    status, text = ask(reader_url, sql.format(path=secret_file))
    assert status >= 400, text
    assert SECRET not in text


def test_a_structure_as_text_evaluates_nothing(facade_url: str, secret_file: Path) -> None:
    _, text = ask(facade_url, f"SELECT * FROM values('a String, b String DEFAULT file(\\'{secret_file}\\')', ('x', 'y'))")
    assert SECRET not in text


@pytest.mark.parametrize("sql", some(OTHERS))
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
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
    connection.request("POST", "/", body=b"SELECT 1", headers=dict([header]))
    answer = connection.getresponse()
    assert answer.status == 403
    connection.close()


def test_what_a_reader_may_do_is_done(reader_url: str) -> None:
    for sql in (
        "SELECT count() FROM runs",
        "SELECT count() FROM freezeframe.spans",
        "SHOW TABLES",
        "SHOW CREATE TABLE span_rows",
        "DESCRIBE TABLE spans",
        "EXPLAIN indexes = 1 SELECT count() FROM runs",
        "EXISTS TABLE freezeframe.spans",
        "SHOW COLUMNS FROM runs FROM freezeframe",
        "SELECT name FROM system.tables LIMIT 1",
        "SELECT table_name FROM information_schema.tables LIMIT 1",
        "SELECT * FROM values('a Int8', (1))",
        "SELECT * FROM numbers(3) FORMAT JSON",
    ):
        status, text = ask(reader_url, sql)
        assert status == 200, (sql, text)
    assert json.loads(text)["rows"] == 3


def test_what_looks_like_an_attack_and_is_none_is_answered(facade_url: str) -> None:
    for sql in (
        "EXPLAIN SELECT * FROM spans",
        "EXISTS TABLE spans",
        "WITH 1 AS settings SELECT settings",
        "SELECT 'SETTINGS max_memory_usage = 0'",
        "SELECT 1 SETTINGS max_threads = 2, output_format_json_quote_64bit_integers = 0",
        "SELECT 1 SETTINGS allow_experimental_variant_type = 1, json_type_escape_dots_in_keys = 1",
        "SELECT * APPLY(toString) FROM prices LIMIT 1",
        "SELECT COLUMNS('usd') APPLY(max) FROM prices",
        "SELECT settings, 2 FROM (SELECT 1 AS settings)",
        "SELECT 'ü‘$', \"note\" FROM prices LIMIT 1 -- ü",
        "SELECT * FROM (SELECT 1 SETTINGS max_threads = 1) AS x",
        "SHOW TABLES FROM freezeframe LIKE 'r%'",
        "SHOW CREATE TABLE freezeframe.runs",
    ):
        status, text = ask(facade_url, sql)
        assert status == 200, (sql, text)
