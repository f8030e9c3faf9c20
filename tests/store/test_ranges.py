"""Parquet over HTTP: a client reads the footer and the columns that it needs, by HEAD and Range."""

from __future__ import annotations

from urllib.parse import urlencode

import httpx
import pytest

from freezeframe_collector.facade import ranges

pytestmark = pytest.mark.long

RANDOM = "SELECT number, rand64() AS chance, generateUUIDv4() AS id FROM numbers(200000) FORMAT Parquet"
"""Each execution gives different bytes."""


def url_of(facade_url: str, sql: str) -> str:
    return f"{facade_url}/?{urlencode({'query': sql})}"


def test_a_parquet_client_reads_one_result_in_parts(facade_url: str) -> None:
    """fsspec asks for the size, then for ranges, out of which pyarrow reads the footer and a column."""
    fsspec = pytest.importorskip("fsspec")
    parquet = pytest.importorskip("pyarrow.parquet")
    url = url_of(facade_url, RANDOM)
    with fsspec.open(url, block_size=1 << 16) as file:
        assert file.size > 1_000_000
        table = parquet.ParquetFile(file).read(columns=["number", "id"])
        assert table.column("number").to_pylist() == list(range(200_000))
        first = table.column("id").to_pylist()[0]
    with fsspec.open(url, block_size=1 << 16) as file:
        assert parquet.ParquetFile(file).read(columns=["id"]).column("id").to_pylist()[0] == first


def test_parts_are_cut_from_one_result(facade_url: str) -> None:
    url = url_of(facade_url, "SELECT rand64(), toString(number) FROM numbers(1000) FORMAT CSV")
    head = httpx.head(url)
    size, etag = int(head.headers["content-length"]), head.headers["etag"]
    assert (head.status_code, head.content, head.headers["accept-ranges"]) == (200, b"", "bytes")
    assert head.headers["x-clickhouse-format"] == "CSV"

    def part(asked: str, **more: str) -> httpx.Response:
        return httpx.get(url, headers={"Range": asked, **more})

    pieces = [part(f"bytes={at}-{min(at + 5000, size) - 1}") for at in range(0, size, 5000)]
    assert {piece.status_code for piece in pieces} == {206}
    whole = b"".join(piece.content for piece in pieces)
    assert len(whole) == size
    assert part("bytes=-7").content == whole[-7:]
    assert part("bytes=3-", **{"If-Range": etag}).content == whole[3:]
    assert part("bytes=0-9").headers["content-range"] == f"bytes 0-9/{size}"
    changed = part("bytes=3-9", **{"If-Range": '"another"'})
    assert (changed.status_code, changed.content) == (200, whole)
    beyond = part(f"bytes={size}-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    several = part("bytes=0-1,4-5")
    assert several.status_code == 200


def test_what_fails_has_the_status_of_its_error_in_parts_too(facade_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert httpx.head(url_of(facade_url, "SELECT * FROM nowhere")).status_code == 404
    assert httpx.head(url_of(facade_url, "INSERT INTO prices (prefix) VALUES ('x')")).status_code >= 400
    monkeypatch.setattr(ranges, "HELD_BYTES", 1000)
    large = httpx.get(url_of(facade_url, "SELECT repeat('x', 2000)"), headers={"Range": "bytes=0-1"})
    assert large.status_code >= 400
    assert "without HEAD and Range" in large.text
