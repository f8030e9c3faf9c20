"""The collector over a data directory, no matter who started it, and the store that is read through it."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.local.home import STORE_VARIABLE, Home
from freezeframe_replay.sources.http_door import LOOPBACK, opener
from freezeframe_schemas.data_directory import VARIABLE, read_notes
from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.local_tokens import READER, bearer, read_token


def has_store(directory: Path) -> bool:
    """Return whether runs were ever stored in the data directory."""
    return any((directory / "store" / "clickhouse" / "metadata").glob("*.sql"))


@functools.cache
def open_stopped_store(directory: Path) -> str:
    """Return the URL of the store in a data directory, served until this process ends. Print that, and what may be missing.

    Raises:
        ConfigError: the collector is not installed here.
        PermanentStoreError: the store cannot be opened.
    """
    # what the collector had accepted but not stored when it ended; its next start stores it
    waiting = sum(file.stat().st_size for kind in ("open", "wal") for file in (directory / "wal").glob(f"*.{kind}"))
    held = f"; up to {waiting:,} bytes in its log are not stored yet, so not shown" if waiting else ""
    print(f"note: no collector is running for {directory}, reading its files{held}", file=sys.stderr)
    command = [sys.executable, "-m", "freezeframe_collector", "--read", "--data", str(directory)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    try:
        about: dict[str, Any] = json.loads(line)
        port, password = int(about["port"]), str(about["password"])
    except (ValueError, KeyError, TypeError):
        process.stdin.close()
        message = process.stderr.read().decode(errors="replace").strip()
        process.wait()
        if "No module named freezeframe_collector" in message or "is not installed" in message:
            raise ConfigError(
                f"{directory}: its collector is not running, and reading its files needs the embedded store",
                do=install_command("embedded"),
            ) from None
        raise PermanentStoreError(f"{directory}: the store cannot be opened: {message[-500:]}") from None
    atexit.register(_end, process)
    return f"clickhouse://default:{password}@127.0.0.1:{port}/freezeframe"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_LISTENERS: Final = ("http", "grpc", "clickhouse", "pages")
_BUSY: Final = frozenset({503, 504})


def read_ports(home: Home) -> dict[str, int]:
    """Return the collector's listeners and their ports; empty if it never got ready.

    ``grpc`` and ``http`` accept OTLP, ``clickhouse`` answers SQL. ``pages`` is there if the collector's pages have a separate
    listener, as they do with TLS.
    """
    noted = read_notes(home.directory)
    return {name: noted[name] for name in _LISTENERS if isinstance(noted.get(name), int) and noted[name] > 0}


def pages_port(home: Home) -> int | None:
    """Return the port on which the collector's own pages are plain HTTP; None if it never got ready."""
    ports = read_ports(home)
    return ports.get("pages") or ports.get("http")


def send(home: Home, port: int, path: str, *, body: bytes | None = None, token: str = READER, timeout_s: float = 2.0) -> bytes:
    """Return the answer of one of our services on loopback. A body is posted; the request carries the named token.

    Raises:
        OSError: it cannot be reached, or answers with an error.
    """
    headers = bearer(read_token(home.directory, token))
    request = urllib.request.Request(f"http://{LOOPBACK}:{port}{path}", data=body, headers=headers)
    with opener(LOOPBACK).open(request, timeout=timeout_s) as answer:
        return answer.read()


def ask(home: Home, port: int, path: str, *, post: bool = False, timeout_s: float = 2.0) -> Any:
    """Return the JSON answer of one of our services; raises as `send`, or ValueError: the answer is not JSON."""
    return json.loads(send(home, port, path, body=b"" if post else None, timeout_s=timeout_s))


def status(home: Home) -> dict[str, Any] | None:
    """Return the collector's own report, or None if it does not answer."""
    try:
        return ask(home, port, "/status") if (port := pages_port(home)) else None
    except (OSError, ValueError):
        return None


def flush(home: Home, *, timeout_s: float = 10.0) -> bool:
    """Make the collector of `home` store everything that it has acknowledged, so that a run just sent is found.

    Return whether a collector runs. After a crash another process may have its port, which refuses the reader's
    token. A collector that is too busy counts: its stored runs can be read.
    """
    port = pages_port(home)
    if port is None:
        return False
    try:
        return "flushed" in ask(home, port, "/v1/flush", post=True, timeout_s=timeout_s)
    except urllib.error.HTTPError as error:
        return error.code in _BUSY
    except TimeoutError:
        return True
    except (OSError, ValueError, TypeError):
        return False


def store_url(home: Home, *, environ: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the store to read: the environment's, else the running collector's, else the files themselves.

    A collector of the data directory first stores all acknowledged spans.

    Raises:
        ConfigError: the store is missing.
    """
    is_running = flush(home)
    if named := environ.get(STORE_VARIABLE, "").strip():
        return named
    if is_running and (port := read_ports(home).get("clickhouse")):
        return f"clickhouse://default:{read_token(home.directory, READER) or ''}@127.0.0.1:{port}/freezeframe"
    if has_store(home.directory):
        return open_stopped_store(home.directory)
    raise ConfigError(
        f"no store: no collector is running for {home.directory}, and nothing was recorded there",
        do=f"start it with `freezeframe up`, name another data directory with --data or {VARIABLE}, "
        f"or a ClickHouse server with {STORE_VARIABLE}=clickhouse://user:password@host:8123/database",
    )
