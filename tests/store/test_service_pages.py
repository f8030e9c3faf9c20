"""The replay service's pages over a real store: filters, a run, two runs side by side, and the replay button."""

from __future__ import annotations

import html
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jsonschema
import pytest
import pytest_asyncio
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request
from handmade_runs import make_run, model_call
from yarl import URL

from freezeframe_collector.store import Store
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.dataset import load_dataset, write_dataset
from freezeframe_replay.experiments.experiment import result_to_json, run_experiment
from freezeframe_replay.experiments.gates import Gates
from freezeframe_replay.local.home import Home
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.service.app import make_app
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_replay.sources.store import RunStore
from freezeframe_replay.web.sql import COOKBOOK
from freezeframe_schemas import genai
from freezeframe_schemas.fixture import load_fixture
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord, StatusCode

pytestmark = pytest.mark.long  # a store, and programs that are started again

Client = TestClient[Request, Application]

MODELS = ("gpt-4o-mini", "gpt-4o-mini", "gpt-4o-mini", "a-model-of-nobody")

AGENT = """
import sys
import freezeframe

freezeframe.instrument()


@freezeframe.tool
def find_orders(name):
    return ["AC-1", "<b>AC-2</b>"]


@freezeframe.tool
def track(order):
    if order == "lost":
        raise LookupError("no such order: <script>lost</script>")
    return {"order": order, "place": "Lyon"}


@freezeframe.run(user="ann")
def answer(question):
    if "soft" in question:
        try:
            track("lost")
        except LookupError:
            pass
    order = "lost" if "lost" in question else find_orders(question)[0]
    return f"it is in {track(order)['place']}"


if __name__ == "__main__":
    answer(sys.argv[1])
"""


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments], cwd=folder, check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "agent.py").write_text(AGENT)
    (folder / ".freezeframe").mkdir()
    for arguments in (["init", "--quiet"], ["add", "agent.py"], ["commit", "--quiet", "-m", "as recorded"]):
        git(folder, *arguments)
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path, store: Store) -> dict[str, Run]:
    """A run that went well, one that failed, and one that caught what failed: recorded for real and stored."""
    recorded: dict[str, Run] = {}
    questions = {"good": "where is zanzibar?", "failed": "where is the lost one?", "partly": "a soft failure"}
    for name, question in questions.items():
        spans = folder / f"{name}.jsonl"
        environment = {**os.environ, "FREEZEFRAME_FILE": str(spans), "OTEL_SERVICE_NAME": "page-agent"}
        subprocess.run([sys.executable, "agent.py", question], cwd=folder, env=environment, capture_output=True, check=False)
        recorded[name] = load_run_of_file(spans)
        store.insert(list(recorded[name].spans), token=f"pages-{name}")
    return recorded


@pytest_asyncio.fixture
async def client(folder: Path, facade_url: str, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setenv("FREEZEFRAME_STORE", facade_url)
    home = Home(directory=folder / ".freezeframe")
    async with TestClient(TestServer(make_app(home)), headers=bearer(read_token(home.directory, READER))) as made:
        yield made


async def text(client: Client, path: str) -> str:
    answer = await client.get(path)
    assert answer.status == 200, await answer.text()
    return await answer.text()


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


async def test_trends_count_the_runs_of_each_hour_or_day_as_the_list_does(client: Client, runs: dict[str, Run]) -> None:
    """By hour up to three days, else by day, which leads to its runs; a time that says nothing is refused beside the form."""
    for since, unit in (("2d", "hour"), ("30d", "day")):
        page = await text(client, f"/trends?since={since}&service=page-agent")
        rows = re.findall(r'<td class="number">(\d+)</td><td class="number(?: bad)?">(\d+)</td>', page)
        assert (sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows)) == (len(runs), 1)
        assert re.search(rf'Runs by {unit} .*?<span class="key bad">failed</span>', page) and '<rect class="bad"' in page
    days = re.findall(r'href="(/\?service=page-agent&amp;day=[\d-]+)"', page)
    assert f"/runs/{runs['failed'].trace_id}" in "".join([await text(client, html.unescape(day)) for day in days])
    assert "No matching runs since 7d" in await text(client, "/trends?service=nobody")
    answer = await client.get("/trends?since=often")
    assert answer.status == 400 and "since" in await answer.text()


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


