"""Find out which process listens on a port of this machine, for messages only."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_LISTEN: Final = "0A"
"""State of a listening socket in /proc/net/tcp."""


def port_is_free(port: int) -> bool:
    """Return whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def who_listens(port: int) -> str | None:
    """Return ``"pid 4711 (python -m http.server)"`` for the process that listens on `port`; None if the system does not say."""
    inodes = set(_listening_inodes(port))
    if not inodes:
        return None
    for folder in Path("/proc").glob("[0-9]*"):
        if inodes.intersection(_open_files(folder)):
            return f"pid {folder.name} ({_command_of(folder)})"
    return None


def _open_files(folder: Path) -> Iterable[str]:
    with contextlib.suppress(OSError):  # someone else's process, or one that just ended
        for entry in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):  # a file that was just closed
                yield os.readlink(entry)


def _listening_inodes(port: int) -> Iterable[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield f"socket:[{fields[9]}]"


def _command_of(folder: Path) -> str:
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    return " ".join(words).strip()[:200]
