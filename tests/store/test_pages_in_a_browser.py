"""The replay service's pages in Chromium, over a real store: what a person clicks works, and everything can be read."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx
import pytest
from browsed_pages import ADDRESS, HOSTILE, LISTED, MARKED, SESSION, Pages, handmade, named
from browser import CHROMIUM, Command
from handmade_runs import make_run, model_call, tool_call
from page_pictures import SHAPE, SHAPES, WIDTH

from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import NO_PARENT
from freezeframe_schemas.span import SpanRecord, StatusCode

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("warm_python"),  # programs are recorded and replayed
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)"),
]

SCREEN = """
(() => {
  const main = document.querySelector("main");
  const shown = part => part && part.getClientRects().length;
  const blocks = ["nav", "form", ".strip", ".facts", ".tabs", ".facets", ".why", ".transcript", ".turn", ".said", ".card",
    ".beside", ".timeline", ".timeline .bar", ".lanes", "textarea", "table", ".runs .what", ".runs td.preview",
    ".failures .what", ".grid td", ".pairs", ".pairs .part", ".pairs del", ".pairs ins", "aside", ".plot", ".pager",
    "form.pick"];
  const found = blocks.map(name => [name, main.querySelector(name)]).filter(([, part]) => shown(part));
  const side = (number) => Math.round(number / innerWidth * 100);
  const boxes = found.map(([name, part]) => [name, part.getBoundingClientRect()]);
  const texts = [...main.querySelectorAll("h1, h2, h3, th, button, label")].filter(shown);
  const said = texts.map(part => part.innerText.replace(/[0-9a-f]{8,12}|[0-9.,]+/g, "0").split("\\n")[0].trim());
  return [boxes.map(([name, box]) => [name, side(box.left), side(box.width)]), [...new Set(said)].filter(Boolean)];
})()
"""
"""Gives the blocks of a page, where each begins and how wide it is in percent of the page; and its headings and controls."""
AGAIN = "make the pictures again: tests/support/page_pictures.py"


def screens(pages: Pages) -> dict[str, str]:
    """Return name -> address, of those that look the same whatever else is in the store."""
    return {
        "runs": "/?service=listed",
        "runs, with a wrong filter": f"/?words={MARKED}&since=never",
        "a run that failed": pages.run("failed"),
        "a run": pages.run("private"),
        "a kit": f"{pages.run('wordy')}?tab=kit",
        "a timeline": f"{pages.run('lanes')}?tab=timeline",
        "raw": f"{pages.run('private')}?tab=raw",
        "a step": f"{pages.run('private')}/steps/1",
        "a change": f"{pages.run('wordy')}/fork?step=2",
        "two runs": f"/diff?before={pages.runs['wordy']}&after={pages.runs['other']}",
        "failures": "/failures?since=3650d",
        "an answer": "/sql?q=SELECT+number+AS+place,+number+*+2+AS+height+FROM+numbers(1,+10)",
        "sets": "/sets",
        "a set": "/sets/week",
    }


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


def test_a_word_that_is_only_in_the_status_of_a_failed_span_finds_its_run(pages: Pages) -> None:
    """The second of two failures; the list shows the first one's message."""
    entry, *steps = make_run(tool_call("pay", 1, 1), tool_call("pay", 2, 2))
    failed = [
        replace(span, status_code=StatusCode.ERROR, status_message=f"card {word}")
        for span, word in zip(steps, ("expired", "Overdrawn"), strict=True)
    ]
    pages.store.insert(named([entry, *failed], "5747" * 8), token="browser-status")
    pages.open(f"/?{urlencode({'words': 'overdrawn'})}")
    assert pages.browser.run("document.querySelectorAll('tbody tr').length") == 1
    assert pages.browser.run("document.querySelector('.snippet').textContent") == "card Overdrawn"


