"""A recorded run behind one address: every wire format as recorded, its tools by name, its models, and several runs at once."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from recorded_exchanges import Recorded, load_exchanges

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.tools_in_requests import tools_in_requests
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.wire_server import serve_wire
from freezeframe_schemas.exchange import Chunk, Exchange, Kind, Request, Response
from freezeframe_schemas.fixture import Fixture, Step, write_fixture
from freezeframe_schemas.run import Entry, build_run
from freezeframe_schemas.verdict import Verdict, headline, verdict
from freezeframe_schemas.wire import find_dialect

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]


@freezeframe.tool
def track(order: str, *, express: bool = False) -> dict[str, Any]:
    """Say where an order is."""
    if order == "AC-9":
        raise LookupError("no such order")
    return {"order": order, "place": "Lyon", "express": express}


def recorded(agent: Callable[[], Any]) -> Fixture:
    with capture() as captured:
        freezeframe.run(name="agent")(agent)()
        return freeze(build_run(captured.spans))


def with_tools() -> Fixture:
    def agent() -> None:
        track("AC-1")
        track(order="AC-2", express=True)
        with pytest.raises(LookupError):
            track("AC-9")

    return recorded(agent)


@contextmanager
def served(*fixtures: Fixture) -> Generator[tuple[str, list[ServedRun]]]:
    runs = list(map(ServedRun, fixtures))
    with serve_wire(runs) as url:
        yield url, runs


def ask(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Ask with the standard library, which neither retries nor reads proxies."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    sent = None if body is None else json.dumps(body)
    connection.request("GET" if body is None else "POST", parts.path, sent, {"content-type": "application/json", **headers})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, json.loads(data) if "json" in (response.getheader("content-type") or "") else data.decode()


@pytest.mark.proof
def test_a_tool_is_answered_by_name_and_arguments() -> None:
    with served(with_tools()) as (url, (run,)):
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"}) == (
            200,
            {"result": {"order": "AC-1", "place": "Lyon", "express": False}},
        )
        assert ask(f"{url}/-/tools/track", {"order": "AC-9"}) == (200, {"error": {"message": "LookupError: no such order"}})
        status, told = ask(f"{url}/-/tools/track", {"order": "AC-2"})
        assert (status, "REPLAY-101 diverged at step 2" in told["error"]["message"]) == (424, True)
        (divergence,) = run.report().divergences
        assert (divergence.name, divergence.differed) == ("track", ("kwargs.express",))


@pytest.mark.proof
def test_a_tool_that_the_program_never_asks_for_is_its_own() -> None:
    with served(with_tools()) as (url, (run,)):
        assert run.report().steps == 0
        ask(f"{url}/-/tools/track", {"order": "AC-1"})
        assert run.report().steps == 3
        assert "REPLAY-103 a recorded step was never requested at step 2" in headline(run.report())


async def tools_over(read: Any, write: Any) -> list[Any]:
    async with ClientSession(read, write) as session:
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == ["track"]
        asked: Any = [{"order": "AC-1"}, {"order": "AC-2", "express": True}, {"order": "AC-9"}]
        answers = [await session.call_tool("track", arguments) for arguments in asked]
        return [(answer.structured_content, answer.is_error) for answer in answers]


TOLD = [
    ({"order": "AC-1", "place": "Lyon", "express": False}, False),
    ({"order": "AC-2", "place": "Lyon", "express": True}, False),
    (None, True),
]


@pytest.mark.proof
async def test_the_tools_are_an_mcp_server_over_http() -> None:
    with served(with_tools()) as (url, (run,)):
        async with streamable_http_client(f"{url}/-/mcp") as (read, write, *_):
            assert await tools_over(read, write) == TOLD
        assert verdict(run.report()) is Verdict.IDENTICAL


async def test_the_tools_are_an_mcp_server_over_stdio(tmp_path: Path) -> None:
    write_fixture(with_tools(), tmp_path / "run")
    log = tmp_path / "log"
    script = '"$@" 2>"$0"'
    command = [sys.executable, "-m", "freezeframe._cli", "replay", "serve", str(tmp_path / "run"), "--mcp"]
    server = StdioServerParameters(command="sh", args=["-c", script, str(log), *command])
    async with stdio_client(server) as (read, write):
        assert await tools_over(read, write) == TOLD
    unseen = "identical, except the input and the outcome (not seen by the replay) and changes of the code behind a call"
    assert log.read_text().startswith(unseen)


def test_what_the_run_asked_of_an_mcp_server_is_answered_as_recorded_for_another_client() -> None:
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "shop", "version": "7"}},
        "tools/call": {"content": [{"type": "text", "text": "Lyon"}], "isError": False},
    }
    asked: dict[str, Any] = {
        "initialize": {"clientInfo": {"name": "python"}},
        "tools/call": {"name": "track", "arguments": {"order": "AC-1"}},
    }
    steps = [
        Exchange(
            kind=Kind.MCP,
            name=method,
            seam="mcp",
            request=Request(body=json.dumps({"args": [], "kwargs": params}).encode()),
            response=Response(chunks=(Chunk(data=json.dumps(answers[method]).encode()),)),
        )
        for method, params in asked.items()
    ]
    with served(of_steps(steps)) as (url, (run,)):
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": {"name": "node"}}}
        assert ask(f"{url}/-/mcp", message)[1]["result"] == answers["initialize"]
        assert ask(f"{url}/-/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, "")
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"})[1] == {"result": answers["tools/call"]["content"]}
        assert verdict(run.report()) is Verdict.IDENTICAL
        again = {**message, "method": "tools/call", "params": {"name": "track", "arguments": {"order": "AC-2"}}}
        assert "REPLAY-1" in ask(f"{url}/-/mcp", again)[1]["error"]["message"]


def of_steps(exchanges: list[Exchange]) -> Fixture:
    """Return a run of these exchanges, asked one after another."""
    steps = tuple(Step(number=number, exchange=item, key="", ordinal=0) for number, item in enumerate(exchanges, 1))
    return Fixture(run_id=f"{len(exchanges):032x}", entry=Entry(), steps=steps)


def in_pieces(data: bytes) -> tuple[Chunk, ...]:
    return tuple(Chunk(data=data[at : at + 100]) for at in range(0, len(data), 100))


@pytest.mark.proof
def test_every_wire_format_is_served_as_recorded_whole_and_streamed() -> None:
    """One answer of each format, provider and mode of the recorded traffic, through a real socket."""
    chosen: dict[Any, Recorded] = {}
    for row in load_exchanges():
        match = find_dialect(row.method, row.url, (("content-type", "application/json"),), row.request)
        if match is not None and row.status == 200:
            chosen.setdefault((row.provider, match.dialect.name, row.stream), row)
    assert len({name for _, name, _ in chosen}) >= 10
    exchanges = [
        Exchange(
            kind=Kind.MODEL,
            name=row.url,
            seam="httpx",
            request=Request(method="POST", url=row.url, body=row.request, headers=(("content-type", "application/json"),)),
            response=Response(
                status=200, headers=row.headers, chunks=in_pieces(row.response) if row.stream else (Chunk(data=row.response),)
            ),
        )
        for row in chosen.values()
    ]
    with served(of_steps(exchanges)) as (url, (run,)):
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.netloc)
        for row in chosen.values():
            parts = urlsplit(row.url)
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request("POST", place.path + target, row.request, {"content-type": "application/json"})
            answer = connection.getresponse()
            assert (answer.read(), answer.getheader("content-type")) == (row.response, row.content_type or None), row.id
        connection.close()
        assert not run.report().divergences


@pytest.mark.parametrize("variable", ["CO_API_URL", "OLLAMA_HOST"])
def test_a_provider_whose_paths_say_nothing_elsewhere_is_named_in_its_base_url(variable: str) -> None:
    provider, path = {"CO_API_URL": ("https://api.cohere.com", "/v2/chat"), "OLLAMA_HOST": ("http://h:11434", "/api/chat")}[
        variable
    ]
    body = b'{"model":"m","messages":[{"role":"user","content":"a"}]}'
    exchange = Exchange(
        kind=Kind.MODEL,
        name="chat",
        seam="httpx",
        request=Request(method="POST", url=f"{provider}{path}", body=body),
        response=Response(status=200, chunks=(Chunk(data=b"{}"),)),
    )
    with served(of_steps([exchange])) as (url, (run,)):
        base = run.environment(url)[variable]
        changed = {"model": "m", "messages": [{"role": "user", "content": "b"}]}
        assert "REPLAY-101" in json.dumps(ask(f"{base}{path}", changed)[1])
        assert ask(f"{base}{path}", json.loads(body))[0] == 200


def test_the_models_of_the_run_are_listed_and_said_to_be_made_up() -> None:
    url_of_call = "https://api.openai.com/v1/chat/completions"
    exchange = Exchange(
        kind=Kind.MODEL,
        name="chat",
        seam="httpx",
        request=Request(method="POST", url=url_of_call, body=b'{"model":"gpt-4o"}'),
        response=Response(status=200, chunks=(Chunk(data=b"{}"),)),
    )
    step = Step(number=1, exchange=exchange, key="", ordinal=0, model="gpt-4o")
    with served(Fixture(run_id="a" * 32, entry=Entry(), steps=(step,))) as (url, (run,)):
        status, listed = ask(f"{url}/v1/models")
        assert (status, [item["id"] for item in listed["data"]], listed["models"][0]["model"]) == (200, ["gpt-4o"], "gpt-4o")
        assert run.report().warnings == (
            "GET /v1/models was answered with the models of the run: the recording holds no answer to it",
        )


@pytest.mark.proof
def test_several_runs_are_told_apart_by_path_or_header() -> None:
    first = with_tools()
    second = recorded(lambda: track("AC-7"))
    second = Fixture(run_id="b" * 32, entry=second.entry, steps=second.steps)
    with served(first, second) as (url, (one, other)):
        assert ask(f"{url}/-/run/bbbb/-/tools/track", {"order": "AC-7"})[0] == 200
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"}, **{"x-freezeframe-run": first.run_id[:8]})[0] == 200
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"})[0] == 424
        assert [len(run.report().served) for run in (one, other)] == [1, 1]
        assert "identical, except" in ask(f"{url}/-/run/bbbb/-/report")[1]
        assert ask(f"{url}/-/run/bbbb/-/report.json")[1]["verdict"] == "identical"


@pytest.mark.proof
def test_a_page_of_another_origin_is_refused() -> None:
    with served(with_tools()) as (url, (run,)):
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"}, origin="https://evil.example")[0] == 403
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"}, host="evil.example")[0] == 403
        assert not run.report().served


@pytest.mark.proof
def test_who_does_not_know_the_token_is_refused_and_asks_nothing() -> None:
    """By any of the server's paths, and as its proxy."""
    with served(with_tools()) as (url, (run,)):
        origin = f"http://{urlsplit(url).netloc}"
        for place in (origin, f"{origin}/-/key/guessed", f"{url[:-1]}x", f"{origin}/-/key/"):
            for path in ("/-/tools/track", "/-/mcp", "/-/report", "/v1/chat/completions"):
                status, told = ask(place + path, {"order": "AC-1"})
                assert status == 401
                assert "lacks this server's token" in told["error"]["message"]
        proxy = urllib.request.build_opener(urllib.request.ProxyHandler({"http": origin}))
        with pytest.raises(urllib.error.HTTPError, match="407"):
            proxy.open("http://shop.example/orders")
        assert not run.report().served
        assert not run.report().divergences
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"})[0] == 200


