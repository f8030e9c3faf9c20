"""The interface for handing over recordings: the tracing side implements it, and the seams see nothing else of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from freezeframe.context.accesses import UnrecordedAccesses
    from freezeframe.context.draws import Draws
    from freezeframe_schemas.span import Attributes


class Payload(Protocol):
    """Data kept with a span until its export."""

    @property
    def size(self) -> int:
        """Bytes that it holds in memory, roughly."""
        ...

    def describe(self, own: Attributes) -> tuple[str | None, Attributes]:
        """Return the name (None: the one it has) and attributes of the span, its `own` among them; on the exporter's thread."""
        ...


class Sink(Protocol):
    """Takes the payloads of spans that are about to end, and of entry spans that began."""

    def announce(self, span: Span, beginning: Payload) -> None:
        """Report at once that this entry span began, and its input."""

    def expect(self, span: Span, payload: Payload) -> None:
        """Keep the payload until its span arrives."""
        ...

    def count(self, span: Span) -> None:
        """Count a finished exchange of the run whose trace the span belongs to."""
        ...

    def counted(self, span: Span) -> int:
        """Return how many exchanges the run of this entry span has counted, and stop counting."""
        ...


class RootSpan(Protocol):
    """The span that holds exchanges outside any run."""

    @property
    def unrecorded(self) -> defaultdict[str, int]:
        """Host -> HTTP calls outside any run that were not recorded."""
        ...

    def note_reading(self, feed: str, value: str) -> list[str] | None:
        """Keep a feed's value outside any run; return the list that now ends with it, None if it is not kept."""

    def note_prompt(self, text: str) -> None:
        """Note a prompt that Python showed on the terminal by itself."""

    def draws(self) -> Draws | None:
        """Return the store for draws outside any run; None if they are not part of a run."""

    def accesses(self) -> UnrecordedAccesses | None:
        """Return the store for accesses of unmarked code outside any run; None if the process is not a run as a whole."""

    @property
    def loaded(self) -> UnrecordedAccesses:
        """Return the store for reads of the application's modules during their import, outside any run."""
        ...

    @property
    def before(self) -> list[tuple[str, str]]:
        """Return the readings, each with its feed, of the program's draws before its first run."""
        ...

    calls_before: int
    """Number of draws then."""

    def context_for_exchange(self, *, is_call: bool = True) -> Context | None:
        """Return the parent context of a new exchange, None for the current one. A call turns its holder into a run."""

    def held_back(self) -> list[Callable[[], None]] | None:
        """Return the work to do at the first call outside any run; None after that call, or if the process is not a run."""

    def context_for_run(self) -> Context | None:
        """Return the parent context of a run that begins, None for the current one."""
