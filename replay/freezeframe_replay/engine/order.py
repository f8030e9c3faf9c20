"""Whether recorded steps are asked for in the order in which they were recorded."""

from __future__ import annotations

from freezeframe_schemas.exchange import Lane


class Order:
    """The steps asked for, lane by lane."""

    def __init__(self) -> None:
        self._last: dict[Lane, int] = {}
        self._forked = False

    def after_fork(self) -> None:
        """Look no longer: the tasks of forked workers have no order, since whichever worker is free takes the next one."""
        self._forked = True

    def broken_by(self, step: int, lane: Lane, asked_in: Lane) -> int:
        """Take in a step of a lane; return the later one that was asked for before it, or 0.

        What is `asked_in` another lane has no order with it: of workers that share a queue, whichever is free takes the next.
        """
        if asked_in != lane or self._forked:
            return 0
        before = self._last.get(lane, 0)
        self._last[lane] = max(before, step)
        return before if step < before else 0
