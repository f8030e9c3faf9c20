"""The pages of a replay service over a store with runs that are hard to show, open in Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import httpx
import pytest
from aiohttp import web
from browser import Chromium
from handmade_runs import conversation, make_run, model_call, moved, tool_call

from freezeframe_collector.store import Store
from freezeframe_collector.store.deleting import delete_rows
from freezeframe_redaction import TenantKey, load_policy, redact_run
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.dataset import Dataset, write_dataset
from freezeframe_replay.experiments.experiment import ExperimentResult
from freezeframe_replay.experiments.gates import Gates, check_gates
from freezeframe_replay.experiments.results import result_to_json
from freezeframe_replay.experiments.rows import ExperimentVerdict, RowResult
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.spent import Spent
from freezeframe_replay.service.app import make_app
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.span import SpanRecord

AGENT = """
import sys
import freezeframe

freezeframe.instrument()


@freezeframe.tool
def track(order):
    if order == "mislaid":
        raise LookupError(f"no such order: {order}")
    return {"order": order, "place": "Lyon"}


@freezeframe.retriever(name="handbook")
def look_up(question):
    return [{"id": "returns-1", "score": 0.91, "content": "Unused goods can be sent back within 30 days. " * 5}]


@freezeframe.run
def answer(question):
    look_up(question)
    return f"it is in {track(question.split()[-1])['place']}"


if __name__ == "__main__":
    answer(sys.argv[1])
"""
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202e</pre></body>{{7*7}}\x1b[2J"
)
MARKED = "кетцалькоатль"
"""A word that stands in one payload only, far from where a preview ends, and not in ASCII."""
ADDRESS = "mara.voss@voss-freight.de"
SESSION = "a conversation"
LISTED = 120
IN_SET = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The service and a browser that it let in."""

    origin: str
    browser: Chromium
    runs: dict[str, str]
    """Name -> trace id."""
    store: Store
    home: Home

    def open(self, path: str) -> str:
        return self.browser.visit(f"{self.origin}{path}")

    def ended(self, text: str) -> str:
        """Return the text of a replay's page once it shows what was found."""

        def is_part(text: str) -> bool:
            """On its way to the next one, a page has no text yet, or only its head."""
            message = text.partition("\n")[2].strip()
            return not message or message.endswith("System")

        while "Cancel" in text or is_part(text):
            text = self.browser.visit(self.browser.run("location.href"))
        return text

    def run(self, name: str) -> str:
        return f"/runs/{self.runs[name]}"


@contextmanager
def served(app: web.Application) -> Generator[str]:
    """Serve the application from a thread, on an ephemeral port."""
    loop, runner, started = asyncio.new_event_loop(), web.AppRunner(app, access_log=None), threading.Event()

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

    def serve() -> None:
        loop.run_until_complete(start())
        loop.call_soon(started.set)  # not before it runs for good: a stop that comes earlier is lost
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert started.wait(300)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def named(spans: list[SpanRecord], trace_id: str, *, after_s: int = 0) -> list[SpanRecord]:
    return moved(spans, trace_id, 1_790_000_000_000_000_000 + after_s * 1_000_000_000)


def redacted(*exchanges: Exchange) -> list[SpanRecord]:
    """Return a run as the collector stores it."""
    return list(redact_run(make_run(*exchanges), load_policy(), TenantKey(id="default/1", secret=b"k" * 32)))


def handmade() -> dict[str, list[SpanRecord]]:
    """Return runs with what is hard to show."""
    long = make_run(*conversation(60))
    wordy = f"{'an order of some length. ' * 40}{MARKED} was here"
    return {
        "hostile": make_run(
            model_call(HOSTILE, HOSTILE), tool_call(HOSTILE, HOSTILE, HOSTILE), question=HOSTILE, answer=HOSTILE
        ),
        "line": make_run(model_call("A" * 10_000_000, "fine")),
        "wordy": make_run(model_call("Where?", "It is in Lyon."), tool_call("track", {"place": "Lyon"}, order=wordy)),
        "other": make_run(
            model_call("Where is it?", "In Bonn. " * 30), tool_call("track", {"place": "Bonn " * 30}, order="AC-2")
        ),
        "private": redacted(
            model_call(f"Write to {ADDRESS}, please.", f"I wrote to {ADDRESS}."),
            tool_call("send", {"to": ADDRESS, "text": "two\nlines"}, ADDRESS),
        ),
        "long": [long[0].with_attributes({genai.SESSION_ID: SESSION}), *long[1:]],
        "lanes": make_run(*(tool_call("search", number, lane=(number % 3,)) for number in range(6))),
    }


