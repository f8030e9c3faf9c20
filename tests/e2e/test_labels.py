"""Labels and notes of the pages, over a running collector: redacted as the run is, and found by SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from handmade_runs import TRACE, make_run, model_call, tool_call
from running_collector import CollectorProcess

from freezeframe_replay.local.administration import administration
from freezeframe_replay.local.home import Home
from freezeframe_replay.service.app import make_app
from freezeframe_schemas.local_tokens import READER, bearer, read_token

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
