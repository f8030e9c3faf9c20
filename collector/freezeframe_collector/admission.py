"""Admission: bounds the bytes of requests on their way in, and in progress.

A request on its way in holds a lease, which grows as bytes arrive or come out of a decompressor: bytes that are only announced
hold nothing. When a budget is spent, a request waits a little. If there is still no room, a request on its way in gives up its
room: the request that has held the most for the longest, of the peer that holds the most. A request that gives up its room or
finds none is refused, with the delay after which to try again. Nothing that was acked is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Final, Self

from freezeframe_schemas.errors import FreezeframeError

_POLL_S: Final = 0.02
SMALL_BYTES: Final = 1 << 20
"""Requests up to this size may use the last sixteenth of a budget, which large ones leave free."""


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
        self._leases: set[Lease] = set()

    def lease(self, peer: str) -> Lease:
        """Return an empty lease for a request that `peer` is sending."""
        return Lease(self, peer)

    def renew(self, limit_bytes: int, *, wait_s: float, retry_after_s: float) -> None:
        """Change the bounds; what is reserved stays reserved."""
        with self._changed:
            self.limit_bytes, self._wait_s, self._retry_after_s = limit_bytes, wait_s, retry_after_s
            self._changed.notify_all()

    def reserve(self, size_bytes: int) -> AbstractContextManager[None]:
        """Take `size_bytes` of the budget until the end of the block, after a wait if it is spent.

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
        """Return the present state of the budget."""
        return BudgetState(used_bytes=self.used_bytes, limit_bytes=self.limit_bytes, refused=self.refused)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is in progress; return whether that happened."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            return self._changed.wait_for(lambda: self.used_bytes == 0, timeout=max(0.0, deadline - time.monotonic()))

    def _busy(self, size_bytes: int) -> BusyError:
        self.refused += 1
        return BusyError(
            f"busy: {self.used_bytes} of {self.limit_bytes} bytes are in use, the request has {size_bytes}",
            retry_after_s=self._retry_after_s,
        )

    def _fits(self, size_bytes: int, held_bytes: int = 0) -> bool:
        """Return whether a request that holds `held_bytes` may take `size_bytes` more."""
        kept_free = 0 if size_bytes + held_bytes <= SMALL_BYTES else self.limit_bytes // 16
        return self.used_bytes == held_bytes or self.used_bytes + size_bytes <= self.limit_bytes - kept_free

    # -- of leases ------------------------------------------------------------------------------------------------------

    def half_wait_s(self) -> float:
        """Return how long a lease waits before others have to give up their room, and again after that."""
        return self._wait_s / 2

    def grow(self, lease: Lease, size_bytes: int, *, wait_s: float = 0.0) -> bool:
        """Enlarge the lease, after a wait of up to `wait_s`; return whether there was room.

        Raises:
            BusyError: the lease had to give up its room.
        """
        with self._changed:
            fits = self._changed.wait_for(lambda: lease.is_evicted or self._fits(size_bytes, lease.held_bytes), timeout=wait_s)
            if lease.is_evicted:
                raise self._busy(size_bytes)
            if fits:
                self.used_bytes += size_bytes
                lease.held_bytes += size_bytes
                self._leases.add(lease)
            return fits

    def make_room(self, lease: Lease, size_bytes: int) -> None:
        """Evict leases until this one may grow, or until no other lease holds more or has held its room for longer."""
        with self._changed:
            while not self._fits(size_bytes, lease.held_bytes) and (victim := self._victim(lease, size_bytes)) is not None:
                victim.is_evicted = True
                self._release(victim)

    def shrink(self, lease: Lease, size_bytes: int) -> None:
        """Take some of the lease's room back."""
        with self._changed:
            size_bytes = min(size_bytes, lease.held_bytes)
            self.used_bytes -= size_bytes
            lease.held_bytes -= size_bytes
            self._changed.notify_all()

    def pin(self, lease: Lease) -> None:
        """Keep the lease's room until its end: its request is in progress.

        Raises:
            BusyError: the lease had to give up its room.
        """
        with self._changed:
            if lease.is_evicted:
                raise self._busy(0)
            lease.is_pinned = True

    def end(self, lease: Lease) -> None:
        """Reclaim the lease's room."""
        with self._changed:
            self._release(lease)

    def busy(self, size_bytes: int) -> BusyError:
        """Return the refusal of a lease for `size_bytes`."""
        with self._changed:
            return self._busy(size_bytes)

    def _release(self, lease: Lease) -> None:
        self.used_bytes -= lease.held_bytes
        lease.held_bytes = 0
        self._leases.discard(lease)
        self._changed.notify_all()

    def _victim(self, lease: Lease, size_bytes: int) -> Lease | None:
        held = Counter[str]()
        for one in self._leases:
            held[one.peer] += one.held_bytes
        own = held[lease.peer] + size_bytes
        now = time.monotonic()
        movable = [one for one in self._leases if one is not lease and not one.is_pinned]
        worst = max(movable, key=lambda one: (held[one.peer], one.cost(now)), default=None)
        if worst is None or (worst.peer != lease.peer and held[worst.peer] <= own):
            return None
        if worst.peer == lease.peer and worst.cost(now) <= lease.cost(now, size_bytes):
            return None
        return worst


