"""Who asked what: each statement of a reader is written down, without its values, by the collector."""

from __future__ import annotations

import itertools
from typing import Any

import agent_loops
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import serving

from freezeframe_collector.facade.query_log import without_values
from freezeframe_collector.store import Store

SECRET = "maria.keller@northbay-mail.com"
_NUMBER = itertools.count(1)
COLUMNS = "user, client, statement, runs, outcome, error_code"


@pytest.fixture
def store(store: Store) -> Store:
    """A separate database, in which no one has asked anything yet: a process has room for one embedded engine."""
    made = Store(store.engine, database=f"asked_{next(_NUMBER)}")
    made.migrate()
    return made


def logged(store: Store) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.query(f"SELECT {COLUMNS} FROM {store.database}.queries ORDER BY time, statement")[1]]


@pytest.mark.proof
@pytest.mark.long
def test_what_is_asked_is_written_down_without_its_values(store: Store) -> None:
    """Of two ids, the log keeps the one that is a run's: the other may be anything. What strangers send is not written down."""
    spans = [*agent_loops.agent_runs(0, 1)]
    store.insert(spans, token="a-run")
    run, key = spans[0].trace_id, "0123456789abcdef" * 2
    with serving(store, admin_token="an-admin-token-of-ours", here=True) as url:
        client = httpx.Client(base_url=url, headers={"User-Agent": "a-notebook"}, timeout=400)
        assert client.post("/", content=f"SELECT '{SECRET}', 42 -- {SECRET}").status_code == 200
        sql = f"SELECT count() FROM spans WHERE trace_id = {{run:String}} AND name != '{key}'"
        assert client.post("/", params={"param_run": run}, content=sql).status_code == 200
        assert client.post("/", content="SELECT nowhere").status_code == 404
        assert client.post("/", content="SELECT * FROM file('/etc/passwd')").status_code == 403
        assert client.post("/", auth=("stranger", "x"), content="SELECT 1").status_code == 401
        insert = f"INSERT INTO prices (prefix, note) VALUES ('{SECRET}', '')"
        assert client.post("/", auth=("admin", "an-admin-token-of-ours"), content=insert).status_code == 200
        client.close()
    rows = logged(store)
    assert sorted(rows) == sorted(
        [
            ("default", "a-notebook", "SELECT ?, ?", [], "ok", 0),
            ("default", "a-notebook", "SELECT count() FROM spans WHERE trace_id = {run:String} AND name != ?", [run], "ok", 0),
            ("default", "a-notebook", "SELECT nowhere", [], "failed", 47),
            ("default", "a-notebook", "SELECT * FROM file(?)", [], "refused", 497),
            ("admin", "a-notebook", "INSERT", [], "ok", 0),
        ]
    )
    assert SECRET not in str(rows)


@pytest.mark.long
def test_a_reader_can_ask_for_the_log_and_cannot_change_it(store: Store) -> None:
    with serving(store, admin_token="an-admin-token-of-ours", here=True) as url:
        assert httpx.post(url, content="SELECT 1", timeout=400).status_code == 200
    with serving(store, admin_token="an-admin-token-of-ours", here=True) as url:
        assert httpx.post(url, content="SELECT count() FROM queries", timeout=400).text == "1\n"
        for auth in (None, ("admin", "an-admin-token-of-ours")):
            for sql in (
                "INSERT INTO queries (user) VALUES ('x')",
                "TRUNCATE TABLE queries",
                "ALTER TABLE queries DELETE WHERE 1",
            ):
                assert httpx.post(url, auth=auth, content=sql, timeout=400).status_code in (400, 403)


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT 'it''s', 1.5e3, .5, t.1, 0x1F", "SELECT ?, ?, ?, t?, ?x1F"),
        ('SELECT `a b`, `plain`, "x.y"', 'SELECT ?, `plain`, "x.y"'),
        ("SELECT /* to maria */ 1 # and\n-- so on", "SELECT ?"),
        ("SELECT 1\n\n  FROM   runs", "SELECT ? FROM runs"),
        ("SELECT 'open, and maria", "SELECT ?"),
        ("SELECT $$maria$$", "SELECT ?"),
        ("SELECT \u2018maria\u2019", "SELECT ?"),
        ("SELECT /* maria", "SELECT ?"),
        ("", ""),
    ],
)
def test_of_a_statement_words_are_kept_and_values_are_not(sql: str, kept: str) -> None:
    assert without_values(sql.encode()) == kept


@given(
    st.text(max_size=40), st.sampled_from(["SELECT '{}'", "SELECT 1 -- {}", "SELECT count() FROM runs WHERE name = '{}' AND 1"])
)
def test_no_value_in_quotes_or_comments_gets_into_the_log(value: str, sql: str) -> None:
    marked = f"maria{value}".replace("\\", "\\\\").replace("'", "''").replace("\n", " ")
    assert "maria" not in without_values(sql.format(marked).encode())


def test_a_long_statement_is_cut() -> None:
    assert len(without_values(b"SELECT " + b"column, " * 10_000)) < 10_000
