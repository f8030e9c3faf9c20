"""Claims: which steps of a fixture are used, where several processes replay it at once (`process.peers`), or one does."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from freezeframe_schemas.divergence import Served


class Claims(Protocol):
    """What several processes of one replay share: no step is used twice."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Keep the others from answering; yield the steps that they have used, and how."""
        ...

    def claim(self, served: Served) -> None:
        """Tell them that a step is used."""
        ...


class Alone:
    """The claims of a replay in one process."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Yield nothing."""
        return nullcontext({})

    def claim(self, served: Served) -> None:
        """Tell nobody."""
