"""Requests to servers: with nothing added but `instrument()`, each that calls a model is a run, and replays by itself.

The applications run under their real servers in a process of their own, ask a provider on loopback with the real SDK, and are
asked over sockets.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from otlp_receiver import Receiver
from races import NEVER, Provider

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import genai, values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import EntryKind, Run, readiness
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

_STARLETTE = """
import contextlib

import freezeframe

freezeframe.instrument()

import openai
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route


@contextlib.asynccontextmanager
async def lifespan(app):
    async with openai.AsyncOpenAI(max_retries=0) as client:
        yield {"client": client}


async def ask(request, prompt, **options):
    messages = [{"role": "user", "content": prompt}]
    return await request.state.client.chat.completions.create(model="m", messages=messages, **options)


async def chat(request):
    asked = await request.json()
    first = (await ask(request, asked["text"])).choices[0].message.content
    second = (await ask(request, f"and then? {first}")).choices[0].message.content
    return JSONResponse({"user": request.path_params["user"], "first": first, "second": second})


def blocking(request):
    messages = [{"role": "user", "content": request.query_params["text"]}]
    answer = openai.OpenAI(max_retries=0).chat.completions.create(model="m", messages=messages)
    return PlainTextResponse(answer.choices[0].message.content)


async def stream(request):
    async def pieces():
        async for chunk in await ask(request, request.query_params["text"], stream=True):
            yield chunk.choices[0].delta.content

    return StreamingResponse(pieces(), media_type="text/plain")


LEFT = []


async def leave(request):
    LEFT.append(aiter(await ask(request, request.query_params["text"], stream=True)))  # closed by no one
    return PlainTextResponse((await anext(LEFT[-1])).choices[0].delta.content)


async def fail(request):
    raise ValueError((await ask(request, "fail")).choices[0].message.content)


async def refuse(request):
    await ask(request, "refuse")
    return PlainTextResponse("try later", status_code=503)


@freezeframe.run
async def marked(text):
    async with openai.AsyncOpenAI(max_retries=0) as client:
        messages = [{"role": "user", "content": text}]
        return (await client.chat.completions.create(model="m", messages=messages)).choices[0].message.content


async def calls_marked(request):
    return PlainTextResponse(await marked(request.query_params["text"]))


async def health(request):
    return PlainTextResponse("ok")


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/chat/{user}", chat, methods=["POST"]),
        Route("/blocking", blocking),
        Route("/stream", stream),
        Route("/left", leave),
        Route("/fail", fail),
        Route("/refuse", refuse),
        Route("/marked", calls_marked),
        Route("/health", health),
    ],
)
"""
_FLASK = """
import freezeframe

freezeframe.instrument()

import openai
from flask import Flask, Response, request

app = Flask(__name__)


def ask(prompt, **options):
    messages = [{"role": "user", "content": prompt}]
    return openai.OpenAI(max_retries=0).chat.completions.create(model="m", messages=messages, **options)


@app.post("/chat")
def chat():
    return {"answer": ask(request.get_json()["text"]).choices[0].message.content}


@app.get("/stream")
def stream():
    chunks = ask(request.args["text"], stream=True)
    return Response((chunk.choices[0].delta.content for chunk in chunks), mimetype="text/plain")


@app.get("/health")
def health():
    return "ok"
"""
_SERVE = {
    "starlette": """
import asyncio, socket, uvicorn
import application
found = socket.create_server(("127.0.0.1", 0))
print(found.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(application.app, log_level="error")).run([found])
""",
    "flask": """
from werkzeug.serving import make_server
import application
server = make_server("127.0.0.1", 0, application.app, threaded=True)
print(server.port, flush=True)
import signal
signal.signal(signal.SIGTERM, lambda *_: exit())
server.serve_forever()
""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """An application that was asked, and the runs that it left."""

    folder: Path
    runs: tuple[Run, ...]
    answers: Mapping[str, str]

    def run(self, what: str) -> Run:
        return next(run for run in self.runs if what in (run.entry.input or ""))


