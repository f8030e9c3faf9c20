"""Labels and notes of the pages and the command line, over a running collector: redacted as the run is, and found by SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from handmade_runs import TRACE, make_run, model_call, tool_call
from running_collector import CollectorProcess

from freezeframe_replay.cli import main
from freezeframe_replay.local.administration import administration
from freezeframe_replay.local.home import Home
from freezeframe_replay.service.app import make_app
from freezeframe_schemas import genai
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.span import Event

pytestmark = [pytest.mark.long, pytest.mark.timeout(400), pytest.mark.usefixtures("warm_python")]

NOTE = "Wrong: asked <b>maria.keller@northbay-mail.com</b> about A-1057"


@pytest.fixture
def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectorProcess]:
    monkeypatch.delenv("FREEZEFRAME_STORE", raising=False)
    made = CollectorProcess(tmp_path / ".freezeframe", policy="strict")
    try:
        made.post(make_run(model_call("Where?", "Ask maria.keller@northbay-mail.com."), tool_call("track", 1)))
        made.flush()
        yield made
    finally:
        made.stop()


async def test_a_label_of_the_page_is_redacted_as_its_run_and_found_by_sql(collector: CollectorProcess) -> None:
    """On the run and on a step; the last one counts; without label and note there is none; it goes with its run."""
    home = Home(directory=collector.data)
    labels = "SELECT span_id != '', label, note FROM labels FINAL WHERE label != '' OR note != '' ORDER BY 1"
    async with TestClient(TestServer(make_app(home)), headers=bearer(read_token(home.directory, READER))) as client:
        path = f"/runs/{TRACE}"
        page = await (await client.get(path)).text()
        (token,) = set(re.findall(r'name="token" value="([^"]+)"', page))
        origin = {"Origin": str(client.make_url("")).rstrip("/")}

        async def keep(**fields: str) -> str:
            return await (await client.post(f"{path}/labels", data={"token": token, **fields}, headers=origin)).text()

        page = await keep(label="bad", note=NOTE)
        assert '<span class="status bad">bad</span>' in page
        said = page.partition('<details class="label">')[2].partition("</summary>")[0]
        assert "keller" not in page and "&lt;b&gt;" in said and "<b>" not in said
        (surrogate,) = re.findall(r"[\w.+-]+@[\w.-]+\w", said)
        assert "Ask" in page and surrogate in page.partition('id="transcript"')[2], "the same surrogate as in the run"
        assert "tool track" in await keep(label="good", step="2")
        assert collector.rows(labels) == [
            [0, "bad", NOTE.replace("maria.keller@northbay-mail.com", surrogate)],
            [1, "good", ""],
        ]
        await keep(label="", note="", step="2")
        listed = await (await client.get("/?label=bad")).text()
        assert f'href="{path}"' in listed and '<span class="status bad"' in listed
        assert '<a class="chosen" href="/">label: <bdi>bad</bdi>' in listed
        assert "No matching runs." in await (await client.get("/?label=good")).text(), "the label of a step is none of the run"
        await keep(label="own-word")
        assert collector.rows(labels) == [[0, "own-word", ""]]
        assert (await client.post(f"{path}/labels", data={"label": "bad"}, headers=origin)).status == 403
        for wrong in ({"label": "two words"}, {"label": "x" * 41}, {"note": "x" * 10_001}, {"step": "first"}):
            answer = await client.post(f"{path}/labels", data={"token": token, **wrong}, headers=origin)
            assert answer.status == 400, wrong
        assert (await client.post(f"{path}/labels", data={"token": token, "step": "9"}, headers=origin)).status == 404
        api = f"/api/v1{path}/labels"
        kept = await (await client.post(api, json={"label": "good", "note": NOTE, "step": 2})).json()
        assert {span_id != "": (label["label"], label["note"]) for span_id, label in kept.items()} == {
            False: ("own-word", ""),
            True: ("good", NOTE.replace("maria.keller@northbay-mail.com", surrogate)),
        }
        assert kept == await (await client.get(api)).json()
        assert (await client.post(api, json={"label": "two words"})).status == 400
    administration(home)({"action": "delete", "run": TRACE})
    assert collector.rows(labels) == []


@pytest.mark.proof("command runs label", "command experiment judge")
def test_a_label_of_the_command_line_is_redacted_and_compared_with_a_judge(
    collector: CollectorProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the run and on a step, by the first digits of its id; wrong use is refused; the judge's verdict stands next to it."""
    monkeypatch.setenv("FREEZEFRAME_DATA", str(collector.data))
    asked = "SELECT step, label, explanation, author != '' FROM scores ORDER BY step NULLS FIRST"
    assert main(["runs", "label", TRACE[:8], "bad", "--note", NOTE]) == 0
    assert main(["runs", "label", "last", "own-word", "--step", "2"]) == 0
    (of_run, of_step) = collector.rows(asked)
    assert of_run[:2] == [None, "bad"] and "keller" not in of_run[2] and "about A-1057" in of_run[2]
    assert of_step == [2, "own-word", "", 1]
    verdict = {genai.EVALUATION_NAME: "correctness", genai.EVALUATION_VALUE: 0.9}
    event = Event(time_unix_nano=5, name=genai.EVALUATION_EVENT, attributes=verdict)
    judge = make_run(model_call("Where?", "There."))[0]
    collector.post([replace(judge, span_id="9" * 16, parent_span_id=judge.span_id, attributes={}, events=(event,))])
    collector.flush()
    capsys.readouterr()
    assert main(["experiment", "judge", "correctness"]) == 0
    printed = capsys.readouterr().out
    assert "correctness: agrees with 0 of 1 label by hand (0%), kappa 0.00" in printed
    assert f"differ: run {TRACE[:12]}" in printed
    assert main(["experiment", "judge", "correctness", "--high-is-bad", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agreed"] == 1
    assert main(["experiment", "judge", "tone"]) == 125
    assert main(["runs", "label", TRACE, "--remove"]) == 0
    assert [row[1] for row in collector.rows(asked)] == ["", "own-word"]
    for wrong in ([], ["two words"], ["good", "--step", "9"], ["good", "--remove"]):
        assert main(["runs", "label", TRACE, *wrong]) == 1, wrong
