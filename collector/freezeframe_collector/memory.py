"""Memory of the processes of the collector, which make spans by the thousand, hardly ever a cycle, and large messages."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from typing import Final

_NEW_OBJECTS: Final = 10_000
"""New objects after which the youngest generation is collected; Python's default, 700, is three spans.

Spans that wait for the store are examined once or twice in all, and those stored at once never.
"""
_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
"""Parameters of ``mallopt``. Source: glibc, malloc.h."""
_ARENAS: Final = 4
_LARGE_BYTES: Final = 256 * 1024


def return_large_blocks() -> None:
    """Make glibc return a freed block of a large message to the system at once, and share its heaps among threads.

    By itself glibc stops doing so once it has freed the first one, and each of many threads keeps what it freed. Under
    hostile senders of messages of 8 MB the collector grew by 235 to 277 MB without this, and by 147 to 196 MB with it.

    Source: mallopt(3), "dynamic mmap threshold".
    """
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_ARENA_MAX, _ARENAS)


def collect_rarely() -> None:
    """Exclude objects that exist at the start (modules, patterns, lists of names), and examine new ones less often.

    The garbage collector took 18 us of CPU per span before, and 5 us since (spans of 1 KB); each full
    collection took 60 ms. Memory is freed as before: by reference counts, for everything that is not in a
    cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 10, 10)
