"""Detect changes of code that a replay answers for and does not run. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from freezeframe_schemas.exchange import FunctionCode


class CodeIs(StrEnum):
    """Result of comparing the code of a call with that of the recorded one."""

    SAME = "same"
    CHANGED = "changed"
    UNKNOWN = "unknown"
    """It could not be read, then or now, or was read in another way: the byte code of another Python."""


def compare_code(recorded: FunctionCode | None, live: Callable[[], FunctionCode | None] | None) -> tuple[CodeIs, str]:
    """Return whether the code changed, and its present place. A recording without code gives no result."""
    if recorded is None:
        return CodeIs.SAME, ""
    now = None if live is None else live()
    if now is None or "" in (recorded.digest, now.digest) or _way(recorded) != _way(now):
        return CodeIs.UNKNOWN, ""
    return (CodeIs.SAME if now.digest == recorded.digest else CodeIs.CHANGED), now.place


def _way(code: FunctionCode) -> str:
    return code.digest.partition(":")[0]
