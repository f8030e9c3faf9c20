"""Admission: how many bytes of requests may be in work at once.

The receivers reserve a request's bytes before any work is done on it and give them back after the answer. Where the budget
is spent a request waits a little, then is refused with the delay after which to try again. Nothing is dropped.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass

from freezeframe_schemas.errors import FreezeframeError


class BusyError(FreezeframeError):
    """The request was not taken; the sender should send it again after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """A budget at one moment, for telemetry."""

    used_bytes: int
    limit_bytes: int
    refused: int

    def __add__(self, other: BudgetState) -> BudgetState:
        return BudgetState(
            used_bytes=self.used_bytes + other.used_bytes,
            limit_bytes=self.limit_bytes + other.limit_bytes,
            refused=self.refused + other.refused,
        )

    def to_json(self) -> dict[str, int]:
        """Return the fields by name."""
        return asdict(self)


class ByteBudget:
    """A counting semaphore over bytes, with a bounded wait. A request larger than the whole budget enters when it is alone."""

    def __init__(self, limit_bytes: int, *, wait_s: float, retry_after_s: float) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.refused = 0
        self._wait_s = wait_s
        self._retry_after_s = retry_after_s
        self._changed = threading.Condition()

    def renew(self, limit_bytes: int, *, wait_s: float, retry_after_s: float) -> None:
        """Change the bounds; what is reserved stays so."""
        with self._changed:
            self.limit_bytes, self._wait_s, self._retry_after_s = limit_bytes, wait_s, retry_after_s
            self._changed.notify_all()

    def reserve(self, size_bytes: int) -> AbstractContextManager[None]:
        """Take `size_bytes` of the budget until the end of the block, after a wait where it is spent.

        Raises:
            BusyError: the budget stayed spent for the whole wait.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._fits(size_bytes), timeout=self._wait_s):
                raise self._busy(size_bytes)
            self.used_bytes += size_bytes
        return _Reserved(self, size_bytes)

    def reserve_now(self, size_bytes: int) -> AbstractContextManager[None]:
        """Take `size_bytes` of the budget until the end of the block. Never waits: for an event loop.

        Raises:
            BusyError: the budget is spent.
        """
        with self._changed:
            if not self._fits(size_bytes):
                raise self._busy(size_bytes)
            self.used_bytes += size_bytes
        return _Reserved(self, size_bytes)

    def give_back(self, size_bytes: int) -> None:
        """Free what was reserved."""
        with self._changed:
            self.used_bytes -= size_bytes
            self._changed.notify_all()

    def state(self) -> BudgetState:
        """Return what the budget holds now."""
        return BudgetState(used_bytes=self.used_bytes, limit_bytes=self.limit_bytes, refused=self.refused)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is in work; return whether that came about."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            return self._changed.wait_for(lambda: self.used_bytes == 0, timeout=max(0.0, deadline - time.monotonic()))

    def _busy(self, size_bytes: int) -> BusyError:
        self.refused += 1
        return BusyError(
            f"busy: {self.used_bytes} of {self.limit_bytes} bytes are in work, the request has {size_bytes}",
            retry_after_s=self._retry_after_s,
        )

    def _fits(self, size_bytes: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size_bytes <= self.limit_bytes


class _Reserved:
    """Room in a budget, given back at the end of the block. (A generator would cost each request three times as much.)"""

    __slots__ = ("_budget", "_size_bytes")

    def __init__(self, budget: ByteBudget, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes

    def __enter__(self) -> None:
        """Do nothing: the room is taken."""

    def __exit__(self, *exception: object) -> None:
        """Give it back."""
        self._budget.give_back(self._size_bytes)
