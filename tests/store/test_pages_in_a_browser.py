"""The replay service's pages in Chromium, over a real store: what a person clicks works, and everything can be read."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from aiohttp import web
from browser import CHROMIUM, Chromium
from handmade_runs import make_run, model_call, tool_call
from page_pictures import SHAPE, SHAPES, WIDTH

from freezeframe_collector.store import Store
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.dataset import Dataset, write_dataset
from freezeframe_replay.experiments.experiment import Finding, Result, RowResult, result_to_json
from freezeframe_replay.experiments.gates import Gates, check_gates
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.spent import Spent
from freezeframe_replay.service.app import make_app
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.lifecycle import NO_PARENT
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.span import SpanRecord

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]

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
LISTED = 120
IN_SET = 200
AGAIN = "make the pictures again: tests/support/page_pictures.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The service and a browser that it let in."""

    origin: str
    browser: Chromium
    runs: dict[str, str]
    """Name -> trace id."""
    store: Store

    def open(self, path: str) -> str:
        return self.browser.visit(f"{self.origin}{path}")

    def ended(self, text: str) -> str:
        """Return the text of a replay's page once it shows what was found."""
        while "Cancel" in text or not text.partition("\n")[2].strip():  # on its way to the next one, a page has no text yet
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
        started.set()

    def serve() -> None:
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert started.wait(60)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def named(spans: list[SpanRecord], trace_id: str, *, after_s: int = 0) -> list[SpanRecord]:
    shift = 1_790_000_000_000_000_000 + after_s * 1_000_000_000
    return [
        replace(
            span,
            trace_id=trace_id,
            start_time_unix_nano=span.start_time_unix_nano + shift,
            end_time_unix_nano=span.end_time_unix_nano + shift,
        )
        for span in spans
    ]


def handmade() -> dict[str, list[SpanRecord]]:
    """Return runs with what is hard to show."""
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
        "lanes": make_run(*(tool_call("search", number, lane=(number % 3,)) for number in range(6))),
    }


def keep_results(dataset: Dataset) -> None:
    """Keep a result in a dataset as an experiment does: the second run and the last two changed."""
    changed = [number in (1, IN_SET - 2, IN_SET - 1) for number in range(IN_SET)]
    rows = [
        RowResult(
            name=row.name,
            run_id=row.run_id,
            finding=Finding.CHANGED if is_changed else Finding.SAME,
            why=HOSTILE,
            recorded=Spent(ms=9),
            spent=Spent(ms=90 if is_changed else 9),
        )
        for row, is_changed in zip(dataset.rows, changed, strict=True)
    ]
    gates = tuple(check_gates(Gates(changed=0, p95_s=1), sum(changed), [row.spent for row in rows]))
    result = Result(dataset="week", candidate=HOSTILE, rows=tuple(rows), gates=gates)
    (dataset.directory / "results").mkdir()
    (dataset.directory / "results" / "other.json").write_text(json.dumps(result_to_json(result)))


