"""The embedded store as ClickHouse clients see it: clickhouse-connect's ordinary HTTP client, and plain HTTP."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import select
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import clickhouse_connect
import lz4.frame
import pytest
import zstandard
from clickhouse_connect.driver.exceptions import DatabaseError

from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.errors import PermanentStoreError

pytestmark = pytest.mark.long  # readers against a filled store


@pytest.fixture(scope="module")
def client(facade_url: str) -> Iterator[Any]:
    parts = urlsplit(facade_url)
    made = clickhouse_connect.get_client(host=parts.hostname, port=parts.port)
    yield made
    made.close()


def post(
    url: str, sql: bytes, headers: dict[str, str] | None = None, **parameters: str
) -> tuple[http.client.HTTPResponse, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
    connection.request("POST", "/?" + urlencode(parameters), body=sql, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", 1),
        ("SELECT 'x'", "x"),
        ("SELECT [1, 2]", [1, 2]),
        ("SELECT map('a', 1)", {"a": 1}),
        ("SELECT NULL", None),
        ("SELECT toFloat64(0.1)", 0.1),
        ("SELECT tuple(1, 'a')", (1, "a")),
        ("SELECT toLowCardinality('lc')", "lc"),
        ("SELECT toUInt64(18446744073709551615)", 18446744073709551615),
        ("SELECT true", True),
        ("SELECT CAST('b', 'Enum8(\\'a\\' = 1, \\'b\\' = 2)')", "b"),
    ],
)
def test_types_come_over_native(client: Any, sql: str, expected: object) -> None:
    assert client.query(sql).result_rows == [(expected,)]


@pytest.mark.proof
def test_parameters_are_bound_by_the_server(client: Any) -> None:
    text = "it's; DROP TABLE x --"
    assert client.query("SELECT {a:String}, {b:UInt8} + 1", parameters={"a": text, "b": 4}).result_rows == [(text, 5)]


def test_frames_and_arrow_and_blocks_in_a_stream(client: Any) -> None:
    assert client.query_df("SELECT number FROM numbers(5)")["number"].sum() == 10
    assert client.query_arrow("SELECT number FROM numbers(5)").num_rows == 5
    with client.query_row_block_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(len(block) for block in stream) == 300_000


@pytest.mark.proof
def test_an_error_carries_its_code(client: Any) -> None:
    with pytest.raises(DatabaseError, match=r"Code: 60"):
        client.query("SELECT * FROM no_such_table")


def test_settings_of_a_query_reach_it(client: Any) -> None:
    rows = client.query("SELECT getSetting('max_block_size')", settings={"max_block_size": 77}).result_rows
    assert rows == [(77,)]


def test_a_session_keeps_its_settings_and_is_one_at_a_time(facade_url: str) -> None:
    post(facade_url, b"SET max_block_size = 55", session_id="s1")
    assert post(facade_url, b"SELECT getSetting('max_block_size')", session_id="s1")[1] == b"55\n"
    assert post(facade_url, b"SELECT getSetting('max_block_size')", session_id="s2")[1] != b"55\n"
    answer, body = post(facade_url, b"SELECT 1", session_id="never", session_check="1")
    assert answer.status == 404
    assert b"SESSION_NOT_FOUND" in body


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "lz4"])
def test_answers_are_compressed_as_asked(facade_url: str, name: str) -> None:
    answer, body = post(
        facade_url, b"SELECT number FROM numbers(1000) FORMAT CSV", {"Accept-Encoding": name}, enable_http_compression="1"
    )
    decoders = {
        "gzip": gzip.decompress,
        "deflate": zlib.decompress,
        "zstd": zstandard.ZstdDecompressor().decompressobj().decompress,
        "lz4": lz4.frame.decompress,
    }
    assert answer.headers["Content-Encoding"] == name
    assert decoders[name](body) == b"".join(b"%d\n" % number for number in range(1000))


def test_a_compressed_statement_is_read(facade_url: str) -> None:
    answer, body = post(facade_url, gzip.compress(b"SELECT 7"), {"Content-Encoding": "gzip"})
    assert (answer.status, body) == (200, b"7\n")


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(b"SELECT 7", mtime=0)[:-9], 400),
        ("gzip", gzip.compress(b"", mtime=0) * 200_000, 413),
        ("gzip", gzip.compress(bytes(20 << 20), mtime=0), 413),
        ("deflate", zlib.compress(b"SELECT 7") + b"SELECT 8", 400),
        ("zstd", zstandard.compress(b"SELECT 7")[:-1], 400),
        ("zstd", zstandard.compress(b"") * 20_000, 413),
        ("lz4", b"no lz4", 400),
        ("br", b"SELECT 7", 400),
        ("x-unknown", b"SELECT 7", 400),
    ],
)
def test_a_compressed_statement_that_cannot_be_read_is_refused(facade_url: str, coding: str, body: bytes, status: int) -> None:
    answer, text = post(facade_url, body, {"Content-Encoding": coding})
    assert answer.status == status
    assert coding.encode() in text


def test_the_headers_of_a_result_alone_are_not_answered(facade_url: str) -> None:
    """The length of a result is known only once the statement has run."""
    parts = urlsplit(facade_url)
    found = []
    for path in ("/", "/?query=SELECT%201"):
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=300)
        connection.request("HEAD", path)
        found.append(connection.getresponse().status)
        connection.close()
    assert found == [200, 405]


@pytest.mark.parametrize("name", ["JSON", "JSONEachRow", "CSV", "CSVWithNames", "TSV", "Arrow", "Parquet", "RowBinary"])
def test_an_empty_result_has_its_format_too(facade_url: str, name: str) -> None:
    answer, body = post(facade_url, b"SELECT number FROM numbers(0)", default_format=name)
    assert answer.status == 200
    assert answer.headers["X-ClickHouse-Format"] == name
    if name == "JSON":
        assert json.loads(body)["rows"] == 0


def test_headers_that_clients_read(facade_url: str) -> None:
    answer, _ = post(facade_url, b"SELECT 1", query_id="mine")
    assert answer.headers["X-ClickHouse-Query-Id"] == "mine"
    assert answer.headers["X-ClickHouse-Timezone"]
    assert "read_rows" in json.loads(answer.headers["X-ClickHouse-Summary"])


def test_an_error_after_the_first_bytes_is_framed_in_the_body(reader_url: str) -> None:
    sql = b"SELECT throwIf(number = 900000) FROM numbers(1000000) SETTINGS max_block_size = 1000, max_threads = 1"
    answer, body = post(reader_url, sql + b" FORMAT TSV")
    assert answer.status == 200
    tag = answer.headers["X-ClickHouse-Exception-Tag"].encode()
    assert b"\r\n__exception__\r\n" + tag in body
    assert b"Code: 395" in body
    answer, _ = post(reader_url, sql + b" FORMAT TSV", wait_end_of_query="1")
    assert answer.status == 400


def test_a_reader_that_goes_away_leaves_the_others_unharmed(reader_url: str) -> None:
    parts = urlsplit(reader_url)
    for _ in range(6):  # four at a time
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
        connection.request("POST", "/", body=b"SELECT number FROM numbers(20000000) FORMAT TSV")
        connection.getresponse().read(1000)
        connection.close()
    assert post(reader_url, b"SELECT 1")[1] == b"1\n"


def test_many_readers_at_once(reader_url: str) -> None:
    failures: list[object] = []

    def read() -> None:
        for number in range(2):
            answer, body = post(reader_url, f"SELECT {number} + sum(number) FROM numbers(1000)".encode())
            if (answer.status, body) != (200, b"%d\n" % (499500 + number)):
                failures.append(body)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_get_carries_its_statement_in_the_url(facade_url: str) -> None:
    parts = urlsplit(facade_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
    for path, expected in (
        ("/ping", b"Ok.\n"),
        ("/", b"Ok.\n"),
        ("/?query=SELECT%201", b"1\n"),
        ("/?query=SELECT%20%7Ba%3AString%7D&param_a=x", b"x\n"),
    ):
        connection.request("GET", path)
        assert connection.getresponse().read() == expected
    connection.close()


@pytest.mark.proof
def test_basic_authentication_is_the_users(reader_url: str) -> None:
    token = base64.b64encode(b"default:wrong").decode()
    answer, _ = post(reader_url, b"SELECT 1", {"Authorization": f"Basic {token}"})
    assert answer.status == 401
    answer, _ = post(reader_url, b"SELECT 1", user="nobody", password="")
    assert answer.status == 401


@pytest.mark.proof
def test_what_the_store_refuses_is_a_permanent_error(reader_url: str) -> None:

    runs = open_runs(reader_url)
    with pytest.raises(PermanentStoreError, match="no_such"):
        runs.sql("SELECT no_such FROM runs")
    runs.close()


def test_grafanas_first_question_is_answered_as_to_an_old_client(facade_url: str) -> None:
    answer, body = post(facade_url, b"SELECT displayName(), version(), revision(), timezone()", default_format="TSV")
    assert answer.status == 200
    assert body.split(b"\t")[2] == b"0"


@pytest.mark.parametrize(
    "query_id",
    ["a\nb", "a\r\nX-Injected: 1", "\r", "a\x00b", "a\tb", "\x7f", "\u2028", "\u202e", "x" * 1001],
)
def test_a_query_id_that_no_header_can_hold_is_refused_with_a_reason(facade_url: str, query_id: str) -> None:
    parts = urlsplit(facade_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
    connection.request("POST", "/?query_id=" + quote(query_id.encode("utf-8", "surrogatepass")), body=b"SELECT 1")
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 400
    assert b"query_id" in body
    assert answer.headers["X-Injected"] is None


def test_a_short_statement_does_not_wait_behind_slow_ones_of_its_user(reader_url: str) -> None:
    """Four run at a time, as long as their clients do not read on; a fifth still waits for its turn after the short ones."""
    parts = urlsplit(reader_url)
    with ExitStack() as clients:
        made = [http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400) for _ in range(5)]
        for number, slow in enumerate(made):
            clients.callback(slow.close)
            slow.request("POST", "/", body=b"SELECT number FROM numbers(100000000000) FORMAT TSV")
            if number < 4:
                clients.enter_context(slow.getresponse()).read(1000)
        for sql, expected in (
            (b"SELECT 1", b"1\n"),
            (b"select version() != ''", b"1\n"),
            (b"SELECT timezone() FORMAT Null", b""),
        ):
            assert post(reader_url, sql)[1] == expected
        assert select.select([made[4].sock], [], [], 0)[0] == []