def test_words_of_a_long_body_are_found_without_a_script(pages: Pages) -> None:
    """On the page of the body that has them, marked; the next hit is a click away."""
    filler = "nothing to see here. " * 20_000
    spans = make_run(model_call(f"{filler}the Überseequartier{filler}of Überseequartier", "fine"))
    pages.store.insert(named(spans, "f19d" * 8), token="browser-find")
    pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": True}))
    try:
        pages.open(f"/runs/{'f19d' * 8}/steps/1")
        pages.browser.run("document.querySelector('#request [name=find]').focus()")
        pages.browser.press(*"überseeQuartier")
        assert "2 found" in pages.browser.press("Enter", loads=True)
        marked = "[...document.querySelectorAll('pre mark')].map(found => found.textContent).join()"
        assert pages.browser.run(marked).lower().count("seequartier") == 1
        pages.browser.click(".hits li:nth-child(2) a")
        assert pages.browser.run("document.querySelector(':target').matches('pre mark#request-hit-2')")
    finally:
        pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": False}))


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
    assert shown([steps[2], entry], 3) == "1 new"
    assert pages.browser.run(f"[{cards}, document.querySelector('[data-live]')]") == [3, None]
    assert "returned" in pages.browser.run("document.querySelector('.facts').textContent")


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
    assert "Refresh" in pages.browser.click(".live a")
    pages.browser.press("j", "j", "c")
    assert shown(3) == "1 new"
    rows = "[...document.querySelectorAll('.runs tbody tr .what .preview')].map(cell => cell.textContent)"
    assert pages.browser.run(rows) == ['"3"', '"2"', '"1"']
    focused = "document.activeElement.closest('tr')"
    assert pages.browser.run(f"[{focused}.id, {focused}.className]") == [f"r-{1:030x}fa", "marked"]
    assert "1–3 of 3" in pages.browser.run("document.querySelector('.pager').textContent")
    assert "Follow new runs" in pages.browser.click(".live a")


def test_a_body_folds_and_a_part_too_long_for_the_page_is_a_click_away(pages: Pages) -> None:
    """Without a script; what is copied is the JSON all the same."""
    messages = [{"role": "user", "content": f"message {number}\n{'and so on ' * 200}"} for number in range(60)]
    call = model_call("", "yes")
    body = json.dumps({"model": "gpt-x", "messages": messages}).encode()
    spans = make_run(replace(call, request=replace(call.request, body=body)))
    pages.store.insert(named(spans, "f01d" * 8), token="browser-folded")
    pages.browser.show_as(width=1280)
    pages.open(f"/runs/{'f01d' * 8}/steps/1")
    pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": True}))
    try:
        height = "document.querySelector('#request-text').getBoundingClientRect().height"
        was = pages.browser.run(height)
        pages.browser.click("#request-text summary", loads=False)
        assert pages.browser.run(height) < was / 4
        pages.browser.click("#request-text summary", loads=False)
        part = "a[href$='/messages/7/content']"
        pages.browser.click(f"#request-text details:has(> {part}) > summary", loads=False)
        pages.browser.click(f"#request-text {part}")
        assert pages.browser.run("document.querySelector('#request-text').innerText").startswith("message 7\nand so on")
    finally:
        pages.browser.do(("Emulation.setScriptExecutionDisabled", {"value": False}))


def test_views_that_cannot_be_read_are_named_above_the_list(pages: Pages) -> None:
    """And the file stays as it is."""
    file = pages.home.directory / "views.json"
    file.write_text("{")
    try:
        text = pages.open("/?service=listed")
        assert f"{file}: not in the format freezeframe-views/1" in text and "fix the file, or remove it" in text
        assert f"1–100 of {LISTED}" in text
        assert pages.browser.run("document.getElementById('views')") is None
        assert file.read_text() == "{"
    finally:
        file.unlink()


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


