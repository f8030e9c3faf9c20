"""Tools, retrievers and runs of plain functions: recorded exactly, and served without calling anything."""

from __future__ import annotations

import asyncio
import functools
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from capture_replay import replaying

import freezeframe
from freezeframe.testing import Captured, capture
from freezeframe_schemas import genai, values
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import StatusCode

CALLS: list[str] = []


class OutOfStockError(Exception):
    """An exception of the application."""

    def __init__(self, order_id: str, *, left: int) -> None:
        super().__init__(f"{order_id} is out of stock")
        self.left = left


@dataclass(frozen=True)
class Price:
    amount: Decimal
    currency: str


@freezeframe.tool
def get_price(order_id: str, currency: str = "EUR") -> Price:
    CALLS.append("get_price")
    return Price(Decimal("9.99"), currency)


@freezeframe.tool(name="renamed")
async def get_order(order_id: str) -> dict[str, Any]:
    CALLS.append("get_order")
    await asyncio.sleep(0)
    return {"id": order_id, "n": len(CALLS)}


@freezeframe.tool
def fail(order_id: str) -> None:
    CALLS.append("fail")
    raise OutOfStockError(order_id, left=0)


@freezeframe.tool
def count(n: int) -> Iterator[int]:
    CALLS.append("count")
    yield from range(n)


@freezeframe.tool
async def count_async(n: int) -> AsyncIterator[int]:
    CALLS.append("count_async")
    for number in range(n):
        yield number


@freezeframe.retriever
def search(query: str, k: int = 2) -> list[tuple[dict[str, str], float]]:
    CALLS.append("search")
    return [({"id": f"chunk-{i}", "content": f"{query} {i}"}, 0.9 - i / 10) for i in range(k)]


@freezeframe.tool
def outer(order_id: str) -> Any:
    return [get_price(order_id), search("inside")]


class Shop:
    @freezeframe.tool
    def stock(self, order_id: str) -> int:
        CALLS.append("stock")
        return 3

    @freezeframe.tool
    @staticmethod
    def opening() -> str:
        return "9 to 5"


