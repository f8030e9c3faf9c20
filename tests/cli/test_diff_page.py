"""`freezeframe diff --html` writes one page that loads nothing, runs nothing, and shows changes, cost and time."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.compare import WHOLE
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.report.align import compare_runs
from freezeframe_replay.web.comparison import comparison_page
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.prices import list_prices, price_of
from freezeframe_schemas.run import build_run

NASTY = '<script>alert(1)</script><img src="https://evil.example/x">'
START_NS = 1_795_000_000_000_000_000


class Page(HTMLParser):
    """What a page contains: its tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def priced(prompt: str, said: str, model: str) -> Exchange:
    """Return a call of a model that has a list price, with its tokens."""
    call = model_call(prompt, said, model=model)
    body: dict[str, Any] = {
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": said}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    }
    return replace(
        call, response=replace(call.response, chunks=(replace(call.response.chunks[0], data=json.dumps(body).encode()),))
    )


def recorded(*exchanges: Exchange, run: str, answer: str) -> Fixture:
    """Return a recent run."""
    fixture = freeze(build_run(make_run(*exchanges, answer=answer)))
    steps = tuple(
        replace(step, exchange=replace(step.exchange, start_time_unix_nano=START_NS, end_time_unix_nano=START_NS + 7_000_000))
        for step in fixture.steps
    )
    return replace(fixture, run_id=run * 16, steps=steps)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    one = recorded(priced("a", NASTY, "gpt-4o-mini"), tool_call("track", "Lyon", "AC-1"), run="ab", answer=NASTY)
    other = recorded(priced("a", "b", "gpt-4o"), tool_call("track", "Bonn", "AC-2"), run="cd", answer="Bonn")
    write_fixture(one, tmp_path / "one")
    write_fixture(other, tmp_path / "other")
    return str(tmp_path / "one"), str(tmp_path / "other")


def test_the_page_loads_nothing_and_runs_nothing(runs: tuple[str, str], tmp_path: Path) -> None:
    assert main(["diff", *runs, "--html", str(tmp_path / "out.html")]) == 3
    page = Page((tmp_path / "out.html").read_text())
    tags = {tag for tag, _ in page.tags}
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "form"})
    assert not any(name in ("src", "href") or name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "<script>alert(1)</script>" in page.text, "shown as text"
    policies = [attributes["content"] for tag, attributes in page.tags if tag == "meta" and "http-equiv" in attributes]
    assert policies[0] is not None and policies[0].startswith("default-src 'none'; img-src data:; style-src 'sha256-")


def test_the_page_tells_arguments_results_outcome_cost_and_time(runs: tuple[str, str], tmp_path: Path) -> None:
    main(["diff", *runs, "--html", str(tmp_path / "out.html")])
    text = Page((tmp_path / "out.html").read_text()).text
    for told in ("AC-1", "AC-2", "Lyon", "Bonn", "gpt-4o-mini → gpt-4o", "$0.00021 → $0.0035", "7.0 ms", "Outcome"):
        assert told in text, told


def test_ids_that_each_answer_makes_anew_are_only_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first difference is then the first one that says something."""
    for name, place in (("one", "Lyon"), ("other", "Bonn")):
        function = {"name": "track", "arguments": "{}"}
        message = {"role": "assistant", "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}]}
        call = model_call("a", "b", model="gpt-4o")
        data = json.dumps({"model": "gpt-4o", "choices": [{"index": 0, "message": message}]}).encode()
        asks = replace(call, response=replace(call.response, chunks=(replace(call.response.chunks[0], data=data),)))
        write_fixture(recorded(asks, tool_call("track", place), run=name[0] * 2, answer=place), tmp_path / name)
    runs = [str(tmp_path / "one"), str(tmp_path / "other")]
    assert main(["diff", *runs]) == 3
    folded = capsys.readouterr().out
    assert folded.startswith("different: first at step 2") and "call_other" not in folded
    assert "varies by itself: 1 field\n" in folded


def test_no_line_is_wider_than_the_terminal(
    runs: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures that do not fit beside a step stand below it."""
    monkeypatch.setenv("COLUMNS", "80")
    main(["diff", *runs])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("        gpt-4o-mini > gpt-4o  1,000+100 tokens") for line in lines)


