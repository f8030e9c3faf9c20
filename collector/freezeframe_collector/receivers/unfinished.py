"""How much has arrived of gRPC messages that are not complete.

gRPC shows nothing of a message before all of it is here, but the kernel counts the bytes of each connection: what came, less
the messages that were taken, is unfinished. Only Linux counts them (``tcp_info``, since 4.1).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Generator, Mapping
from typing import Final

_TCP_INFO: Final = 11
_BYTES_RECEIVED: Final = struct.Struct("128xQ")
"""The field ``tcpi_bytes_received``. Source: Linux, include/uapi/linux/tcp.h."""
_FRAMING: Final = 64
"""Frames, headers and TLS: an extra byte per this many of a message, and `_HEAD` per call. Too high on purpose: see `count`."""
_HEAD: Final = 1024


class Unfinished:
    """Counts the bytes of unfinished messages, by connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}
        """Connection -> its bytes that belong to no unfinished message."""

    def __len__(self) -> int:
        """Return how many connections are remembered; `count` forgets those that are closed."""
        return len(self._taken)

    def took(self, peer: str, size_bytes: int) -> None:
        """Note that a message arrived."""
        with self._lock:
            self._taken[peer] = self._taken.get(peer, 0) + size_bytes + size_bytes // _FRAMING + _HEAD

    def dropped(self, peer: str, size_bytes: int) -> None:
        """Note that a connection's calls ended, and how much of their messages had arrived."""
        with self._lock:
            self._taken[peer] = self._taken.get(peer, 0) + size_bytes

    def count(self, received: Mapping[str, int], waiting: Mapping[str, int]) -> dict[str, int]:
        """Return the unfinished bytes of the connections in `waiting`, which gives the maximum that each may hold.

        Bytes outside messages (pings, for example) count too until the connection has no waiting call. A connection that
        always has one should not be charged for them, so `took` notes more than arrived, capped at what was received.
        """
        with self._lock:
            counted = {
                peer: min(self._taken.get(peer, 0), came) if peer in waiting else came for peer, came in received.items()
            }
            self._taken = counted
        return {peer: min(received[peer] - counted[peer], most) for peer, most in waiting.items() if peer in counted}


def received_bytes(port: int) -> dict[str, int]:
    """Return peer -> bytes received, of this process's connections to its own `port`; nothing if they are not counted.

    **Shape**: peers are written as gRPC writes them, ``ipv4:127.0.0.1:4711``.
    """
    found: dict[str, int] = {}
    for descriptor in _descriptors():
        with contextlib.suppress(OSError, struct.error), _borrowed(descriptor) as one:
            if one.type == socket.SOCK_STREAM and one.family in _INET and one.getsockname()[1] == port:
                info = one.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_RECEIVED.size)
                found[_written(*one.getpeername()[:2])] = _BYTES_RECEIVED.unpack(info)[0]
    return found


_INET: Final = (socket.AF_INET, socket.AF_INET6)


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Generator[socket.socket]:
    """Look at a socket that gRPC owns; it is neither changed nor closed."""
    one = socket.socket(fileno=descriptor)
    try:
        yield one
    finally:
        one.detach()


def _written(host: str, port: int) -> str:
    plain = host.removeprefix("::ffff:")
    return f"ipv6:%5B{host.replace('%', '%25')}%5D:{port}" if ":" in plain else f"ipv4:{plain}:{port}"