def caught(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return [type(error).__name__, error.args, vars(error)]


def session_of(message: str) -> str:
    return f"s-{message}"


@freezeframe.run(user="u1", tenant="acme", session=session_of, id="r1")
def agent(message: str) -> Any:
    freezeframe.flag("new-prices", True)
    return [
        get_price("AC-1"),
        get_price(order_id="AC-1", currency="USD"),
        caught(fail, "AC-2"),
        list(count(3)),
        search("shoes"),
        Shop().stock("AC-1"),
        Shop.opening(),
        outer("AC-3"),
    ]


@freezeframe.run
async def async_agent(message: str) -> Any:
    return [await get_order(message), [item async for item in count_async(3)]]


def record(function: Callable[..., Any], *args: Any) -> tuple[Any, Captured]:
    with capture() as captured:
        result = function(*args)
        captured.handle.flush()
    return result, captured


def test_tools_are_served_without_being_called() -> None:
    CALLS.clear()
    first, captured = record(agent, "hello")
    calls = len(CALLS)
    with replaying(captured.exchanges) as recorded:
        second = agent("hello")
    assert first == second
    assert len(CALLS) == calls
    assert recorded.left == []


def test_coroutines_and_async_generators_are_served_without_being_called() -> None:
    CALLS.clear()
    first, captured = record(lambda: asyncio.run(async_agent("AC-1")))
    calls = len(CALLS)
    with replaying(captured.exchanges) as recorded:
        second = asyncio.run(async_agent("AC-1"))
    assert first == second == [{"id": "AC-1", "n": 1}, [0, 1, 2]]
    assert len(CALLS) == calls
    assert recorded.left == []


def test_arguments_are_recorded_by_name_as_the_function_got_them() -> None:
    _, captured = record(agent, "hello")
    bodies = [values.decode(exchange.request.body.decode()) for exchange in captured.exchanges[:2]]
    assert bodies == [
        {"args": [], "kwargs": {"order_id": "AC-1"}, "defaults": {"currency": "EUR"}},
        {"args": [], "kwargs": {"order_id": "AC-1", "currency": "USD"}},
    ]


def test_a_call_inside_a_tool_is_recorded_below_it() -> None:
    _, captured = record(agent, "hello")
    by_name = {exchange.name: exchange for exchange in captured.exchanges}
    assert by_name["outer"].span_id in {e.parent_span_id for e in captured.exchanges if e.name == "get_price"}


def test_the_entry_span_carries_the_whole_kit() -> None:
    _, captured = record(agent, "hello")
    run = build_run(captured.spans)
    assert run.entry.target == f"{__name__}:agent"
    assert values.decode(run.entry.input or "") == {"args": [], "kwargs": {"message": "hello"}}
    assert values.decode(run.entry.flags or "") == {"new-prices": True}
    assert (run.entry.user, run.entry.tenant, run.entry.session, run.entry.run_id) == ("u1", "acme", "s-hello", "r1")
    assert run.entry.random_state is not None
    assert {gap.kind for gap in run.gaps} == {GapKind.TOOL_CHANGES}  # the tools of this test write to CALLS
    without_environment = {"commit", "commit_dirty", "python_version", "package_versions", "time_zone"}
    assert {item.field.name for item in readiness(run).missing} == without_environment


def test_every_span_of_a_run_carries_user_session_and_tenant() -> None:
    _, captured = record(agent, "hello")
    assert {span.text(genai.USER_ID) for span in captured.spans} == {"u1"}
    assert {span.text(genai.SESSION_ID) for span in captured.spans} == {"s-hello"}
    assert {span.text(genai.TENANT) for span in captured.spans} == {"acme"}


def test_a_retrieval_has_its_query_and_its_documents() -> None:
    _, captured = record(agent, "hello")
    span = next(span for span in captured.spans if span.text(genai.EXCHANGE_KIND) == Kind.RETRIEVAL.value)
    assert span.text(genai.RETRIEVAL_QUERY) == "shoes"
    assert span.text(genai.RETRIEVAL_DOCUMENTS) == (
        '[{"id": "chunk-0", "score": 0.9, "content": "shoes 0"}, {"id": "chunk-1", "score": 0.8, "content": "shoes 1"}]'
    )


def test_the_entry_points_exception_is_recorded_and_goes_on() -> None:
    @freezeframe.run
    def broken(order_id: str) -> None:
        fail(order_id)

    with capture() as captured:
        with pytest.raises(OutOfStockError):
            broken("AC-9")
        run = build_run(captured.spans)
    assert run.failed
    assert isinstance(values.decode_exception(run.entry.error or ""), OutOfStockError)


def test_a_calls_exception_is_an_event_of_its_span_and_in_the_status() -> None:
    @freezeframe.run
    def broken(order_id: str) -> None:
        with suppress(OutOfStockError):
            fail(order_id)

    with capture() as captured:
        broken("AC-9")
    (call,) = [span for span in captured.spans if genai.EXCHANGE_KIND in span.attributes]
    kind = f"{__name__}.OutOfStockError"
    assert (call.status_code, call.status_message) == (StatusCode.ERROR, "AC-9 is out of stock")
    assert call.attributes[genai.ERROR_TYPE] == kind
    (event,) = call.events
    assert event.name == "exception"
    assert event.attributes == {genai.EXCEPTION_TYPE: kind, genai.EXCEPTION_MESSAGE: "AC-9 is out of stock"}


def test_a_generator_left_early_is_served_as_far_as_it_went() -> None:
    @freezeframe.run
    def peek(n: int) -> Any:
        numbers = count(n)
        return [next(numbers), next(numbers)]

    @freezeframe.run
    def read_on(n: int) -> Any:
        return list(count(n))

    _, captured = record(peek, 5)
    assert captured.exchanges[0].response.completion is Completion.CLOSED_EARLY
    with replaying(captured.exchanges):
        assert peek(5) == [0, 1]
    with replaying(captured.exchanges), pytest.raises(ReplayMiss, match="keeps reading"):
        read_on(5)


def test_send_and_throw_reach_a_tool_that_is_a_generator() -> None:
    @freezeframe.tool
    def echo() -> Any:
        heard: list[Any] = []
        while True:
            try:
                heard.append((yield len(heard)))
            except ValueError as error:
                heard.append(str(error))
            if len(heard) == 3:
                return heard

    def talk() -> Any:
        source = echo()
        seen = [next(source), source.send("a"), source.throw(ValueError("b"))]
        try:
            source.send("c")
        except StopIteration as stop:
            return [seen, stop.value]
        raise AssertionError("the generator ends")

    plain = talk()
    recorded, _ = record(freezeframe.run(talk))
    assert plain == recorded == [[0, 1, 2], ["a", "b", "c"]]


def test_the_responder_hears_of_the_entry_point() -> None:
    _, captured = record(async_agent_once)
    with replaying(captured.exchanges) as recorded:
        async_agent_once()
    assert [name for name, _ in recorded.entries] == [f"{__name__}:async_agent", "leave"]


def async_agent_once() -> Any:
    return asyncio.run(async_agent("AC-1"))


def test_a_run_inside_a_run_is_a_plain_span() -> None:
    @freezeframe.run
    def whole() -> Any:
        return agent("inner")

    _, captured = record(whole)
    entries = [span for span in captured.spans if genai.ENTRY_KIND in span.attributes]
    assert [span.name for span in entries] == ["whole"]
    assert len({span.trace_id for span in captured.spans}) == 1


def test_a_with_block_is_a_run_with_its_input_and_output() -> None:
    with capture() as captured:
        with freezeframe.run("nightly", input={"day": 1}, user="u2") as run:
            get_price("AC-1")
            run.output = {"done": True}
        entry = build_run(captured.spans).entry
    assert (entry.name, entry.user) == ("nightly", "u2")
    assert values.decode(entry.input or "")["input"] == {"day": 1}
    assert values.decode(entry.output or "") == {"done": True}


def test_nothing_is_recorded_and_nothing_changes_without_instrument() -> None:
    assert agent("hello")[0] == Price(Decimal("9.99"), "EUR")


def test_the_sequence_of_random_is_not_touched() -> None:
    random.seed(7)
    plain = [random.random(), agent("hello"), random.random()]
    random.seed(7)
    with capture():
        recorded = [random.random(), agent("hello"), random.random()]
    assert plain == recorded


def test_a_miss_is_raised_through_a_broad_except() -> None:
    @freezeframe.run
    def careless() -> Any:
        try:
            return get_price("unknown")
        except Exception:
            return "swallowed"

    with replaying([]), pytest.raises(ReplayMiss):
        careless()


def test_a_recording_that_ends_inside_a_garbage_collection_does_not_lock_up() -> None:
    """A dropped response ends its recording wherever the collector happens to run, even inside freezeframe's own locks."""
    with capture() as captured:
        queue = captured.handle._queue
        assert queue is not None
        with queue._changed:
            get_price("AC-1")
        assert [exchange.name for exchange in captured.exchanges] == ["get_price"]


async def test_a_block_that_is_left_in_another_context_harms_nothing() -> None:
    async def steps() -> AsyncIterator[int]:
        with freezeframe.run("block"):
            yield 1

    with capture():
        source = steps()
        assert await asyncio.create_task(anext(source)) == 1  # pyright: ignore[reportArgumentType] - an awaitable coroutine
        await source.aclose()  # pyright: ignore[reportAttributeAccessIssue] - a generator


class _Greeter:
    def __call__(self, name: str) -> str:
        return f"hello {name}"


@pytest.mark.parametrize("callable_", [functools.partial("hello {}".format), _Greeter()], ids=["partial", "object"])
def test_what_can_be_called_and_has_no_name_is_marked_all_the_same(callable_: Any) -> None:
    with capture() as captured:
        assert freezeframe.run(freezeframe.tool(callable_))("Tom") == "hello Tom"
        assert freezeframe.run(callable_)("Tom") == "hello Tom"
        _, bare = (build_run([span for span in captured.spans if span.trace_id == f"{n:032x}"]) for n in (1, 2))
    assert [gap.kind for gap in bare.gaps] == [GapKind.ENTRY_UNREACHABLE]


def test_a_function_of_a_module_with_another_name_than_its_file_is_not_found_by_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, file = "import freezeframe\n@freezeframe.run\ndef answer(): return 1\n", tmp_path / "agent.py"
    file.write_text(source)
    module = ModuleType("plugin_7")
    monkeypatch.setitem(sys.modules, "plugin_7", module)
    exec(compile(source, file, "exec"), vars(module))
    with capture() as captured:
        module.answer()
        (gap,) = build_run(captured.spans).gaps
    assert "is in the module plugin_7, which an import does not find in" in gap.text