class Lease:
    """Room in a budget for one request on its way in; given back at the end of the block."""

    __slots__ = ("_budget", "_since", "held_bytes", "is_evicted", "is_pinned", "peer")

    def __init__(self, budget: ByteBudget, peer: str) -> None:
        self._budget = budget
        self._since = time.monotonic()
        self.peer = peer
        """The sender's address, with its tenant if it has one."""
        self.held_bytes = 0
        self.is_evicted = False
        self.is_pinned = False

    def cost(self, now: float, more_bytes: int = 0) -> float:
        """Return what the lease costs the others: bytes times seconds."""
        return (self.held_bytes + more_bytes) * (now - self._since)

    def check(self) -> None:
        """Raise a BusyError if the lease had to give up its room."""
        if self.is_evicted:
            raise self._budget.busy(0)

    def grow(self, size_bytes: int) -> None:
        """Take more, after a wait if there is no room.

        Raises:
            BusyError: there was no room, or the lease had to give up its room.
        """
        budget = self._budget
        if budget.grow(self, size_bytes) or budget.grow(self, size_bytes, wait_s=budget.half_wait_s()):
            return
        budget.make_room(self, size_bytes)
        if not budget.grow(self, size_bytes, wait_s=budget.half_wait_s()):
            raise budget.busy(size_bytes)

    async def grow_in_loop(self, size_bytes: int) -> None:
        """Do what `grow` does, in an event loop: it never waits for a lock that is held for long.

        Raises:
            BusyError: as `grow`.
        """
        budget = self._budget
        for turn in range(2):
            if turn:
                budget.make_room(self, size_bytes)
            deadline = time.monotonic() + budget.half_wait_s()
            while not budget.grow(self, size_bytes):
                if time.monotonic() >= deadline:
                    break
                await asyncio.sleep(_POLL_S)
            else:
                return
        raise budget.busy(size_bytes)

    def hold(self, size_bytes: int) -> bool:
        """Hold exactly this much, without a wait; return whether there was room. If not, it holds nothing."""
        budget, more = self._budget, size_bytes - self.held_bytes
        if self.is_evicted:
            return False
        if more <= 0:
            budget.shrink(self, -more)
            return True
        budget.make_room(self, more)
        with contextlib.suppress(BusyError):
            if budget.grow(self, more):
                return True
        budget.end(self)
        return False

    def pin(self) -> None:
        """Keep the room until the end: the request is in progress.

        Raises:
            BusyError: the lease had to give up its room.
        """
        self._budget.pin(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Release its room."""
        self._budget.end(self)


class _Reserved:
    """Room in a budget, given back at the end of the block. (A generator would cost three times as much per request.)"""

    __slots__ = ("_budget", "_size_bytes")

    def __init__(self, budget: ByteBudget, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes

    def __enter__(self) -> None:
        """Do nothing: the room is taken."""

    def __exit__(self, *exception: object) -> None:
        self._budget.give_back(self._size_bytes)
