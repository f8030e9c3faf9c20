"""Which conversation a run belongs to: named when it begins, by a header, by the program later, or by its graph's thread."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long


def session_of(captured: Any) -> str | None:
    return build_run(captured.spans).entry.session


@pytest.mark.proof
def test_a_program_names_the_conversation_once_it_knows_it() -> None:
    with capture() as captured, freezeframe.run("turn"):
        current = freezeframe.current_run()
        assert current is not None
        current.join("chat-81")
    [entry] = captured.spans
    assert session_of(captured) == "chat-81"
    assert entry.attributes[genai.CONVERSATION_ID] == "chat-81"


@pytest.mark.proof
def test_a_run_inside_a_run_is_of_the_same_conversation() -> None:
    with capture() as captured, freezeframe.run("turn", session="chat-81"), freezeframe.run("part"):
        pass
    assert [span.attributes[genai.SESSION_ID] for span in captured.spans] == ["chat-81"] * 2


@pytest.mark.proof
@pytest.mark.parametrize(("named", "expected"), [(None, "thread-1"), ("chat-81", "chat-81")])
def test_the_thread_of_the_first_graph_is_the_conversation_unless_it_is_named(named: str | None, expected: str) -> None:
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        text: str

    def say(state: State) -> State:
        return state

    graph: Any = StateGraph(State)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    compiled = graph.compile()
    with capture() as captured, freezeframe.run("turn", session=named):
        for thread in ("thread-1", "thread-2"):
            compiled.invoke({"text": "hello"}, {"configurable": {"thread_id": thread}})
        compiled.invoke({"text": "hello"})
    assert session_of(captured) == expected
