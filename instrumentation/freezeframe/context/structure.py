"""Find the agent of a call from the spans of other instrumentations around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from freezeframe_schemas import genai

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_KIND: Final = "openinference.span.kind"
_NAMES: Final = (genai.AGENT_NAME, "agent.name", "graph.node.id")
_MAX_DEPTH: Final = 100

Around = Callable[[], "tuple[Span, str] | None"]
"""Returns the span of a framework that keeps it apart from the OTel context; also its agent's name if no attribute has it."""


class AgentStructure:
    """The spans in progress and their parents in this process. Weak: an ended span is forgotten."""

    def __init__(self) -> None:
        self._parents: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.around: list[Around] = []

    def began(self, span: Span, parent: Span) -> None:
        """Note the parent of a new span."""
        self._parents[span] = parent

    def place(self, context: Context | None) -> tuple[Context | None, str]:
        """Return the context in which a call begins, and its agent's name, empty if none is known.

        Args:
            context: the one that it would begin in; None for the current one.
        """
        import opentelemetry.trace as trace

        current = trace.get_current_span(context)
        for look in self.around:
            found = look()
            if found is not None and any(span is current for span in self._upwards(found[0])):
                return trace.set_span_in_context(found[0], context), found[1] or self._agent(found[0])
        return context, self._agent(current)

    def _agent(self, span: Span) -> str:
        return next((name for above in self._upwards(span) if (name := _named(above))), "")

    def _upwards(self, span: Any) -> Iterator[Any]:
        for _ in range(_MAX_DEPTH):
            yield span
            span = self._parents.get(span)
            if span is None:
                return


def _named(span: Any) -> str:
    """Return the agent that a span represents."""
    attributes = getattr(span, "attributes", None) or {}
    if attributes.get(genai.OPERATION_NAME) != genai.OP_INVOKE_AGENT and attributes.get(_KIND) != "AGENT":
        return ""
    return next((name for key in _NAMES if isinstance(name := attributes.get(key), str) and name), span.name)
