"""What capture costs a request that calls no model, and a number of `random`, as microseconds of CPU next to none.

Two processes, one recorded and one not, take turns in short rounds; the lower quartile over rounds counts, since what disturbs
a round only ever adds to it. Applications are called in process, without a server. Goal: at 500 requests a second, less than
one hundredth of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

_HEADERS: Final = {
    "host": "shop.example",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64)",
    "accept": "application/json",
    "accept-encoding": "gzip, deflate, br",
    "content-type": "application/json",
    "content-length": "16",
    "x-request-id": "8f14e45f",
    "authorization": "Bearer abc",
}
_BODY: Final = b'{"text": "none"}'


def _asgi(count: int) -> Callable[[], None]:
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def health(request: Any) -> PlainTextResponse:
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/health", health)])
    headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": _BODY, "more_body": False}

    async def send(message: Any) -> None:
        del message

    async def ask() -> None:
        for _ in range(count):
            scope = {
                "type": "http",
                "method": "GET",
                "path": "/health",
                "raw_path": b"/health",
                "root_path": "",
                "query_string": b"",
                "headers": headers,
                "client": ("127.0.0.1", 4000),
            }
            await app(scope, receive, send)

    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(ask())


def _wsgi(count: int) -> Callable[[], None]:
    import io

    from flask import Flask

    app: Any = Flask("bench")
    app.add_url_rule("/health", view_func=lambda: "ok")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/health",
        "QUERY_STRING": "",
        "SERVER_NAME": "shop.example",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http",
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in _HEADERS.items()},
    }

    def ask() -> None:
        for _ in range(count):
            answer: Any = app({**environ, "wsgi.input": io.BytesIO(_BODY)}, _started)
            b"".join(answer)
            answer.close()

    return ask


def _started(*_: object) -> None:
    pass


def _random(count: int) -> Callable[[], None]:
    draw = random.random

    def ask() -> None:
        for _ in range(count):
            draw()

    return ask


_SUBJECTS: Final = {"asgi": (_asgi, 1000), "wsgi": (_wsgi, 500), "random": (_random, 50_000)}
"""Subject -> what makes it, and how many are timed at once."""


def _work(*, is_recorded: bool) -> None:
    """Time each subject whose name comes in; answer with the microseconds of one."""
    if is_recorded:
        import freezeframe

        freezeframe.instrument(file="/dev/null", root="never")  # as in a server
    made = {name: make(count) for name, (make, count) in _SUBJECTS.items()}
    for ask in made.values():
        ask()
    for line in sys.stdin:
        name = line.strip()
        start = time.process_time()
        made[name]()
        print((time.process_time() - start) / _SUBJECTS[name][1] * 1e6, flush=True)


def main() -> None:
    """Measure, print a table and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--work", choices=["bare", "recorded"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        _work(is_recorded=arguments.work == "recorded")
        return
    ways = ("bare", "recorded")
    workers = {
        way: subprocess.Popen(
            [sys.executable, __file__, "--work", way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for way in ways
    }
    figures: dict[str, dict[str, list[float]]] = {name: {way: [] for way in ways} for name in _SUBJECTS}
    for turn in range(arguments.rounds):
        for name in _SUBJECTS:
            for way in ways if turn % 2 else ways[::-1]:
                told, heard = workers[way].stdin, workers[way].stdout
                assert told is not None
                assert heard is not None
                told.write(f"{name}\n")
                told.flush()
                figures[name][way].append(float(heard.readline()))
    for worker in workers.values():
        worker.communicate()
    rows = {
        name: {way: round(statistics.quantiles(found, n=4)[0], 3) for way, found in by_way.items()}
        for name, by_way in figures.items()
    }
    print(f"{'':8} {'bare us':>9} {'recorded us':>12} {'added us':>9}   of a core at 500/s")
    for name, row in rows.items():
        added = row["recorded"] - row["bare"]
        print(f"{name:8} {row['bare']:9.3f} {row['recorded']:12.3f} {added:9.3f}   {added * 500 / 1e4:.3f} %")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
