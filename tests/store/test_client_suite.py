"""One suite, three unchanged clients: clickhouse-connect, @clickhouse/client from npm, and curl.

The Node client is installed from npm into a temporary folder, so its part is for machines with npm and a registry.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from installing import install

from freezeframe_collector.store import Store

pytestmark = pytest.mark.long

NODE_CLIENT = "@clickhouse/client@1.23.1"
ASK = Path(__file__).parent / "node" / "ask.mjs"


class RefusedError(Exception):
    """The store refused a statement; the argument is ClickHouse's code."""


class Client(Protocol):
    """What the suite asks of each client."""

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[list[Any]]: ...

    def count_streamed(self, sql: str) -> int: ...

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None: ...

    def close(self) -> None: ...


class Connect:
    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._client = clickhouse_connect.get_client(
            host=parts.hostname, port=parts.port, username="admin", password=token, compress=True
        )

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[list[Any]]:
        try:
            return [list(row) for row in self._client.query(sql, parameters=dict(parameters)).result_rows]
        except DatabaseError as error:
            raise RefusedError(int(str(error).partition("Code: ")[2].partition(".")[0])) from error

    def count_streamed(self, sql: str) -> int:
        with self._client.query_rows_stream(sql) as stream:
            return sum(1 for _ in stream)

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._client.insert(table, [list(row.values()) for row in rows], column_names=list(rows[0]))

    def close(self) -> None:
        self._client.close()


class Node:
    def __init__(self, url: str, token: str, folder: Path) -> None:
        install(["npm", "install", "--no-audit", "--no-fund", "--silent", NODE_CLIENT], folder)
        shutil.copy(ASK, folder / ASK.name)
        self._process = subprocess.Popen(
            ["node", ASK.name, url, "admin", token], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _ask(self, **order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "value" not in answer:
            raise RefusedError(answer["code"])
        return answer["value"]

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[list[Any]]:
        return self._ask(action="rows", sql=sql, parameters=parameters)

    def count_streamed(self, sql: str) -> int:
        return self._ask(action="stream", sql=sql)

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._ask(action="insert", table=table, rows=list(rows))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Curl:
    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token

    def _ask(self, body: str, **parameters: str) -> bytes:
        asked = urlencode({"database": "freezeframe", "enable_http_compression": "1", **parameters})
        done = subprocess.run(
            ["curl", "-sS", "--compressed", "-u", f"admin:{self._token}", "--data-binary", "@-", f"{self._url}/?{asked}"],
            input=body.encode(),
            capture_output=True,
            timeout=400,
            check=True,
        )
        if done.stdout.startswith(b"Code: "):
            raise RefusedError(int(done.stdout[6:].partition(b".")[0]))
        return done.stdout

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[list[Any]]:
        named = {f"param_{name}": str(value) for name, value in parameters.items()}
        answer = self._ask(sql, default_format="JSONCompact", output_format_json_quote_64bit_integers="0", **named)
        return json.loads(answer)["data"]

    def count_streamed(self, sql: str) -> int:
        return self._ask(f"{sql} FORMAT TSV").count(b"\n")

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._ask(f"INSERT INTO {table} FORMAT JSONEachRow\n" + "\n".join(map(json.dumps, rows)))

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture(
    scope="module",
    params=[
        "clickhouse-connect",
        pytest.param("node", marks=pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on this machine")),
        pytest.param("curl", marks=pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")),
    ],
)
def client(
    request: pytest.FixtureRequest, facade_url: str, admin_token: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Each client in turn, as admin."""
    match request.param:
        case "clickhouse-connect":
            made: Client = Connect(facade_url, admin_token)
        case "node":
            made = Node(facade_url, admin_token, tmp_path_factory.mktemp("node"))
        case _:
            made = Curl(facade_url, admin_token)
    yield made
    made.close()


@pytest.mark.proof
def test_values_come_as_they_are(client: Client) -> None:
    values: dict[str, Any] = {
        "1, 'x', NULL, true": [1, "x", None, True],
        "[1, 2], map('a', 1), tuple(1, 'b')": [[1, 2], {"a": 1}, (1, "b")],
        "toInt64(-5), toFloat64(0.25), toLowCardinality('lc')": [-5, 0.25, "lc"],
        "'Grüße, 世界', 'a\\tb\\n\\'c\\''": ["Grüße, 世界", "a\tb\n'c'"],
        "toString(toDateTime64('2026-05-03 10:00:00.123456789', 9, 'UTC'))": ["2026-05-03 10:00:00.123456789"],
    }
    sql, expected = f"SELECT {', '.join(values)}", [value for row in values.values() for value in row]

    def plain(value: Any) -> Any:
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    assert plain(client.rows(sql, {})) == [plain(expected)]


@pytest.mark.proof
def test_parameters_are_values_whatever_they_hold(client: Client) -> None:
    name = "it's; DROP TABLE x -- \\"
    assert client.rows("SELECT {name:String}, {n:UInt32} + 1", {"name": name.replace("\\", ""), "n": 41}) == [
        [name.replace("\\", ""), 42]
    ]


def test_many_rows_stream(client: Client) -> None:
    assert client.count_streamed("SELECT number, toString(number) FROM numbers(200000)") == 200_000


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT nope FROM spans", 47),
        ("SELECT * FROM nowhere", 60),
        ("SELEC 1", 62),
        ("CREATE TABLE x (a Int8) ENGINE = Memory", 164),
        ("SELECT * FROM file('/etc/passwd', 'LineAsString')", 497),
    ],
)
def test_errors_have_the_code_of_clickhouse(client: Client, sql: str, code: int) -> None:
    with pytest.raises(RefusedError) as refused:
        client.rows(sql, {})
    assert refused.value.args == (code,)


def test_prices_are_inserted(client: Client, store: Store) -> None:
    name = f"of-{type(client).__name__}"
    client.insert("prices", [{"prefix": name, "input_usd": 1.5, "output_usd": 6.0, "note": "contract"}])
    _, rows = store.query(f"SELECT input_usd, output_usd, note FROM freezeframe.prices WHERE prefix = '{name}'")
    assert rows == [[1.5, 6, "contract"]]
