"""The examples for frameworks, as they are in the repository: recorded under their servers and workers, then replayed.

Each in a copy, of which one line is then changed: that the replay sees, in the step after it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import httpx
import pytest
from database_servers import redis_server
from races import Provider
from websockets.sync.client import connect

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import genai, values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

FOLDER: Final = Path(__file__).parents[2] / "examples" / "frameworks"
_LISTEN = """
import socket
found = socket.create_server(("127.0.0.1", 0))
print(found.getsockname()[1], flush=True)
"""
_UVICORN = f"""{_LISTEN}
import uvicorn
uvicorn.Server(uvicorn.Config("EXAMPLE:app", log_level="error", ws_ping_interval=None)).run([found])
"""
_AIOHTTP = f"""{_LISTEN}
from aiohttp import web
from EXAMPLE import app
web.run_app(app, sock=found, print=None)
"""
_WERKZEUG = """
import signal
from werkzeug.serving import make_server
import EXAMPLE
server = make_server("127.0.0.1", 0, vars(EXAMPLE).get("application") or EXAMPLE.app, threaded=True)
print(server.port, flush=True)
signal.signal(signal.SIGTERM, lambda *_: exit())
server.serve_forever()
"""
_CELERY = """
from EXAMPLE import answer, app
from celery.contrib.testing.worker import start_worker
app.conf.update(broker_url="memory://", result_backend="cache+memory://")
with start_worker(app, pool="threads", concurrency=3, perform_ping_check=False):
    for result in [answer.delay(f"u{number}", "hello") for number in range(COUNT)]:
        result.get(timeout=100)
"""
_DRAMATIQ = """
import dramatiq
from dramatiq.brokers.stub import StubBroker
broker = StubBroker()
dramatiq.set_broker(broker)
from EXAMPLE import answer
worker = dramatiq.Worker(broker, worker_threads=3)
worker.start()
for number in range(COUNT):
    answer.send(f"u{number}", "hello")
broker.join("default")
worker.join()
worker.stop()
"""
_RQ = """
import freezeframe
freezeframe.instrument()
import os, redis, rq, EXAMPLE
connection = redis.Redis(port=int(os.environ["REDIS_PORT"]))
queue = rq.Queue(connection=connection)
for number in range(COUNT):
    queue.enqueue(EXAMPLE.answer, f"u{number}", text="hello")
rq.Worker([queue], connection=connection).work(burst=True, logging_level="ERROR")
"""
_ARQ = """
import asyncio, os
from arq import create_pool, worker
from arq.connections import RedisSettings
from EXAMPLE import WorkerSettings

async def main():
    settings = RedisSettings(port=int(os.environ["REDIS_PORT"]))
    pool = await create_pool(settings)
    for number in range(COUNT):
        await pool.enqueue_job("answer", f"u{number}", "hello")
    made = worker.Worker(WorkerSettings.functions, redis_settings=settings, burst=True, handle_signals=False, poll_delay=0.01)
    await made.async_run()
    await made.close()

asyncio.run(main())
"""
_TEMPORAL = f"""
import asyncio, os, sys
sys.path.append({str(Path(__file__).parents[1] / "support")!r})
from fake_temporal import temporal_server
import EXAMPLE

async def main(temporal):
    worker = asyncio.create_task(EXAMPLE.main())
    for number in range(COUNT):
        temporal.schedule("answer", f"u{{number}}", "hello", workflow=f"chat-{{number}}")
    for number in range(COUNT):
        await asyncio.to_thread(temporal.ended.get, timeout=100)
    worker.cancel()
    await asyncio.wait([worker])

with temporal_server() as temporal:
    os.environ["TEMPORAL_ADDRESS"] = f"127.0.0.1:{{temporal.port}}"
    asyncio.run(main(temporal))