@contextmanager
def _served(framework: str, source: str, folder: Path) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Run the application under its server; yield its address and its process."""
    (folder / "application.py").write_text(source)
    (folder / "serve.py").write_text(_SERVE[framework])
    log = (folder / "server.log").open("w")
    server = subprocess.Popen([sys.executable, "serve.py"], cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}", server
    finally:
        server.terminate()
        server.wait()
        log.close()


async def _leave_early(client: httpx.AsyncClient) -> str:
    async with client.stream("GET", "/stream?text=leave") as answer:
        async for piece in answer.aiter_text():
            return piece
    return ""


async def _ask_all(url: str) -> dict[str, str]:
    async with httpx.AsyncClient(base_url=url, timeout=200) as client:
        for _ in range(3):
            await client.get("/health")
        texts = [f"question {number}" for number in range(50)]
        answers = await asyncio.gather(*(client.post(f"/chat/u{n}", json={"text": text}) for n, text in enumerate(texts)))
        return {
            **{text: answer.text for text, answer in zip(texts, answers, strict=True)},
            **{
                path: (await client.get(f"/{path}?text={path}%20this")).text
                for path in ("blocking", "stream", "left", "fail", "refuse", "marked")
            },
            "leave": await _leave_early(client),
        }


@pytest.fixture(scope="module")
def starlette(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    folder = tmp_path_factory.mktemp("starlette")
    with pytest.MonkeyPatch.context() as patch, Provider({"leave": (NEVER,)}) as provider:
        patch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("FREEZEFRAME_FILE", str(folder / "spans.jsonl"))
        with _served("starlette", _STARLETTE, folder) as (url, _):
            answers = asyncio.run(_ask_all(url))
        runs = load_runs_of_file(folder / "spans.jsonl")
        patch.delenv("FREEZEFRAME_FILE")
        yield Served(folder=folder, runs=tuple(runs), answers=answers)


def test_fifty_requests_at_once_are_fifty_runs_and_none_is_mixed(starlette: Served) -> None:
    for number in range(50):
        run = starlette.run(f'"/chat/u{number}"')
        prompts = [json.loads(found.request.body)["messages"][0]["content"] for found in run.exchanges]
        answer = json.loads(starlette.answers[f"question {number}"])
        assert prompts == [f"question {number}", f"and then? {answer['first']}"]
        assert (run.entry.kind, run.entry.target, run.entry.name) == (EntryKind.REQUEST, "application:app", "POST /chat/{user}")
        assert json.loads(values.decode(run.entry.output or "")["body"]) == answer
        assert not run.entry.unfinished


def test_a_request_that_calls_no_model_is_no_run(starlette: Served) -> None:
    assert not [run for run in starlette.runs if "/health" in run.entry.name]
    assert len(starlette.runs) == 50 + 7


def test_a_marked_function_inside_a_request_is_the_run(starlette: Served) -> None:
    run = next(run for run in starlette.runs if run.entry.kind is EntryKind.FUNCTION)
    assert run.entry.target == "application:marked"
    assert values.decode(run.entry.output or "") == starlette.answers["marked"]
    assert verdict(reenact(freeze(run), cwd=starlette.folder)) is Verdict.IDENTICAL


@pytest.mark.proof
@pytest.mark.parametrize("what", ["/chat/u7", "/blocking", "/stream", "text=leave", "/left", "/fail", "/refuse"])
def test_a_request_replays_by_itself_without_a_port(starlette: Served, what: str) -> None:
    report = reenact(freeze(starlette.run(what)), cwd=starlette.folder)
    assert report.divergences == ()
    assert verdict(report) is Verdict.IDENTICAL
    assert report.sockets_tried == 0


def test_an_exception_and_a_status_of_500_and_more_are_failures(starlette: Served) -> None:
    failed = {run.entry.name for run in starlette.runs if run.status is RunStatus.FAILED}
    assert failed == {"GET /fail", "GET /refuse"}


def test_a_changed_line_diverges_in_its_run_at_its_step(starlette: Served, tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(_STARLETTE.replace("and then?", "and now?"))
    report = reenact(freeze(starlette.run("/chat/u7")), cwd=tmp_path)
    assert report.first is not None
    assert (report.first.kind, report.first.step) == (DivergenceKind.REQUEST_CHANGED, 2)
    assert verdict(reenact(freeze(starlette.run("/blocking")), cwd=tmp_path)) is Verdict.IDENTICAL


@pytest.mark.proof
def test_a_request_that_is_killed_in_its_call_is_unfinished_and_replays_up_to_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Provider({"and then?": (NEVER,)}) as provider, Receiver() as receiver, ThreadPoolExecutor(1) as pool:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("FREEZEFRAME_ENDPOINT", receiver.url)
        with _served("starlette", _STARLETTE.replace("and then? {first}", "and then?"), tmp_path) as (url, server):
            asked = pool.submit(httpx.post, f"{url}/chat/u1", json={"text": "who?"}, timeout=200)
            provider.wait_for("and then?")
            receiver.wait_until(lambda: len(receiver.spans) == 2)  # the beginning and the first call
            server.kill()
            with pytest.raises(httpx.HTTPError):
                asked.result()
    (run,) = load_runs_of_file(receiver.save(tmp_path / "spans"))
    assert run.status is RunStatus.UNFINISHED
    assert values.decode(run.entry.input or "")["body"] == '{"text":"who?"}'
    report = reenact(freeze(run), cwd=tmp_path)
    assert [item.how for item in report.served] == ["exact"]


def test_credentials_of_who_asks_are_not_recorded(starlette: Served) -> None:
    assert all("authorization" not in (run.entry.input or "") for run in starlette.runs)


def test_a_request_is_as_ready_as_a_function(starlette: Served) -> None:
    run = starlette.run("/chat/u7")
    assert run.gaps == ()
    assert readiness(run).level >= 4


def test_requests_to_flask_are_runs_and_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider({}) as provider, Receiver() as receiver:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("FREEZEFRAME_ENDPOINT", receiver.url)
        with _served("flask", _FLASK, tmp_path) as (url, _), httpx.Client(base_url=url, timeout=200) as client:
            answers = [
                client.get("/health").text,
                client.post("/chat", json={"text": "hello"}, headers={"X-Conversation-Id": "chat-81"}).text,
                client.get("/stream?text=piece").text,
            ]
            # the client has the last piece before the server has ended the request
            receiver.wait_until(lambda: str(receiver.requests).count(genai.ENTRY_OUTPUT) == len(answers) - 1)
    runs = load_runs_of_file(receiver.save(tmp_path / "spans"))
    assert [run.entry.name for run in runs] == ["POST /chat", "GET /stream"]
    assert [run.entry.session for run in runs] == ["chat-81", None]
    given = [values.decode(run.entry.output or "") for run in runs]
    assert given[0]["body"] == answers[1]
    assert "".join(given[1]["yields"]) == answers[2]
    for run in runs:
        assert verdict(reenact(freeze(run), cwd=tmp_path)) is Verdict.IDENTICAL
