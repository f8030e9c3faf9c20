"""Compression of batches: none, gzip, deflate, and zstd if it is installed and the protocol supports it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from freezeframe._config import CompressionName
from freezeframe_schemas.installing import install_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    name: CompressionName
    """As in ``Content-Encoding``."""
    compress: Callable[[bytes], bytes]
    """Not used for gRPC, whose channel compresses."""
    notice: str = ""
    """Why it differs from the requested one, and what to do."""


_NOT_INSTALLED: Final = "zstd is not installed, so batches are sent as gzip"
_AT_GRPC: Final = "grpcio supports gzip but not zstd, so batches are sent as gzip; use the protocol http/protobuf for zstd"


def make_compression(wanted: CompressionName, protocol: str) -> Compression:
    """Return the requested compression; gzip with a notice if zstd is not available."""
    name, notice = wanted, ""
    zstd = _find_zstd() if wanted == "zstd" and protocol != "grpc" else None
    if wanted == "zstd" and zstd is None:
        name, notice = "gzip", _AT_GRPC if protocol == "grpc" else f"{_NOT_INSTALLED}; {install_command('zstd')}"
    compress = {"none": bytes, "gzip": _gzip, "deflate": zlib.compress, "zstd": zstd or bytes}[name]
    return Compression(name=name, compress=bytes if protocol == "grpc" else compress, notice=notice)


def _gzip(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, compresslevel=1, mtime=0)


def _find_zstd() -> Callable[[bytes], bytes] | None:
    try:
        import zstandard
    except ImportError:
        return None

    def compress(data: bytes) -> bytes:
        return zstandard.ZstdCompressor(level=1).compress(data)  # one per batch: processes cannot share one after a fork

    return compress