def test_without_a_token_on_request_everybody_on_the_machine_is_answered() -> None:
    with serve_wire([ServedRun(with_tools())], is_open=True) as url:
        assert not urlsplit(url).path
        assert ask(f"{url}/-/tools/track", {"order": "AC-1"})[0] == 200


def test_http_of_a_tool_is_answered_by_its_url() -> None:
    exchange = Exchange(
        kind=Kind.HTTP,
        name="GET /orders",
        seam="httpx",
        request=Request(method="GET", url="https://shop.example/orders?of=7"),
        response=Response(status=200, headers=(("content-type", "application/json"),), chunks=(Chunk(data=b"[7]"),)),
    )
    with served(of_steps([exchange])) as (url, (run,)):
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.netloc)
        connection.request("GET", f"{place.path}/-/to/https://shop.example/orders?of=7")
        assert connection.getresponse().read() == b"[7]"
        connection.close()
        assert verdict(run.report()) is Verdict.IDENTICAL


JSON_HEADERS = (("content-type", "application/json"),)
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
CHAT = "https://api.openai.com/v1/chat/completions"


def _gemini_call(name: str, **arguments: Any) -> Any:
    return {"functionCall": {"name": name, "args": arguments}}


def _gemini_result(name: str, result: Any) -> Any:
    return {"functionResponse": {"name": name, "response": result}}


