"""An operation: typed parameters in, a typed value out, and its JSON and text forms, which several interfaces share. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from freezeframe_replay.operations.source import RunSource
from freezeframe_schemas.errors import WireError

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[P, R]):
    """A row of the table of operations."""

    name: str
    parameters: type[P]
    compute: Callable[[RunSource, P], R]
    to_json: Callable[[R], Any]
    """Return the value as `--json` prints it and the API returns it."""
    to_text: Callable[[R, int], str]
    """Return the value as text in that number of columns, as a terminal and an MCP tool show it."""

    def execute(self, source: RunSource, parameters: P) -> R:
        """Return the value.

        Raises:
            FreezeframeError: it cannot be computed.
        """
        try:
            return self.compute(source, parameters)
        except RecursionError:  # a recording is a stranger's data
            message = "what was recorded is nested deeper than this program reads"
        raise WireError(message)