async def test_errors_are_pages_for_people_and_json_for_programs(client: Client) -> None:
    for path, status in (("/nowhere", 404), ("/diff?before=x", 400), ("/runs/ffff0000ffff", 404), ("/runs/last?tab=odd", 400)):
        answer = await client.get(path)
        assert (answer.status, answer.content_type) == (status, "text/html"), path
        assert '<a href="/">' in await answer.text()
    answer = await client.get("/api/v1/runs/ffff0000ffff")
    assert (answer.status, answer.content_type) == (404, "application/json")


async def test_pages_are_compressed_for_those_who_take_it(client: Client, runs: dict[str, Run]) -> None:
    for path in (f"/runs/{runs['good'].trace_id}", f"/api/v1/runs/{runs['good'].trace_id}"):
        packed = await client.get(path, headers={"Accept-Encoding": "gzip, deflate, br"})
        plain = await client.get(path, headers={"Accept-Encoding": "identity"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in plain.headers
        assert int(packed.headers["Content-Length"]) < len(await plain.read())


async def test_a_step_shows_its_bodies_and_gives_them_as_recorded(client: Client, runs: dict[str, Run]) -> None:
    run = runs["good"]
    page = await text(client, f"/runs/{run.trace_id}/steps/2")
    assert "step 2, tool track" in page and "place" in page
    for part in ("request", "response"):
        answer = await client.get(f"/runs/{run.trace_id}/steps/2/{part}")
        assert await answer.read() == getattr(run.exchanges[1], part).body
        assert (answer.content_type, answer.headers["Content-Disposition"][:10]) == ("application/octet-stream", "attachment")
    for path in ("steps/99", "steps/99/request", "steps/2?response=x"):
        assert (await client.get(f"/runs/{run.trace_id}/{path}")).status in (400, 404)


async def test_two_runs_stand_beside_each_other(client: Client, runs: dict[str, Run]) -> None:
    page = await text(client, f"/diff?before={runs['good'].trace_id}&after={runs['failed'].trace_id}")
    assert "only in the first" in page
    assert (await client.get("/diff?before=x")).status == 400
    assert (await client.get(f"/diff?before={runs['good'].trace_id}&after=ffff0000ffff")).status == 404


async def test_the_button_replays_the_run_with_the_code_beside_the_data_directory(
    client: Client, runs: dict[str, Run], folder: Path
) -> None:
    path = f"/runs/{runs['good'].trace_id}"
    page = await text(client, path)
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', page))
    origin = {"Origin": str(client.make_url("")).rstrip("/")}
    answer = await client.post(f"{path}/replay", data={"token": token}, headers=origin)
    same = await ended(client, answer)
    assert '<span class="status good">identical</span>' in same and "and replayed at the same commit.</p>" in same
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "otherwise")
    source = (folder / "agent.py").read_text()
    try:
        (folder / "agent.py").write_text(source.replace("find_orders(question)[0]", "find_orders(question)[1]"))
        diverged = await ended(client, await client.post(f"{path}/replay", data={"token": token}, headers=origin))
    finally:
        (folder / "agent.py").write_text(source)
    assert "REPLAY-101 at step 2: tool track" in diverged
    assert "(1 commit ahead), with uncommitted changes.</p>" in diverged and "<li>recorded at commit" not in diverged
    assert re.search(r"&lt;b&gt;AC-(<b>)?2", diverged) and "<b>AC-2</b>" not in diverged
    page = await text(client, path)
    listed = page.partition('<p class="replays">')[2]
    assert re.findall(r'<span class="\w+">(\w+)</span>', listed)[:2] == ["diverged", "identical"]


async def test_a_replay_is_stepped_through_with_variables_back_and_forth(client: Client, runs: dict[str, Run]) -> None:
    """One replay has recorded them all; what a variable got since the call before is said."""
    token, origin = await own_form(client, runs["good"])
    page = await ended(client, await client.post(f"/runs/{runs['good'].trace_id}/replay", data=token, headers=origin))
    (first,) = re.findall(r'data-key="s" href="([^"]+)"', page)
    page = await text(client, first)
    assert "Before call 1 of 2: tool <bdi>find_orders</bdi>" in page
    assert "order = &#34;lost&#34; if" in page and "<dt>order</dt>" not in page
    assert "where is zanzibar?&#34;)</pre>" in page
    page = await text(client, first.replace("at=1", "at=2"))
    assert "in answer" in page and re.search(
        r'<dt>order</dt><dd><bdi class="warn">.#39;AC-1.#39;</bdi> <span class="meta">new', page
    )
    assert await text(client, first.replace("at=1", "at=99")) == page
    assert await text(client, first) == await text(client, first.replace("at=1", "at=0"))


async def test_a_replay_that_runs_says_how_far_it_is_and_is_ended(client: Client, runs: dict[str, Run], folder: Path) -> None:
    """The program waits after its first step for a file that never comes."""
    token, origin = await own_form(client, runs["good"])
    source = (folder / "agent.py").read_text()
    waits = "    import pathlib, time\n    while not pathlib.Path('never').exists(): time.sleep(0.01)\n"
    try:
        (folder / "agent.py").write_text(source.replace('    return f"it is in', f'{waits}    return f"it is in'))
        answer = await client.post(f"/runs/{runs['good'].trace_id}/replay", data=token, headers=origin)
        page = await answer.text()
        while "1 of 2 steps answered" not in page:
            (again,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
            page = await text(client, again)
        (cancel,) = re.findall(r'action="(/replays/[^"]+)"', page)
        assert (await client.post(cancel, headers=origin)).status == 403
        answer = await client.post(cancel, data=token, headers=origin)
    finally:
        (folder / "agent.py").write_text(source)
    assert answer.status == 422
    assert "The replay was cancelled" in await answer.text()
    assert "no result" in await text(client, f"/runs/{runs['good'].trace_id}")


@pytest.mark.parametrize(
    ("token", "origin"), [("", "own"), ("guessed", "own"), ("right", "https://evil.example"), ("right", None)]
)
async def test_no_other_page_can_have_a_run_replayed(
    client: Client, runs: dict[str, Run], token: str, origin: str | None
) -> None:
    path = f"/runs/{runs['good'].trace_id}"
    (right,) = set(re.findall(r'name="token" value="([^"]+)"', await text(client, path)))
    headers = {} if origin is None else {"Origin": str(client.make_url("")).rstrip("/") if origin == "own" else origin}
    answer = await client.post(f"{path}/replay", data={"token": right if token == "right" else token}, headers=headers)
    assert answer.status == 403


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
    shift = 1_790_000_000 * 10**9
    store.insert(
        [
            replace(
                span,
                trace_id=run,
                start_time_unix_nano=span.start_time_unix_nano + shift,
                end_time_unix_nano=span.end_time_unix_nano + shift,
            )
            for span in (entry, *spans)
        ],
        token="pages-cost",
    )
    for _ in range(2):  # asked of the store, then kept
        page = await (await client.get(f"/?words={run}")).text()
        assert 'title="$0.00021 and 2 of 4 calls unknown">≥ $0.00021</span>' in page
    page = await (await client.get(f"/runs/{run}")).text()
    assert "<dt>cost</dt><dd>$0.00021 and 2 of 4 calls unknown</dd>" in page
    assert page.count("<span>$0.00021</span>") == page.count("<span>$0</span>") == page.count("<span>cost unknown</span>") == 1
    for step, cost in ((1, "$0.00021"), (2, "unknown"), (3, "$0"), (4, "unknown")):
        page = await (await client.get(f"/runs/{run}/steps/{step}")).text()
        assert f"<dt>cost</dt><dd><bdi>{cost}</bdi></dd>" in page


async def ended(client: Client, answer: ClientResponse) -> str:
    """Return the page of a replay once it shows what was found, as a browser does that follows the page's own refresh."""
    page = await answer.text()
    assert answer.status == 200, page
    while found := re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page):
        page = await text(client, found[1])
    return page


async def own_form(client: Client, run: Run) -> tuple[dict[str, str], dict[str, str]]:
    """Return the token and the Origin that a form of the run's own page sends."""
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', await text(client, f"/runs/{run.trace_id}")))
    return {"token": token}, {"Origin": str(client.make_url("")).rstrip("/")}


async def test_an_answer_changed_in_the_page_is_replayed_beside_the_recording_and_kept_with_a_test(
    client: Client, runs: dict[str, Run], folder: Path
) -> None:
    """The tool finds another order, so the code asks for that one; the download is that fork, and its test passes."""
    run, path = runs["good"], f"/runs/{runs['good'].trace_id}/fork"
    page = await text(client, f"{path}?step=1")
    assert html.unescape(page.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0]).split() == [
        "[",
        '"AC-1",',
        '"<b>AC-2</b>"',
        "]",
    ]
    token, origin = await own_form(client, run)
    answer = await client.post(path, data={**token, "step": "1", "text": '[\r\n"</textarea><b>AC-9"]'}, headers=origin)
    page = await ended(client, answer)
    assert "REPLAY-101 at step 2: tool track" in page
    assert page.count("answer changed") == 1 and page.count("not in the recording") == 1
    assert "AC-9" in page and "<b>AC-9" not in page
    kept = re.findall(r'data-key="x" href="([^"]+)"', page)
    answer = await client.get(kept[0])
    assert (answer.status, answer.content_type) == (200, "application/gzip")
    with tarfile.open(fileobj=io.BytesIO(await answer.read())) as archive:
        archive.extractall(folder / "kept", filter="data")
    (made,) = (folder / "kept").iterdir()
    fork = load_fixture(made)
    assert fork.forked_from == run.trace_id
    assert json.loads(fork.steps[0].exchange.response.body) == ["</textarea><b>AC-9"]
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(made)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in tested.stdout, tested.stdout


