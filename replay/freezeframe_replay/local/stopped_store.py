"""The embedded store of a data directory whose collector does not run, readable while this command runs.

The collector's program opens the files for reading and answers SQL on loopback (``freezeframe-collector --read``). It ends with
this process.
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.installing import install_command


def has_store(directory: Path) -> bool:
    """Return whether runs were ever stored in the data directory."""
    return any((directory / "store" / "clickhouse" / "metadata").glob("*.sql"))


@functools.cache
def open_stopped_store(directory: Path) -> str:
    """Return the URL of the store in a data directory, served until this process ends. Say so, and what may be missing.

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
