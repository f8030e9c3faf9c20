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
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = pytest.mark.long

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
