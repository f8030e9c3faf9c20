"""Replays, changed answers and sets, as a person starts and makes them in a page."""

from __future__ import annotations

import html
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from service_pages import Client, ended, git, own_form, text
from yarl import URL

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.candidate import ExperimentCandidate
from freezeframe_replay.experiments.dataset import load_dataset, write_dataset
from freezeframe_replay.experiments.experiment import Conditions, run_experiment
from freezeframe_replay.experiments.gates import Gates
from freezeframe_replay.experiments.results import result_to_json
from freezeframe_replay.process.reenact import Trial
from freezeframe_schemas.fixture import load_fixture
from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a store, and programs that are started again


@pytest.mark.proof("page /replays/{number}")
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


async def test_a_changed_tool_is_run_by_the_button_of_the_replay_and_by_the_api(
    client: Client, runs: dict[str, Run], folder: Path
) -> None:
    token, origin = await own_form(client, runs["good"])
    path = f"/runs/{runs['good'].trace_id}/replay"
    source = (folder / "agent.py").read_text()
    try:
        (folder / "agent.py").write_text(source.replace('"place": "Lyon"', '"place": "Nice"'))
        page = await ended(client, await client.post(path, data=token, headers=origin))
        assert "tool track (agent.py:" in page and "its new code was not run" in page and "no tool ran" in page
        (action,) = re.findall(r'<form action="([^"]+)"[^<]*<input[^<]*<button>Run the new code of the tools', page)
        ran = await ended(client, await client.post(action, data=token, headers=origin))
        assert "a tool that ran returned something else" in ran and "tool track ran on the recorded calls" in ran
        assert "Run the new code of the tools" not in ran
        for tools in (["track"], True):
            report = await (await client.post(f"/api/v1{path}", json={"run_tools": tools})).json()
            assert report["headline"].startswith("REPLAY-110 a tool that ran returned something else at step 2 (tool track")
        assert (await (await client.post(f"/api/v1{path}")).json())["changed_code"]
        assert (await client.post(f"/api/v1{path}", json={"run_tools": "track"})).status == 400
    finally:
        (folder / "agent.py").write_text(source)


@pytest.mark.proof("page /replays/{number}/calls")
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
    ("token", "origin"),
    [
        ("", "own"),
        pytest.param("guessed", "own", marks=pytest.mark.proof),
        pytest.param("right", "https://evil.example", marks=pytest.mark.proof),
        ("right", None),
    ],
)
async def test_no_other_page_can_have_a_run_replayed(
    client: Client, runs: dict[str, Run], token: str, origin: str | None
) -> None:
    path = f"/runs/{runs['good'].trace_id}"
    (right,) = set(re.findall(r'name="token" value="([^"]+)"', await text(client, path)))
    headers = {} if origin is None else {"Origin": str(client.make_url("")).rstrip("/") if origin == "own" else origin}
    answer = await client.post(f"{path}/replay", data={"token": right if token == "right" else token}, headers=headers)
    assert answer.status == 403


@pytest.mark.proof("page /runs/{run}/fork", "page /replays/{number}/fixture")
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


@pytest.mark.proof("page /failures")
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


@pytest.mark.proof("page /sets", "page /sets/{name}")
async def test_a_set_is_a_grid_of_its_runs_by_the_candidates_that_were_tried(
    client: Client, runs: dict[str, Run], folder: Path
) -> None:
    """A candidate that changes one of two runs; the filter keeps that one, and so do CSV and JSON."""
    assert "No sets in" in await text(client, "/sets")
    directory = folder / "sets" / "week"
    dataset = write_dataset(directory, [(freeze(runs[name]), "") for name in ("good", "failed")], chosen_by="by hand <b>")
    unchanged = [ExperimentCandidate(trial=Trial(cwd=folder))]
    same = run_experiment(dataset, unchanged).results[0]
    source = (folder / "agent.py").read_text()
    try:
        (folder / "agent.py").write_text(source.replace("it is in", "<i>found</i> in"))
        changed = run_experiment(dataset, unchanged, Conditions(gates=Gates(changed=0))).results[0]
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
