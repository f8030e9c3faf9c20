"""The list of runs, costs, SQL and health, over a real store."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from handmade_runs import make_run, model_call, moved
from service_pages import Client, text

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas import genai
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord, StatusCode

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a store, and programs that are started again
MODELS = ("gpt-4o-mini", "gpt-4o-mini", "gpt-4o-mini", "a-model-of-nobody")


@pytest.mark.proof("page /")
async def test_the_list_is_filtered_by_words_state_service_and_age(client: Client, runs: dict[str, Run]) -> None:
    good, failed = (f"/runs/{runs[name].trace_id}" for name in ("good", "failed"))
    assert good in await text(client, "/?words=ZANZIBAR")
    assert failed not in await text(client, "/?words=zanzibar")
    only_failed = await text(client, "/?failed=1&service=page-agent")
    assert failed in only_failed and good not in only_failed
    assert "LookupError" in only_failed
    both = await text(client, "/?service=page-agent&since=7d&user=ann")
    assert good in both and failed in both
    assert "No matching runs." in await text(client, "/?service=nobody")
    assert 'value="nobody"' in await text(client, "/?service=nobody")
    assert (await client.get("/?since=often")).status == 400


async def test_the_list_is_one_statement_once_the_costs_are_known(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, counts and facets: each statement has a process that opens the store, which takes longer than the statement."""
    await text(client, "/?service=page-agent")
    asked: list[str] = []
    ask = RunStore.sql

    def counted(store: RunStore, query: str, *given: Any, **named: Any) -> Any:
        asked.append(query)
        return ask(store, query, *given, **named)

    monkeypatch.setattr(RunStore, "sql", counted)
    assert "zanzibar" in await text(client, "/?service=page-agent")
    assert len([query for query in asked if "note" not in query]) == 1  # labels are read aside, now and then


async def test_runs_that_are_ok_with_failed_steps_are_a_choice_of_their_own(client: Client, runs: dict[str, Run]) -> None:
    """Each status is a link with its count, and is sorted by a column; what is no choice is refused beside the form."""
    partly, failed, good = (f"/runs/{runs[name].trace_id}" for name in ("partly", "failed", "good"))
    page = await text(client, "/?service=page-agent&status=partly")
    assert partly in page and failed not in page and good not in page
    assert re.search(r'partly[^>]*>Ok, with failed steps <span class="n">1</span>', page)
    assert '<span class="warn">1</span>' in page
    by_failures = await text(client, "/?service=page-agent&sort=-failed+steps")
    assert max(by_failures.index(partly), by_failures.index(failed)) < by_failures.index(good)
    for query in ("since=often", "sort=colour", "status=odd"):
        answer = await client.get(f"/?{query}")
        assert (answer.status, answer.content_type) == (400, "text/html")
        assert f"found &#39;{query.partition('=')[2]}" in await answer.text()


async def test_the_list_is_narrowed_down_by_what_it_counts(client: Client, store: Store) -> None:
    """A link for each agent, model and day with its count; a click on what is chosen takes it back. One value tells nothing."""
    spans: list[SpanRecord] = []
    day_ns = 86_400 * 10**9
    for number, (agent, model) in enumerate((("sales", "gpt-x"), ("sales", "gpt-y"), ("<b>care</b>", "gpt-x"))):
        entry, call = make_run(model_call("Where?", "In Lyon.", model=model))
        entry = replace(entry, attributes={**entry.attributes, genai.AGENT_NAME: agent})
        call = replace(call, attributes={**call.attributes, genai.OPERATION_NAME: genai.OP_CHAT, genai.REQUEST_MODEL: model})
        resource = replace(entry.resource, attributes={genai.SERVICE_NAME: "facets"})
        run = [replace(span, resource=resource) for span in (entry, call)]
        spans += moved(run, f"{number:02x}facade" * 4, 1_790_000_000 * 10**9 + number * day_ns)
    store.insert(spans, token="pages-facets")

    def offered(page: str) -> dict[str, list[tuple[str, str]]]:
        part = page.partition('class="facets"')[2].partition("</nav>")[0]
        return {
            name: re.findall(r'<a href="([^"]*)"[^>]*><bdi>[^<]*</bdi></a> <span class="n">(\d+)</span>', values)
            for name, values in re.findall(r"<summary>([a-z]+)</summary>(.*?)</details>", part, flags=re.DOTALL)
        }

    facets = offered(await text(client, "/?service=facets"))
    assert {name: [count for _, count in links] for name, links in facets.items()} == {
        "agent": ["2", "1"],
        "model": ["2", "1"],
    }
    chosen = html.unescape(facets["model"][0][0])
    page = await text(client, chosen)
    assert chosen == "/?service=facets&model=gpt-x"
    assert page.count('<td class="time">') == 2
    assert "&lt;b&gt;care&lt;/b&gt;" in page and "<b>care" not in page
    assert '<a class="chosen" href="/?service=facets">model: ' in page
    bars = re.findall(r'<a href="([^"]*)" aria-label="([^"]*)"><rect', page)
    assert [label for _, label in bars] == ["2026-09-21: 1 run", "2026-09-23: 1 run"]
    newest = html.unescape(bars[-1][0])
    day = await text(client, newest)
    assert day.count('<td class="time">') == 1 and "<rect" not in day
    assert '<a class="chosen" href="/?service=facets&amp;model=gpt-x">day: <bdi>2026-09-23</bdi>' in day
    assert "No matching runs." in await text(client, f"{newest}&agent=sales")
    assert [(await client.get(f"/?{query}")).status for query in ("day=tomorrow", "hour=2026-09-23")] == [400, 400]


