"""Recorded provider traffic played again: a loopback server gives the recorded bytes, the real SDKs ask, a replay answers.

`check()` plays, records and replays one recorded conversation. Run as a program, it takes all of them and writes the page that
lists what was covered and through which client: ``python tests/support/recorded_traffic.py`` writes it into docs/coverage.md.
"""

from __future__ import annotations

import base64
import gzip
import inspect
import json
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import anthropic
import httpx
import httpx2
import openai
from loopback import QuietHandler, QuietServer

import freezeframe
from freezeframe import seams
from freezeframe.seams import serve, stop_serving
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Completion
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.keys import SEMANTIC_HEADERS
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

DATA: Final = Path(__file__).parents[1] / "data" / "exchanges" / "exchanges.jsonl.gz"
Row = dict[str, Any]

OPENAI_COMPATIBLE: Final = frozenset(
    {
        "azure-openai",
        "deepseek",
        "groq",
        "huggingface",
        "mistral",
        "openai",
        "openrouter",
        "together",
        "vercel-gateway",
        "xai",
        "zai",
    }
)
"""Providers that the openai SDK asks by base URL."""
TYPED: Final = {
    "/chat/completions": "chat.completions.create",
    "/responses": "responses.create",
    "/completions": "completions.create",
    "/embeddings": "embeddings.create",
}
"""End of the path -> method of the openai SDK."""
BY_HAND: Final = "httpx, the recorded request body as it was"


def load_conversations() -> dict[str, list[Row]]:
    """Return the recorded exchanges by file, each in the order in which they were made."""
    files: dict[str, list[Row]] = defaultdict(list)
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        for line in lines:
            row: Row = json.loads(line)
            files[row["file"]].append(row)
    return {file: sorted(rows, key=lambda row: row["index"]) for file, rows in sorted(files.items())}


def body_of(message: dict[str, Any]) -> bytes:
    """Return the recorded bytes of a request or response."""
    if "b64" in message:
        return base64.b64decode(message["b64"])
    return str(message.get("text") or "").encode()


class Playback:
    """A provider on loopback that answers each request with the next recorded response, byte for byte."""

    def __init__(self) -> None:
        self.due: deque[Row] = deque()
        handler = type("Handler", (_Handler,), {"playback": self})
        self._server = QuietServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse every later connection."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(QuietHandler):
    playback: Playback

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self._answer()

    def _answer(self) -> None:
        recorded = self.playback.due.popleft()["response"]
        body = body_of(recorded)
        self.send_response_only(recorded["status"])
        for name, text in recorded["headers"].items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, text)
        if "event-stream" not in str(recorded["headers"]).lower():
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in filter(None, body.replace(b"\n\n", b"\n\n\0").split(b"\0")):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        if recorded.get("hangs_up"):
            self.close_connection = True
            self.connection.shutdown(2)
            return
        with suppress(OSError):  # an SDK that has read the last event may have left
            self.wfile.write(b"0\r\n\r\n")


class Clients:
    """The real SDKs, pointed at one loopback server; keeps the wire chunks of the last response."""

    def __init__(self, url: str) -> None:
        self.chunks: list[bytes] = []
        self._url = url
        self._openai: dict[str, openai.OpenAI] = {}
        self._client2 = httpx2.Client(event_hooks={"response": [self._tap(httpx2)]}, timeout=120, verify=False)
        self._client = httpx.Client(event_hooks={"response": [self._tap(httpx)]}, timeout=120, verify=False)
        self._anthropic = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0, http_client=self._client2)

    def close(self) -> None:
        self._client.close()
        self._client2.close()

    def _tap(self, module: Any) -> Callable[[Any], None]:
        seen = self

        class Tap(module.SyncByteStream):
            def __init__(self, inner: Any) -> None:
                self._inner = inner

            def __iter__(self) -> Iterator[bytes]:
                for chunk in self._inner:
                    seen.chunks.append(chunk)
                    yield chunk

            def close(self) -> None:
                self._inner.close()

        def hook(response: Any) -> None:
            response.stream = Tap(response.stream)

        return hook

    def ask(self, row: Row) -> tuple[Any, list[bytes]]:
        """Ask once as the recorded request did; return what the SDK made of the answer, and the chunks it came in."""
        self.chunks = []
        try:
            result = self._ask(row)
        except (openai.APIError, anthropic.APIError, httpx.HTTPError, httpx2.HTTPError, ValueError, AttributeError) as error:
            # what an SDK raises on an answer that it cannot read is its result, too
            result = (type(error).__name__, str(error), repr(getattr(error, "body", None)))
        return result, self.chunks

    def _ask(self, row: Row) -> Any:
        through = client_of(row)
        parts = urlsplit(row["request"]["url"])
        headers = {name: text for name, text in row["request"]["headers"].items() if name.lower() in SEMANTIC_HEADERS}
        if through == BY_HAND:
            response = self._client.request(
                row["request"]["method"].upper(),
                f"{self._url}{parts.path}?{parts.query}".rstrip("?"),
                content=body_of(row["request"]),
                headers={"content-type": "application/json", **headers},
            )
            return response.status_code, response.content
        body: dict[str, Any] = json.loads(body_of(row["request"]) or b"{}")
        options: dict[str, Any] = {"extra_headers": headers, "extra_query": dict(parse_qsl(parts.query))}
        if through.startswith("anthropic"):
            return _result(_call(self._anthropic.messages.create, body, options))
        method = next((name for end, name in TYPED.items() if parts.path.endswith(end)), "")
        ending = next((end for end in TYPED if parts.path.endswith(end)), "")
        prefix = parts.path.removesuffix(ending) if method else "/v1"
        client = self._openai.get(prefix)
        if client is None:
            client = self._openai[prefix] = openai.OpenAI(
                base_url=f"{self._url}{prefix}", api_key="x", max_retries=0, http_client=self._client2
            )
        target: Any = client
        if method:
            for name in method.split("."):
                target = getattr(target, name)
            try:
                return _result(_call(target, body, options))
            except TypeError:  # the recorded request lacks what the typed method requires: ask below it
                prefix = prefix or "/"
        path = parts.path.removeprefix(prefix)
        query: Any = {"params": options["extra_query"], "headers": {"openai-beta": "assistants=v2"}}
        if row["request"]["method"].upper() == "GET":
            return repr(client.get(path, cast_to=dict[str, Any], options=query))
        return repr(client.post(path, cast_to=dict[str, Any], body=body, options=query))


