"""The guard allows what it knows: a function, a node or a sign that nobody has looked at is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from freezeframe_collector.readers import guard
from freezeframe_collector.readers.errors import ClickHouseError
from freezeframe_collector.readers.guard import ALLOWED, ELSE, Guard, is_allowed
from freezeframe_collector.store import Store
from freezeframe_collector.store.embedded import EmbeddedEngine

pytestmark = pytest.mark.long


@pytest.fixture
def handle(store: Store) -> Iterator[Any]:
    assert isinstance(store.engine, EmbeddedEngine)
    opened = store.engine.open_handle()
    opened.query("USE freezeframe")
    yield opened._conn  # the engine's own handle, which is what readers have
    opened.close()


def refusal(handle: Any, sql: str) -> str:
    """Return why the statement is refused, or nothing."""
    try:
        Guard(handle, "freezeframe").check(sql.encode(), {})
    except ClickHouseError as error:
        return error.text
    return ""


@pytest.mark.proof
def test_each_function_of_the_engine_is_allowed_or_not(store: Store) -> None:
    """If a new version of the engine has more, look at each, and put it into one of the two lists of `functions.txt`."""
    _, rows = store.query("SELECT DISTINCT lower(name) FROM system.functions")
    assert {str(name) for (name,) in rows} == ALLOWED | ELSE
    assert not ALLOWED & ELSE
    _, rows = store.query("SELECT name FROM system.aggregate_function_combinators")
    assert [name for (name,) in rows if not is_allowed(f"sum{name}")] == []


@pytest.mark.proof
@pytest.mark.parametrize("known", [True, False], ids=["the engine of the list", "another engine"])
def test_a_function_that_is_not_in_the_list_cannot_be_called_or_named(
    handle: Any, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """As if the engine had a function more than the list knows."""
    monkeypatch.setattr(guard, "_KNOWS_ENGINE", known)
    new = "reverseutf8"
    monkeypatch.setattr(guard, "ELSE", ELSE | {new} if known else ELSE)
    monkeypatch.setattr(guard, "ALLOWED", ALLOWED - {new})
    for sql in (
        "SELECT reverseUTF8('x')",
        "SELECT arrayMap(reverseUTF8, ['x'])",
        "SELECT * APPLY(reverseUTF8) FROM prices",
        "WITH x -> x AS reverseUTF8 SELECT reverseUTF8('x')",
        "WITH reverseUTF8 AS f SELECT arrayMap(f, ['x'])",
    ):
        assert refusal(handle, sql), sql
    assert "UNKNOWN_FUNCTION" in refusal(handle, "SELECT noSuchFunction(1)")
    assert not refusal(handle, "WITH x -> lower(x) AS f SELECT f('x'), arrayMap(f, ['x']), uniqExactIf(prefix, 1) FROM prices")


@pytest.mark.proof
def test_a_node_that_is_not_in_the_list_is_refused(handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "NODES", guard.NODES - {"ArrayJoin"})
    assert "ArrayJoin in a statement is not allowed" in refusal(handle, "SELECT 1 FROM prices ARRAY JOIN [1] AS a")


@pytest.mark.proof
@pytest.mark.parametrize("sign", ["$", "\\", "&", "~", "#x", "\0", "\x7f", "\u00a0", "\u201c"])
def test_a_sign_that_sql_does_not_have_is_refused_outside_quotes(handle: Any, sign: str) -> None:
    assert "Syntax error" in refusal(handle, f"SELECT 1 {sign} 1")
    assert not refusal(handle, f"SELECT '{sign.replace(chr(92), chr(92) * 2)}'")


@pytest.mark.proof
def test_a_syntax_error_names_the_place_in_the_statement(handle: Any) -> None:
    assert "failed at position 7 (1)" in refusal(handle, "SELEC 1")
    assert "failed at position 10 (1) (line 2, col 3)" in refusal(handle, "SELECT\n* 1")
