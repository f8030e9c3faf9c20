"""WebSockets that do not end by turns: another task closes them, the application sends too late, a task of it fails.

Under uvicorn and under aiohttp's own server. What the server refuses is recorded, and a replay refuses it, too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

_COMMON = """
import asyncio
import freezeframe
freezeframe.instrument(file="spans.jsonl")

said = asyncio.Queue()  # what each handler ends with, for the client to wait for


@freezeframe.tool
def note(text):
    said.put_nowait(text)
    return text


async def attempt(awaitable):
    try:
        await awaitable
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"
"""
APPLICATIONS = {
    "uvicorn": f"""{_COMMON}
import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute


async def other_task_closes(socket):
    await socket.accept()
    closing = asyncio.create_task(socket.close(4001))
    note(await attempt(socket.receive_text()))
    await closing


async def sends_too_late(socket):
    await socket.accept()
    await socket.send_text("one")
    await socket.close(4002)
    note(await attempt(socket.send_text("two")))


async def sends_to_nobody(socket):
    await socket.accept()
    note(await attempt(socket.receive_text()))
    note(await attempt(socket.send_text("one")))


async def task_fails(socket):
    await socket.accept()

    async def fail():
        raise ValueError(note("in a task"))

    failing = asyncio.create_task(fail())
    await socket.send_text(await attempt(failing))
    await socket.close()


handlers = (other_task_closes, sends_too_late, sends_to_nobody, task_fails)
app = Starlette(routes=[WebSocketRoute(f"/{{handler.__name__}}", handler) for handler in handlers])


async def serving(door):
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    asyncio.create_task(server.serve(sockets=[door]))

    async def stop():
        server.should_exit = True

    return stop
""",
    "aiohttp": f"""{_COMMON}
from aiohttp import web


async def prepared(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    return socket


async def other_task_closes(request):
    socket = await prepared(request)
    closing = asyncio.create_task(socket.close(code=4001))
    message = await socket.receive()
    note(f"{{message.type.name}} {{socket.close_code}}")
    await closing
    return socket


async def sends_too_late(request):
    socket = await prepared(request)
    await socket.send_str("one")
    await socket.close(code=4002)
    note(await attempt(socket.send_str("two")))
    return socket


async def sends_to_nobody(request):
    socket = await prepared(request)
    note((await socket.receive()).type.name)
    note(await attempt(socket.send_str("one")))
    return socket


async def task_fails(request):
    socket = await prepared(request)

    async def fail():
        raise ValueError(note("in a task"))

    await socket.send_str(await attempt(asyncio.create_task(fail())))
    await socket.close()
    return socket


handlers = (other_task_closes, sends_too_late, sends_to_nobody, task_fails)
app = web.Application()
app.add_routes([web.get(f"/{{handler.__name__}}", handler) for handler in handlers])


async def serving(door):
    runner = web.AppRunner(app)
    await runner.setup()
    await web.SockSite(runner, door).start()
    return runner.cleanup
""",
}
_TALK = """
import asyncio, socket
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from application import said, serving


async def main():
    door = socket.create_server(("127.0.0.1", 0))
    stop = await serving(door)
    for path, notes in {"other_task_closes": 1, "sends_too_late": 1, "sends_to_nobody": 2, "task_fails": 1}.items():
        async with connect(f"ws://127.0.0.1:{door.getsockname()[1]}/{path}") as client:
            if path == "sends_to_nobody":
                await client.close()
            try:
                while True:
                    await client.recv()
            except ConnectionClosed:
                pass
        for _ in range(notes):
            await said.get()
    await stop()


asyncio.run(main())
"""


@pytest.mark.parametrize("server", APPLICATIONS)
def test_a_websocket_that_ends_out_of_turn_is_recorded_and_replays(server: str, tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATIONS[server])
    (tmp_path / "talk.py").write_text(_TALK)
    subprocess.run([sys.executable, "talk.py"], cwd=tmp_path, check=True, timeout=100)
    runs = load_runs_of_file(tmp_path / "spans.jsonl")
    outputs = {run.entry.name.split("/")[1]: values.decode(run.entry.output or "") for run in runs}
    assert {name: (output["sent"], output["closed"]) for name, output in outputs.items()} == {
        "other_task_closes": ([], 4001),
        "sends_too_late": (["one"], 4002),  # what was refused was not sent
        "sends_to_nobody": ([], None),
        "task_fails": (["ValueError: in a task"], 1000),
    }
    for run in runs:
        report = reenact(freeze(run), cwd=tmp_path)
        assert (report.divergences, verdict(report)) == ((), Verdict.IDENTICAL), run.entry.name