async def test_the_input_changed_in_the_page_is_what_the_code_is_called_with(client: Client, runs: dict[str, Run]) -> None:
    run = runs["good"]
    token, origin = await own_form(client, run)
    given = json.dumps({"args": ["where is the lost one?"], "kwargs": {}})
    page = await ended(client, await client.post(f"/runs/{run.trace_id}/fork", data={**token, "text": given}, headers=origin))
    assert "a fork of" in page and "the lost one" in page
    assert "tool track" in page  # asked first, in place of find_orders


async def test_what_cannot_be_changed_is_said_beside_the_text(client: Client, runs: dict[str, Run]) -> None:
    """What was typed stays in the form; what a page may not change is refused before there is one."""
    run, path = runs["good"], f"/runs/{runs['good'].trace_id}/fork"
    token, origin = await own_form(client, run)
    answer = await client.post(path, data={**token, "step": "1", "text": "[AC-9"}, headers=origin)
    page = await answer.text()
    assert answer.status == 422
    assert "not valid JSON" in page and ">\n[AC-9</textarea>" in page
    assert (await client.get(f"{path}?step=9")).status == 404
    assert (await client.get(f"{path}?step=first")).status == 400
    for headers, sent in (({}, token), ({"Origin": "https://evil.example"}, token), (origin, {"token": "guessed"})):
        assert (await client.post(path, data={**sent, "step": "1", "text": "[]"}, headers=headers)).status == 403


