"""Check whether recorded steps are requested in the order in which they were recorded."""

from __future__ import annotations

from freezeframe_schemas.exchange import Lane


class Order:
    """The requested steps, lane by lane."""

    def __init__(self) -> None:
        self._last: dict[Lane, int] = {}
        self._forked = False

    def after_fork(self) -> None:
        """Stop checking: the tasks of forked workers have no order, because any free worker takes the next one."""
        self._forked = True

    def broken_by(self, step: int, lane: Lane, requested_in: Lane) -> int:
        """Note a requested step of a lane; return the later one that was requested before it, or 0.

        A step requested in another lane has no order: if workers share a queue, any free one takes the next task.
        """
        if requested_in != lane or self._forked:
            return 0
        before = self._last.get(lane, 0)
        self._last[lane] = max(before, step)
        return before if step < before else 0
