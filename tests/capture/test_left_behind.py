"""What a tool leaves behind besides its result is a gap of the run, in words that say what; what it only reads is none."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import pydantic
import pytest

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.gaps import NOT_WHOLE, Gap, GapKind
from freezeframe_schemas.run import build_run, readiness

count = 0
MEMORY: dict[str, Any] = {"plan": {"steps": 1}}
SEEN: Counter[str] = Counter()
RECENT: deque[object] = deque()
ASKED: contextvars.ContextVar[int] = contextvars.ContextVar("ASKED", default=0)
LOCAL = threading.local()
client: object = None


class Store:
    total = 0

    def __init__(self) -> None:
        self.rows: list[object] = []

    def add(self, row: object) -> None:
        self.rows.append(row)


STORE = Store()


class Lazy:
    """An object that is made when its class is asked for, as web frameworks have them."""

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        raise AssertionError("was made")


LAZY = Lazy()


def remember(steps: int) -> None:
    MEMORY["plan"]["steps"] = steps


@freezeframe.tool
def sets_a_global() -> None:
    global count
    count += 1


@freezeframe.tool
def makes_a_global() -> None:
    global made_here
    made_here = count


@freezeframe.tool
def calls_what_changes_deep_inside(steps: int) -> None:
    remember(steps)


@freezeframe.tool
async def counts_and_queues() -> None:
    SEEN["a"] += 1
    RECENT.append(object())


@freezeframe.tool
def adds_to_an_object() -> None:
    STORE.add(1)


@freezeframe.tool
def changes_a_class() -> None:
    Store.total += 1


@freezeframe.tool
def sets_a_variable() -> None:
    os.environ["FREEZEFRAME_TEST_LEFT"] = str(len(os.environ))


@freezeframe.tool
def sets_a_context_variable() -> None:
    ASKED.set(ASKED.get() + 1)


@freezeframe.tool
def sets_a_threads() -> None:
    LOCAL.asked = count


@freezeframe.tool
def keeps_in_a_default(item: int, kept: list[int] = []) -> None:  # noqa: B006 - the mistake that is looked for
    kept.append(item)


def made(history: list[str]) -> Callable[[str], None]:
    asked = 0

    @freezeframe.tool
    def hears(text: str) -> None:
        nonlocal asked
        asked += 1
        history.append(text)

    return hears


class Cart:
    def __init__(self) -> None:
        self.slots = [0]
        self.store = Store()

    @freezeframe.tool
    def put(self, item: int) -> None:
        self.slots[0] = item

    @freezeframe.tool
    def add(self, item: int) -> None:
        self.store.add(item)

    @freezeframe.tool
    def label(self, text: str) -> None:
        self.text = text


@freezeframe.tool
def gives_back(items: list[int]) -> list[int]:
    return items


@freezeframe.tool
def fails_and_changes() -> None:
    STORE.add(2)
    raise KeyError("left")


@freezeframe.tool
def asks() -> Generator[str, str | None, None]:
    yield f"you said {yield 'what?'}"


class Order(pydantic.BaseModel):
    id: str
    _note: str = pydantic.PrivateAttr(default="")


@freezeframe.tool
def sets_the_same_global() -> None:
    global count
    count += 1


@freezeframe.tool
def lends(name: str) -> dict[str, int]:
    return LENT[name]


LENT = {"a": {"n": 1}}


class StorePaths:
    def __init__(self) -> None:
        self.orders = [Order(id="AC-1")]

    @freezeframe.tool
    async def first(self) -> Order:
        return self.orders[0]


async def changes_what_it_got() -> None:
    (await StorePaths().first()).id = "AC-2"


def converse() -> None:
    conversation = asks()
    next(conversation)
    conversation.send("Lyon")
    conversation.close()


@freezeframe.tool
def reads() -> tuple[object, ...]:
    return count, dict(MEMORY), SEEN["a"], STORE.rows, ASKED.get(), os.environ.get("HOME"), repr(type(LAZY)), Store.total


@freezeframe.tool
def makes_a_client() -> None:
    """A client that is made once leaves nothing that a program reads."""
    global client
    client = threading.Lock()


@freezeframe.run
def agent(act: Callable[[], object]) -> None:
    with contextlib.suppress(KeyError):
        result = act()
        if asyncio.iscoroutine(result):
            asyncio.run(result)


def gaps_of(act: Callable[[], object]) -> list[Gap]:
    with capture() as captured:
        agent(act)
        run = build_run(captured.spans)
    assert readiness(replace(run, verified=True)).level < 6
    return [gap for gap in run.gaps if gap.kind in (GapKind.TOOL_CHANGES, GapKind.RESULT_CHANGED)]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (sets_a_global, ["changes the global count"]),
        (makes_a_global, ["changes the global made_here"]),
        (lambda: calls_what_changes_deep_inside(7), ["changes the global MEMORY"]),
        (counts_and_queues, ["changes the global SEEN", "changes the global RECENT"]),
        (adds_to_an_object, ["changes the global STORE"]),
        (changes_a_class, ["changes the class Store (total)"]),
        (sets_a_variable, ["changes os.environ"]),
        (sets_a_context_variable, ["changes the global ASKED"]),
        (sets_a_threads, ["changes the global LOCAL"]),
        (lambda: keeps_in_a_default(1), ["changes a default of keeps_in_a_default"]),
        (lambda: made([])("hello"), ["changes the variable asked around hears", "changes the variable history around hears"]),
        (lambda: Cart().put(7), ["changes its object (slots)"]),
        (lambda: Cart().add(7), ["changes its object (store)"]),
        (lambda: Cart().label("x"), ["changes its object (text)"]),
        (lambda: gives_back([1]), ["returns the very object that it was given"]),
        (lambda: (sets_a_global(), sets_the_same_global()), ["changes the global count"] * 2),
        (lambda: lends("a").update(n=2), ["returns what the global LENT holds, and it changes later"]),
        (lambda: len(lends("a")), []),
        (changes_what_it_got, ["returns what its object (orders) holds, and it changes later"]),
        (fails_and_changes, ["changes the global STORE"]),
        (converse, ["is answered by send()"]),
        (reads, []),
        (makes_a_client, []),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_a_tool_leaves_behind_is_named(act: Callable[[], object], words: list[str]) -> None:
    found = gaps_of(act)
    assert {gap.kind for gap in found} <= {GapKind.TOOL_CHANGES}
    assert sorted(gap.text.split(") ", 1)[1].split(", which")[0] for gap in found) == sorted(words)


class OrderError(Exception):
    def __init__(self, text: str, call: object = None) -> None:
        super().__init__(text)
        self.call = call


@freezeframe.tool
def order_with_a_note() -> Order:
    order = Order(id="AC-1")
    order._note = "late"  # pyright: ignore[reportPrivateUsage]  (its own)
    return order


@freezeframe.tool
def counted() -> Counter[str]:
    return Counter("aab")


@freezeframe.tool
def by_place() -> defaultdict[str, int]:
    return defaultdict(lambda: 7)


@freezeframe.tool
def plain() -> list[Order | tuple[int, ...]]:
    return [Order(id="AC-1"), (1, 2)]


@freezeframe.tool
def raises(call: bool) -> None:
    raise KeyError("AC-1") if not call else OrderError("AC-1", threading.Lock())


@freezeframe.tool
def refuses() -> None:
    raise KeyError(threading.Lock())


def of_a_function() -> None:
    class LocalError(KeyError):
        pass

    @freezeframe.tool
    def local() -> None:
        raise LocalError("AC-1")

    local()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (order_with_a_note, f"returns a {__name__}:Order, {NOT_WHOLE} (only plain data and fields)"),
        (counted, None),
        (by_place, f"returns a collections:defaultdict, {NOT_WHOLE} (only plain data and fields)"),
        (plain, None),
        (lambda: raises(False), None),
        (refuses, f"raises a builtins:KeyError, {NOT_WHOLE} (without its arguments)"),
        (of_a_function, f"raises a {__name__}:of_a_function.<locals>.LocalError, {NOT_WHOLE} (without its class)"),
    ],
)
def test_a_result_or_exception_that_does_not_come_back_whole_is_named(act: Callable[[], object], words: str | None) -> None:
    found = gaps_of(act)
    assert [gap.kind for gap in found] == ([] if words is None else [GapKind.RESULT_CHANGED])
    assert all(words in gap.text for gap in found if words)


def test_an_exception_without_an_attribute_that_it_had_is_named() -> None:
    @freezeframe.run
    def caught() -> None:
        with contextlib.suppress(OrderError):
            raises(True)

    with capture() as captured:
        caught()
    texts = [gap.text for gap in build_run(captured.spans).gaps if gap.kind is GapKind.RESULT_CHANGED]
    assert [text.split(") ", 1)[1] for text in texts] == [f"raises a {__name__}:OrderError, {NOT_WHOLE} (without its call)"]


def test_large_data_is_compared_by_its_size_after_a_while_and_no_change_is_invented() -> None:
    """So what is dropped is still named then, and what is replaced no more."""
    large: dict[str, Any] = {str(number): {"n": number} for number in range(20_000)}

    @freezeframe.tool
    def looks_up(name: str) -> Any:
        return large[name]["n"]

    @freezeframe.tool
    def drops(name: str) -> None:
        large.pop(name, None)

    @freezeframe.tool
    def replaces(name: str) -> None:
        if name in large:
            large[name] = {"n": -1}

    @freezeframe.run
    def asks_often() -> None:
        for number in range(30):
            looks_up(str(number))
        for tool in (drops, replaces):
            for _ in range(30):
                tool("nothing there")
            tool("3" if tool is drops else "4")

    with capture() as captured:
        asks_often()
    found = [gap.text for gap in build_run(captured.spans).gaps if gap.kind is GapKind.TOOL_CHANGES]
    assert [text.split(", which")[0].split(") ")[1] for text in found] == ["changes the variable large around drops"]


def test_a_generator_as_an_entry_point_that_is_answered_is_named() -> None:
    @freezeframe.run
    def talks() -> Iterator[str]:
        said = yield "what?"
        yield f"you said {said}"

    with capture() as captured:
        conversation: Any = talks()
        next(conversation)
        conversation.send("Lyon")
        conversation.close()
    assert "the caller sends values into the generator" in str(build_run(captured.spans).gaps)
