"""ClickHouse's compressed blocks, against blocks that the engine itself wrote, and through the port as clickhouse-jdbc asks."""

from __future__ import annotations

import gzip
import http.client
import struct
import zlib
from urllib.parse import urlencode, urlsplit

import lz4.block
import lz4.frame
import pytest
import zstandard
from clickhouse_cityhash.cityhash import CityHash128
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_collector.facade.blocks import BlockEncoder, decode_blocks
from freezeframe_collector.readers.errors import ClickHouseError

LIMIT = 1 << 20
# `http_method.dict.bin` of a part of span_rows that chDB 4.4.0 wrote, ZSTD(1): the dictionary of a LowCardinality column
WRITTEN_BY_THE_ENGINE = bytes.fromhex(
    "c76da50df98d64c90a8fde46346dccfe90230000001600000028b52ffd20168d0000480100020004504f5354020020e3016001"
)


def block(method: int, squeezed: bytes, plain_bytes: int) -> bytes:
    rest = struct.pack("<BII", method, len(squeezed) + 9, plain_bytes) + squeezed
    number = CityHash128(rest)
    return struct.pack("<QQ", number >> 64, number & (2**64 - 1)) + rest


@given(st.lists(st.binary(max_size=5000)))
def test_what_was_encoded_is_decoded(pieces: list[bytes]) -> None:
    encoder = BlockEncoder()
    body = b"".join(encoder.compress(piece) for piece in pieces) + encoder.flush()
    assert decode_blocks(body, LIMIT) == b"".join(pieces)


def test_a_block_that_the_engine_wrote_is_read() -> None:
    assert decode_blocks(WRITTEN_BY_THE_ENGINE, LIMIT) == struct.pack("<QQ", 1, 2) + b"\0\x04POST"


def test_blocks_of_each_method_are_read() -> None:
    text = b"SELECT 1 " * 100
    body = (
        block(0x82, lz4.block.compress(text, store_size=False), len(text))
        + block(0x90, zstandard.ZstdCompressor().compress(text), len(text))
        + block(0x02, text, len(text))
    )
    assert decode_blocks(body, LIMIT) == text * 3


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (block(0x02, b"x" * 10, 10)[:30], 271),
        (block(0x02, b"x" * 10, 10)[:20], 271),
        (b"\0" * 16 + block(0x02, b"x", 1)[16:], 40),
        (block(0x02, b"x" * 10, 9), 271),
        (block(0x82, b"\xff\xff\xff", 10), 271),
        (block(0x90, b"\xff\xff\xff", 10), 271),
        (block(0x55, b"x", 1), 89),
        (block(0x82, lz4.block.compress(b"\0" * (LIMIT + 1), store_size=False), LIMIT + 1), 307),
        (block(0x90, zstandard.ZstdCompressor().compress(b"\0" * (LIMIT + 1)), 10), 271),
        (block(0x82, lz4.block.compress(b"\0" * LIMIT, store_size=False), LIMIT) * 2, 307),
    ],
)
def test_damaged_and_huge_blocks_are_refused(body: bytes, code: int) -> None:
    with pytest.raises(ClickHouseError) as refused:
        decode_blocks(body, LIMIT)
    assert refused.value.code == code


def ask(url: str, sql: bytes, **parameters: str) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
    connection.request("POST", "/?" + urlencode(parameters), body=sql)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.mark.proof
@pytest.mark.long
def test_answers_and_errors_come_in_blocks_where_asked_for(reader_url: str) -> None:
    status, body = ask(reader_url, b"SELECT number FROM numbers(300000) FORMAT TSV", compress="1")
    assert (status, decode_blocks(body, 1 << 30)) == (200, b"".join(b"%d\n" % number for number in range(300_000)))
    status, body = ask(reader_url, b"SELECT nope", compress="1")
    assert status == 404
    assert decode_blocks(body, LIMIT).startswith(b"Code: 47")
    # clickhouse-jdbc reads a refusal as text, whatever it asked for
    status, body = ask(reader_url, b"SELECT * FROM file('/etc/passwd')", compress="1")
    assert status == 403
    assert body.startswith(b"Code: 497")


@pytest.mark.long
def test_a_statement_may_come_in_blocks(facade_url: str) -> None:
    assert ask(facade_url, block(0x02, b"SELECT 7", 8), decompress="1") == (200, b"7\n")
    status, body = ask(facade_url, b"SELECT 7", decompress="1")
    assert status >= 400
    assert b"CANNOT_DECOMPRESS" in body


@pytest.mark.long
@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "lz4"])
def test_a_small_body_cannot_fill_the_memory(facade_url: str, name: str) -> None:
    bomb = b" " * (200 << 20)
    match name:
        case "gzip":
            made = gzip.compress(bomb, 9)
        case "deflate":
            made = zlib.compress(bomb, 9)
        case "zstd":
            made = zstandard.ZstdCompressor(level=3).compress(bomb)
        case _:
            made = lz4.frame.compress(bomb)
    assert len(made) < 2 << 20
    parts = urlsplit(facade_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
    connection.request("POST", "/", body=made, headers={"Content-Encoding": name})
    answer = connection.getresponse()
    assert answer.status >= 400, answer.read()
    connection.close()