"""
_FUNCTION = _WERKZEUG.replace("import EXAMPLE", "import functions_framework as f").replace(
    'vars(EXAMPLE).get("application") or EXAMPLE.app', 'f.create_app("chat", "EXAMPLE.py")'
)


def _ask_by_post(port: str, number: int) -> None:
    httpx.post(f"http://127.0.0.1:{port}/chat/u{number}", json={"text": "hello"}, timeout=200).raise_for_status()


def _ask_by_get(port: str, number: int) -> None:
    httpx.get(f"http://127.0.0.1:{port}/chat?user=u{number}&text=hello", timeout=200).raise_for_status()


def _ask_by_socket(port: str, number: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/chat/u{number}", open_timeout=200, ping_interval=None) as talk:
        for _ in range(2):
            talk.send("hello")
            assert talk.recv() == "one moment"
            talk.recv()


def _ask_in_conversation(port: str, number: int) -> None:
    for text in ("hello", "and then?"):
        headers = {"x-conversation-id": f"u{number}"}
        httpx.post(
            f"http://127.0.0.1:{port}/chat", content=f"u{number}: {text}", headers=headers, timeout=200
        ).raise_for_status()


def _stream(port: str) -> None:
    assert httpx.get(f"http://127.0.0.1:{port}/stream?text=pieces", timeout=200).is_success


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """How an example is run and asked, and which runs come of it."""

    server: str
    chat: str
    """Name of the run of a chat."""
    ask: Callable[[str, int], None] | None = None
    """None: the worker asks itself."""
    stream: str = ""
    changed: tuple[str, str] = ("}. {", "}! {")
    step: int = 2
    needs_redis: bool = False


EXAMPLES = {
    "fastapi_chat": Example(server=_UVICORN, ask=_ask_by_post, chat="POST /chat/{user}", stream="GET /stream"),
    "django_chat": Example(server=_WERKZEUG, ask=_ask_by_get, chat="GET /chat", stream="GET /stream"),
    "flask_chat": Example(server=_WERKZEUG, ask=_ask_by_post, chat="POST /chat/u", stream="GET /stream"),
    "quart_chat": Example(server=_UVICORN, ask=_ask_by_post, chat="POST /chat/u", stream="GET /stream"),
    "litestar_chat": Example(server=_UVICORN, ask=_ask_by_post, chat="POST /chat/u", stream="GET /stream"),
    "aiohttp_chat": Example(server=_AIOHTTP, ask=_ask_by_post, chat="POST /chat/{user}", stream="GET /stream"),
    "starlette_socket": Example(server=_UVICORN, ask=_ask_by_socket, chat="WEBSOCKET /chat/u"),
    "starlette_redis": Example(
        server=_UVICORN,
        ask=_ask_in_conversation,
        chat="POST /chat",
        changed=("[str(text)", "[str(text) + '!'"),
        step=3,
        needs_redis=True,
    ),
    "celery_tasks": Example(server=_CELERY, chat="celery_tasks.answer"),
    "dramatiq_tasks": Example(server=_DRAMATIQ, chat="answer"),
    "rq_tasks": Example(server=_RQ, chat="rq_tasks.answer", needs_redis=True),
    "temporal_activities": Example(server=_TEMPORAL, chat="answer"),
    "cloud_function": Example(server=_FUNCTION, ask=_ask_by_post, chat="chat"),
    "arq_tasks": Example(server=_ARQ, chat="answer", needs_redis=True),
}


@contextmanager
def started(code: str, folder: Path) -> Generator[subprocess.Popen[str]]:
    server = subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        yield server
    finally:
        server.terminate()
        server.communicate()


def use(name: str, count: int, folder: Path, example: Example) -> None:
    with started(example.server.replace("EXAMPLE", name).replace("COUNT", str(count)), folder) as server:
        assert server.stdout is not None
        if example.ask is None:
            assert server.wait() == 0
            return
        port = server.stdout.readline().strip()
        with ThreadPoolExecutor(count + 1) as pool:
            asked = [pool.submit(example.ask, port, number) for number in range(count)]
            if example.stream:
                asked.append(pool.submit(_stream, port))
            for done in asked:
                done.result()


def record(name: str, count: int, folder: Path, example: Example) -> list[Run]:
    """Use an example in a folder with a copy of it; return its runs. Provider and Redis end with its server or worker."""
    spans = folder / "spans.jsonl"
    with Provider({}) as provider, redis_server(wanted=example.needs_redis) as port, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("REDIS_PORT", port)
        patch.setenv("REDIS_URL", f"redis://127.0.0.1:{port}")
        patch.setenv("FREEZEFRAME_FILE", str(spans))
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # the copy is edited soon, perhaps in the same second
        use(name, count, folder, example)
    return load_runs_of_file(spans)


def about(run: Run, number: int) -> bool:
    return re.search(rf"\bu{number}\b", run.entry.input or "") is not None


@pytest.mark.parametrize("count", [2, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_recorded_and_replays(name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = EXAMPLES[name]
    source = (FOLDER / f"{name}.py").read_text()
    copy = shutil.copy(FOLDER / f"{name}.py", tmp_path)
    runs = record(name, count, tmp_path, example)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    chats = [run for run in runs if run.entry.name.startswith(example.chat)]
    streams = [run for run in runs if run.entry.name == example.stream]
    assert (len(chats) + len(streams), len(streams)) == (len(runs), int(bool(example.stream)))
    for number in range(count):  # each question in a run of its own, none mixed
        mine = [run for run in chats if about(run, number)]
        assert len(mine) == (2 if name == "starlette_redis" else 1)
        asked = [exchange.request.body for run in mine for exchange in run.exchanges if exchange.kind.value == "model"]
        assert all(re.search(rf"\bu{number}\b".encode(), body) for body in asked)
    assert not [gap for run in runs for gap in run.gaps if gap.kind is not GapKind.UNFINISHED]
    for run in [*(chats[:20] if count > 20 else chats[-1:]), *(streams if name in ("fastapi_chat", "aiohttp_chat") else ())]:
        report = reenact(freeze(run), cwd=tmp_path)
        assert (report.divergences, verdict(report)) == ((), Verdict.IDENTICAL)
    Path(copy).write_text(source.replace(*example.changed))
    assert Path(copy).read_text() != source
    [first, *_] = reenact(freeze(chats[-1]), cwd=tmp_path).divergences
    assert (first.kind, first.step) == (DivergenceKind.REQUEST_CHANGED, example.step)


class _Leaving(Provider):
    """Goes on with the answer to a client that leaves once that is gone."""

    def __init__(self, at_once: int) -> None:
        super().__init__({LEAVE: ("gone",)})
        self._at_once = at_once

    def let(self, prompt: str) -> bool:
        if prompt == LEAVE and self._at_once:
            self._at_once -= 1
            return True
        return super().let(prompt)


LEAVE: Final = "leave"


def leave_stream(port: str) -> None:
    """Reset the connection after the first piece."""
    with socket.create_connection(("127.0.0.1", int(port))) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(f"GET /stream?text={LEAVE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        came = b""
        while b"0." not in came.partition(b"\r\n\r\n")[2]:
            came += client.recv(1000)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.soak if name in ("django_chat", "quart_chat", "litestar_chat") else ())
        for name, example in EXAMPLES.items()
        if example.stream
    ],
)
def test_a_stream_that_the_client_leaves_is_recorded_up_to_there_and_replays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy(FOLDER / f"{name}.py", tmp_path)
    asks_for_each = "range(3)" in Path(copy).read_text()  # else it passes the pieces of one answer on
    spans, pipe = tmp_path / "spans.jsonl", tmp_path / "pipe"
    os.mkfifo(pipe)
    with _Leaving(int(asks_for_each)) as provider, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("FREEZEFRAME_FILE", str(pipe))
        with os.fdopen(os.open(pipe, os.O_RDWR), "rb") as came, spans.open("wb") as file:
            with started(EXAMPLES[name].server.replace("EXAMPLE", name), tmp_path) as server:
                assert server.stdout is not None
                leave_stream(server.stdout.readline().strip())
                if EXAMPLES[name].server is not _UVICORN:  # the loop of uvicorn notices it; the others' next write fails
                    provider.let("gone")
                for batch in came:
                    file.write(batch)
                    if genai.ENTRY_OUTPUT.encode() in batch:
                        break
            os.set_blocking(came.fileno(), False)
            file.write(came.read() or b"")  # of the model's answer, which may end after the request
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    (run,) = load_runs_of_file(spans)
    assert values.decode(run.entry.output or "")["client_left_after"] in (1, 2)
    report = reenact(freeze(run), cwd=tmp_path)
    assert (report.divergences, verdict(report)) == ((), Verdict.IDENTICAL)


def _ask_forty_times(port: str, number: int) -> None:
    for turn in range(40):
        headers = {"x-conversation-id": f"u{number}"}
        url = f"http://127.0.0.1:{port}/chat"
        httpx.post(url, content=f"question {turn}", headers=headers, timeout=200).raise_for_status()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_conversation_of_forty_turns_replays_without_the_database_that_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(FOLDER / "starlette_redis.py", tmp_path)
    runs = record("starlette_redis", 1, tmp_path, replace(EXAMPLES["starlette_redis"], ask=_ask_forty_times))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    assert [run.entry.session for run in runs] == ["u0"] * 40
    assert len(json.loads(runs[-1].exchanges[2].request.body)["messages"]) == 40 * 2 - 1
    for run in runs:
        assert verdict(reenact(freeze(run), cwd=tmp_path)) is Verdict.IDENTICAL
