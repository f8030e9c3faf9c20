"""End to end for real: example agent -> OTLP -> collector (redacts) -> embedded ClickHouse -> SQL -> fixture."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from order_shop import Shop

from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Run

VARIANTS = ("sync", "async", "stream", "langgraph")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One run of the example at 3 PM, as it came back from the store."""

    variant: str
    printed: str
    """The agent's output: the answer with the customer's own data, as the process saw it."""
    run: Run
    fixture: Fixture


@dataclass(frozen=True, slots=True, kw_only=True)
class Theatre:
    """Everything that was started, and what was recorded in it."""

    data: Path
    store: RunStore
    shop: Shop
    runs: dict[str, Recorded]


def freezeframe(*arguments: str, data: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command line against a data directory."""
    done = subprocess.run(
        [sys.executable, "-m", "freezeframe._cli", *arguments],
        env={**os.environ, "FREEZEFRAME_DATA": str(data), "FREEZEFRAME_COLLECTOR__CAST__ENABLED": "true"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done