def _call(method: Any, body: dict[str, Any], options: dict[str, Any]) -> Any:
    """Call a typed SDK method with the recorded fields; those that it does not know go into ``extra_body``."""
    known = inspect.signature(method).parameters
    typed = {name: value for name, value in body.items() if name in known}
    others = {name: value for name, value in body.items() if name not in known}
    return method(**typed, **options, extra_body=others or None, timeout=120)  # SDKs refuse long answers without a time-out


def _result(answer: Any) -> Any:
    if isinstance(answer, openai.Stream | anthropic.Stream):
        stream: Any = answer
        return [repr(item) for item in stream]
    return repr(answer)


def client_of(row: Row) -> str:
    """Name the client that asks for a row."""
    if row["provider"] == "anthropic":
        return "anthropic SDK, `messages.create`"
    if row["provider"] in OPENAI_COMPATIBLE:
        path = urlsplit(row["request"]["url"]).path
        method = next((name for end, name in TYPED.items() if path.endswith(end)), "")
        return f"openai SDK, `{method}`" if method else "openai SDK, `post` and `get`"
    return BY_HAND


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The outcome of one recorded conversation."""

    file: str
    rows: list[Row]
    report: Report
    results_equal: bool
    chunks_equal: bool
    recorded_bytes_equal: bool
    """The responses in the fixture are the responses of the recording."""
    completions: list[Completion]
    """End of each response of the fixture."""
    same_requests: list[bool]
    """True if the request that the client built holds the same JSON as the recorded one."""


class Stage:
    """Records conversations one after another, then replays them with the server gone."""

    def __init__(self) -> None:
        self._recorded: list[tuple[str, list[Row], Fixture, list[Any]]] = []

    def record(self, conversations: Iterable[tuple[str, list[Row]]]) -> str:
        """Ask everything once against the server; return the address that is gone afterwards."""
        playback = Playback()
        clients = Clients(playback.url)
        talks: list[tuple[str, list[Row], list[Any]]] = []
        try:
            with capture(record_hosts=("127.0.0.1",)) as captured:
                for file, rows in conversations:
                    talks.append((file, rows, converse(file, rows, clients, playback)))
                    captured.handle.flush(30)
                by_trace: dict[str, list[SpanRecord]] = defaultdict(list)
                for span in captured.spans:
                    by_trace[span.trace_id].append(span)
        finally:
            clients.close()
            playback.stop()
        for (file, rows, live), spans in zip(talks, by_trace.values(), strict=True):
            self._recorded.append((file, rows, freeze(build_run(spans)), live))
        return playback.url

    def replay(self, url: str, instead: Mapping[str, list[Row]]) -> Iterator[Checked]:
        """Ask everything again, answered from the fixtures."""
        clients = Clients(url)
        for file, rows, fixture, live in self._recorded:
            with served(fixture) as session:
                again: list[Any] = []
                with suppress(ReplayMiss):
                    again = converse(file, instead.get(file, rows), clients)
            bodies = [step.exchange.response.body for step in fixture.askable]
            yield Checked(
                file=file,
                rows=rows,
                report=session.report(),
                results_equal=[result for result, _ in again] == [result for result, _ in live],
                chunks_equal=[chunks for _, chunks in again] == [chunks for _, chunks in live],
                recorded_bytes_equal=bodies == [body_of(row["response"]) for row in rows],
                completions=[step.exchange.response.completion for step in fixture.askable],
                same_requests=[
                    _json(step.exchange.request.body) == _json(body_of(row["request"]))
                    for step, row in zip(fixture.askable, rows, strict=False)
                ],
            )
        clients.close()


def converse(file: str, rows: list[Row], clients: Clients, playback: Playback | None = None) -> list[Any]:
    """Make the requests of one conversation, inside a run."""

    def talk() -> int:
        for row in rows:
            if playback is not None:
                playback.due.append(row)
            answers.append(clients.ask(row))
        return len(answers)

    answers: list[Any] = []
    freezeframe.run(name=file)(talk)()
    return answers


@contextmanager
def served(fixture: Fixture) -> Generator[ReplaySession]:
    """Answer this process's calls from the fixture."""
    session = ReplaySession(fixture)
    serve(session)
    try:
        yield session
    finally:
        stop_serving()


