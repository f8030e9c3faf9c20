"""A world for races: a provider on loopback that answers by rule, and a program that is recorded there and replayed.

A prompt is answered once others have come in, or never. So the order of events is the test's, and no test sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
from answered_here import answering
from loopback import send_json

import freezeframe
from freezeframe.seams.recorder import switch
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run

NEVER = "never"
TIMEOUT_S = 2.0
"""Of tasks: long enough for the request to be on its way on a busy machine. A replay skips it."""
THREAD_TIMEOUT_S = 0.5
"""Of threads: a replay waits for it."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


class Provider:
    """Answers each prompt with random words, once the prompts that its rule names have come in."""

    def __init__(self, rules: Mapping[str, tuple[str, ...]]) -> None:
        self._rules = rules
        self._came: list[str] = []
        self._changed = threading.Condition()
        self._closed = False
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait_for(self, prompt: str) -> None:
        """Wait until a prompt has come in."""
        with self._changed:
            self._changed.wait_for(lambda: prompt in self._came)

    def let(self, prompt: str) -> bool:
        """Wait until `prompt` may be answered; False if it never may."""
        with self._changed:
            self._came.append(prompt)
            self._changed.notify_all()
            wanted = self._rules.get(prompt, ())
            self._changed.wait_for(lambda: self._closed or all(any(c.startswith(w) for c in self._came) for w in wanted))
            return not self._closed


class _Handler(BaseHTTPRequestHandler):
    provider: Provider
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = request["messages"][-1]["content"]
        if request.get("stream"):
            return self._stream(prompt)
        if not self.provider.let(prompt):
            return None
        message = {"role": "assistant", "content": f"{prompt}: {random.SystemRandom().random()}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}).encode()
        with contextlib.suppress(OSError):  # the client may be gone
            send_json(self, body)

    def _stream(self, prompt: str) -> None:
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for text in (f"{random.SystemRandom().random()}", "more"):
                choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
                event = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
                data = f"data: {json.dumps(event)}\n\n".encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
                if not self.provider.let(prompt):
                    return
            self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def sync_client(url: str, *, max_retries: int = 0, **options: Any) -> openai.OpenAI:
    """Return a client of a provider; loading certificates would be most of a test's time."""
    http_client = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=max_retries, http_client=http_client, **options)


def async_client(url: str) -> openai.AsyncOpenAI:
    """As `sync_client`."""
    http_client = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=0, http_client=http_client)


@dataclass(slots=True, kw_only=True)
class World:
    """World of a program: the provider's address, and whether its last prompt differs from the recorded one."""

    url: str
    changed: bool = False
    clients: list[Any] = field(default_factory=list[Any])

    def last(self, text: str) -> str:
        return f"{text}!" if self.changed else text

    def client(self, **options: Any) -> openai.OpenAI:
        return sync_client(self.url, **options)

    def aclient(self) -> openai.AsyncOpenAI:
        return async_client(self.url)

    def ask(self, prompt: str, **options: Any) -> str:
        answer = self.client(**options).chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
        return answer.choices[0].message.content or ""


async def ask(client: openai.AsyncOpenAI, prompt: str) -> str:
    answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    return answer.choices[0].message.content or ""


Program = Callable[[World], Any]

GIVEN_UP: Mapping[str, tuple[str, ...]] = {"slow": (NEVER,)}
B_FIRST: Mapping[str, tuple[str, ...]] = {"A": ("winner",), "B": ("A", "B")}


def call(program: Program, world: World) -> Any:
    if inspect.iscoroutinefunction(program):

        @freezeframe.run(name=program.__name__)
        async def agent() -> Any:
            return await program(world)

        return asyncio.run(agent())
    return freezeframe.run(name=program.__name__)(lambda: program(world))()


def record(program: Program, rules: Mapping[str, tuple[str, ...]]) -> tuple[Fixture, Any, str]:
    """Run the program once against a separate provider, which is gone afterwards."""
    with Provider(rules) as provider, capture() as captured:
        outcome = call(program, World(url=provider.url))
        recorder = switch.recorder()
        assert recorder is not None
        recorder.finish_all()  # like the end of a process
        spans = captured.spans
    return freeze(build_run(spans)), outcome, provider.url


def replay(program: Program, fixture: Fixture, url: str, *, changed: bool = False) -> tuple[Report, Any]:
    """Run the program again, answered from the fixture."""
    session = ReplaySession(fixture)
    outcome: Any = None
    with answering(session), contextlib.suppress(ReplayMiss, BaseExceptionGroup):
        outcome = call(program, World(url=url, changed=changed))
    return session.report(), outcome
