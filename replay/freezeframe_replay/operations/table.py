"""The table of operations: a test compares the answers of all doors for each row."""

from __future__ import annotations

from typing import Any, Final

from freezeframe_replay.operations.diff import DIFF
from freezeframe_replay.operations.failures import FAILURES
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.show import SHOW
from freezeframe_replay.operations.sql import SQL

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (DIFF, FAILURES, SHOW, SQL)
