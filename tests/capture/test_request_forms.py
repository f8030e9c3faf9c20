"""What is recorded of a request to an application, whatever stands between the application and its client."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections.abc import Iterable, Iterator, Sized
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import freezeframe
from freezeframe.hosts import applications
from freezeframe.seams.recorder.patching import Patches
from freezeframe.testing import capture
from freezeframe_schemas import values
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import EntryKind, Run, build_run

PARTNER = "Write to maria.keller@example.com. " * 40


@freezeframe.tool
def look_up(text: str) -> str:
    return text


async def answer(request: Request) -> PlainTextResponse:
    body = await request.body()
    look_up((gzip.decompress(body) if request.headers.get("content-encoding") == "gzip" else body).decode())
    return PlainTextResponse(PARTNER)


shop = Starlette(routes=[Route("/items/{item}", answer, methods=["GET", "POST"])])
app = Starlette(routes=[Mount("/v1", shop)], middleware=[Middleware(GZipMiddleware)])


def ask(application: Any, *messages: Any, headers: Iterable[tuple[bytes, bytes]] = ()) -> tuple[Run, list[Any]]:
    """Have a POST answered; return its run, and what the application sent."""
    waiting, sent = [*messages, {"type": "http.disconnect"}], []

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/items/7", "query_string": b"", "headers": [*headers]}
    with capture() as captured:
        applications.install()
        try:
            asyncio.run(application(scope, receive, send))
        finally:
            applications.uninstall()
        return build_run(captured.spans), sent


def body(data: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": False}


def test_a_request_to_a_mounted_application_has_the_name_of_its_whole_route() -> None:
    run, _ = ask(app, body(b""))
    assert run.entry.name == "POST /v1/items/{item}"


def test_a_compressed_answer_is_recorded_as_it_reads() -> None:
    """What is compressed, no one could redact."""
    run, sent = ask(app, body(b""), headers=[(b"accept-encoding", b"gzip")])
    assert gzip.decompress(sent[-1]["body"]).decode() == PARTNER
    assert values.decode(run.entry.output or "")["body"] == PARTNER
    assert values.decode(run.entry.input or "")["headers"] == {"accept-encoding": "gzip"}  # so a replay compresses, too


def test_a_compressed_request_is_recorded_as_it_reads() -> None:
    run, _ = ask(app, body(gzip.compress(b"question")), headers=[(b"content-encoding", b"gzip")])
    found = values.decode(run.entry.input or "")
    assert (found["body"], found["headers"]) == ("question", {})  # a replay gives it uncompressed


def test_a_request_that_unpacks_to_too_much_is_left_out_and_named() -> None:
    """The application may refuse it after its first bytes, so it may not cost memory here."""

    async def refuses(request: Request) -> PlainTextResponse:
        await request.body()
        return PlainTextResponse(look_up("too large"), status_code=413)

    bomb = gzip.compress(bytes(64 << 20))
    shop = Starlette(routes=[Route("/v1/items/7", refuses, methods=["POST"])])
    run, sent = ask(shop, body(bomb), headers=[(b"content-encoding", b"gzip")])
    assert sent[0]["status"] == 413
    assert values.decode(run.entry.input or "")["body"] == ""
    assert any("unpack to more than" in gap.text for gap in run.gaps)


def test_a_body_that_is_not_compressed_as_its_header_says_is_recorded_as_it_is() -> None:
    run, sent = ask(app, body(b"plain"), headers=[(b"content-encoding", b"br")])
    assert values.decode(run.entry.input or "")["body"] == "plain"
    assert sent[0]["status"] == 200


def test_what_is_sent_after_the_client_has_left_is_not_compared() -> None:
    """How much that is depends on when the application notices."""

    async def goes_on(scope: Any, receive: Any, send: Any) -> None:
        look_up("a")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"1", b"2"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b"3", "more_body": True})

    run, sent = ask(Starlette(routes=[Mount("/", goes_on)]), body(b""))
    assert [message["body"] for message in sent[1:]] == [b"1", b"2", b"3"]
    output = values.decode(run.entry.output or "")
    assert (output["yields"], output["client_left_after"]) == (["1", "2"], 2)


# -- WSGI ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "pieces"),
    [([b"one"], [b"one"]), ((b"one", b"two"), [b"one", b"two"]), ([], []), (iter([b"one"]), [b"one"])],
)
def test_a_server_sees_the_length_of_an_answer_as_without_us(answer: Iterable[bytes], pieces: list[bytes]) -> None:
    class Application:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            return answer

    def truth(found: Iterable[bytes]) -> tuple[bool, int | None]:
        return bool(found), len(found) if isinstance(found, Sized) else None

    def call() -> Iterable[bytes]:
        environ: dict[str, Any] = {"wsgi.input": io.BytesIO()}
        setup_testing_defaults(environ)
        return Application()(environ, None)

    as_it_is = truth(call())
    with capture():
        patches = Patches()
        patches.replace(Application, "__call__", applications.around_wsgi)
        assert truth(call()) == as_it_is
        assert list(call()) == pieces


@pytest.mark.parametrize("read", ["read", "read1", "readinto", "readline", "readlines", "__iter__"])
def test_an_application_reads_the_body_as_without_us(read: str) -> None:
    class Stream(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:  # what came so far, as on a socket
            return super().read1(min(size or 0, 2))

    def use(stream: Any) -> tuple[Any, list[bytes]]:
        buffer = bytearray(7)
        found = getattr(stream, read)(*{"read1": (9,), "readinto": (buffer,)}.get(read, ()))
        return (list(found) if read == "__iter__" else found, [bytes(buffer)])

    class Application:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            freezeframe.tool(name="stock")(lambda: 7)()
            results.append((use(environ["wsgi.input"]), hasattr(environ["wsgi.input"], "fileno")))
            return []

    results: list[Any] = []
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    Application()({"wsgi.input": Stream(b"one\ntwo\n")}, None)
    with capture() as captured:
        patches = Patches()
        patches.replace(Application, "__call__", applications.around_wsgi)
        answer: Any = Application()({**environ, "wsgi.input": Stream(b"one\ntwo\n")}, None)
        answer.close()  # as servers do
        run = build_run(captured.spans)
    assert results[0] == results[1]
    read_by_us = {"read1": "on", "readinto": "one\ntwo", "readline": "one\n"}.get(read, "one\ntwo\n")
    assert values.decode(run.entry.input or "")["body"] == read_by_us


def test_what_an_answer_does_as_its_iteration_begins_is_a_part_of_the_run() -> None:
    """Django awaits all pieces of an asynchronous stream there."""

    class Answer:
        def __iter__(self) -> Iterator[bytes]:
            found = [str(freezeframe.tool(name="stock")(lambda: 7)()).encode()]
            if found == [b"7"]:
                raise ValueError("no pieces")
            return iter(found)

    class Application:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Answer:
            return Answer()

    environ: dict[str, Any] = {"wsgi.input": io.BytesIO()}
    setup_testing_defaults(environ)
    with capture() as captured:
        patches = Patches()
        patches.replace(Application, "__call__", applications.around_wsgi)
        answer = Application()(environ, None)  # as without us, it does not raise yet
        with pytest.raises(ValueError, match="no pieces"):
            iter(answer)
        run = build_run(captured.spans)
    assert (run.entry.kind, run.entry.name, run.status) == (EntryKind.REQUEST, "GET /", RunStatus.FAILED)
    assert [exchange.name for exchange in run.exchanges] == ["stock"]
