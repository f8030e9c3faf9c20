"""A real LangGraph run, replayed from the middle: nodes before the border do not run, the rest is answered as recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.operations.replay import begin_at
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytest.importorskip("langgraph")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

AGENT = """
import asyncio, operator, pathlib, sys
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
import freezeframe

freezeframe.instrument(framework_state=True)


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    found: Annotated[list[str], operator.add]


def mark(name):
    with pathlib.Path("ran").open("a") as file:
        file.write(name + " ")


@freezeframe.tool
def look(name, page):
    return [f"{name}-{page}"]


def plan(state):
    mark("plan")
    return {"found": look("AC", 1)}


def left(state):
    mark("left")
    return {"found": look("left", len(state["found"]))}


def right(state):
    mark("right")
    return {"found": look("right", len(state["found"]))}


def write(state):
    mark("write")
    last = look("last", ",".join(sorted(state["found"])))
    return {"messages": [AIMessage(f"{state['messages'][0].content} {last[0]}")]}


def build():
    graph = StateGraph(State)
    for node in (plan, left, right, write):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "left")
    graph.add_edge("plan", "right")
    graph.add_edge(["left", "right"], "write")
    graph.add_edge("write", END)
    return graph


@freezeframe.run
def answer(question):
    given = {"messages": [HumanMessage(question)], "found": []}
    if question == "async":
        return asyncio.run(build().compile().ainvoke(given))["messages"][-1].content
    if question == "saver":
        config = {"configurable": {"thread_id": "t1"}}
        return build().compile(checkpointer=InMemorySaver()).invoke(given, config)["messages"][-1].content
    return build().compile().invoke(given)["messages"][-1].content


if __name__ == "__main__":
    print(answer(sys.argv[1]))
"""


WRITES = ReplayPolicy(allow_paths=("ran",))
"""The nodes of a replay leave their names for real, in the file of `ran`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    (folder / "agent.py").write_text(AGENT)
    return folder


def record(folder: Path, kind: str) -> Fixture:
    """Return a run of four nodes, two of them side by side, recorded for real."""
    spans = folder / f"{kind}.jsonl"
    done = subprocess.run(
        [sys.executable, "agent.py", kind],
        cwd=folder,
        env={**os.environ, "FREEZEFRAME_FILE": str(spans)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{kind} last-AC-1,left-1,right-1\n"
    return freeze(load_run_of_file(spans))


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Fixture:
    """The run of a graph that is called synchronously."""
    return record(folder, "sync")


@pytest.fixture
def ran(folder: Path) -> Path:
    """The file in which nodes leave their names."""
    (folder / "ran").write_text("")
    return folder / "ran"


def test_each_border_between_supersteps_is_recorded(recorded: Fixture) -> None:
    assert [(state.border, state.after) for state in recorded.states] == [
        (0, ()),
        (1, ("__start__",)),
        (2, ("plan",)),
        (3, ("left", "right")),
        (4, ("write",)),
    ]


@pytest.mark.parametrize("kind", [pytest.param("async", marks=pytest.mark.proof("seam frameworks.langgraph")), "saver"])
def test_a_replay_from_the_middle_runs_the_later_nodes_only_and_ends_as_recorded(folder: Path, ran: Path, kind: str) -> None:
    """Called in both ways, and with its own checkpointer."""
    recorded = record(folder, kind)
    ran.write_text("")
    report = reenact(begin_at(recorded, 4), cwd=folder, policy=WRITES)
    assert ran.read_text() == "write "
    assert report.divergences == ()
    assert [item.step for item in report.served] == [4]
    assert report.outcome == recorded.entry.output


def test_the_border_before_parallel_nodes_runs_both_of_them(recorded: Fixture, folder: Path, ran: Path) -> None:
    report = reenact(begin_at(recorded, 2), cwd=folder, policy=WRITES)
    assert sorted(ran.read_text().split()) == ["left", "right", "write"]
    assert verdict(report) is Verdict.IDENTICAL


def test_changed_code_after_the_border_diverges_at_its_step(recorded: Fixture, folder: Path, ran: Path) -> None:
    source = (folder / "agent.py").read_text()
    try:
        (folder / "agent.py").write_text(source.replace('look("last"', 'look("first"'))
        report = reenact(begin_at(recorded, 4), cwd=folder, policy=WRITES)
    finally:
        (folder / "agent.py").write_text(source)
    assert ran.read_text() == "write "
    assert [(item.kind, item.step) for item in report.divergences] == [(DivergenceKind.REQUEST_CHANGED, 4)]


def test_a_redacted_state_holds_no_customer_and_still_begins_a_replay(folder: Path, ran: Path) -> None:
    mail = "maria.keller@northbay-mail.com"
    record(folder, mail)
    redactor = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
    run = load_run_of_file(folder / f"{mail}.jsonl")
    redacted = freeze(build_run(redactor.redact_span(span) for span in run.spans))
    assert redacted.states
    assert not any(mail in state.state for state in redacted.states)
    ran.write_text("")
    report = reenact(begin_at(redacted, 4), cwd=folder, policy=WRITES)
    assert ran.read_text() == "write "
    assert report.divergences == ()


def test_states_survive_the_way_to_the_disk(recorded: Fixture, tmp_path: Path) -> None:
    begun = begin_at(recorded, 4)
    write_fixture(begun, tmp_path)
    assert load_fixture(tmp_path) == begun


def test_the_command_line_begins_in_the_middle(
    recorded: Fixture, folder: Path, ran: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_fixture(recorded, tmp_path)
    monkeypatch.chdir(folder)
    assert main(["replay", str(tmp_path), "--from", "4", "--allow-path", "ran"]) == 0
    assert ran.read_text() == "write "


def test_a_run_without_states_says_how_to_record_them(recorded: Fixture) -> None:
    with pytest.raises(ReplayError, match="framework_state=True"):
        begin_at(replace(recorded, states=()), 2)
