"""A tool that runs by request: its calls are answered from inside its recorded call, its result is compared and carried on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from answered_here import record, replay
from loopback import LoopbackProvider, QuietHandler

import freezeframe
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind, Relaxed, Report
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.verdict import headline

pytestmark = pytest.mark.long


Total = Callable[[dict[str, Any]], Any]


class _Handler(QuietHandler):
    def do_GET(self) -> None:
        self._json({"total": 30, "path": self.path})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = f"it is {asked['messages'][-1]['content'][:40]}"
        self._json({"id": "1", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": said}}]})

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[LoopbackProvider]:
    with LoopbackProvider(_Handler) as running:
        yield running


def ask(url: str, *contents: str) -> str:
    """Ask the model."""
    messages = [{"role": "user", "content": text} for text in contents]
    answer = httpx.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": messages})
    return answer.json()["choices"][0]["message"]["content"]


def agent_of(url: str, total: Total, wrap: Callable[[Any], str] = json.dumps) -> Callable[[], Any]:
    """Return an agent whose tool asks a shop, and looks at the answer with `total`; the model then hears of it twice."""

    @freezeframe.tool
    def stock(order: str) -> int:
        return len(httpx.get(f"{url}/stock/{order}").json()["path"])

    @freezeframe.tool
    def look(order: str) -> Any:
        stock(order)
        return total(httpx.get(f"{url}/orders/{order}").json())

    def agent() -> str:
        try:
            found = look("AC-1")
        except Exception as error:
            found = f"error: {error!r}"
        first = ask(url, "How much?", f"The tool says: {wrap(found)}.")
        return ask(url, first, f"The tool says: {wrap(found)}.", "Sure?")

    return agent


def ran(before: Callable[[], Any], after: Callable[[], Any], server: LoopbackProvider, *others: str) -> tuple[Report, Any]:
    """Record one, stop the server, and replay the other with the tool `look`, and others, run."""
    fixture, _ = record(before)
    server.stop()
    return replay(after, ReplaySession(fixture, policy=ReplayPolicy(run_tools=frozenset({"look", *others}))))


def test_a_tool_that_does_the_same_is_identical_and_was_run(server: LoopbackProvider) -> None:
    """Its calls of the shop and of another tool are answered; nothing is reached."""
    report, _ = ran(agent_of(server.url, lambda got: got["total"]), agent_of(server.url, lambda got: int(got["total"])), server)
    assert headline(report).startswith("identical: 3 of 3 steps and the outcome (tool look ran)")


CHANGES: dict[str, tuple[Total, Total, str]] = {
    "wrong": (lambda got: got["total"], lambda got: got["total"] + 12, "$.returned"),
    "type": (lambda got: got["total"], lambda got: float(got["total"]), "$.returned"),
    "dict": (lambda got: {"euros": got["total"]}, lambda got: {"euros": 42, "of": got["path"]}, "$.returned.euros"),
    "raised": (lambda got: got["totals"], lambda got: got["total"], "$.raised"),
    "raises": (lambda got: got["total"], lambda got: got["totals"], "$.raised"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.proof("code REPLAY-110")
def test_another_result_is_the_difference_and_later_requests_may_hold_it(change: str, server: LoopbackProvider) -> None:
    before, after, path = CHANGES[change]
    report, _ = ran(agent_of(server.url, before), agent_of(server.url, after), server)
    assert [item.kind for item in report.divergences] == [DivergenceKind.RESULT_CHANGED]
    assert report.first is not None
    assert (report.first.path, report.first.step) == (path, 1)
    assert report.relaxations == {Relaxed.CARRIED: 2}


def test_a_tool_whose_new_code_is_broken_says_nothing(server: LoopbackProvider) -> None:
    """Even though the program handles what the tool raises: that is no fix."""

    def broken(_: dict[str, Any]) -> Any:
        raise NameError("name 'total' is not defined")

    report, _ = ran(agent_of(server.url, lambda got: got["totals"]), agent_of(server.url, broken), server)
    assert headline(report).startswith("incomparable: the code did not run: tool look raised NameError, run")


def test_what_else_differs_in_a_later_request_is_a_divergence(server: LoopbackProvider) -> None:
    before = agent_of(server.url, lambda got: got["total"])
    after = agent_of(server.url, lambda got: got["total"] + 12, wrap=lambda found: f"about {found}")
    report, _ = ran(before, after, server)
    assert [item.kind for item in report.divergences] == [DivergenceKind.RESULT_CHANGED, DivergenceKind.REQUEST_CHANGED]


def test_a_call_that_the_recorded_tool_did_not_make_ends_the_replay(server: LoopbackProvider) -> None:
    url = server.url
    before = agent_of(url, lambda got: got["total"])
    after = agent_of(url, lambda got: httpx.get(f"{url}/rates").json()["total"] + got["total"])
    report, _ = ran(before, after, server)
    assert [(item.kind, item.inside, item.name) for item in report.divergences] == [
        (DivergenceKind.EXTRA_CALL, "tool look", "GET /rates")
    ]


def test_a_tool_inside_is_not_run_and_its_change_is_named(server: LoopbackProvider) -> None:
    url = server.url

    def agent(size: Callable[[str], int]) -> Callable[[], Any]:
        if size("") == 0:

            @freezeframe.tool
            def stock(order: str) -> int:
                return size(order)
        else:

            @freezeframe.tool
            def stock(order: str) -> int:
                return size(order) + 0

        @freezeframe.tool
        def look(order: str) -> Any:
            return stock(order)

        return lambda: ask(url, str(look("AC-1")))

    report, _ = ran(agent(len), agent(lambda order: len(order) + 1), server)
    assert "tool stock (" in headline(report)
    assert headline(report).startswith("incomparable: ")


def test_a_generator_and_a_coroutine_run_too(server: LoopbackProvider) -> None:
    url = server.url

    def agent(add: int) -> Callable[[], Any]:
        @freezeframe.tool
        def look(order: str) -> Iterator[Any]:
            yield httpx.get(f"{url}/orders/{order}").json()["total"]
            yield add

        @freezeframe.retriever
        async def search(query: str) -> list[int]:
            async with httpx.AsyncClient() as client:
                found = await client.get(f"{url}/search/{query}")
            return [found.json()["total"] + add]

        return lambda: ask(url, str([*look("AC-1"), *asyncio.run(search("x"))]))

    report, _ = ran(agent(1), agent(2), server, "search")
    assert [(item.kind, item.name, item.path) for item in report.divergences] == [
        (DivergenceKind.RESULT_CHANGED, "look", "$.returned.yields[1]"),
        (DivergenceKind.RESULT_CHANGED, "search", "$.returned[0]"),
    ]
    assert report.relaxations == {Relaxed.CARRIED: 1}


def test_a_model_that_may_be_asked_is_asked_about_the_new_result(server: LoopbackProvider) -> None:
    fixture, _ = record(agent_of(server.url, lambda got: got["total"]))
    policy = ReplayPolicy(run_tools=frozenset({"look"}), live=frozenset({Kind.MODEL}))
    report, outcome = replay(agent_of(server.url, lambda got: 42), ReplaySession(fixture, policy=policy))
    assert [call.call_kind for call in report.live] == ["model", "model"]
    assert outcome is not None
