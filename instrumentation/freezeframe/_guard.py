"""The one place that swallows our own errors in the user's process.

A freezeframe error must never reach the application: it is logged once per place, and the application's own result is kept. Set
``FREEZEFRAME_RAISE=1`` to have it raised, as our own tests do. Never put the application's own call inside a guard.
"""

from __future__ import annotations

import logging
import os
import sys
from traceback import extract_tb
from types import TracebackType
from typing import Final

logger: Final = logging.getLogger("freezeframe")


def _has_open_streams(record: logging.LogRecord) -> bool:
    """Return whether no handler's stream is closed; if one is, pass the record to the other handlers, or to standard error.

    The end of a pytest run closes the streams of handlers that were made in a test; `logging` would print a traceback for each.
    """
    current: logging.Logger | None = logger
    handlers: list[logging.Handler] = []
    while current is not None:
        handlers += current.handlers
        current = current.parent if current.propagate else None
    usable = [handler for handler in handlers if not _is_closed(getattr(handler, "stream", None))]
    if usable == handlers and (handlers or not _is_closed(sys.stderr)):
        return True
    for handler in usable:
        if record.levelno >= handler.level:
            handler.handle(record)
    if not usable and record.levelno >= logging.WARNING and sys.stderr is not None and not _is_closed(sys.stderr):
        print(record.getMessage(), file=sys.stderr)
    return False


def _is_closed(stream: object) -> bool:
    return getattr(stream, "closed", False) is True


logger.addFilter(_has_open_streams)

RAISE_VARIABLE: Final = "FREEZEFRAME_RAISE"

_reported: Final[set[str]] = set()


class guard:  # noqa: N801 - reads like the function that `contextmanager` would return, at a third of the cost
    """Swallow and log exceptions of the block. `place` names it in the log, ``httpx.response``."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):  # nothing was raised, or something that we must not swallow
            return False
        report(self._place, error)
        return True


def report(place: str, error: Exception) -> None:
    """Log a freezeframe error, once per place and kind; raise it if ``FREEZEFRAME_RAISE`` is set.

    Neither its message nor the traceback's lines of code are logged: both may hold the application's data.
    """
    if os.environ.get(RAISE_VARIABLE) == "1":
        raise error
    mark = f"{place}:{type(error).__name__}"
    if mark in _reported:
        return
    _reported.add(mark)
    logger.warning(
        "freezeframe: %s: could not record; the application continues (reported once): %s at %s",
        place,
        type(error).__name__,
        " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(extract_tb(error.__traceback__))),
    )


def log_once(mark: str, message: str, *args: object) -> None:
    """Log a warning the first time that `mark` is used in this process."""
    if mark not in _reported:
        _reported.add(mark)
        logger.warning(message, *args)