def test_text_and_json_tell_the_cost_too(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["diff", *runs])
    assert "$0.00021 > $0.0035" in capsys.readouterr().out
    main(["diff", *runs, "--json"])
    pair = json.loads(capsys.readouterr().out)["pairs"][0]
    assert (pair["before"]["cost_usd"], pair["after"]["cost_usd"]) == (pytest.approx(0.00021), pytest.approx(0.0035))


def test_a_page_that_cannot_be_written_says_so(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *runs, "--html", str(tmp_path / "no" / "folder.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_prices_are_those_that_a_store_begins_with() -> None:
    """None of the rows of the table's own SQL is left out."""
    from importlib.resources import files

    sql = files("freezeframe_schemas").joinpath("sql", "0001_tables.sql").read_text()
    assert len(list_prices()) == sql.count("00:00:00'")
    newest = max(price.valid_from for price in list_prices())
    mini, whole = (price_of(model, newest) for model in ("gpt-4o-mini-2024-07-18", "gpt-4o-2024-11-20"))
    assert mini is not None and whole is not None and mini.prefix == "gpt-4o-mini" and whole.prefix == "gpt-4o"
    assert price_of("homegrown-7b", newest) is None


def test_a_run_beside_itself_is_alike(runs: tuple[str, str]) -> None:
    from freezeframe_schemas.fixture import load_fixture

    fixture = load_fixture(Path(runs[0]))
    assert compare_runs(fixture, fixture).alike


def test_equal_steps_in_a_row_are_folded_and_the_changed_one_is_open() -> None:
    """Words that differ are marked in it."""
    before, after = (
        recorded(*(tool_call("find", n, of=f"{who} {n}" if n == 5 else n) for n in range(9)), run="ab" * 16, answer="x")
        for who in ("Ann at home", "Bob at home")
    )
    page = comparison_page(compare_runs(before, after))
    assert [line.partition("<summary>")[2].partition("<")[0] for line in page.splitlines() if "<summary>" in line] == [
        "5 steps are the same"
    ]
    assert page.partition("</details>")[2].count('<li class="same">') == 3
    assert "<b>Ann</b> at home 5" in page and "<b>Bob</b> at home 5" in page


def test_what_varies_by_itself_is_folded_and_not_called_a_change() -> None:
    runs = [recorded(tool_call("track", {"ticket": ticket}, "AC-1"), run="ab", answer="Lyon") for ticket in ("t-1", "t-2")]
    page = Page(comparison_page(compare_runs(*runs, varying={("tool", "track", "answered", "$.result.ticket")})))
    assert "They differ only in what varies by itself." in page.text
    assert "varies by itself: 1 field" in page.text and "says the same" in page.text
    assert ("details", {"class": "part varies"}) in page.tags


def test_of_long_texts_all_that_differs_is_shown_and_the_whole_texts_are_a_click_away() -> None:
    """At the beginning, in the middle and at the end; lines stay lines; in the file, too."""
    words = " ".join(f"and so on {number:x}" for number in range(300))
    texts = [
        f"{name} asks.\n{words} {place} {words} {end}"
        for name, place, end in (("Ann", "Lyon", "now"), ("Bob", "Bonn", "later"))
    ]
    runs = [recorded(tool_call("track", text), run="ab", answer="x") for text in texts]
    page = comparison_page(compare_runs(runs[0], runs[1], context=WHOLE))
    shown, _, whole = page.partition("<summary>Whole texts</summary>")
    assert [[*re.findall(r"<b>(.*?)</b>", side)] for side in shown.rpartition("<del>")[2].split("<ins>")] == [
        ["Ann", "Lyon", "now"],
        ["Bob", "Bonn", "later"],
    ]
    assert "</b> asks.\nand so on" in shown and len(shown.rpartition("<del>")[2]) < 1500
    assert all(html.escape(text) in whole for text in texts)