def keep_results(dataset: Dataset) -> None:
    """Keep a result in a dataset as an experiment does: the second run and the last two changed."""
    changed = [number in (1, IN_SET - 2, IN_SET - 1) for number in range(IN_SET)]
    rows = [
        RowResult(
            name=row.name,
            run_id=row.run_id,
            finding=ExperimentVerdict.CHANGED if is_changed else ExperimentVerdict.SAME,
            why=HOSTILE,
            recorded=Spent(ms=9),
            spent=Spent(ms=90 if is_changed else 9),
        )
        for row, is_changed in zip(dataset.rows, changed, strict=True)
    ]
    gates = tuple(check_gates(Gates(changed=0, p95_s=1), sum(changed), [row.spent for row in rows]))
    result = ExperimentResult(dataset="week", candidate=HOSTILE, rows=tuple(rows), gates=gates)
    (dataset.directory / "results").mkdir()
    (dataset.directory / "results" / "other.json").write_text(json.dumps(result_to_json(result)))


@contextmanager
def browsed_pages(store: Store, facade_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Pages]:
    """Fill the store, serve its pages, and open a browser that is let in."""
    folder = tmp_path_factory.mktemp("project")
    home = Home(directory=folder / ".freezeframe")
    home.directory.mkdir()
    (folder / "agent.py").write_text(AGENT)
    runs: dict[str, str] = {}
    recorded: list[tuple[Fixture, str]] = []
    for name, question in (("good", "where is AC-1"), ("failed", "where is mislaid")):
        spans = folder / f"{name}.jsonl"
        environment = {**os.environ, "FREEZEFRAME_FILE": str(spans)}
        subprocess.run([sys.executable, "agent.py", question], cwd=folder, env=environment, capture_output=True, check=False)
        run = load_run_of_file(spans)
        runs[name] = run.trace_id
        recorded.append((freeze(run), HOSTILE))
        store.insert(list(run.spans), token=f"browser-{run.trace_id}")
    recorded += [(replace(recorded[0][0], run_id=f"{number:08x}" * 4), "") for number in range(IN_SET - len(recorded))]
    keep_results(write_dataset(folder / "sets" / "week", recorded, chosen_by=HOSTILE))
    for name, spans in handmade().items():
        runs[name] = random.Random(name).randbytes(16).hex()
        store.insert(named(spans, runs[name]), token=f"browser-{name}")
    listed = [
        span
        for number in range(LISTED)
        for span in named(
            [
                replace(span, resource=replace(span.resource, attributes={"service.name": "listed"}))
                for span in make_run(question=str(number))
            ],
            f"{number:030x}fe",
            after_s=number,
        )
    ]
    store.insert(listed, token="browser-listed")
    patch = pytest.MonkeyPatch()
    patch.setenv("FREEZEFRAME_STORE", facade_url)
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    try:
        with served(make_app(home)) as origin:
            link = ask_for_link(origin, bearer(read_token(home.directory, READER)))
            browser.visit(f"{origin}{link}")
            yield Pages(origin=origin, browser=browser, runs=runs, store=store, home=home)
    finally:
        browser.close()
        patch.undo()
        delete_rows(store, [f"trace_id IN {(runs['good'], runs['failed'])}"])  # the others are the same in each module


def ask_for_link(origin: str, headers: dict[str, str]) -> str:
    answer = httpx.post(f"{origin}/links", headers=headers, timeout=400)
    return str(answer.json()["link"])
