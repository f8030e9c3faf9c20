"""Tasks for which a timed-out test waited: pytest-timeout prints the stacks of threads, and tasks have none."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest_timeout


def print_tasks_and_threads() -> None:
    """Print event loops, pending tasks and parked answers too when a test times out."""
    plain: Callable[..., None] = pytest_timeout.dump_stacks

    def dump_stacks(terminal: Any) -> None:
        plain(terminal)
        for found in gc.get_objects():
            try:
                _describe(found)
            except Exception as error:  # whatever is half made or half gone
                print(f"{type(found)}: {error!r}", file=sys.stderr)

    pytest_timeout.dump_stacks = dump_stacks


def _describe(found: Any) -> None:
    kinds = tuple(kind.__name__ for kind in type(found).__mro__)
    if "BaseEventLoop" in kinds and not found.is_closed():
        files = sorted(found._selector.get_map())
        polled = os.readlink(f"/proc/self/fd/{found._selector.fileno()}") if sys.platform == "linux" else ""
        print(f"{found}: ready {found._ready}, timers {found._scheduled}, files {files}, {polled}", file=sys.stderr)
        print(f"  wakes by {found._csock} to {found._ssock}", file=sys.stderr)
    elif "Pace" in kinds:
        print(f"pace: answers {found._answers}, unanswered {found._unanswered}, pumps {found._pumps}", file=sys.stderr)
        print(f"  now {found._now()}, passes since {found._passes_since_ns}, loops {list(found._loops)}", file=sys.stderr)
    elif isinstance(found, asyncio.Task) and not found.done():
        print(repr(found), file=sys.stderr)  # pyright: ignore[reportUnknownArgumentType]
        waits: Any = found.get_coro()
        while waits is not None:
            print(f"  {waits}", file=sys.stderr)
            waits = getattr(waits, "cr_await", None) or getattr(waits, "gi_yieldfrom", None)
