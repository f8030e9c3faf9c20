"""The way to the holder of the store, for administrative actions: the collector, or a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
from collections.abc import Callable
from typing import Any, Final

from freezeframe_replay.local.collector import flush, read_ports, send
from freezeframe_replay.local.home import Home
from freezeframe_schemas.data_directory import make_private
from freezeframe_schemas.errors import ConfigError, FreezeframeError, PermanentStoreError
from freezeframe_schemas.local_tokens import ADMIN

_MINUTES: Final = 30.0
"""Time limit of a command: a backup or a merge of a large store is slow."""
_STORE_FOLDER: Final = "store"

Order = dict[str, Any]
Answer = dict[str, Any]


def administration(home: Home, store: str = "", *, may_create: bool = False) -> Callable[[Order], Answer]:
    """Return the function that sends a command to the store at a DSN, else to that of the data directory.

    `may_create`: the data directory may be new, as on a host to which a backup is restored.

    Raises:
        ConfigError: it is missing.
    """
    if store:
        return lambda order: _by_process(store, order)
    if flush(home):
        port = read_ports(home).get("clickhouse")
        if not port:
            raise ConfigError("the running collector stores in a ClickHouse server", do="name the server with --store")
        return lambda order: _by_collector(home, port, order)
    directory = home.directory / _STORE_FOLDER
    if may_create:
        make_private(directory)
    if not directory.is_dir():
        raise ConfigError(
            f"no store: no collector is running, and there are no files in {directory}", do="name a directory with --data"
        )
    return lambda order: _by_process(f"chdb://{directory}", order)


def note_replay(home: Home, run_id: str) -> None:
    """Note in the store of the data directory that a replay of the run was identical, if a collector holds that store.

    Raises:
        PermanentStoreError: the collector refuses it.
    """
    port = read_ports(home).get("clickhouse") if flush(home) else None
    if port:
        _by_collector(home, port, {"action": "replayed", "run": run_id})


def _by_collector(home: Home, port: int, order: Order) -> Answer:
    try:
        body = json.dumps(order).encode()
        return json.loads(send(home, port, "/store", body=body, token=ADMIN, timeout_s=60 * _MINUTES))
    except urllib.error.HTTPError as error:
        raise _failure(error.read()) from None
    except OSError as error:
        raise PermanentStoreError(f"the collector on port {port} does not answer: {error}") from error


def _by_process(dsn: str, order: Order) -> Answer:
    # a process, not an import: nothing but the collector opens a store
    ended = subprocess.run(
        [sys.executable, "-m", "freezeframe_collector.store", dsn],
        input=json.dumps(order).encode(),
        capture_output=True,
        timeout=60 * _MINUTES,
        check=False,
    )
    if ended.returncode:
        raise _failure(ended.stdout or ended.stderr[-2000:])
    return json.loads(ended.stdout)


def _failure(answer: bytes) -> FreezeframeError:
    try:
        text = str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        text = answer.decode(errors="replace").strip() or "the store gave no answer"
    return PermanentStoreError(text)
