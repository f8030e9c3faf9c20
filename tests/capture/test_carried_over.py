"""What earlier runs of a process changed, and a later one's code names, is a gap of the later one: a replay runs it alone."""

from __future__ import annotations

import array
import asyncio
import contextvars
import dis
import functools
import inspect
import itertools
import queue
import random
import sys
import threading
from collections import UserDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from asgi_request import ask
from carried_texts import carried_texts

import freezeframe
from freezeframe.context.accesses import UnrecordedAccesses
from freezeframe.seams.functions import left_behind
from freezeframe.testing import capture
from freezeframe_schemas.gaps import NOT_REPEATED, Gap, GapKind
from freezeframe_schemas.run import build_run, readiness

history: list[str] = []
sessions: dict[str, list[str]] = {}
orders: dict[str, int] = {}
counted = 0
client: object = None
asked: contextvars.ContextVar[int] = contextvars.ContextVar("asked", default=0)


class Bot:
    def __init__(self) -> None:
        self.said: list[str] = []

    def hear(self, text: str) -> None:
        self.said.append(text)


bot = Bot()


class Desk:
    def __init__(self) -> None:
        self.bot = Bot()


desk = Desk()


class Shift:
    bot = Bot()

    def hear(self, text: str) -> str:
        self.bot.hear(text)
        return say(self.bot.said)


shift = Shift()


@freezeframe.tool
def say(what: object) -> str:
    return str(what)


@freezeframe.tool
def order(what: str) -> int:
    return orders.setdefault(what, len(orders))


@functools.cache
def translated(text: str) -> str:
    return say(text)


def count_orders() -> int:
    return len(orders)


warehouse = SimpleNamespace(count_orders=0)


@freezeframe.run
def remembers(text: str) -> str:
    history.append(text)
    return say(history)


@freezeframe.run
def hears(text: str) -> str:
    bot.hear(text)
    return say(bot.said)


@freezeframe.run
def hears_on_a_shift(text: str) -> str:
    return shift.hear(text)


@freezeframe.run
def hears_at_a_desk(text: str) -> str:
    desk.bot.hear(text)
    return say(desk.bot.said)


@freezeframe.run
async def counts(text: str) -> str:
    global counted
    counted += 1
    return say(text)


@freezeframe.run
def translates(text: str) -> str:
    del text
    return translated("the same")


@freezeframe.run
def orders_by_a_tool(text: str) -> int:
    """What only tools name is not missed: a replay answers them."""
    return order(text)


@freezeframe.run
def is_stateless(text: str) -> str:
    """Its attribute has the name of a function that it does not call."""
    global client
    client = object()
    asked.set(len(text))
    return say([order(text), asked.get(), warehouse.count_orders])


def made(history: list[str]) -> Callable[[str], str]:
    @freezeframe.run
    def hears_in_a_closure(text: str) -> str:
        history.append(text)
        return say(history)

    return hears_in_a_closure


def is_made_anew(text: str) -> str:
    return made([])(text)


def numbers() -> Iterator[int]:
    at = 0
    while True:
        at += 1
        yield at


class Slotted:
    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0


class Lately(UserDict[str, int]):
    """A mapping of a library, which keeps what it holds in an attribute."""