async def test_one_run_of_each_failure_is_replayed_from_the_page(client: Client, runs: dict[str, Run]) -> None:
    """Similar failures are one row, which says what its newest run's replay found."""
    page = await text(client, "/failures?since=3650d")
    assert "&lt;script&gt;lost&lt;/script&gt;" in page and "<script>lost" not in page
    token, origin = await own_form(client, runs["failed"])
    newest = runs["failed"].trace_id
    answer = await client.post("/failures/replay", data={**token, "runs": newest, "since": "3650d"}, headers=origin)
    assert str(answer.url).endswith("/failures?since=3650d")
    (replay,) = re.findall(r'<a href="(/replays/\d+)" class="\w+">', await answer.text())[:1]
    assert "identical" in await ended(client, await client.get(f"{replay}?after=0"))
    assert (await client.post("/failures/replay", data={"runs": newest}, headers=origin)).status == 403
    assert (await client.get("/failures?since=never")).status == 400


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


async def test_a_set_is_a_grid_of_its_runs_by_the_candidates_that_were_tried(
    client: Client, runs: dict[str, Run], folder: Path
) -> None:
    """A candidate that changes one of two runs; the filter keeps that one, and so do CSV and JSON."""
    assert "No sets in" in await text(client, "/sets")
    directory = folder / "sets" / "week"
    dataset = write_dataset(directory, [(freeze(runs[name]), "") for name in ("good", "failed")], chosen_by="by hand <b>")
    same = run_experiment(dataset, Trial(cwd=folder))
    source = (folder / "agent.py").read_text()
    try:
        (folder / "agent.py").write_text(source.replace("it is in", "<i>found</i> in"))
        changed = run_experiment(dataset, Trial(cwd=folder), gates=Gates(changed=0))
    finally:
        (folder / "agent.py").write_text(source)
    (directory / "results").mkdir()
    for name, result in (("base", same), ("reworded", changed)):
        (directory / "results" / f"{name}.json").write_text(json.dumps(result_to_json(result)))
    page = await text(client, "/sets")
    assert '<a href="/sets/week">week</a>' in page and "base, reworded" in page
    page = await text(client, "/sets/week")
    assert page.count('<span class="status good">same</span>') == 3
    assert page.count('<span class="status bad">changed</span>') == 1
    assert "changed: exceeded, 1 of 0" in page
    assert "&lt;" in page and "<i>found" not in page and "by hand &lt;b&gt;" in page
    page = await text(client, "/sets/week?changed=1")
    assert runs["good"].trace_id in page and runs["failed"].trace_id not in page
    rows = json.loads(await text(client, "/sets/week?as=json&changed=1"))
    assert [(row["candidate"], row["finding"]) for row in rows] == [("base", "same"), ("reworded", "changed")]
    assert (await text(client, "/sets/week?as=csv")).count("\n") == 5
    assert json.loads(await text(client, "/api/v1/sets/week?changed=1")) == rows
    (listed,) = json.loads(await text(client, "/api/v1/sets"))
    assert (listed["name"], listed["runs"], sorted(listed["candidates"])) == ("week", 2, ["base", "reworded"])
    for path in ("/sets/none", "/api/v1/sets/none", "/sets/..%2f..", "/sets/.freezeframe"):
        assert (await client.get(URL(path, encoded=True))).status == 404


