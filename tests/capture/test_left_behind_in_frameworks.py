"""What a tool that a framework calls leaves behind is a gap of the run, as with a marked tool."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import agents
import langchain_core.tools
import pydantic_ai
import pytest
from agents.tool_context import ToolContext
from langchain_core.retrievers import BaseRetriever
from langgraph.prebuilt import InjectedState
from pydantic import PrivateAttr
from pydantic_ai.models.test import TestModel

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run, readiness

pytestmark = pytest.mark.long  # imports the frameworks

CARTS: dict[str, list[str]] = {}
SEEN: list[str] = []


@langchain_core.tools.tool
def put(item: str) -> str:
    """Put an item into the cart."""
    CARTS.setdefault("mine", []).append(item)
    return "done"


@langchain_core.tools.tool
async def put_later(item: str) -> str:
    """Put an item into the cart."""
    CARTS.setdefault("mine", []).append(item)
    return "done"


@langchain_core.tools.tool
def look(item: str) -> str:
    """Look at an item."""
    return f"{item}: {len(CARTS)}"


@langchain_core.tools.tool
def put_in_state(item: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Put an item into the state."""
    state["cart"].append(item)
    return "done"


@langchain_core.tools.tool
@freezeframe.tool
def put_marked(item: str) -> str:
    """Put an item into the cart."""
    CARTS.setdefault("mine", []).append(item)
    return "done"


class Counter(langchain_core.tools.BaseTool):
    name: str = "counter"
    description: str = "Counts."
    total: int = 0
    _asked: int = PrivateAttr(default=0)

    def _run(self, item: str) -> str:
        self.total += 1
        self._asked += 1
        return item


class StorePaths(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
        SEEN.append(query)
        return []


@dataclass
class Deps:
    cart: list[str] = field(default_factory=list)


@agents.function_tool
def put_in_context(context: agents.RunContextWrapper[Deps], item: str) -> str:
    """Put an item into the context."""
    context.context.cart.append(item)
    return "done"


@agents.function_tool
async def look_in_context(context: agents.RunContextWrapper[Deps], item: str) -> str:
    """Look at an item."""
    return f"{item}: {len(context.context.cart)}"


async def by_hand(context: Any, arguments: str) -> str:
    SEEN.append(arguments)
    return str(context)


def hand_made() -> agents.FunctionTool:
    return agents.FunctionTool(name="hand_made", description="", params_json_schema={}, on_invoke_tool=by_hand)


def called_by_agents(tool: agents.FunctionTool) -> None:
    arguments = '{"item": "shoe"}'
    context = ToolContext(context=Deps(), tool_name=tool.name, tool_call_id="c1", tool_arguments=arguments)
    asyncio.run(tool.on_invoke_tool(context, arguments))  # pyright: ignore[reportArgumentType]


PYDANTIC = pydantic_ai.Agent(TestModel(), deps_type=Deps)


@PYDANTIC.tool
def put_in_deps(ctx: pydantic_ai.RunContext[Deps], item: str) -> str:
    ctx.deps.cart.append(item)
    return "done"


@freezeframe.run
def agent(act: Callable[[], object]) -> None:
    act()


@pytest.mark.proof
@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: put.invoke({"item": "shoe"}), ["put changes the global CARTS"]),
        (lambda: asyncio.run(put_later.ainvoke({"item": "shoe"})), ["put_later changes the global CARTS"]),
        (lambda: put_marked.invoke({"item": "shoe"}), ["put_marked changes the global CARTS"]),
        (lambda: look.invoke({"item": "shoe"}), []),
        (
            lambda: put_in_state.invoke({"item": "shoe", "state": {"cart": [], "messages": [object()]}}),
            ["put_in_state changes its context (cart)"],
        ),
        (
            lambda: Counter().invoke({"item": "shoe"}),
            ["counter changes its object (_asked)", "counter changes its object (total)"],
        ),
        (lambda: StorePaths().invoke("shoes"), ["StorePaths changes the global SEEN"]),
        (lambda: called_by_agents(put_in_context), ["put_in_context changes its context (cart)"]),
        (lambda: called_by_agents(look_in_context), []),
        (lambda: called_by_agents(hand_made()), ["hand_made changes the global SEEN"]),
        (lambda: PYDANTIC.run_sync("Go", deps=Deps()), ["put_in_deps changes its context (cart)"]),
    ],
)
def test_what_a_frameworks_tool_leaves_behind_is_named(act: Callable[[], object], words: list[str]) -> None:
    CARTS.clear()
    with capture() as captured:
        agent(act)
        run = build_run(captured.spans)
    assert readiness(replace(run, verified=True)).level < 6
    texts = [gap.text.split(", which")[0] for gap in run.gaps if gap.kind is GapKind.TOOL_CHANGES]
    assert sorted(f"{text.split()[1]} {text.split(') ', 1)[1]}" for text in texts) == words


def test_a_tool_that_a_run_makes_is_not_kept_after_it() -> None:
    """Servers make tools for each request, with what the request holds around them."""
    made: list[weakref.ref[Any]] = []

    def act() -> None:
        notes: list[str] = []

        @langchain_core.tools.tool
        def note(text: str) -> str:
            """Note a text."""
            notes.append(text)
            return "done"

        note.invoke({"text": "shoe"})
        made.append(weakref.ref(note.func))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]

    with capture():
        agent(act)
    gc.collect()
    assert [reference() for reference in made] == [None]