Lately.__module__ = "collections"
KINDS: dict[str, tuple[Any, str]] = {
    "count": (itertools.count(), "next(kept)"),
    "iterator": (iter(range(100)), "next(kept)"),
    "generator": (numbers(), "next(kept)"),
    "seeded": (random.Random(7), "kept.random()"),
    "queue": (queue.Queue[int](), "kept.put(1)"),
    "heap": (queue.PriorityQueue[int](), "kept.put(2)"),
    "array": (array.array("i", [0, 0]), "kept.__setitem__(0, kept[0] + 1)"),
    "numpy": (np.zeros(4), "kept.__setitem__(1, kept[1] + 1)"),
    "slots": (Slotted(), "setattr(kept, 'seen', kept.seen + 1)"),
    "mapping": (Lately(), "kept.__setitem__(str(len(kept.data)), 1)"),
    "context variable": (contextvars.ContextVar[int]("kept", default=0), "kept.set(kept.get() + 1)"),
    "context variable, read first": (contextvars.ContextVar[int]("kept", default=0), "now = kept.get(); kept.set(now + 1)"),
    "default of a context variable": (contextvars.ContextVar[list[int]]("kept", default=[]), "kept.get().append(1)"),  # noqa: B039 - the case
    "thread local": (threading.local(), "kept.seen = getattr(kept, 'seen', 0) + 1"),
    "thread local, counted up": (threading.local(), "hasattr(kept, 'seen') or setattr(kept, 'seen', 0); kept.seen += 1"),
    "idle context variable": (contextvars.ContextVar[int]("kept", default=0), "kept.set(len(text)); kept.get()"),
    "idle thread local": (threading.local(), "kept.seen = len(text); len([kept.seen])"),
    "idle iterator": (iter([1, 2]), "kept"),
    "idle generator": (numbers(), "kept"),
    "idle seeded": (random.Random(7), "kept"),
    "idle queue": (queue.Queue[int](), "kept.empty()"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_holds_a_state_in_its_own_way_is_looked_at(kind: str) -> None:
    """Used without being changed, it is no gap."""
    kept, use = KINDS[kind]
    scope: dict[str, Any] = {"kept": kept, "say": say, "__name__": __name__}
    exec(compile(f"def works(text):\n    {use}\n    return say(text)\n", __file__, "exec"), scope)
    works = freezeframe.run(scope["works"])
    with capture() as captured:
        for text in ("one", "two", "three"):
            works(text)
        _, *later = carried_texts(captured.spans)
    changed = [f"the global kept changed since the process first ran this code, {NOT_REPEATED}"]
    assert later == ([[], []] if kind.startswith("idle") else [changed, changed])


def counts_its_calls() -> int:
    vars(counts_its_calls)["calls"] = vars(counts_its_calls).get("calls", 0) + 1
    return vars(counts_its_calls)["calls"]


counts_its_calls.calls = 0  # pyright: ignore[reportFunctionMemberAccess] - the kind that is tested


@freezeframe.run
def asks_a_function_that_counts(text: str) -> str:
    return say([text, counts_its_calls()])


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (asks_a_function_that_counts, "the global counts_its_calls (its attributes)"),
        (remembers, "the global history"),
        (hears, "the global bot"),
        (hears_at_a_desk, "the global desk"),
        (hears_on_a_shift, "the class Shift (bot)"),
        (counts, "the global counted"),
        (translates, "the global translated"),
        (orders_by_a_tool, None),
        (is_stateless, None),
        (made([]), "the variable history around hears_in_a_closure"),
        (is_made_anew, None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_an_earlier_run_changed_is_named_in_the_later_one(
    function: Callable[[str], Any], name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture() as captured:
        for text in (f"{function.__name__} one", f"{function.__name__} two"):
            monkeypatch.setenv("FREEZEFRAME_TEST_CARRIED", text)
            result = function(text)
            if inspect.isawaitable(result):
                asyncio.run(_wait(result))
        first, second = carried_texts(captured.spans)
    assert first == []
    assert second == ([] if name is None else [f"{name} changed since the process first ran this code, {NOT_REPEATED}"])


async def _wait(result: Awaitable[Any]) -> Any:
    return await result


async def chat(scope: Any) -> None:
    del scope
    history_of = sessions.setdefault("a", [])
    history_of.append("hello")
    say(history_of)


async def look_up(scope: Any) -> None:
    del scope
    say("hello")


def test_what_a_request_finds_of_an_earlier_one_is_named() -> None:
    """The handler is on the stack when the request makes its first call; what another handler names is not looked at."""
    with capture() as captured:
        for handler in (chat, look_up, chat, look_up):
            ask(handler)
        found = carried_texts(captured.spans)
    changed = [f"the global sessions changed since the process first ran this code, {NOT_REPEATED}"]
    assert found == [[], [], changed, []]


def test_the_globals_that_code_names_are_those_that_dis_finds() -> None:
    """Read from the bytes of the code, whose form changes with Python's versions."""
    names = {"LOAD_GLOBAL", "STORE_GLOBAL", "LOAD_NAME", "DELETE_GLOBAL"}
    modules = [sys.modules[name] for name in ("argparse", "asyncio.base_events", "inspect", "typing", __name__)]
    codes: list[CodeType] = [each.__code__ for module in modules for each in vars(module).values() if inspect.isfunction(each)]
    assert len(codes) > 100
    for code in codes:
        expected = {(each.opcode, each.argval) for each in dis.get_instructions(code) if each.opname in names}
        assert set(left_behind._globals(code)) == expected  # pyright: ignore[reportPrivateUsage]  (what is read here)


def test_a_run_whose_gaps_could_not_be_looked_for_is_not_hermetic(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object, entry: str) -> Iterator[Gap]:
        raise RuntimeError(entry)

    monkeypatch.delenv("FREEZEFRAME_RAISE")
    monkeypatch.setattr(UnrecordedAccesses, "gaps", fail)
    with capture() as captured:
        is_stateless("one")
        run = build_run(captured.spans)
    assert [gap.kind for gap in run.gaps] == [GapKind.UNSEEN]
    assert readiness(replace(run, verified=True)).level < 6