def test_each_screen_is_laid_out_as_its_golden_one(pages: Pages) -> None:
    """On a screen and on a phone: its blocks where they were, give or take the fonts of a machine, with the same headings.

    If a page was changed on purpose, write them anew with ``UPDATE_GOLDEN=1``, look at the pages, and read the diff.
    """
    file = Path(__file__).parents[1] / "golden" / "screens.json"
    drawn: dict[str, list[list[Any]]] = {}
    for name, path in screens(pages).items():
        pages.browser.show_as(width=1280)
        pages.open(path)
        for width in (1280, 390):
            pages.browser.show_as(width=width)
            drawn[f"{name}, {width}"] = pages.browser.run(SCREEN)
    if os.environ.get("UPDATE_GOLDEN"):
        lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in drawn.items()]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    golden = json.loads(file.read_text(encoding="utf-8"))
    assert golden.keys() == drawn.keys()
    for name, (blocks, said) in golden.items():
        assert drawn[name][1] == said, name
        now = {block: sides for block, *sides in drawn[name][0]}
        assert now.keys() == {block for block, *_ in blocks}, name
        for block, *sides in blocks:
            assert all(abs(one - other) <= 5 for one, other in zip(sides, now[block], strict=True)), (
                name,
                block,
                sides,
                now[block],
            )


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
    """axe-core finds nothing, and no weak contrast in dark on a phone; nothing scrolls sideways; nothing is loaded."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    told = "found.violations.map(item => [item.id, item.nodes[0].html, item.nodes[0].failureSummary])"
    scan = f"(async () => {{ const found = await axe.run(RULES); return {told}; }})()"
    told_of = "resultTypes: ['violations']"  # a selector for each part without a fault is most of the work
    contrast = scan.replace("RULES", f"{{runOnly: ['color-contrast'], {told_of}}}")  # the rest is the same in each colour
    scan = scan.replace("RULES", f"{{{told_of}}}")
    fits = "document.documentElement.scrollWidth <= innerWidth"
    loaded = "performance.getEntriesByType('resource').length"
    # axe-core takes seconds for two hundred rows that are all made alike
    alike = "document.querySelectorAll(':is(tr, li, option, code):nth-of-type(n + 7)').forEach((part) => part.remove())"

    def check(screen: str) -> None:
        assert pages.browser.run(loaded) == 0, screen
        pages.browser.run(axe + "; 0")
        for width, dark in ((1280, False), (390, True)):
            pages.browser.show_as(width=width, dark=dark)
            assert pages.browser.run(fits), (screen, width)
            if not dark:
                pages.browser.run(alike)
            assert pages.browser.run(contrast if dark else scan) == [], (screen, width, dark)
        pages.browser.show_as(width=1280)

    more = (pages.run("long"), f"/sessions/{quote(SESSION)}")
    for path in ("/", "/nowhere", "/sql?q=SELECT", "/health", *more, *screens(pages).values()):
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


def test_surrogates_are_tinted_with_their_class_wherever_a_text_of_the_run_has_one(pages: Pages) -> None:
    """In the transcript, bodies as trees and raw spans; nothing else is, and no run without surrogates has any."""
    tinted = "[...document.querySelectorAll('i[title]')].map(found => [found.title, found.textContent])"
    for path, least in (("", 4), ("/steps/1", 2), ("/steps/2", 2), ("?tab=raw", 2)):
        pages.open(f"{pages.run('private')}{path}")
        found = pages.browser.run(tinted)
        assert len(found) >= least, path
        assert {title for title, _ in found} == {"surrogate: EMAIL"}
        (surrogate,) = {text for _, text in found}
        assert surrogate not in (ADDRESS, "")
    pages.open(pages.run("wordy"))
    assert pages.browser.run(tinted) == []


def test_times_are_the_readers_and_without_a_script_utc(pages: Pages) -> None:
    """The start of a run, and how long ago it was; the instant in UTC stays in the title."""
    spans = named(make_run(tool_call("look", 1, 1)), "713e" * 8)
    pages.store.insert(spans, token="browser-time")
    found = "[...document.querySelectorAll('.facts time, .runs time')].map(time => [time.textContent, time.title])"

    def times(path: str, *commands: Command) -> list[list[str]]:
        # one command: the zone ends with the connection
        page = ("Page.navigate", {"url": f"{pages.origin}{path}"})
        return pages.browser.do(*commands, page, run=found, until=("Page.loadEventFired", {}))

    utc = dt.datetime.fromtimestamp(spans[0].start_time_unix_nano // 10**9, dt.UTC)
    there = utc.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30)))
    both = f"{utc:%Y-%m-%d %H:%M:%S} UTC", f"{there:%Y-%m-%d %H:%M:%S} GMT+5:30"
    kolkata = ("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    assert times(f"/runs/{'713e' * 8}", kolkata) == [[both[1], both[0]]]
    ((_, title),) = times(f"/?words={'713e' * 8}", kolkata)
    assert title == f"{both[1]}, {both[0]}"
    off = ("Emulation.setScriptExecutionDisabled", {"value": True})
    assert times(f"/runs/{'713e' * 8}", kolkata, off) == [[both[0], both[0]]]


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
        assert "answer" in pages.open(f"/sql?q=SELECT+name+FROM+runs+WHERE+trace_id='{pages.runs['failed']}'")
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
