"""One bounded reader of compressed bytes: linear in what comes in and goes out, whatever a body says of itself."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from itertools import islice

import pytest
import zstandard

from freezeframe_collector.receivers.compression import decompress
from freezeframe_redaction.detectors import encoded
from freezeframe_redaction.leaves import bodies
from freezeframe_schemas import body_text
from freezeframe_schemas.decompression import (
    MAX_MEMBERS,
    CutShortError,
    UnpacksTooFarError,
    decompressed,
)
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.wire import decode_body

LIMIT = 8 << 20
TEXT = b"".join(b"line %d of an answer\n" % number for number in range(20_000))


def _raw(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


def _brotli(data: bytes) -> bytes:
    module = pytest.importorskip("brotli")
    return bytes(module.compress(data, quality=1))


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("deflate", _raw),
    "zstd": ("zstd", zstandard.compress),
    "brotli": ("br", _brotli),
}


def _whole(body: bytes, coding: str, limit: int = LIMIT) -> bytes:
    return b"".join(decompressed(body, coding, limit))


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, bytes(3 << 20), os.urandom(100_000)], ids=["0", "1", "text", "zeros", "noise"]
)
def test_each_coding_is_undone(name: str, data: bytes) -> None:
    coding, pack = PACKERS[name]
    assert _whole(pack(data), coding) == data


@pytest.mark.parametrize("name", PACKERS)
def test_a_cut_body_gives_what_came_and_then_the_error(name: str) -> None:
    coding, pack = PACKERS[name]
    packed = pack(TEXT)
    got = bytearray()
    with pytest.raises(CutShortError, match=coding):
        for piece in decompressed(packed[: len(packed) - 20], coding, LIMIT):
            got += piece
    assert TEXT.startswith(got)
    with pytest.raises(CutShortError):
        _whole(b"", coding)


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("rest", [b"x", b"\0" * 300, b"\x1f\x8b", b"(\xb5/\xfd"])
def test_what_follows_a_body_is_an_error(name: str, rest: bytes) -> None:
    coding, pack = PACKERS[name]
    with pytest.raises(WireError, match=coding):
        _whole(pack(TEXT) + rest, coding)


@pytest.mark.parametrize("name", PACKERS)
def test_what_comes_out_is_bounded_before_it_is_in_memory(name: str) -> None:
    coding, pack = PACKERS[name]
    pieces = list(islice(decompressed(pack(bytes(64 << 20)), coding, 64 << 20), 3))
    assert all(len(piece) <= 16 << 20 for piece in pieces)
    with pytest.raises(UnpacksTooFarError, match="more than 1,048,576 bytes"):
        _whole(pack(bytes(1 << 20) + b"x"), coding, 1 << 20)
    assert len(_whole(pack(bytes(1 << 20)), coding, 1 << 20)) == 1 << 20


@pytest.mark.parametrize(
    ("coding", "empty"), [("gzip", gzip.compress(b"")), ("zstd", zstandard.compress(b""))], ids=["gzip", "zstd"]
)
def test_members_are_read_up_to_a_limit(coding: str, empty: bytes) -> None:
    assert _whole(empty * MAX_MEMBERS, coding) == b""
    with pytest.raises(UnpacksTooFarError, match="members"):
        _whole(empty * (MAX_MEMBERS + 1), coding)


def _receiver(body: bytes) -> bytes:
    return decompress(body, "gzip", LIMIT)


def _exchange(body: bytes) -> bytes:
    return decode_body(body, [("content-encoding", "gzip")])


READERS: dict[str, Callable[[bytes], object]] = {
    "receiver": _receiver,
    "exchange": _exchange,
    "redacted body": lambda body: bodies.decode(body, "gzip"),
    "compared body": body_text.expanded,
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_stops_at_very_many_members(reader: str) -> None:
    """Four megabytes of empty members took 84 seconds."""
    body = gzip.compress(b"") * 200_000
    try:
        made = READERS[reader](body)
    except UnpacksTooFarError:
        return
    assert made in (None, body)


def test_a_blob_of_two_members_is_read_whole() -> None:
    """It was taken for noise, and its text passed unread."""
    import base64

    blob = base64.b64encode(gzip.compress(b"mail maria.keller@") + gzip.compress(b"corp.io")).decode()
    assert encoded.decode(blob) == "mail maria.keller@corp.io"