@pytest.fixture(scope="module")
def pages(store: Store, facade_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
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
        store.insert(list(run.spans), token=f"browser-{name}")
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
            yield Pages(origin=origin, browser=browser, runs=runs, store=store)
    finally:
        browser.close()
        patch.undo()


class Walk:
    """A way through the pages by keyboard alone: how many keys beside what is typed into fields, and how many seconds."""

    def __init__(self, pages: Pages) -> None:
        self.keys = 0
        self._browser = pages.browser
        self._begun = time.monotonic()
        pages.browser.show_as(width=1280)

    def press(self, *keys: str, loads: bool = False) -> str:
        self.keys += len(keys)
        return self._browser.press(*keys, loads=loads)

    def type(self, text: str) -> None:
        self._browser.press(*text)

    def download(self, key: str, folder: Path) -> Path:
        self.keys += 1
        return self._browser.download(key, folder)

    def end(self, record_property: Callable[[str, object], None]) -> int:
        """Return how many keys it took; the seconds are noted, and decide nothing."""
        record_property("seconds", round(time.monotonic() - self._begun, 1))
        print(f"{self.keys} keys, {time.monotonic() - self._begun:.1f} s")
        return self.keys


def ask_for_link(origin: str, headers: dict[str, str]) -> str:
    answer = httpx.post(f"{origin}/links", headers=headers, timeout=400)
    return str(answer.json()["link"])


def test_a_click_on_the_button_replays_the_run(pages: Pages) -> None:
    """Chromium sends the form's Origin, so the service takes it for its own."""
    pages.open(pages.run("good"))
    text = pages.ended(pages.browser.click("form[action$=replay] button"))
    assert text.startswith("/replays/")
    assert "identical" in text


def test_a_failed_run_says_why_at_the_top(pages: Pages) -> None:
    """Status, exception, first failed step and stack stand on the first screen; a click leads to the step."""
    pages.browser.show_as(width=1280)
    text = pages.open(pages.run("failed"))
    for said in ("failed", "LookupError: no such order: mislaid", "step 2, tool track", "in track"):
        assert said in text.partition("Transcript")[0], said
    pages.browser.run("document.querySelector('.why a').click()")
    assert pages.browser.run("document.querySelector(':target').textContent.includes('no such order: mislaid')")


def test_a_word_of_a_payload_finds_its_run_and_is_shown_marked(pages: Pages) -> None:
    """Where previews are cut long before it."""
    pages.open(f"/?words={MARKED}")
    assert pages.browser.run("document.querySelectorAll('tbody tr').length") == 1
    assert pages.browser.run("document.querySelector('.snippet mark').textContent") == MARKED
    assert "It is in Lyon." in pages.browser.click("tbody a")


def test_the_list_is_sorted_and_paged_by_clicks(pages: Pages) -> None:
    """A hundred at a time, there and back, in both orders; each run once."""
    text = pages.open("/?service=listed")
    assert f"1–100 of {LISTED}" in text
    newest = pages.browser.run("document.querySelector('tbody .what .preview').textContent")
    assert newest == f'"{LISTED - 1}"'
    assert f"101–{LISTED} of {LISTED}" in pages.browser.click("[rel=next]")
    assert pages.browser.run("document.querySelector('tbody tr:last-child .what .preview').textContent") == '"0"'
    assert f"1–100 of {LISTED}" in pages.browser.click("[rel=prev]")
    assert pages.browser.run("document.querySelector('tbody .what .preview').textContent") == newest
    pages.browser.click("th a")
    assert pages.browser.run("document.querySelector('tbody .what .preview').textContent") == '"0"'
    pages.browser.click("[rel=next]")
    seen = pages.browser.run("[...document.querySelectorAll('tbody tr .what .preview')].map(cell => cell.textContent)")
    assert seen == [f'"{number}"' for number in range(100, LISTED)]


def test_the_list_is_narrowed_down_and_kept_by_a_name(pages: Pages) -> None:
    """By tool and flag, without a script too; the columns that were chosen and the view's name are there after a reload."""
    for number, name in enumerate(("other", "other", "lanes")):
        spans = [
            replace(span, resource=replace(span.resource, attributes={"service.name": "narrowed"})) for span in handmade()[name]
        ]
        pages.store.insert(named(spans, f"{number:030x}aa"), token=f"browser-narrowed-{number}")
    pages.browser.show_as(width=1280)
    pages.open("/?service=narrowed")  # other tests have runs in this store
    headers = "[...document.querySelectorAll('th')].map(cell => cell.textContent.trim())"
    pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": True}))
    try:
        pages.browser.click("#facet-tool summary", loads=False)
        pages.browser.click("#facet-tool a[href*='tool=track']")
        assert pages.browser.run("document.querySelectorAll('tbody tr').length") == 2
        pages.browser.click("#columns summary", loads=False)
        pages.browser.click("#columns a[href*='tools']")
        assert pages.browser.run(headers)[-1] == "tools"
        assert pages.browser.run("document.querySelector('tbody tr td:last-child').textContent") == "track"
        pages.browser.click("#columns summary", loads=False)
        pages.browser.click("#columns li a[aria-current]")
        assert "result" not in pages.browser.run(headers)
    finally:
        pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": False}))
    pages.browser.click("#views summary", loads=False)
    pages.browser.run("document.querySelector('#views [name=name]').focus()")
    pages.browser.press(*HOSTILE[:49])
    pages.browser.press("Enter", loads=True)
    shown = pages.browser.run(headers)
    pages.open("/")
    pages.browser.click("#views summary", loads=False)
    assert pages.browser.run("document.querySelector('#views li a').textContent") == HOSTILE[:49]
    pages.browser.click("#views li a")
    assert pages.browser.run(headers) == shown
    assert pages.browser.run("document.querySelectorAll('tbody tr').length") == 2
    pages.browser.click(".facets .chosen")
    assert pages.browser.run("document.querySelectorAll('.facets .chosen').length") == 1
    pages.browser.click("#views summary", loads=False)
    pages.browser.click("#views li button")
    assert pages.browser.run("document.querySelector('#views li')") is None


def test_a_run_that_goes_on_shows_its_new_steps_by_itself_until_it_ends(pages: Pages) -> None:
    """What was opened stays open; the page that follows a run may ask for itself, and no other page for anything."""
    trace_id = random.Random("goes on").randbytes(16).hex()
    entry, *steps = named(make_run(*(tool_call("look", number, number) for number in range(3))), trace_id)
    left_out = {genai.ENTRY_OUTPUT}
    pending = replace(
        entry,
        span_id="ab" * 8,
        parent_span_id=entry.span_id,
        end_time_unix_nano=entry.start_time_unix_nano,
        attributes={name: value for name, value in entry.attributes.items() if name not in left_out}
        | {genai.ENTRY_BEGUN: entry.parent_span_id or NO_PARENT},
    )
    cards = "document.querySelectorAll('.card').length"

    def shown(spans: list[SpanRecord], number: int) -> str:
        """Store spans; return what the page says once it shows this many steps."""
        pages.store.insert(spans, token=f"goes-on-{spans[0].span_id}")
        return str(
            pages.browser.run(f"""new Promise((tell) => {{
                const look = () => {cards} === {number} && said.textContent && tell(said.textContent);
                new MutationObserver(look).observe(document.body, {{childList: true, subtree: true}}); look(); }})""")
        )

    pages.store.insert([pending, steps[0]], token="goes-on")
    assert "It has not ended yet." in pages.open(f"/runs/{trace_id}")
    pages.browser.run("document.querySelector('details.label').open = true")
    assert shown(steps[1:2], 2) == "1 new"
    assert pages.browser.run(f"[{cards}, document.querySelector('details.label').open]") == [2, True]
    assert pages.browser.run("fetch('/').then(answer => answer.status)") == 200
    assert shown([steps[2], entry], 3) == "1 new"
    assert pages.browser.run(f"[{cards}, document.querySelector('[data-live]')]") == [3, None]
    assert "returned" in pages.browser.run("document.querySelector('.facts').textContent")
    pages.open(f"/runs/{trace_id}")
    assert pages.browser.run("fetch('/').catch(error => error.name)") == "TypeError"


def test_new_runs_come_into_the_list_that_is_followed_and_nothing_else_moves(pages: Pages) -> None:
    """The row with the focus keeps it and what was marked stays marked; a page that is not followed asks for nothing."""
    service = "followed"

    def runs(*numbers: int) -> list[SpanRecord]:
        spans = [
            span for number in numbers for span in named(make_run(question=str(number)), f"{number:030x}fa", after_s=number)
        ]
        return [replace(span, resource=replace(span.resource, attributes={"service.name": service})) for span in spans]

    def shown(number: int) -> str:
        """Store one more run; return what the page says once it has come."""
        pages.store.insert(runs(number), token=f"followed-{number}")
        return str(
            pages.browser.run(f"""new Promise((tell) => {{
                const look = () => document.getElementById("r-{number:030x}fa") && said.textContent && tell(said.textContent);
                new MutationObserver(look).observe(document.body, {{childList: true, subtree: true}}); look(); }})""")
        )

    pages.browser.show_as(width=1280)
    pages.store.insert(runs(1, 2), token="followed")
    assert "Refresh" not in pages.open(f"/?service={service}")
    assert pages.browser.run("fetch('/').catch(error => error.name)") == "TypeError"
    assert "Refresh" in pages.browser.click(".live a")
    pages.browser.press("j", "j", "c")
    assert shown(3) == "1 new"
    rows = "[...document.querySelectorAll('.runs tbody tr .what .preview')].map(cell => cell.textContent)"
    assert pages.browser.run(rows) == ['"3"', '"2"', '"1"']
    focused = "document.activeElement.closest('tr')"
    assert pages.browser.run(f"[{focused}.id, {focused}.className]") == [f"r-{1:030x}fa", "marked"]
    assert "1–3 of 3" in pages.browser.run("document.querySelector('.pager').textContent")
    assert "Follow new runs" in pages.browser.click(".live a")
    assert pages.browser.run("fetch('/').catch(error => error.name)") == "TypeError"


def test_the_columns_of_a_comparison_are_wide(pages: Pages) -> None:
    """No value column below 24 characters, no letter to a line; one below the other on a phone."""
    path = f"/diff?before={pages.runs['wordy']}&after={pages.runs['other']}"
    sizes = "[...document.querySelectorAll('del, ins')].map(value => value.getBoundingClientRect().width)"
    pages.browser.show_as(width=1280)
    pages.open(path)
    widths = pages.browser.run(sizes)
    assert len(widths) >= 4
    assert min(widths) > 24 * 8
    assert pages.browser.run("document.documentElement.scrollHeight") < 2000
    pages.browser.show_as(width=390)
    pages.open(path)
    assert min(pages.browser.run(sizes)) > 300


def test_the_pictures_of_the_docs_show_the_pages_as_they_are_laid_out_now(pages: Pages) -> None:
    """The same blocks in the same order, each where the picture has it; a block that this run lacks is left out."""
    drawn = json.loads(SHAPES.read_text(encoding="utf-8"))
    pages.browser.show_as(width=WIDTH)

    def compare(name: str) -> None:
        now = {block: (left, width) for block, left, width in pages.browser.run(SHAPE)}
        kept = {block: (left, width) for block, left, width in drawn.pop(name)}
        assert [block for block in now if block in kept] == [block for block in kept if block in now], name
        assert len(now.keys() & kept.keys()) >= 4, name
        moved = {block: (kept[block], now[block]) for block in kept if block in now and block not in (".actions", "h1")}
        for block, sides in moved.items():
            assert all(abs(one - other) <= 4 for one, other in zip(*sides, strict=True)), (name, block, sides, AGAIN)

    pages.open(pages.run("good"))
    compare("run")
    pages.open(f"{pages.run('good')}?tab=timeline")
    compare("timeline")
    pages.open(f"/diff?before={pages.runs['wordy']}&after={pages.runs['other']}")
    compare("diff")
    pages.open(pages.run("good"))
    pages.ended(pages.browser.click("form[action$=replay] button"))
    pages.browser.press("s", loads=True)
    pages.browser.press("n", loads=True)
    compare("step")
    assert not drawn, "each picture is compared"


def test_hostile_texts_stay_texts(pages: Pages) -> None:
    """Markup, scripts, direction marks, template marks and a line of 10 MB, on each page that shows them."""
    pages.browser.show_as(width=1280)
    pages.open("/sets/week")
    assert pages.browser.run("[document.scripts.length, document.images.length, document.title === 'owned']") == [1, 0, False]
    for path in ("", "?tab=timeline", "?tab=kit", "?tab=raw", "/steps/1", "/steps/2", "/fork", "/fork?step=1", "/fork?step=2"):
        text = pages.open(f"{pages.run('hostile')}{path}")
        assert pages.browser.run("[document.scripts.length, document.images.length, document.title === 'owned']") == [
            1,
            0,
            False,
        ]
        assert not {"\u202e", "\x1b", "49"}.intersection(text.split() + list(text))
    assert "<script>document.title='owned'</script>" in pages.open(f"/?words={pages.runs['hostile']}")
    text = pages.open(pages.run("line"))
    assert "all 10,000,000 characters" in text
    assert len(text) < 20_000
    assert "page 1 of 153" in pages.open(f"{pages.run('line')}/steps/1")


@pytest.mark.skipif(find_spec("axe_playwright_python") is None, reason="needs axe-core: make setup")
def test_everything_can_be_read(pages: Pages) -> None:
    """axe-core finds nothing, and no weak contrast in dark, on a phone either; nothing scrolls sideways; nothing is loaded."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    told = "found.violations.map(item => [item.id, item.nodes[0].html, item.nodes[0].failureSummary])"
    scan = f"(async () => {{ const found = await axe.run(RULES); return {told}; }})()"
    contrast = scan.replace("RULES", "{runOnly: ['color-contrast']}")  # the rest is the same in each colour
    scan = scan.replace("RULES", "")
    fits = "document.documentElement.scrollWidth <= innerWidth"
    loaded = "performance.getEntriesByType('resource').length"

    def check(screen: str) -> None:
        assert pages.browser.run(loaded) == 0, screen
        pages.browser.run(axe + "; 0")
        for width, dark in ((1280, False), (1280, True), (390, True), (390, False)):
            pages.browser.show_as(width=width, dark=dark)
            assert pages.browser.run(fits), (screen, width)
            assert pages.browser.run(contrast if dark else scan) == [], (screen, width, dark)
        pages.browser.show_as(width=1280)

    for path in (
        "/",
        f"/?words={MARKED}&since=never",
        pages.run("failed"),
        f"{pages.run('wordy')}?tab=kit",
        f"{pages.run('lanes')}?tab=timeline",
        f"{pages.run('wordy')}?tab=raw",
        f"{pages.run('wordy')}/steps/1",
        f"{pages.run('wordy')}/fork?step=2",
        f"/diff?before={pages.runs['wordy']}&after={pages.runs['other']}",
        "/nowhere",
        "/failures?since=3650d",
        "/trends?since=3650d",
        "/sql?q=SELECT+name,+count()+AS+n,+any(trace_id)+FROM+runs+GROUP+BY+name+ORDER+BY+n",
        "/sql?q=SELECT",
        "/health",
        "/sets",
        "/sets/week",
    ):
        pages.browser.show_as(width=1280)
        pages.open(path)
        pages.browser.run("document.querySelectorAll('.facets details').forEach((part) => part.open = true)")
        check(urlsplit(path).path)
    pages.browser.press("?")
    check("the keys")
    pages.open(f"{pages.run('good')}/fork?step=2")
    pages.browser.run("document.getElementById('text').value = '[]'")
    assert "a fork of" in pages.ended(pages.browser.click(".edit button"))
    check("a fork")
    pages.browser.press("s", loads=True)
    check("a call of a replay")


def test_the_colours_that_a_reader_chooses_stay_without_a_script(pages: Pages) -> None:
    """A click on the switch shows the same page in the colours, as all others after it, whatever the machine is set to."""
    ground, pressed = "getComputedStyle(document.body).backgroundColor", "[aria-pressed=true]"
    path = f"{pages.run('wordy')}?tab=kit"
    pages.browser.show_as(width=1280)
    try:
        pages.open(path)
        light = pages.browser.run(ground)
        pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": True}))
        pages.browser.click(".theme [value=dark]")
        assert pages.browser.run("location.pathname + location.search") == path
        dark = pages.browser.run(ground)
        assert dark != light
        pages.open("/nowhere")
        assert pages.browser.run(f"[{ground}, document.querySelector('{pressed}').value]") == [dark, "dark"]
        pages.browser.show_as(width=1280, dark=True)
        pages.browser.click(".theme [value=light]")
        assert pages.browser.run(ground) == light
        pages.browser.click(".theme [value=system]")
        assert pages.browser.run(ground) == dark
    finally:
        pages.browser.show_as(width=1280)


def test_without_a_script_a_run_is_read_replayed_and_stepped_through(pages: Pages) -> None:
    """By clicks alone: the list, a run's tabs, a replay that is waited for, and back and forth in it."""
    pages.browser.show_as(width=1280)
    pages.open("/nowhere")
    try:
        pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": True}))
        assert "LookupError" in pages.open(f"/?words={pages.runs['failed']}")
        pages.browser.click("tbody .what a")
        for tab, said in (
            ("timeline", "track"),
            ("kit", "what adds it"),
            ("raw", "spans as stored"),
            ("transcript", "returns-1"),
        ):
            assert said in pages.browser.click(f'.tabs a[href="?tab={tab}"]'), tab
        assert "identical" in pages.ended(pages.browser.click("form[action$=replay] button"))
        pages.browser.click("a.button")
        assert "'where is mislaid'" in pages.browser.click("[rel=next]")
        assert "Before call 1 of 2" in pages.browser.click("[rel=prev]")
        assert "answer" in pages.open("/sql?q=SELECT+name+FROM+runs+LIMIT+1")
    finally:
        pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": False}))


def test_a_button_copies_what_it_stands_by(pages: Pages) -> None:
    """The whole id of the run, the command that replays it, and a body as the page shows it; without a script there is none."""
    grant = ("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})

    def copied(name: str) -> str:
        # one command: what is granted ends with the connection
        return str(
            pages.browser.do(
                grant,
                run=f"""(async () => {{
                    const button = document.querySelector('[aria-label="Copy the {name}"]');
                    const done = new Promise((tell) => new MutationObserver(tell).observe(button, {{childList: true}}));
                    button.click(); await done; return await navigator.clipboard.readText(); }})()""",
            )
        )

    pages.open(pages.run("good"))
    assert copied("run id") == pages.runs["good"]
    assert copied("command") == f"freezeframe replay {pages.runs['good'][:12]}"
    pages.open(f"{pages.run('good')}/steps/2")
    assert copied("response") == pages.browser.run("document.getElementById('response-text').textContent")
    assert "Copy" not in httpx.get(f"{pages.origin}/nowhere", timeout=400).text.partition("<script>")[0]


def test_by_keys_alone_from_the_search_to_the_fixture(
    pages: Pages, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Search, list, the wrong run's transcript, its replay, its fixture."""
    pages.open("/nowhere")
    walk = Walk(pages)
    walk.press("/")
    walk.type("mislaid")
    assert "1–1 of 1" in walk.press("Enter", loads=True)
    walk.press("j")
    assert "LookupError: no such order: mislaid" in walk.press("Enter", loads=True)
    text = pages.ended(walk.press("r", loads=True))
    assert text.startswith("/replays/")
    assert "identical" in text
    assert walk.download("x", tmp_path).name == f"fixture-{pages.runs['failed']}.tar.gz"
    assert walk.end(record_property) == 6


def test_by_keys_alone_an_answer_is_changed_replayed_and_kept(
    pages: Pages, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """From the search on: what if the tool that failed had found the order?"""
    pages.open("/nowhere")
    walk = Walk(pages)
    walk.press("/")
    walk.type("mislaid")
    walk.press("Enter", loads=True)
    walk.press("j")
    walk.press("Enter", loads=True)
    walk.press("e")
    text = walk.press("f", loads=True)
    assert "What if step 2, tool track had answered" in text
    walk.press("Control+a")
    walk.type('{"place": "Bonn"}')
    text = pages.ended(walk.press("Control+Enter", loads=True))
    assert "asked for as recorded" in text and 'returned "it is in Bonn"' in text
    assert walk.download("x", tmp_path).name.startswith("fork-")
    assert walk.end(record_property) == 9


def test_by_keys_alone_from_200_runs_of_a_set_to_the_three_that_a_candidate_changes(
    pages: Pages, record_property: Callable[[str, object], None]
) -> None:
    """Another two keys open the first of them."""
    rows = "document.querySelectorAll('tbody tr').length"
    assert "exceeded, 3 of 0" in pages.open("/sets/week")
    assert pages.browser.run(rows) == IN_SET
    walk = Walk(pages)
    walk.press("]", loads=True)
    assert pages.browser.run(rows) == 3
    walk.press("j")
    assert walk.press("Enter", loads=True).startswith(pages.run("failed"))
    assert walk.end(record_property) == 3


def test_from_a_question_in_sql_to_the_run_it_found(pages: Pages) -> None:
    """Typed, asked by keys, and its id clicked."""
    pages.open("/sql")
    pages.browser.press(*f"SELECT trace_id FROM runs WHERE trace_id = '{pages.runs['failed']}'")
    assert "1 row" in pages.browser.press("Control+Enter", loads=True)
    assert "LookupError: no such order: mislaid" in pages.browser.click(".answer td a")


def test_a_plot_is_read_and_a_range_of_it_selected_by_keys_and_by_mouse(pages: Pages) -> None:
    """Without a script it is drawn all the same."""
    query = "SELECT number AS place, number * 2 AS height, 1 AS failed FROM numbers(1, 10)"
    shown = "[...document.querySelectorAll('.answer tbody tr')].filter(row => !row.hidden).map(row => row.cells[0].textContent)"
    pages.browser.show_as(width=1280)
    pages.open(f"/sql?{urlencode({'q': query})}")
    assert pages.browser.run("[...document.querySelectorAll('.levels span')].map(level => level.textContent)") == [
        "20",
        "10",
        "0",
    ]
    assert pages.browser.run("document.querySelectorAll('svg.plot rect:not(.cursor)').length") == 20
    pages.browser.run("document.querySelector('svg.plot').focus()")
    pages.browser.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert pages.browser.run("said.textContent") == "3: height 6, failed 1"
    assert len(pages.browser.run(shown)) == 10
    pages.browser.press("Shift+ArrowRight", "Shift+ArrowRight")
    assert pages.browser.run(shown) == ["3", "4", "5"]
    pages.browser.press("Escape")
    assert len(pages.browser.run(shown)) == 10
    left, top, width = pages.browser.run("""(() => { const box = document.querySelector('svg.plot').getBoundingClientRect();
        return [box.x, box.y + 50, box.width]; })()""")
    for what, place in (("Pressed", 0.15), ("Moved", 0.35), ("Released", 0.35)):
        spot = {"x": left + width * place, "y": top, "button": "left", "buttons": 1, "clickCount": 1}
        pages.browser.do(("Input.dispatchMouseEvent", {"type": f"mouse{what}", **spot}))
    assert pages.browser.run(shown) == ["2", "3", "4"]


def test_names_of_tables_and_columns_are_completed_in_sql(pages: Pages) -> None:
    """Tables after FROM, else columns of the tables that are named; Tab takes the first, Escape none, then leaves the field."""
    offered = "[...document.querySelectorAll('.offers button')].map(button => button.textContent)"
    question = "document.querySelector('[name=q]').value"
    pages.open("/sql")
    pages.browser.press(*"SELECT 1 FROM retr")
    assert pages.browser.run(offered) == ["retrievals"]
    pages.browser.press("Tab", *" WHERE embe")
    assert pages.browser.run(f"[{offered}, {question}]") == [["embedding_version"], "SELECT 1 FROM retrievals WHERE embe"]
    pages.browser.press("Escape")
    assert pages.browser.run(f"[{offered}.length, document.activeElement.tagName]") == [0, "TEXTAREA"]
    pages.browser.press("Escape")
    assert pages.browser.run("document.activeElement.tagName") == "BODY"


def test_by_keys_alone_from_the_id_of_a_run_to_the_variables_of_its_failed_step(
    pages: Pages, record_property: Callable[[str, object], None]
) -> None:
    """Search for the id of an alert, open the run, replay it, step through it to the call that failed."""
    pages.open("/nowhere")
    walk = Walk(pages)
    walk.press("/")
    walk.type(pages.runs["failed"])
    walk.press("Enter", loads=True)
    walk.press("j")
    walk.press("Enter", loads=True)
    assert "identical" in pages.ended(walk.press("r", loads=True))
    walk.press("s", loads=True)
    text = walk.press("n", loads=True)
    assert "Before call 2 of 2: tool track" in text
    assert "question" in text and "'where is mislaid'" in text
    assert "LookupError: no such order: mislaid" in text
    assert walk.end(record_property) == 7
    assert "Before call 1 of 2: retrieval handbook" in walk.press("p", loads=True)


def test_keys_go_through_the_rows_of_each_page(pages: Pages) -> None:
    """Runs, parts of the transcript, spans; the failed ones, the tabs, the steps, and up again."""
    here = "document.activeElement.closest('tr, .turn, .card').textContent"
    pages.browser.show_as(width=1280)
    pages.open("/?service=listed")
    for keys, number in (("j", LISTED - 1), ("jj", LISTED - 3), ("k", LISTED - 2)):
        pages.browser.press(*keys)
        assert f'"{number}"' in pages.browser.run(here)
    pages.browser.press("c", "j")
    text = pages.browser.press("c", loads=True)
    assert text.startswith("/diff") and f"{LISTED - 2:030x}"[:12] in text
    pages.open(pages.run("failed"))
    pages.browser.press("e")
    assert "no such order: mislaid" in pages.browser.run(here)
    assert pages.browser.press("]", loads=True).startswith(pages.run("failed"))
    assert pages.browser.run("location.search") == "?tab=timeline"
    pages.browser.press("e", "e")  # the entry point failed first
    assert "track" in pages.browser.run(here)
    assert pages.browser.press("Enter", loads=True).startswith(f"{pages.run('failed')}/steps/2")
    assert pages.browser.press("p", loads=True).startswith(f"{pages.run('failed')}/steps/1")
    assert pages.browser.press("u", loads=True).startswith(f"{pages.run('failed')}\n")


def test_letters_in_a_field_and_keys_switched_off_do_nothing(pages: Pages) -> None:
    """The help says what the keys do and switches them off; it opens by a key and by a click, and closes by Escape."""
    focused = "document.activeElement.tagName"
    opened = "document.getElementById('keys').open"
    pages.open("/?service=listed")
    pages.browser.press("/", "j", "?")
    assert pages.browser.run("[document.activeElement.value, " + opened + "]") == ["j?", False]
    pages.browser.press("Escape")
    assert pages.browser.run(focused) == "BODY"
    pages.browser.press("?")
    assert pages.browser.run(opened)
    try:
        pages.browser.run("document.querySelector('#keys input').click()")
        pages.browser.run("document.querySelector('#keys form').requestSubmit()")
        pages.browser.press("j")
        assert pages.browser.run(focused) != "A"
    finally:
        pages.browser.run("localStorage.clear()")
    pages.browser.press("j")
    assert pages.browser.run(focused) == "A"
