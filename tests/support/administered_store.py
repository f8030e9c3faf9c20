"""A store that is administered as the command line does it: by a process that ends before the next one opens the store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def ordered(store: Path, action: str, **details: str) -> subprocess.CompletedProcess[str]:
    """Send one order, and return the process that carried it out."""
    return subprocess.run(
        [sys.executable, "-m", "freezeframe_collector.store", f"chdb://{store}"],
        input=json.dumps({"action": action, **details}),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def answer(store: Path, action: str, **details: str) -> Any:
    """Return the answer to an order that is carried out."""
    done = ordered(store, action, **details)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def stopping_after(left: int, run: Callable[[str], None]) -> Callable[[str], None]:
    """Return an engine's `command` that is interrupted once it has run so many statements."""

    def command(sql: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise InterruptedError
        run(sql)

    return command
