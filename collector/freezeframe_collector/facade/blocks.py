"""ClickHouse's compressed blocks, requested by ``compress=1`` and announced by ``decompress=1`` in the HTTP protocol.

clickhouse-jdbc (and DBeaver with it) requests them by default. A body is a sequence of blocks, each

    checksum  16 bytes  CityHash128 (of CityHash 1.0.2) of all that follows
    method     1 byte   0x82 LZ4, 0x90 ZSTD, 0x02 none
    size       4 bytes  little-endian, of the compressed data and these 9 bytes
    plain      4 bytes  little-endian, of the data once decompressed

Source: ClickHouse, src/Compression/CompressedWriteBuffer.cpp and CompressionInfo.h. The engine's own files are sequences of the
same blocks; ``tests/store/test_blocks.py`` reads them with this module.
"""

from __future__ import annotations

import struct
from typing import Final

import lz4.block
import zstandard

from freezeframe_collector.readers.errors import ClickHouseError

_BLOCK_BYTES: Final = 1 << 20
_CHECKSUM_BYTES: Final = 16
_HEAD: Final = struct.Struct("<BII")
_HALF: Final = (1 << 64) - 1
_LZ4: Final = 0x82
_ZSTD: Final = 0x90
_NONE: Final = 0x02


class BlockEncoder:
    """A streaming compressor into LZ4 blocks (`protocol.Encoder`)."""

    def compress(self, data: bytes, /) -> bytes:
        return b"".join(_block(data[at : at + _BLOCK_BYTES]) for at in range(0, len(data), _BLOCK_BYTES))

    def flush(self) -> bytes:
        return b""


def decode_blocks(body: bytes, limit_bytes: int) -> bytes:
    """Return the data of a body of blocks.

    Raises:
        ClickHouseError: the bytes are not such blocks, are damaged, or hold more than `limit_bytes`.
    """
    parts: list[bytes] = []
    at, left = 0, limit_bytes
    while at < len(body):
        start = at + _CHECKSUM_BYTES
        if len(body) < start + _HEAD.size:
            raise _damaged("it ends within a block's head")
        method, size, plain_bytes = _HEAD.unpack_from(body, start)
        if size < _HEAD.size or len(body) < start + size:
            raise _damaged("it ends within a block")
        if plain_bytes > left:
            raise ClickHouseError(307, "TOO_MANY_BYTES", f"the body has more than {limit_bytes} bytes")
        if _checksum(body[start : start + size]) != body[at:start]:
            raise ClickHouseError(40, "CHECKSUM_DOESNT_MATCH", "Checksum doesn't match: a compressed block is damaged")
        part = _decompressed(method, body[start + _HEAD.size : start + size], plain_bytes)
        if len(part) != plain_bytes:
            raise _damaged(f"a block holds {len(part)} bytes, its head says {plain_bytes}")
        parts.append(part)
        left -= plain_bytes
        at = start + size
    return b"".join(parts)


def _block(plain: bytes) -> bytes:
    squeezed: bytes = lz4.block.compress(plain, store_size=False)
    rest = _HEAD.pack(_LZ4, len(squeezed) + _HEAD.size, len(plain)) + squeezed
    return _checksum(rest) + rest


def _decompressed(method: int, squeezed: bytes, plain_bytes: int) -> bytes:
    try:
        if method == _LZ4:
            return lz4.block.decompress(squeezed, uncompressed_size=plain_bytes)
        if method == _ZSTD:
            # the frame states its own size, which must not decide how much memory is taken
            if zstandard.frame_content_size(squeezed) not in {plain_bytes, -1}:
                raise _damaged("the two sizes of a block differ")
            return zstandard.ZstdDecompressor().decompress(squeezed, max_output_size=plain_bytes)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise _damaged(str(error)) from None
    if method == _NONE:
        return squeezed
    raise ClickHouseError(89, "UNKNOWN_COMPRESSION_METHOD", f"Unknown compression method 0x{method:02x}")


def _checksum(data: bytes) -> bytes:
    """Return the checksum as it travels; the library gives the half that goes first as the upper one."""
    from clickhouse_cityhash.cityhash import CityHash128  # comes with `embedded`: only the embedded store answers here

    number: int = CityHash128(data)
    return struct.pack("<QQ", number >> 64, number & _HALF)


def _damaged(what: str) -> ClickHouseError:
    return ClickHouseError(271, "CANNOT_DECOMPRESS", f"Cannot decompress the body: {what}")
