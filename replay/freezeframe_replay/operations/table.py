"""The table of operations: a test compares the answers of all interfaces for each row."""

from __future__ import annotations

from typing import Any, Final

from freezeframe_replay.operations.dataset import DATASET
from freezeframe_replay.operations.diff import DIFF
from freezeframe_replay.operations.experiment import EXPERIMENT, RESULTS
from freezeframe_replay.operations.export import EXPORT
from freezeframe_replay.operations.failures import FAILURES
from freezeframe_replay.operations.fixture import FIXTURE
from freezeframe_replay.operations.fork import FORK
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.replay import REPLAY, STEP
from freezeframe_replay.operations.runs import RUNS
from freezeframe_replay.operations.show import SHOW
from freezeframe_replay.operations.sql import SQL

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    DATASET,
    DIFF,
    EXPERIMENT,
    EXPORT,
    FAILURES,
    FIXTURE,
    FORK,
    REPLAY,
    RESULTS,
    RUNS,
    SHOW,
    SQL,
    STEP,
)
"""Each operation has one answer: command line, HTTP API, MCP and pages render its value."""
