"""Begin in the middle: a fixture whose replay starts from a framework's recorded state, at the border before a step. Pure.

The entry point is called as recorded and runs as usual up to the start of its graph; the graph continues from the recorded
state instead of from its beginning. Steps that are inside the graph and before the border are left out.
"""

from __future__ import annotations

from dataclasses import replace

from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.framework import FrameworkState


def begin_at(fixture: Fixture, number: int) -> Fixture:
    """Return the fixture of a replay that begins at the last border before step `number`.

    Raises:
        ReplayError: no such step, or no state was recorded before it.
    """
    step = next((step for step in fixture.steps if step.number == number), None)
    if step is None:
        raise ReplayError(f"step {number}: no such step; run {fixture.run_id} has steps 1 to {len(fixture.steps)}")
    if not fixture.states:
        raise ReplayError(
            f"run {fixture.run_id}: no framework's state was recorded, so a replay can only begin at the beginning",
            do="record it with instrument(framework_state=True), for graphs of LangGraph and workflows of LlamaIndex",
        )
    begin = _borders_before(fixture.states, step)
    left_out = [(_opening(fixture.states, state), state.sequence) for state in begin]
    kept = tuple(
        step for step in fixture.steps if not any(first <= step.exchange.sequence < border for first, border in left_out)
    )
    return replace(fixture, begin=begin, steps=kept)


def _borders_before(states: tuple[FrameworkState, ...], step: Step) -> tuple[FrameworkState, ...]:
    """Return the last state before the step of each execution that had begun by then."""
    last: dict[int, FrameworkState] = {}
    nested = _nested(states)
    for state in states:
        if state.execution not in nested and state.sequence < step.exchange.sequence:
            last[state.execution] = state
    if not last:
        raise ReplayError(
            f"step {step.number}: it comes before the first recorded state, so a replay has to begin at the beginning"
        )
    return tuple(last[execution] for execution in sorted(last))


def _nested(states: tuple[FrameworkState, ...]) -> frozenset[int]:
    """Return the executions that began while another one was in progress: they belong to a node of it."""
    spans: dict[int, tuple[int, int]] = {}
    for state in states:
        first, last = spans.get(state.execution, (state.sequence, state.sequence))
        spans[state.execution] = (min(first, state.sequence), max(last, state.sequence))
    return frozenset(
        inner
        for inner, (begun, _) in spans.items()
        if any(first < begun < last for outer, (first, last) in spans.items() if outer != inner)
    )


def _opening(states: tuple[FrameworkState, ...], of: FrameworkState) -> int:
    return min(state.sequence for state in states if state.execution == of.execution)
