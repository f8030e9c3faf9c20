"""A search finds the words that a page shows, however the stored text escapes them, with and without the index."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from handmade_runs import make_run, model_call

from freezeframe_collector.store import Store
from freezeframe_collector.store.retention import enable_search
from freezeframe_replay.sources.run_list import RunQuery, find_runs
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas import genai

pytestmark = pytest.mark.long
DATABASE = "of_words"
LONG = " and so on" * 20
"""Makes the text a piece; without it, it stays in the template."""
SAID = "Dear Müller,\nrefused:\tfourteen café–orders in C:\\net\\users\\new & <b>ÜBER</b> \U0001f600happy snake_case 日本語です"
WORDS = (
    *(
        "Müller",
        "müller",
        "refused",
        "fourteen",
        "café",
        "CAFÉ",
        "orders",
        "net",
        "users",
        "new",
        "über",
        "happy",
        "case",
        "日本",
    ),
    *("dear refused", "orders café", "snake_case", "C:\\net"),
)
NOT_SAID = ("mull", "refuse", "caf", "nrefuse", "appy", "amp", "d83d", "日中", "dear nobody")


def escaped(text: str) -> bytes:
    return json.dumps({"text": text}).encode()


def unescaped(text: str) -> bytes:
    return json.dumps({"text": text}, ensure_ascii=False).encode()


def in_json(text: str) -> bytes:
    """As the arguments of a tool call are sent."""
    return json.dumps({"arguments": escaped(text).decode()}).encode()


FORMS: tuple[Callable[[str], bytes], ...] = (escaped, unescaped, in_json)


@pytest.fixture(scope="module", params=["scanned", "indexed"])
def searched(store: Store, request: pytest.FixtureRequest) -> Iterator[tuple[Store, set[str]]]:
    """A database of runs that said it, one for each way to write it down, and of one that did not; the ids of the former."""
    made = Store(store.engine, database=f"{DATABASE}_{request.param}")
    made.migrate()
    span, *_ = make_run(model_call("where?", "there"))
    bodies = [form(text) for form in FORMS for text in (SAID, SAID + LONG)]
    noise = random.Random(7).randbytes(3000)
    for number, body in enumerate([*bodies, escaped("something else"), noise]):
        run = replace(span, trace_id=f"{number:032x}", attributes={genai.REQUEST_BODY: body})
        made.insert([run], token=str(number))
    if request.param == "indexed":
        enable_search(made)
    yield made, {f"{number:032x}" for number in range(len(bodies))}
    store.engine.command(f"DROP DATABASE {made.database}")


def found(store: Store, words: str) -> dict[str, str]:
    _, rows = store.query(f"SELECT trace_id, snippet FROM {store.database}.search(words = {{w:String}})", {"w": words})
    return {str(trace_id): str(snippet) for trace_id, snippet in rows}


@pytest.mark.proof
@pytest.mark.parametrize("words", WORDS)
def test_what_is_on_the_screen_is_found(searched: tuple[Store, set[str]], words: str) -> None:
    store, saying = searched
    assert found(store, words).keys() == saying


@pytest.mark.proof
@pytest.mark.parametrize("words", NOT_SAID)
def test_what_is_not_there_is_not_found(searched: tuple[Store, set[str]], words: str) -> None:
    assert found(searched[0], words) == {}


@pytest.mark.parametrize("words", ["Müller", "日本"])
def test_a_snippet_shows_the_word(searched: tuple[Store, set[str]], words: str) -> None:
    store, saying = searched
    assert [words in snippet for snippet in found(store, words).values()] == [True] * len(saying)


def test_the_list_of_runs_finds_it_and_shows_it_without_escapes(store: Store, facade_url: str) -> None:
    said = "Lisboners\nzufällig im Café"
    spans = [replace(span, trace_id=f"5ea4c4{0:026x}") for span in make_run(model_call(said, "ok"))]
    store.insert(spans, token="of-words")
    with closing(open_runs(facade_url)) as runs:
        for words in ("zufällig", "CAFÉ"):
            page = find_runs(runs, RunQuery(words=words))
            assert page.rows
            assert "Lisboners zufällig im Café" in page.snippets[spans[0].trace_id]


def test_an_index_is_used_for_long_and_short_texts(searched: tuple[Store, set[str]]) -> None:
    store, _ = searched
    _, rows = store.query(f"EXPLAIN indexes = 1 SELECT trace_id FROM {store.database}.search(words = 'orders refused')")
    plan = "\n".join(str(row[0]) for row in rows)
    assert plan.count("Name: ix_text") == (2 if store.database.endswith("indexed") else 0), plan
