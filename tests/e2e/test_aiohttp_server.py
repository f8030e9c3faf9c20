"""Requests to aiohttp's server whose handlers read the body in other ways than at once: the run has it, and replays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

_APPLICATION = """
import freezeframe
freezeframe.instrument(file="spans.jsonl")
from aiohttp import web


@freezeframe.tool
def note(text: str) -> str:
    return text.upper()


async def pieces(request):
    return web.Response(text=note((b"".join([piece async for piece in request.content.iter_chunked(3)])).decode()))


async def lines(request):
    return web.Response(text=note((await request.content.readline()).decode()))


async def parts(request):
    return web.Response(text=note("".join([(await part.read()).decode() async for part in await request.multipart()])))


async def form(request):
    return web.Response(text=note((await request.post())["text"]))


app = web.Application()
app.add_routes([web.post(f"/{handler.__name__}", handler) for handler in (pieces, lines, parts, form)])
"""
_ASK = """
import asyncio
from aiohttp import FormData, test_utils
from application import app


async def main():
    async with test_utils.TestClient(test_utils.TestServer(app)) as client:
        for path, body in {
            "pieces": b"some bytes", "lines": b"one\\ntwo\\n", "parts": FormData({"a": "part"}, default_to_multipart=True),
            "form": FormData({"text": "field"}),
        }.items():
            print(await (await client.post("/" + path, data=body)).text())


asyncio.run(main())
"""


@pytest.mark.proof
def test_a_body_is_recorded_however_the_handler_reads_it(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(_APPLICATION)
    (tmp_path / "ask.py").write_text(_ASK)
    subprocess.run([sys.executable, "ask.py"], cwd=tmp_path, check=True, capture_output=True)
    runs = {run.entry.name: run for run in load_runs_of_file(tmp_path / "spans.jsonl")}
    bodies = {name: values.decode(run.entry.input or "")["body"] for name, run in runs.items()}
    assert [*bodies] == ["POST /pieces", "POST /lines", "POST /parts", "POST /form"]
    assert bodies["POST /pieces"] == "some bytes"
    assert bodies["POST /lines"].startswith("one\n")
    assert "part\r\n" in bodies["POST /parts"]
    assert bodies["POST /form"] == "text=field"
    for run in runs.values():
        assert verdict(reenact(freeze(run), cwd=tmp_path)) is Verdict.IDENTICAL


_SOCKETS = """
import asyncio
import freezeframe
freezeframe.instrument(file="spans.jsonl")
from aiohttp import WSMsgType, web

ended = asyncio.Queue()


@freezeframe.tool
def note(text: str) -> str:
    return text.upper()


async def iterates(request):
    socket = web.WebSocketResponse(protocols=("chat",), heartbeat=600)
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str("one moment")
            await socket.send_json({"said": note(message.data)})
        elif message.type is WSMsgType.BINARY:
            await socket.send_bytes(note(message.data.decode()).encode())
    ended.put_nowait(socket.close_code)
    return socket


async def closes(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    asked = await socket.receive_json()
    await socket.send_str(note(asked["text"] * 20_000))
    await socket.close(code=4001, message=b"enough")
    return socket


async def fails(request):
    socket = web.WebSocketResponse(autoclose=False)
    await socket.prepare(request)
    note(await socket.receive_str())
    await socket.receive_str()


app = web.Application()
app.add_routes([web.get(f"/{handler.__name__}", handler) for handler in (iterates, closes, fails)])
"""
_TALK = """
import asyncio
from aiohttp import ClientSession, web
from application import app, ended


HANDSHAKE = b"GET /iterates HTTP/1.1\\r\\nHost: app\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"


async def begun(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)  # a client of aiohttp would say that it leaves
    writer.write(HANDSHAKE + b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: " + b"A" * 22 + b"==\\r\\n\\r\\n")
    writer.write(b"\\x81\\x05first")
    await reader.readuntil(b"FIRST")
    return writer


async def main():
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with ClientSession(f"http://127.0.0.1:{port}") as client:
        async with client.ws_connect("/iterates", protocols=("chat",)) as socket:
            for number in range(3):
                await socket.send_str(f"text {number}")
                print(await socket.receive_str(), await socket.receive_json())
            await socket.send_bytes(b"bytes")
            print(await socket.receive_bytes())
        await ended.get()
        async with client.ws_connect("/closes") as socket:
            await socket.send_json({"text": "long"})
            print(len(await socket.receive_str()), (await socket.receive()).data)
        async with client.ws_connect("/fails") as socket:
            await socket.send_str("first")
        (await begun(port)).close()
        await ended.get()
        left_open = await begun(port)
        await runner.cleanup()


asyncio.run(main())
"""


def test_a_websocket_is_a_run_with_its_messages_in_order_and_replays(tmp_path: Path) -> None:
    """However the handler reads, and whoever ends it: client, application, a fault, a lost connection, the server."""
    (tmp_path / "application.py").write_text(_SOCKETS)
    (tmp_path / "talk.py").write_text(_TALK)
    subprocess.run([sys.executable, "talk.py"], cwd=tmp_path, check=True, capture_output=True, timeout=100)
    runs = load_runs_of_file(tmp_path / "spans.jsonl")
    received = [values.decode(run.entry.input or "")["received"] for run in runs]
    assert [run.entry.name for run in runs] == [
        f"WEBSOCKET /{name}" for name in ("iterates", "closes", "fails", "iterates", "iterates")
    ]
    assert received[0] == [[0, "text 0"], [2, "text 1"], [4, "text 2"], [6, b"bytes"], [7, {"left": 1000}]]
    assert received[1:] == [
        [[0, '{"text": "long"}']],
        [[0, "first"], [0, {"left": 1000}]],
        [[0, "first"], [2, {"left": 1006}]],
        [[0, "first"]],
    ]
    sent = values.decode(runs[0].entry.output or "")
    assert (sent["accepted"], sent["closed"]) == ({"subprotocol": "chat"}, None)
    assert sent["sent"][-2:] == ['{"said": "TEXT 2"}', b"BYTES"]
    assert values.decode(runs[1].entry.output or "")["closed"] == 4001
    assert [run.status is RunStatus.FAILED for run in runs] == [False, False, True, False, True]
    for run in runs:
        report = reenact(freeze(run), cwd=tmp_path)
        assert verdict(report) is Verdict.IDENTICAL, report


def test_a_changed_answer_to_a_message_diverges(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(_SOCKETS)
    (tmp_path / "talk.py").write_text(_TALK)
    subprocess.run([sys.executable, "talk.py"], cwd=tmp_path, check=True, capture_output=True, timeout=100)
    (tmp_path / "application.py").write_text(_SOCKETS.replace("one moment", "a moment"))
    report = reenact(freeze(load_runs_of_file(tmp_path / "spans.jsonl")[0]), cwd=tmp_path)
    assert report.first is not None and (report.first.kind, report.first.path) == (
        DivergenceKind.OUTCOME_CHANGED,
        "$.returned.sent[0]",
    )