async def test_runs_that_are_chosen_in_the_list_become_a_set_and_are_added_to_one(
    client: Client, runs: dict[str, Run], folder: Path
) -> None:
    """Each once, redacted as they are stored; only for a form of our own page, and only in the folder of sets."""
    token, origin = await own_form(client, runs["good"])
    good, failed = runs["good"].trace_id, runs["failed"].trace_id

    async def add(name: str, *chosen: str, headers: dict[str, str] = origin) -> tuple[int, str]:
        form = [("name", name), *token.items(), *(("run", run) for run in chosen)]
        answer = await client.post("/sets", data=form, headers=headers)
        return answer.status, answer.url.path if answer.status == 200 else await answer.text()

    assert await add("picked", good) == (200, "/sets/picked")
    assert await add("picked", failed, good) == (200, "/sets/picked")
    dataset = load_dataset(folder / "sets" / "picked")
    assert [(row.run_id, row.note) for row in dataset.rows] == [(good, "not redacted"), (failed, "not redacted")]
    assert [dataset.load(row).run_id for row in dataset.rows] == [good, failed]
    assert dataset.chosen_by == "hand, in the list of runs"
    assert '<option value="picked">' in await text(client, "/")
    assert (await add("gone", good, "f" * 32))[0] == 404
    for name, chosen, said in (
        ("../out", good, "expected a name"),
        (".hidden", good, "expected a name"),
        ("picked", None, "tick"),
    ):
        status, page = await add(name, *filter(None, [chosen]))
        assert (status, said in page) == (400, True)
    assert (await add("picked", good, headers={}))[0] == 403
    assert [path.name for path in (folder / "sets").iterdir() if path.name != "week"] == ["picked"]