async def test_bars_show_when_runs_began_and_how_many_failed(client: Client, store: Store) -> None:
    """By the hour while all are of two days, each bar a link; by the day, with empty days between, if they are of more."""
    hour_ns = 3600 * 10**9
    begun = 1_790_000_000 * 10**9  # 2026-09-21 14:13 UTC
    for name, hours in (("hours", (0, 2, 2, 2)), ("days", (0, 48, 96))):
        spans: list[SpanRecord] = []
        for number, after in enumerate(hours):
            entry, call = make_run(model_call("Where?", "In Lyon."))
            entry = replace(
                entry,
                resource=replace(entry.resource, attributes={genai.SERVICE_NAME: name}),
                status_code=StatusCode.ERROR if number == 1 else StatusCode.OK,
            )
            spans += moved([entry, call], f"{number:02x}{name:x<6}".encode().hex()[:16] * 2, begun + after * hour_ns)
        store.insert(spans, token=f"pages-{name}")

    async def bars(service: str) -> list[tuple[str, str]]:
        return re.findall(r'aria-label="([^"]*)"><rect class="all" x="(\d+)"', await text(client, f"/?service={service}"))

    assert await bars("hours") == [("2026-09-21 14:00: 1 run", "0"), ("2026-09-21 16:00: 3 runs, 1 failed", "20")]
    assert await bars("days") == [
        ("2026-09-21: 1 run", "0"),
        ("2026-09-23: 1 run, 1 failed", "20"),
        ("2026-09-25: 1 run", "40"),
    ]


@pytest.mark.proof("page /sessions/{session:.+}")
async def test_a_session_has_a_page_with_its_runs_in_their_order(client: Client, store: Store) -> None:
    """Each with its question and its outcome, linked from the list and from each run; new runs are added as they come."""
    session = "a/b <1>"
    link = "/sessions/a%2Fb%20%3C1%3E"

    def add(number: int, question: str, answer: str) -> str:
        entry, call = make_run(model_call(question, answer), question=question, answer=answer)
        resource = replace(entry.resource, attributes={genai.SERVICE_NAME: "sessions"})
        entry = replace(entry.with_attributes({genai.SESSION_ID: session}), resource=resource)
        run = f"5e55{number:04x}" * 4
        store.insert(moved([entry, call], run, (1_790_000_000 + number) * 10**9), token=f"pages-session-{number}")
        return run

    second, first = add(2, "And <b>AC-2</b>?", "In Bonn."), add(1, "Where is AC-1?", "In Lyon.")
    answer = await client.get(link)
    page = await answer.text()
    assert (answer.status, "Session <bdi>a/b &lt;1&gt;</bdi>" in page) == (200, True)
    texts = re.findall(r'<div class="text" dir="auto">([^<]*)</div>', page)
    assert texts == ["&#34;Where is AC-1?&#34;", "In Lyon.", "&#34;And &lt;b&gt;AC-2&lt;/b&gt;?&#34;", "In Bonn."]
    assert re.findall(r'<a class="n" href="/runs/(\w+)">(\d)</a>', page) == [(first, "1"), (second, "2")]
    assert page.count(f'<a class="kind" href="{link}">session</a>') == 0
    listed = await text(client, "/?service=sessions")
    assert listed.count(f'<a class="kind" href="{link}">session</a>') == 2
    assert (
        listed.count('data-label="tokens"><span class="muted">unknown</span>') == page.count("<span>tokens unknown</span>") == 2
    )
    assert f'<a href="{link}">Session</a>' in await text(client, f"/runs/{first}")
    (version,) = re.findall(r'data-live="([^"]*)"', page)
    assert (await client.get(link, headers={"If-None-Match": html.unescape(version)})).status == 304
    add(3, "Thanks.", "You are welcome.")
    assert "Thanks." in await (await client.get(link, headers={"If-None-Match": html.unescape(version)})).text()
    assert (await client.get("/sessions/nobody")).status == 404


