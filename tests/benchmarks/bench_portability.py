"""How fast a recorded run is served over HTTP, beside a static server of aiohttp that gives the same bytes.

    python tests/benchmarks/bench_portability.py [--steps 2000] [--connections 4] [--rounds 3]

Each request of a run is asked once, over kept connections, by threads that read whole answers. Server and client are separate
processes; the servers take turns. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.exchange import Chunk, Exchange, Kind, Request, Response
from freezeframe_schemas.fixture import Fixture, Step, write_fixture
from freezeframe_schemas.run import Entry

_PATH: Final = "/v1/chat/completions"
_STATIC: Final = """
import sys
from aiohttp import web
body = sys.argv[1].encode()
async def answer(request):
    await request.read()
    return web.Response(body=body, content_type="application/json")
async def app():
    made = web.Application()
    made.router.add_post("/v1/chat/completions", answer)
    return made
async def main():
    import asyncio
    runner = web.AppRunner(await app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"export OPENAI_BASE_URL=http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.Event().wait()
import asyncio
asyncio.run(main())
"""
_ANSWER: Final = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is in Lyon. " * 20}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 200, "completion_tokens": 80, "total_tokens": 280},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    results = {"serve": serve_speed(arguments)}
    print(json.dumps(results))


def serve_speed(arguments: Any) -> dict[str, float]:
    """Return requests a second of `freezeframe serve` and of the static server."""
    asked = [_request(number) for number in range(arguments.steps)]
    with tempfile.TemporaryDirectory() as folder:
        write_fixture(_run(asked), Path(folder) / "run")
        commands = {
            "freezeframe serve": [sys.executable, "-m", "freezeframe._cli", "serve", f"{folder}/run"],
            "aiohttp, static": [sys.executable, "-c", _STATIC, json.dumps(_ANSWER)],
        }
        rates: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                rates[name].append(_rate(command, asked, arguments.connections))
    medians = {name: round(statistics.median(found)) for name, found in rates.items()}
    print(f"{'requests/s, median of ' + str(arguments.rounds):32}")
    for name, rate in medians.items():
        print(f"  {name:30}{rate:>8,}")
    return {name: float(rate) for name, rate in medians.items()}


def _request(number: int) -> bytes:
    messages = [{"role": "system", "content": "You answer. " * 40}, {"role": "user", "content": f"Where is order {number}?"}]
    return json.dumps({"model": "gpt-4o", "messages": messages, "temperature": 0}).encode()


def _run(asked: Sequence[bytes]) -> Fixture:
    answer = Response(
        status=200, headers=(("content-type", "application/json"),), chunks=(Chunk(data=json.dumps(_ANSWER).encode()),)
    )
    steps = tuple(
        Step(
            number=number,
            exchange=Exchange(
                kind=Kind.MODEL,
                name=f"POST {_PATH}",
                seam="httpx",
                dialect="openai.chat",
                lane=(number,),
                request=Request(method="POST", url=f"https://api.openai.com{_PATH}", body=body),
                response=answer,
            ),
            key="",
            ordinal=0,
        )
        for number, body in enumerate(asked, 1)
    )
    return Fixture(run_id="a" * 32, entry=Entry(), steps=steps)


def _rate(command: Sequence[str], asked: Sequence[bytes], connections: int) -> float:
    """Start a server, ask everything once, and return the requests a second."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if "OPENAI_BASE_URL" in line)
        port = int(line.rpartition(":")[2].partition("/")[0])
        shares = [asked[number::connections] for number in range(connections)]
        threads = [threading.Thread(target=_ask_all, args=(port, share)) for share in shares]
        began_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(asked) / (time.perf_counter() - began_s)
    finally:
        server.kill()
        server.wait()


def _ask_all(port: int, bodies: Sequence[bytes]) -> None:
    head = f"POST {_PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: "
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        for body in bodies:
            connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            status, length = answers.readline(), 0
            assert b" 200 " in status, status
            while line := answers.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answers.read(length)


if __name__ == "__main__":
    main()