@pytest.mark.parametrize("title", COOKBOOK)
async def test_each_question_of_the_cookbook_is_answered(client: Client, title: str) -> None:
    answer = await client.get("/sql?" + urlencode({"q": COOKBOOK[title]}))
    assert (answer.status, (await answer.text()).partition('role="alert">')[2][:300]) == (200, "")


async def test_health_says_what_is_known_without_a_collector(client: Client, runs: dict[str, Run]) -> None:
    """The store alone answers here: its tables and classes are shown."""
    page = await text(client, "/health")
    assert "no collector" in page and "span_rows" in page and "<dt>freezeframe</dt>" in page


async def test_the_list_is_narrowed_down_by_what_it_counts(client: Client, store: Store) -> None:
    """A link for each agent, model and day with its count; a click on what is chosen takes it back. One value tells nothing."""
    spans: list[SpanRecord] = []
    day_ns = 86_400 * 10**9
    for number, (agent, model) in enumerate((("sales", "gpt-x"), ("sales", "gpt-y"), ("<b>care</b>", "gpt-x"))):
        entry, call = make_run(model_call("Where?", "In Lyon.", model=model))
        entry = replace(entry, attributes={**entry.attributes, genai.AGENT_NAME: agent})
        call = replace(call, attributes={**call.attributes, genai.OPERATION_NAME: genai.OP_CHAT, genai.REQUEST_MODEL: model})
        shift = 1_790_000_000 * 10**9 + number * day_ns
        spans += [
            replace(
                span,
                trace_id=f"{number:02x}facade" * 4,
                resource=replace(span.resource, attributes={genai.SERVICE_NAME: "facets"}),
                start_time_unix_nano=span.start_time_unix_nano + shift,
                end_time_unix_nano=span.end_time_unix_nano + shift,
            )
            for span in (entry, call)
        ]
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
        "day": ["1", "1", "1"],
    }
    chosen = html.unescape(facets["model"][0][0])
    page = await text(client, chosen)
    assert chosen == "/?service=facets&model=gpt-x"
    assert page.count('<td class="time">') == 2
    assert "&lt;b&gt;care&lt;/b&gt;" in page and "<b>care" not in page
    assert '<a class="chosen" href="/?service=facets">model: ' in page
    newest = html.unescape(offered(page)["day"][0][0])
    assert (await text(client, newest)).count('<td class="time">') == 1
    assert "No matching runs." in await text(client, f"{newest}&agent=sales")
    assert (await client.get("/?day=tomorrow")).status == 400


