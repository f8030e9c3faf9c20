"""The pages by keyboard alone, in Chromium: from a search, an alert or a set to what was looked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browsed_pages import IN_SET, LISTED, Pages
from browser import CHROMIUM

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("warm_python"),  # programs are recorded and replayed
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)"),
]


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


def to_the_failed_run(pages: Pages) -> Walk:
    """Search, list, the transcript of the run that failed: four keys."""
    pages.open("/nowhere")
    walk = Walk(pages)
    walk.press("/")
    walk.type("mislaid")
    assert "1–1 of 1" in walk.press("Enter", loads=True)
    walk.press("j")
    assert "LookupError: no such order: mislaid" in walk.press("Enter", loads=True)
    return walk


def test_by_keys_alone_from_the_search_to_the_fixture(
    pages: Pages, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Search, list, the wrong run's transcript, its replay, its fixture."""
    walk = to_the_failed_run(pages)
    text = pages.ended(walk.press("r", loads=True))
    assert text.startswith("/replays/")
    assert "identical" in text
    assert walk.download("x", tmp_path).name == f"fixture-{pages.runs['failed']}.tar.gz"
    assert walk.end(record_property) == 6


def test_by_keys_alone_an_answer_is_changed_replayed_and_kept(
    pages: Pages, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """From the search on: what if the tool that failed had found the order?"""
    walk = to_the_failed_run(pages)
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


def test_by_keys_alone_runs_of_the_list_become_a_set(pages: Pages, record_property: Callable[[str, object], None]) -> None:
    """Two are chosen, one of them is taken back and chosen again, and the set is named."""
    pages.open("/?service=listed")
    walk = Walk(pages)
    walk.press("j", "v", "j", "v", "v")
    assert "2 chosen" in walk.press("v")
    walk.press("a")
    walk.type("by-hand")
    assert walk.press("Enter", loads=True).startswith("/sets/by-hand")
    assert pages.browser.run("document.querySelectorAll('tbody tr').length") == 2
    assert walk.end(record_property) == 8


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


def test_a_folded_range_opens_for_the_step_that_is_looked_for(pages: Pages) -> None:
    """By its address, and by keys; earlier messages open beside a call, and a key shows answers as they came."""
    step = "document.querySelector('#s51')"
    pages.browser.show_as(width=1280)
    pages.open(f"{pages.run('long')}#s51")
    assert pages.browser.run(f"{step}.closest('details').open && {step}.getClientRects().length === 1")
    pages.open(pages.run("long"))
    assert not pages.browser.run(f"{step}.closest('details').open")
    pages.browser.press("j", "j", "j", "j", "Enter")
    assert pages.browser.run("document.activeElement.parentElement.open")
    pages.browser.press("j")
    assert pages.browser.run("document.activeElement.closest('.turn').id") == "s4"
    pages.browser.run("document.querySelector('#s4 .earlier').click()")
    opened = "document.querySelector('.panel h1') !== null || new Promise(done => setTimeout(done, 50))"
    while not pages.browser.run(opened):
        pass
    assert "thought **0**" in pages.browser.run("document.querySelector('.panel').textContent")
    assert "**3**" not in pages.browser.run("document.querySelector('#s4').textContent")
    pages.browser.press("Escape")
    pages.browser.press("m", loads=True)
    assert "**3**" in pages.browser.run("document.querySelector('#s4').textContent")


def test_a_step_opens_beside_its_transcript_and_leads_to_its_neighbours(pages: Pages) -> None:
    """The transcript stays; the step's keys work; Escape closes it; the address of the step is one click away."""
    there = "document.querySelector('.panel h1')?.textContent ?? ''"

    def beside(key: str, title: str) -> str:
        pages.browser.press(key)
        shown = f"(async () => {{ while (!({there}).includes({title!r})) await new Promise(done => setTimeout(done, 5)); }})()"
        pages.browser.run(shown)
        return str(pages.browser.run("location.pathname"))

    pages.browser.show_as(width=1280)
    pages.open(pages.run("failed"))
    pages.browser.press("e")
    assert beside("Enter", "step 2, tool track") == pages.run("failed")
    assert "no such order: mislaid" in pages.browser.run("document.querySelector('.panel').textContent")
    assert beside("p", "step 1") == pages.run("failed")
    assert pages.browser.run("document.querySelector('.panel .crumbs a').pathname") == f"{pages.run('failed')}/steps/1"
    pages.browser.press("Escape")
    assert pages.browser.run("document.querySelector('.panel')") is None


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
