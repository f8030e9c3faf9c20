"""Shared by the framework seams: a state's span, and the states with which a replay begins."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from freezeframe._guard import guard
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.recording import EXCHANGE_SEQUENCE
from freezeframe_schemas.framework import FrameworkState, state_attributes

if TYPE_CHECKING:
    from freezeframe_schemas.span import Attributes

_EXECUTIONS: Final = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatePayload:
    """Travels next to the span, so that no span limit cuts it."""

    state: FrameworkState

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self.state.state)

    def describe(self, own: Attributes) -> tuple[str | None, Attributes]:
        """Return the span's attributes with the state."""
        return None, {**own, **state_attributes(self.state)}


def is_recorded() -> bool:
    """Return whether states are recorded: something records, and states were requested."""
    recorder = switch.recorder()
    return recorder is not None and recorder.settings.framework_state


class Execution:
    """One execution of a graph or workflow in this process."""

    def __init__(self) -> None:
        self._number = next(_EXECUTIONS)
        self.borders = 0
        """The number of recorded borders."""

    def record_state(self, framework: str, name: str, *, after: Sequence[str], state: str) -> None:
        """Record a framework's state at the next border."""
        border, self.borders = self.borders, self.borders + 1
        recorder = switch.recorder()
        if recorder is None or len(state) > recorder.settings.max_body_bytes:
            return
        with guard(f"{framework}.state"):
            span = recorder.tracer.start_span(f"{framework} state {border}", context=recorder.root.context_for_exchange())
            if span.is_recording():
                found = FrameworkState(
                    framework=framework,
                    name=name,
                    execution=self._number,
                    border=border,
                    after=tuple(after),
                    sequence=next(EXCHANGE_SEQUENCE),
                    state=state,
                )
                recorder.sink.expect(span, _StatePayload(state=found))
            span.end()


class Beginnings:
    """The states that a replay begins with, one for each execution of the run, in their order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: list[FrameworkState] = []

    def put(self, states: Sequence[FrameworkState]) -> None:
        """Set the states with which a replay begins, before the program starts."""
        with self._lock:
            self._states = list(states)

    def take(self, framework: str) -> FrameworkState | None:
        """Return the state of the execution that begins now; None if it begins normally."""
        with self._lock:
            if self._states and self._states[0].framework == framework:
                return self._states.pop(0)
            return None


BEGINNINGS: Final = Beginnings()
