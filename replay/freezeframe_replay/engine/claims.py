"""Claims: what the processes of one replay share (`process.peers`): the used steps, and what is assumed of private values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from freezeframe_replay.engine.pairs import Pair
from freezeframe_schemas.divergence import Served


class Claims(Protocol):
    """Shared by the processes of one replay: no step is used twice, and no private value is paired with two surrogates."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Keep the other processes from answering; yield the steps that they have used, and how."""
        ...

    def claim(self, served: Served) -> None:
        """Report to the others that a step is used."""
        ...

    def assume(self, pair: Pair) -> None:
        """Report to the others which surrogate a private value has."""
        ...

    def assumed(self) -> Sequence[Pair]:
        """Return the pairs that the others reported since the last call."""
        ...


class Alone:
    """The claims of a replay in one process."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Yield nothing."""
        return nullcontext({})

    def claim(self, served: Served) -> None:
        """Do nothing: there are no others."""

    def assume(self, pair: Pair) -> None:
        """Do nothing: there are no others."""

    def assumed(self) -> Sequence[Pair]:
        """Return nothing."""
        return ()
