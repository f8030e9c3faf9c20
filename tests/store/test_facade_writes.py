"""What may be done over the facade besides reading: prices and pins by `admin`, and stopping one's own statements."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import clickhouse_connect
import pytest

from freezeframe_collector.store import Store

pytestmark = pytest.mark.long

ENDLESS = "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)"


def ask(url: str, sql: str, *, user: str = "default", password: str = "", timeout: float = 60, **parameters: str) -> bytes:
    extra = "".join(f"&{name}={quote(value)}" for name, value in parameters.items())
    request = urllib.request.Request(
        f"{url}/?database=freezeframe{extra}",
        data=sql.encode(),
        headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": password},
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read()


def refusal(url: str, sql: str, **options: Any) -> str:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(url, sql, **options)
    return refused.value.read().decode()


@pytest.fixture
def admin(facade_url: str, admin_token: str) -> Iterator[Any]:
    parts = urlsplit(facade_url)
    made = clickhouse_connect.get_client(host=parts.hostname, port=parts.port, username="admin", password=admin_token)
    yield made
    made.close()


def prices_of(store: Store, prefix: str) -> list[Any]:
    return list(store.query(f"SELECT input_usd, note FROM freezeframe.prices FINAL WHERE prefix = '{prefix}'")[1])


def test_admin_inserts_prices_with_the_ordinary_client(admin: Any, store: Store) -> None:
    columns = ["prefix", "valid_from", "input_usd", "output_usd", "cache_read_usd", "cache_write_usd", "note"]
    admin.insert("prices", [["mine-1", "2026-01-01 00:00:00", 1.5, 2.0, 0.1, 1.5, "contract"]], column_names=columns)
    assert prices_of(store, "mine-1") == [[1.5, "contract"]]


def test_a_price_that_is_set_back_is_the_price(facade_url: str, admin_token: str, store: Store) -> None:
    """The engine drops a block that it has had; here the third has the same content as the first."""
    for price in (1.5, 2.5, 1.5):
        ask(
            facade_url,
            "INSERT INTO prices (prefix, valid_from, input_usd, output_usd, note)"
            f" VALUES ('back-1', '2026-01-01 00:00:00', {price}, 1, '')",
            user="admin",
            password=admin_token,
        )
        assert prices_of(store, "back-1") == [[price, ""]]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO prices (prefix, input_usd, note) VALUES ('{name}', 3, 'by hand')",
        'INSERT INTO freezeframe.prices FORMAT JSONEachRow\n{{"prefix": "{name}", "input_usd": 3, "note": "by hand"}}',
        "insert into `prices` (prefix, input_usd, note) format CSV\n{name},3,by hand\n",
    ],
)
def test_admin_inserts_by_plain_http(facade_url: str, admin_token: str, store: Store, sql: str) -> None:
    name = f"mine-{abs(hash(sql))}"
    ask(facade_url, sql.format(name=name), user="admin", password=admin_token)
    assert prices_of(store, name) == [[3, "by hand"]]


def test_a_run_is_pinned_by_sql(facade_url: str, admin_token: str, store: Store) -> None:
    ask(facade_url, f"INSERT INTO pins (trace_id, pinned) VALUES ('{'5' * 32}', 1)", user="admin", password=admin_token)
    assert store.query(f"SELECT pinned FROM freezeframe.pins FINAL WHERE trace_id = '{'5' * 32}'")[1] == [[1]]


@pytest.mark.proof
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO prices (prefix) VALUES ('x')",
        "INSERT INTO prices SELECT * FROM prices",
    ],
)
def test_readers_insert_nothing(facade_url: str, sql: str) -> None:
    assert "READONLY" in refusal(facade_url, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO span_rows (trace_id) VALUES ('x')",
        "INSERT INTO audit (action) VALUES ('x')",
        "INSERT INTO system.prices (prefix) VALUES ('x')",
        "INSERT INTO prices SELECT * FROM prices",
        "INSERT INTO prices (prefix) VALUES (file('/etc/hostname'))",
        "INSERT INTO FUNCTION file('x.csv') VALUES (1)",
        "INSERT INTO prices FROM INFILE '/etc/passwd' FORMAT CSV",
    ],
)
def test_admin_inserts_nothing_else(facade_url: str, admin_token: str, sql: str) -> None:
    assert "DB::Exception" in refusal(facade_url, sql, user="admin", password=admin_token)


def test_a_wrong_token_is_no_admin(facade_url: str) -> None:
    assert "AUTHENTICATION_FAILED" in refusal(facade_url, "SELECT 1", user="admin", password="guessed")


@pytest.mark.parametrize("format_", ["JSON", "TSV"])
def test_a_statement_is_stopped_by_its_id(reader_url: str, format_: str) -> None:
    failures: list[str] = []
    name = f"endless-{format_}"
    asked = threading.Thread(target=lambda: failures.append(refusal(reader_url, f"{ENDLESS} FORMAT {format_}", query_id=name)))
    asked.start()
    while b"waiting" not in ask(reader_url, f"KILL QUERY WHERE query_id = '{name}'"):
        assert asked.is_alive()
    asked.join()
    assert "QUERY_WAS_CANCELLED" in failures[0]