async def test_every_route_of_the_api_answers_as_its_description_says(
    client: Client, runs: dict[str, Run], store: Store
) -> None:
    """The description is that of the routes that the service has; each JSON answer fits its schema."""
    described = await (await client.get("/api/v1/openapi.json")).json()
    served = {
        (route.method.lower(), route.resource.canonical)
        for route in client.app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/api/") and route.method != "HEAD"
    }
    assert {(method, path) for path, methods in described["paths"].items() for method in methods} == served
    good, failed = runs["good"].trace_id, runs["failed"].trace_id
    bodies = {
        "/api/v1/sql": {"query": "SELECT name FROM runs WHERE trace_id = {run:String}", "parameters": {"run": good}},
        "/api/v1/runs/{run}/fork": {"target": "result", "step": 1, "value": ["AC-2"]},
    }
    queries = {"/api/v1/diff": f"?before={good}&after={failed}", "/api/v1/runs": "?limit=5&service=page-agent"}
    queries["/api/v1/trends"] = "?service=page-agent"
    given: dict[str, Any] = {}
    # one is in the test of sets, one in that of labels, which has a collector
    for method, path in sorted(served - {("get", "/api/v1/sets/{name}"), ("post", "/api/v1/runs/{run}/labels")}):
        url = path.replace("{run}", good).replace("{kind}", "otlp") + queries.get(path, "")
        answer = await client.request(method, url, json=bodies.get(path))
        if path.endswith(("/pack", "/export/{kind}")):  # the runs of this test went through no policy
            assert (answer.status, "never redacted" in await answer.text()) == (422, True)
            answer = await client.get(f"{url}?unredacted=1")
        assert answer.status == 200, (path, await answer.text())
        (media, content), *_ = described["paths"][path][method]["responses"]["200"]["content"].items()
        assert answer.content_type == media
        if media == "application/json":
            given[path] = await answer.json()
            jsonschema.validate(given[path], {**content["schema"], "components": described["components"]})
    assert given["/api/v1/sql"] == {"columns": ["name"], "rows": [["answer"]]}
    assert given["/api/v1/runs/{run}"]["run_id"] == good
    assert failed in {group["newest"] for group in given["/api/v1/failures"]}
    assert given["/api/v1/runs/{run}/labels"] == {}
    assert sum(moment["runs"] for moment in given["/api/v1/trends"]) == len(runs)
    replayed = given["/api/v1/runs/{run}/replay"]
    assert replayed["verdict"] == "identical"
    assert [bool(made["frames"]) for made in replayed["made"]] == [True, True], "where the program was at each step"
    assert given["/api/v1/runs/{run}/fork"]["verdict"] != "identical"


async def test_what_runs_code_or_asks_sql_tells_a_browser_and_a_wrong_request_no(client: Client, runs: dict[str, Run]) -> None:
    path = f"/api/v1/runs/{runs['good'].trace_id}"
    entered = await client.get((await (await client.post("/links")).json())["link"], allow_redirects=False)
    cookie = {"Authorization": "", "Cookie": entered.headers["Set-Cookie"].partition(";")[0]}
    assert (await client.get(path, headers=cookie)).status == 200
    for method, url, body in (
        ("POST", f"{path}/replay", None),
        ("POST", f"{path}/fork", {}),
        ("POST", "/api/v1/sql", {}),
        ("POST", f"{path}/labels", {}),
    ):
        answer = await client.request(method, url, json=body, headers=cookie)
        assert (answer.status, answer.content_type) == (401, "application/json")
    for url, body in ((f"{path}/fork", {"target": "odd"}), (f"{path}/fork", [1]), ("/api/v1/sql", {"query": 1})):
        assert (await client.post(url, json=body)).status == 400
    refused = await client.post("/api/v1/sql", json={"query": "DROP TABLE spans"})
    assert refused.status == 422
    assert (await client.get(f"{path}/export/odd")).status == 404
    assert (await client.get(f"{path}/pack?code=odd")).status == 400
