"""FrameworkState: an agent framework's state at a node border, as span attributes and as a value of a fixture.

Writer (`state_attributes`) and reader (`state_from_span`) are next to each other. A state is data: JSON from which the
framework's seam rebuilds the framework's own checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkState:
    """One border between two steps of a framework's own loop."""

    framework: str
    """``langgraph`` or ``llama_index``."""
    name: str
    """The graph's or workflow's."""
    execution: int
    """Number of its execution of a graph in the process; compared, never counted."""
    border: int
    """Number of the border within the execution, from 0: the state before any node ran."""
    after: tuple[str, ...]
    """The nodes that ran just before it."""
    sequence: int
    """Exchanges with a lower sequence were issued before it, see `Exchange.sequence`."""
    state: str
    """JSON: for LangGraph tagged (`values`), for LlamaIndex as its own serializer writes it."""


def state_attributes(state: FrameworkState) -> dict[str, AttributeValue]:
    """Return the attributes that hold the state on its span."""
    return {
        genai.FRAMEWORK_NAME: state.framework,
        genai.FRAMEWORK_GRAPH: state.name,
        genai.FRAMEWORK_EXECUTION: state.execution,
        genai.FRAMEWORK_BORDER: state.border,
        genai.FRAMEWORK_AFTER: state.after,
        genai.FRAMEWORK_STATE: state.state,
        genai.EXCHANGE_SEQUENCE: state.sequence,
    }


def state_from_span(span: SpanRecord) -> FrameworkState | None:
    """Return the state that the span holds, or None if it holds none."""
    state = span.text(genai.FRAMEWORK_STATE)
    if state is None:
        return None
    after = span.attributes.get(genai.FRAMEWORK_AFTER)
    return FrameworkState(
        framework=span.text(genai.FRAMEWORK_NAME) or "",
        name=span.text(genai.FRAMEWORK_GRAPH) or "",
        execution=span.integer(genai.FRAMEWORK_EXECUTION) or 0,
        border=span.integer(genai.FRAMEWORK_BORDER) or 0,
        after=tuple(map(str, after)) if isinstance(after, tuple | list) else (),
        sequence=span.integer(genai.EXCHANGE_SEQUENCE) or 0,
        state=state,
    )
