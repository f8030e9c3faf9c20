"""The garbage collector's pace in the processes of the collector, which make spans by the thousand and hardly ever a cycle."""

from __future__ import annotations

import gc
from typing import Final

_NEW_OBJECTS: Final = 10_000
"""New objects after which the youngest are looked at; Python's own figure, 700, is three spans. Spans that wait for the store
are looked at once or twice in all, and one that goes to it at once never."""


def collect_rarely() -> None:
    """Leave out for good what is here at the start (modules, patterns, lists of names), and look less often at what comes.

    Took 18 us of CPU a span before and 5 since (spans of 1 KB), and 60 ms at a stretch each time that all modules were looked
    at. Memory is freed as before: by the count of references, for all that is in no cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 10, 10)
