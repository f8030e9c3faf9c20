"""Run statements as a reader would, with the walls that are named and no others, and see what they do outside the store.

The kernel says what a statement did, not its answer: which files of a folder were opened or changed (inotify)
and whether a server was connected to (it listens here).

python wall_probe.py '{"writer": ..., "folder": ..., "walls": {"sandbox": true, ...}, "listener": 5}' < statements.json
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
import tempfile
from pathlib import Path

from freezeframe_collector.readers import sandbox
from freezeframe_collector.readers.catalog import make_catalog
from freezeframe_collector.readers.errors import ClickHouseError
from freezeframe_collector.readers.guard import Guard
from freezeframe_collector.store.chdb_module import load_engine

_OPEN, _CREATE, _MODIFY, _DELETE, _MOVED, _FOLDER = 0x20, 0x100, 0x2, 0x200, 0xC0, 0x40000000
_EVENT = struct.Struct("iIII")
_NAMES = {_OPEN: "opened", _CREATE: "created", _MODIFY: "changed", _DELETE: "deleted"}


class Watch:
    """Effects on a folder, its files, and a listening server."""

    def __init__(self, folder: Path, listener: socket.socket) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_NONBLOCK)
        if libc.inotify_add_watch(self._events, str(folder).encode(), _OPEN | _CREATE | _MODIFY | _DELETE | _MOVED) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        self._listener = listener
        self._connections = self._waiting()  # of earlier probes

    def seen(self) -> list[str]:
        """Return what happened since the last look."""
        found: list[str] = []
        try:
            data = os.read(self._events, 1 << 20)
        except BlockingIOError:
            data = b""
        while data:
            _, mask, _, length = _EVENT.unpack_from(data)
            name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0").decode()
            found.append(f"{_NAMES.get(mask & 0xFFF, 'moved')} {name or 'the folder'}")
            data = data[_EVENT.size + length :]
        waiting = self._waiting()
        found += ["connected"] * (waiting - self._connections)
        self._connections = waiting
        return found

    def _waiting(self) -> int:
        """Return how many connections no one has accepted: the sandbox lets no process accept one, so they are counted."""
        (count,) = struct.unpack_from("I", self._listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 24)
        return count


def main() -> None:
    """Answer each statement with a line of JSON: whether it ran, the answer or the error, and what it did."""
    options = json.loads(sys.argv[1])
    request = json.load(sys.stdin)
    writer, walls = Path(options["writer"]), options["walls"]
    engine = load_engine()
    own = Path(tempfile.mkdtemp())
    catalog = make_catalog(writer, own, database="freezeframe", cold=None, grants=walls["grants"])
    catalog.put()
    os.environ.clear()
    watch = Watch(Path(options["folder"]), socket.socket(fileno=options["listener"]))
    if walls["sandbox"]:
        sandbox.enter(read=[writer / "store"], write=[own], file_bytes=1 << 30)
    handle = engine.connect(catalog.target)
    handle.query("USE freezeframe")
    handle.query(
        "SET http_max_tries = 1, max_execution_time = 1, max_memory_usage = 1000000000, http_receive_timeout = 1,"
        " connect_timeout = 1, receive_timeout = 1, handshake_timeout_ms = 1000, s3_retry_attempts = 0"
    )
    guard = Guard(handle, "freezeframe")
    for item in request:
        try:
            sql = guard.check(item["sql"].encode(), item["parameters"]).sql if walls["guard"] else item["sql"]
            answer = ["done", handle.query(sql, "TSV", params=item["parameters"]).bytes().decode(errors="replace")[:2000]]
        except (ClickHouseError, RuntimeError) as error:
            answer = ["refused", str(error)[:300]]
        sys.stdout.write(json.dumps([*answer, watch.seen()]) + "\n")
        sys.stdout.flush()
    os._exit(0)  # the engine's threads need no shutdown


if __name__ == "__main__":
    main()
