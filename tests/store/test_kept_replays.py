"""Replays that the pages made: with live calls where the service allows them, and kept in the data directory."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request
from loopback import QuietHandler, listening, send_json

from freezeframe_collector.store import Store
from freezeframe_collector.store.deleting import delete
from freezeframe_redaction import load_or_create_keys, load_policy, redact_run
from freezeframe_replay.local.home import Home
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.service.app import make_app
from freezeframe_replay.service.history import MAX_KEPT, History
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.fixture import load_fixture
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a store, and programs that are started again

Client = TestClient[Request, Application]

AGENT = """
import os
import sys
import httpx
import freezeframe

freezeframe.instrument()

def ask(text):
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]}
    answer = httpx.post(os.environ["OPENAI_BASE_URL"] + "/v1/chat/completions", json=body)
    return answer.json()["choices"][0]["message"]["content"]

@freezeframe.tool
def track(order):
    return {"order": order, "place": "Lyon"}

@freezeframe.run
def answer(question):
    writer = os.environ.get("WRITER", "")
    order = ask(question)
    place = track("AC-1")["place"]
    return ask(f"say that {order} is in {place}")

if __name__ == "__main__":
    answer(sys.argv[1])
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[list[str]]:
    """A model on loopback that says what it was told; what it was asked."""
    asked: list[str] = []

    class Echo(QuietHandler):
        def do_POST(self: BaseHTTPRequestHandler) -> None:
            text = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]["content"]
            asked.append(text)
            message = {"role": "assistant", "content": text.removeprefix("say that ")}
            usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
            said = {"model": "gpt-4o-mini", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
            send_json(self, json.dumps({**said, "usage": usage}).encode())

    with listening(Echo) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", url)
        yield asked


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(directory=tmp_path / ".freezeframe")
    home.directory.mkdir()
    (tmp_path / "agent.py").write_text(AGENT)
    return home


def record(home: Home, store: Store, question: str = "AC-1") -> Run:
    """Return a recorded run as the store has it: redacted."""
    folder = home.directory.parent
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py", question], cwd=folder, env=environment, capture_output=True, check=True)
    run = load_run_of_file(folder / "spans.jsonl")
    (folder / "spans.jsonl").unlink()
    key = load_or_create_keys(home.directory / KEYS).current("default")
    spans = redact_run(run.spans, load_policy("strict"), key)
    store.insert(list(spans), token=f"kept-{run.trace_id}")
    return build_run(spans)


@asynccontextmanager
async def service(home: Home, *, allow_live: bool = False) -> AsyncGenerator[Client]:
    app = make_app(home, allow_live=allow_live)
    async with TestClient(TestServer(app), headers=bearer(read_token(home.directory, READER))) as client:
        yield client


@pytest.fixture(autouse=True)
def _store(facade_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREEZEFRAME_STORE", facade_url)


async def text(client: Client, path: str, status: int = 200) -> str:
    answer = await client.get(path)
    assert answer.status == status, await answer.text()
    return await answer.text()


async def submit(client: Client, page: str, path: str, **fields: str) -> tuple[int, str]:
    """Send a form of a page; return the status and the page that it leads to, once its replay has ended."""
    token = re.findall(r'name="token" value="([^"]+)"', page)[0]
    own = str(client.make_url("")).rstrip("/")
    answer = await client.post(path, data={"token": token, **fields}, headers={"Origin": own})
    while 'http-equiv="refresh"' in (shown := await answer.text()):
        answer = await client.get(re.findall(r"url=([^\"]+)", shown)[0])
    return answer.status, shown


def number_of(page: str) -> int:
    return int(re.findall(r"/replays/(\d+)/", page)[0])


async def test_a_fork_goes_on_with_the_model_only_where_the_service_was_started_to_allow_it(
    home: Home, store: Store, provider: list[str]
) -> None:
    """The second question of the changed run is asked for real, with its cost; the fixture of what it became needs no model."""
    run = record(home, store)
    provider.clear()
    path = f"/runs/{run.trace_id}/fork"
    async with service(home) as client:
        form = await text(client, f"{path}?step=1")
        assert 'name="live"' not in form
        status, told = await submit(client, form, path, step="1", text="AC-2", live="1")
        assert (status, "without --allow-live" in told) == (403, True)
        _, offline = await submit(client, form, path, step="1", text="AC-2")
        assert "Ask the model live" not in offline
        status, _ = await submit(client, form, f"/replays/{number_of(offline)}/live")
        assert status == 403
    assert provider == []
    async with service(home, allow_live=True) as client:
        form = await text(client, f"{path}?step=1")
        assert "1 model call (cost: $0.00021)" in form
        _, offline = await submit(client, form, path, step="1", text="AC-2")
        assert provider == [] and "Ask the model live" in offline and "1 model call (cost: $0.00021)" in offline
        assert (await client.post(f"/replays/{number_of(offline)}/live", data={"token": "x"})).status == 403
        again = await submit(client, offline, f"/replays/{number_of(offline)}/live")
        at_once = await submit(client, form, path, step="1", text="AC-2", live="1")
        assert provider == ["say that AC-2 is in Lyon"] * 2
        for _, live in (again, at_once):
            assert "1 live model call (cost: $0.00021)" in live and "AC-2 is in Lyon" in live
        number = number_of(at_once[1])
        assert "AC-2 is in Lyon" in await text(client, f"/replays/{number}/calls?at=3")
    async with service(home) as client:  # and after a restart
        assert "1 live model call (cost: $0.00021)" in await text(client, f"/replays/{number}")
        assert "AC-2 is in Lyon" in await text(client, f"/replays/{number}/calls?at=3")
        assert (await client.get(f"/replays/{number}/fixture?expect=same")).status == 400
        body = await (await client.get(f"/replays/{number}/fixture?expect=identical")).read()
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        archive.extractall(home.directory.parent / "kept", filter="data")
    (folder,) = (home.directory.parent / "kept").iterdir()
    assert headline(reenact(load_fixture(folder), cwd=home.directory.parent)).startswith("identical")
    assert len(provider) == 2


async def test_a_replay_is_there_after_a_restart_redacted_as_its_run_and_gone_with_it(
    home: Home, store: Store, provider: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its variables; a later one has the next number. What the reader typed and what the machine holds is redacted."""
    run = record(home, store, "where is the order of maria.keller@example.com")
    monkeypatch.setenv("WRITER", "tom.obrien@example.org")
    async with service(home) as client:
        page = await text(client, f"/runs/{run.trace_id}")
        _, found = await submit(client, page, f"/runs/{run.trace_id}/replay")
        assert "tom.obrien@example.org" in await text(client, f"/replays/{number_of(found)}/calls?at=2")
        form = await text(client, f"/runs/{run.trace_id}/fork?step=1")
        await submit(client, form, f"/runs/{run.trace_id}/fork", step="1", text="that of ann.smith@example.net")
    kept = sorted((home.directory / "replays").iterdir())
    assert [folder.name for folder in kept] == [f"00000{number}-{run.trace_id}" for number in (1, 2)]
    written = [(file, file.read_bytes()) for folder in kept for file in folder.rglob("*") if file.is_file()]
    assert {file.name for file, _ in written} == {"replay.json", "report.json.gz"}
    for file, body in written:
        clear = gzip.decompress(body) if file.suffix == ".gz" else body
        for name in (b"keller@", b"obrien@", b"smith@"):
            assert name not in clear, (file, name)
    async with service(home) as client:
        page = await text(client, f"/runs/{run.trace_id}")
        assert re.findall(r'href="/replays/(\d+)"', page) == ["2", "1"]
        assert "identical" in await text(client, "/replays/1")
        assert "Lyon" in await text(client, "/replays/1/calls?at=3")
        assert "step 1 response = " in await text(client, "/replays/2")
        assert (await client.get("/replays/2/fixture")).status == 200
        _, third = await submit(client, page, f"/runs/{run.trace_id}/replay")
        assert number_of(third) == 3
        delete(store, "run", run.trace_id)
        History(home.directory).forget_gone(open_runs(os.environ["FREEZEFRAME_STORE"]))
        assert not list((home.directory / "replays").iterdir())
        for number in (1, 2, 3):
            await text(client, f"/replays/{number}", status=404)


async def test_a_replay_whose_run_was_deleted_by_others_is_forgotten_when_it_is_asked_for(
    home: Home, store: Store, provider: list[str]
) -> None:
    run = record(home, store)
    async with service(home) as client:
        await submit(client, await text(client, f"/runs/{run.trace_id}"), f"/runs/{run.trace_id}/replay")
    delete(store, "run", run.trace_id)
    async with service(home) as client:
        await text(client, "/replays/1", status=404)
    assert not list((home.directory / "replays").iterdir())


async def test_the_oldest_replays_make_room(home: Home, store: Store, provider: list[str]) -> None:
    """A folder that cannot be read is left out, and does no harm."""
    run = record(home, store)
    replays = home.directory / "replays"
    async with service(home) as client:
        page = await text(client, f"/runs/{run.trace_id}")
        await submit(client, page, f"/runs/{run.trace_id}/replay")
    first = replays / f"000001-{run.trace_id}"
    told = json.loads((first / "replay.json").read_text())
    for number in range(2, MAX_KEPT + 1):
        (replays / f"{number:06}-{run.trace_id}").mkdir()
        noted = {**told["noted"], "number": number}
        (replays / f"{number:06}-{run.trace_id}" / "replay.json").write_text(json.dumps({**told, "noted": noted}))
    (replays / "999-damaged").mkdir()
    async with service(home) as client:
        assert await text(client, "/replays/1")
        page = await text(client, f"/runs/{run.trace_id}")
        _, last = await submit(client, page, f"/runs/{run.trace_id}/replay")
        assert number_of(last) == MAX_KEPT + 1
    assert not first.exists()
    assert len(list(replays.glob(f"*-{run.trace_id}"))) == MAX_KEPT
