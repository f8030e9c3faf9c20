"""One tool of the replay benchmark, in a process (and for peers: a virtual environment) of its own; prints its figures as JSON.

python replay_peers.py bare|freezeframe|vcrpy|cassetter|replex URL FOLDER SIZES

Every tool does the same: the openai SDK asks a provider on loopback, bare and recorded, then again from the recording. Times
are CPU milliseconds of the calling thread, medians of one round. What a tool does in threads of its own or when its block ends
is not in them; what it does to open a recording is `load`.
"""

# Peers are not installed where this is checked, and freezeframe is not where they run.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import openai

LARGE = "x" * 600
"""100 messages of it are about 63 KB."""
SHAPES = {"small": 200, "large": 25, "stream": 40}
"""Shape of a call -> how many calls a recording of it holds."""


class Freezeframe:
    """Capture in memory, freeze, write; load, serve."""

    @contextmanager
    def record(self, path: Path) -> Generator[None]:
        import freezeframe
        from freezeframe.testing import capture
        from freezeframe_replay.engine.freeze import freeze
        from freezeframe_schemas.fixture import write_fixture
        from freezeframe_schemas.run import build_run

        with capture() as captured, freezeframe.run("bench"):
            yield
        write_fixture(freeze(build_run(captured.spans)), path)

    @contextmanager
    def replay(self, path: Path) -> Generator[None]:
        import freezeframe
        from freezeframe import seams
        from freezeframe_replay.engine.session import ReplaySession
        from freezeframe_schemas.fixture import load_fixture

        session = ReplaySession(load_fixture(path))
        seams.serve(session)
        try:
            with freezeframe.run("bench"):
                yield
        finally:
            seams.stop_serving()
            seams.uninstall()
        # A recording may be replayed in part here, so that only what was asked for counts.
        assert {item.how for item in session.report().served} == {"exact"}


class Cassette:
    """vcrpy or cassetter, which has the same interface, told to compare the body as the others do."""

    def __init__(self, module: str) -> None:
        self._module = module

    @contextmanager
    def record(self, path: Path, mode: str = "all") -> Generator[None]:
        tool = importlib.import_module(self._module)
        with tool.use_cassette(f"{path}.yaml", record_mode=mode, match_on=["method", "uri", "body"]):
            yield

    def replay(self, path: Path) -> Any:
        return self.record(path, "none")


class Replex:
    """replex, told that the provider is on loopback (it would go live there)."""

    @contextmanager
    def record(self, path: Path, mode: str = "record") -> Generator[None]:
        import replex

        options: Any = {"cassette_dir": str(path.parent), "strict_unused": False, "intercept_hosts": ["127.0.0.1"]}
        with replex.session(path.name, mode=mode, **options):
            yield

    def replay(self, path: Path) -> Any:
        return self.record(path, "replay")


TOOLS: dict[str, Callable[[], Any]] = {
    "freezeframe": Freezeframe,
    "vcrpy": partial(Cassette, "vcr"),
    "cassetter": partial(Cassette, "cassetter"),
    "replex": Replex,
}


def ask(client: openai.OpenAI, shape: str, number: int) -> str:
    """Make one call of a shape."""
    if shape == "large":
        messages: Any = [{"role": "user", "content": f"{number} {place} {LARGE}"} for place in range(100)]
    else:
        messages = [{"role": "user", "content": f"question {number}"}]
    if shape == "stream":
        stream = client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    return client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content or ""


def calls(client: openai.OpenAI, shape: str, numbers: range) -> tuple[list[float], list[str]]:
    """Return milliseconds of the calling thread for each call, and the answers."""
    times: list[float] = []
    answers: list[str] = []
    for number in numbers:
        started = time.thread_time()
        answers.append(ask(client, shape, number))
        times.append((time.thread_time() - started) * 1000)
    return times, answers


def size_of(folder: Path, name: str) -> int:
    """Return the bytes of every file of a recording."""
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and name in str(path.relative_to(folder)).split(".")[0]
    )


def floor(url: str) -> dict[str, float]:
    """Return what the SDK alone costs: its transport answers at once."""
    body: dict[str, bytes] = {}
    with httpx2.Client() as plain:
        for shape in ("small", "stream"):
            asked = {"stream": shape == "stream", "messages": [{"role": "user", "content": "question 1"}]}
            body[shape] = plain.post(f"{url}/v1/chat/completions", json=asked).content

    def answer(request: httpx2.Request) -> httpx2.Response:
        streamed = b'"stream":true' in request.content
        kind = "text/event-stream" if streamed else "application/json"
        return httpx2.Response(200, headers={"content-type": kind}, content=body["stream" if streamed else "small"])

    found: dict[str, float] = {}
    transport = httpx2.MockTransport(answer)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", http_client=httpx2.Client(transport=transport)) as client:
        for shape, count in SHAPES.items():
            calls(client, shape, range(5))
            found[f"replay {shape}"] = statistics.median(calls(client, shape, range(count))[0])
    return found


def measure(tool: Any, url: str, folder: Path, sizes: list[int]) -> dict[str, float]:
    """Return the figures of one tool in one round."""
    found: dict[str, float] = {}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, http_client=httpx2.Client(verify=False)) as client:
        for shape, count in SHAPES.items():
            calls(client, shape, range(10))
            path = folder / shape
            bare, _ = calls(client, shape, range(count))
            with tool.record(path):
                recorded, live = calls(client, shape, range(count))
            with tool.replay(path):
                replayed, again = calls(client, shape, range(count))
            assert again == live, f"{shape}: other answers"
            for label, times in (("bare", bare), ("recorded", recorded), ("replay", replayed)):
                found[f"{label} {shape}"] = statistics.median(times)
            found[f"bytes {shape}"] = size_of(folder, shape) / count
        for size in sizes:
            path = folder / f"run{size}"
            with tool.record(path):
                calls(client, "small", range(size))
            started = time.process_time()
            with tool.replay(path):
                found[f"load {size}"] = (time.process_time() - started) * 1000
                # From the end of the recording too: a search that runs through it has to get there.
                asked = range(size) if size <= 200 else range(size - 40, size)
                found[f"replay at {size}"] = statistics.median(calls(client, "small", asked)[0])
    return found


def main() -> None:
    """Measure the tool that the command line names."""
    name, url, folder, sizes = sys.argv[1:5]
    if name == "bare":
        found = floor(url)
    else:
        found = measure(TOOLS[name](), url, Path(folder), [int(size) for size in sizes.split(",")])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
