"""Claims: what the processes of one replay share (`process.peers`): the steps that are used, and what is assumed of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from freezeframe_replay.engine.private_values import Pair
from freezeframe_schemas.divergence import Served


class Claims(Protocol):
    """What several processes of one replay share: no step is used twice, and no private value stands for two surrogates."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Keep the others from answering; yield the steps that they have used, and how."""
        ...

    def claim(self, served: Served) -> None:
        """Tell them that a step is used."""
        ...

    def assume(self, pair: Pair) -> None:
        """Tell them what a private value is taken for."""
        ...

    def assumed(self) -> Sequence[Pair]:
        """Return what they told since this was asked last."""
        ...


class Alone:
    """The claims of a replay in one process."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Yield nothing."""
        return nullcontext({})

    def claim(self, served: Served) -> None:
        """Tell no one."""

    def assume(self, pair: Pair) -> None:
        """Tell no one."""

    def assumed(self) -> Sequence[Pair]:
        """Return nothing."""
        return ()