async def test_a_run_says_what_it_cost_and_which_costs_are_not_known(client: Client, store: Store) -> None:
    """On the list, on the run, at each call; a call that was refused costs nothing, one without tokens is unknown."""
    calls = [model_call(prompt, "In Lyon.", model=model) for prompt, model in zip("abcd", MODELS, strict=True)]
    calls[2] = replace(calls[2], response=replace(calls[2].response, status=429))
    used = {genai.USAGE_INPUT_TOKENS: 1000, genai.USAGE_OUTPUT_TOKENS: 100}
    told = [used, {}, {}, used]  # 0.00021 dollars at 0.15 and 0.60 per million; no tokens; refused; a model without a price
    entry, *spans = make_run(*calls)
    spans = [
        replace(
            span,
            attributes={**span.attributes, genai.OPERATION_NAME: genai.OP_CHAT, genai.REQUEST_MODEL: model, **usage},
            status_code=StatusCode.ERROR if usage == {} and number == 2 else span.status_code,
        )
        for number, (span, model, usage) in enumerate(zip(spans, MODELS, told, strict=True))
    ]
    run = "c057" * 8
    store.insert(moved([entry, *spans], run, 1_790_000_000 * 10**9), token="pages-cost")
    for _ in range(2):  # asked of the store, then kept
        page = await (await client.get(f"/?words={run}")).text()
        assert 'title="$0.00021 and 2 of 4 calls unknown">≥ $0.00021</span>' in page
    page = await (await client.get(f"/runs/{run}")).text()
    assert "<dt>cost</dt><dd>$0.00021 and 2 of 4 calls unknown</dd>" in page
    assert page.count("<span>$0.00021</span>") == page.count("<span>$0</span>") == page.count("<span>cost unknown</span>") == 1
    for step, cost in ((1, "$0.00021"), (2, "unknown"), (3, "$0"), (4, "unknown")):
        page = await (await client.get(f"/runs/{run}/steps/{step}")).text()
        assert f"<dt>cost</dt><dd><bdi>{cost}</bdi></dd>" in page


@pytest.mark.proof("page /sql")
async def test_a_question_in_sql_is_answered_as_table_chart_and_csv(client: Client, runs: dict[str, Run]) -> None:
    """Ids lead to their runs; nothing can be written; what is wrong is said beside the question."""
    query = "SELECT name, count() AS n, any(trace_id) AS one, '<b>' AS hostile FROM runs GROUP BY name WITH TOTALS"
    page = await text(client, f"/sql?{urlencode({'q': query})}")
    assert re.search(r'<td class="name"><a href="/runs/[0-9a-f]{32}"><code>', page)
    assert "<bdi>&lt;b&gt;</bdi>" in page and "<summary><code>model_calls</code></summary>" in page
    chart = await text(client, "/sql?" + urlencode({"q": "SELECT number, number * number AS square FROM numbers(5)"}))
    assert '<span class="key model">square</span>' in chart and chart.count('<rect class="model"') == 4, "none for 0"
    assert "<span>20</span><span>10</span><span>0</span>" in chart and "<title>4: square 16</title>" in chart
    assert "<svg" not in await text(client, "/sql?" + urlencode({"q": "SELECT number, 'x', number FROM numbers(5)"}))
    answer = await client.get("/sql?" + urlencode({"q": "SELECT 1 AS a, 'x' AS b", "as": "csv"}))
    assert (answer.content_type, await answer.text()) == ("text/csv", "a,b\n1,x\n")
    assert '<th scope="col">explain</th>' in await text(client, "/sql?" + urlencode({"q": "SELECT 1", "explain": "1"}))
    page = await text(client, "/sql?" + urlencode({"q": "SELECT number FROM numbers(100000)"}))
    assert "10,000 rows, and more" in page and page.count("<tr>") < 1100
    for wrong, said in (("DROP TABLE span_rows", "readonly mode"), ("SELECT nothing FROM runs", "nothing")):
        answer = await client.get("/sql?" + urlencode({"q": wrong}))
        assert answer.status == 400
        assert said in (await answer.text()).partition('role="alert">')[2].partition("</p>")[0]


@pytest.mark.proof("page /health")
async def test_health_says_what_is_known_without_a_collector(client: Client, runs: dict[str, Run]) -> None:
    """The store alone answers here: its tables and classes are shown."""
    page = await text(client, "/health")
    assert "no collector" in page and "span_rows" in page and "<dt>freezeframe</dt>" in page