def check(conversations: Iterable[tuple[str, list[Row]]], again: Mapping[str, list[Row]] | None = None) -> list[Checked]:
    """Play, record, freeze and replay conversations. `again`: what to ask the second time instead."""
    stage = Stage()
    url = stage.record(conversations)
    try:
        return list(stage.replay(url, again or {}))
    finally:
        seams.uninstall()


def _json(body: bytes) -> Any:
    try:
        return json.loads(body or b"null")
    except ValueError:
        return body


def failures(checked: Iterable[Checked]) -> list[str]:
    """Return what does not replay, one line each, with its cause."""
    lines: list[str] = []
    for item in checked:
        causes = [f"{found.kind.value}: {found.name} {found.path or ''}".strip() for found in item.report.divergences]
        causes += [] if item.report.divergences or item.results_equal else ["the SDK gave another result"]
        causes += [] if item.report.divergences or item.chunks_equal else ["other chunks"]
        causes += [] if item.recorded_bytes_equal else ["the fixture holds other bytes than the recording"]
        lines += [f"{item.file}: {cause}" for cause in causes]
    return lines


PAGE: Final = Path(__file__).parents[2] / "docs" / "coverage.md"
BEGIN: Final = "## Recorded traffic through the openai and anthropic SDKs\n"
END: Final = "\n## Thirty situations\n"


def coverage_section(checked: list[Checked]) -> str:
    """Return the section of the page that shows what of the recorded traffic replays, and through which client."""
    same: Counter[tuple[str, str]] = Counter()
    for item in checked:
        same.update(_client_and_provider(row) for row, is_same in zip(item.rows, item.same_requests, strict=False) if is_same)
    return section({item.file: item.rows for item in checked}, same, failures(checked))


def section(
    conversations: Mapping[str, list[Row]], same: Mapping[tuple[str, str], int] | None = None, missed: Sequence[str] = ()
) -> str:
    """Return the section of these conversations. `same`: requests as recorded, none left out of them if not given."""
    exchanges = Counter(_client_and_provider(row) for rows in conversations.values() for row in rows)
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for (client, provider), count in sorted(exchanges.items()):
        as_recorded = count if same is None else same[client, provider]
        in_brackets = "" if as_recorded == count else f" ({as_recorded:,})"
        lines[client].append(f"{provider} {count:,}{in_brackets}")
    several = sum(len(rows) > 1 for rows in conversations.values())
    replayed = len(conversations) - len({line.partition(": ")[0] for line in missed})
    return (
        "\n".join(
            [
                BEGIN,
                f"**{replayed:,} of {len(conversations):,} conversations replay**, {several:,} of several calls:",
                f"{sum(exchanges.values()):,} recorded HTTP exchanges (sources: `tests/data/exchanges/README.md`). "
                "The client asks with the",
                "recorded fields, the run is captured and frozen; then the server is gone and the same client asks again.",
                "No divergence, every SDK result equal, every response in the same chunks. *httpx* sends the recorded",
                "body as it is. In brackets: how many requests are as recorded, where today's SDK builds some otherwise.",
                "",
                *[f"* {client}: {', '.join(counts)}" for client, counts in lines.items()],
                "",
                *[f"* {line}" for line in missed],
            ]
        ).rstrip("\n")
        + "\n"
    )


def _client_and_provider(row: Row) -> tuple[str, str]:
    return client_of(row).partition(",")[0], row["provider"]


def page_with(section: str, text: str) -> str:
    """Return the page with this section in the place of its own."""
    before, rest = text.partition(BEGIN)[0], text.partition(END)[2]
    return f"{before}{section}{END}{rest}"


if __name__ == "__main__":
    PAGE.write_text(page_with(coverage_section(check(load_conversations().items())), PAGE.read_text("utf-8")), "utf-8")