def _chat_call(call_id: str, name: str, **arguments: Any) -> Any:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


GEMINI_ASKED = {"role": "model", "parts": [_gemini_call("a", x=1), _gemini_call("b", y=2), _gemini_call("b", y=3)]}
GEMINI_TOLD = {"role": "user", "parts": [_gemini_result("a", {"k": 1}), *(_gemini_result("b", {"result": n}) for n in (2, 3))]}
CHAT_ASKED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [_chat_call("1", "a", x=1), _chat_call("2", "b", y=2), _chat_call("3", "b", y=3), _chat_call("4", "b", y=4)],
}
CHAT_TOLD = [("3", '["z"]'), ("2", "two, as text"), ("1", '{"k": 1}')]


@pytest.mark.parametrize(
    ("url", "asked", "answered", "then", "expected"),
    [
        (
            GEMINI,
            {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
            {"candidates": [{"content": GEMINI_ASKED}]},
            {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, GEMINI_ASKED, GEMINI_TOLD]},
            [("a", {"x": 1}, {"k": 1}), ("b", {"y": 2}, 2), ("b", {"y": 3}, 3)],
        ),
        (
            CHAT,
            {"messages": [{"role": "user", "content": "hi"}]},
            {"choices": [{"message": CHAT_ASKED}]},
            {"messages": [CHAT_ASKED, *({"role": "tool", "tool_call_id": own, "content": told} for own, told in CHAT_TOLD)]},
            [("a", {"x": 1}, {"k": 1}), ("b", {"y": 2}, "two, as text"), ("b", {"y": 3}, ["z"])],
        ),
    ],
)
def test_a_tool_that_only_the_requests_show_is_answered_from_the_next_one(
    url: str, asked: Any, answered: Any, then: Any, expected: list[tuple[str, Any, Any]]
) -> None:
    """By its id, or by its place where there are no ids; a call without a result is not answered."""
    said = [(asked, answered), (then, {})]
    steps = [
        Step(
            number=number,
            key="",
            ordinal=0,
            exchange=Exchange(
                kind=Kind.MODEL,
                name="POST",
                seam="proxy",
                request=Request(method="POST", url=url, headers=JSON_HEADERS, body=json.dumps(body).encode()),
                response=Response(status=200, headers=JSON_HEADERS, chunks=(Chunk(data=json.dumps(answer).encode()),)),
            ),
        )
        for number, (body, answer) in enumerate(said, 1)
    ]
    found = [
        (call.name, json.loads(call.request.body)["kwargs"], json.loads(call.response.body))
        for call in tools_in_requests(steps)
    ]
    assert found == expected
