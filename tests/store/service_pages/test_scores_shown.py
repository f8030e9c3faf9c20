"""Scores are shown where their run is read: on its pages, in `show`, the API and MCP."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from handmade_runs import make_run, model_call, moved, tool_call
from service_pages import Client, text

from freezeframe_collector.store import Store
from freezeframe_collector.store.retention import label
from freezeframe_replay.cli import main
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.mcp.project import Project
from freezeframe_replay.mcp.tools import Tools
from freezeframe_replay.operations.show import SHOW, ShowParameters
from freezeframe_replay.operations.source import RunSource
from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, SpanRecord

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a store

RUN = f"{0x5C04E5:032x}"
HOSTILE = "names <script>alert(1)</script> \x1b[31manother order"


@pytest.fixture(scope="module")
def judged(store: Store) -> str:
    """A run of a model call and a tool call, with verdicts on both steps and on the run, and a label on each."""
    entry, model, tool = moved(make_run(model_call("where?", "there"), tool_call("track", 1)), RUN, 0)
    named = {genai.EVALUATION_VALUE: 0.25, genai.EVALUATION_LABEL: "fail", genai.EVALUATION_EXPLANATION: HOSTILE}
    by = {genai.EVALUATION_BY: "LLM"}

    def said(span: SpanRecord, name: str, **more: str) -> SpanRecord:
        attributes = {genai.EVALUATION_NAME: name, **named, **by, **more}
        return replace(span, events=(Event(time_unix_nano=5, name=genai.EVALUATION_EVENT, attributes=attributes),))

    spoof = {genai.EVALUATION_BY: "Hand", genai.EVALUATION_LABEL: "forged"}
    store.insert([said(entry, "helpful"), said(model, "grounded"), said(tool, "label", **spoof)], token="scores-shown")
    label(store, RUN, {"span_id": "", "label": "bad", "note": "refunded twice", "author": "ann"})
    label(store, RUN, {"span_id": tool.span_id, "label": "own-word", "note": "", "author": "ann"})
    return RUN


@pytest.mark.usefixtures("client")
def test_show_names_what_was_said_of_the_run_and_of_its_steps(judged: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", judged]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "run: label bad (hand, ann): refunded twice" in printed
    assert "run: helpful 0.25 fail (llm): names <script>alert(1)</script> \\x1b[31manother order" in printed
    assert "step 1: grounded 0.25 fail (llm)" in printed
    assert "step 2: label own-word (hand, ann)" in printed
    assert main(["show", judged, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert [(score["step"], score["name"], score["by"] == "hand") for score in scores] == [
        (None, "helpful", False),
        (None, "label", True),
        (1, "grounded", False),
        (2, "label", False),
        (2, "label", True),
    ]


async def test_the_pages_show_scores_as_text_where_they_belong(client: Client, judged: str) -> None:
    """A judge that calls itself a hand is no label: the form for one holds what a person wrote."""
    page = await text(client, f"/runs/{judged}")
    head, _, transcript = page.partition('id="transcript"')
    listed = head.partition('aria-label="Scores"')[2].partition("</section>")[0]
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in listed
    assert "<bdi>helpful</bdi> 0.25 fail" in listed and "<bdi>grounded</bdi> 0.25 fail" in listed
    assert 'href="#s1">step 1</a>' in listed
    assert "refunded twice" not in listed, "the run's own label stands in its form"
    assert "<bdi>grounded</bdi> 0.25 fail" in transcript and ">own-word</span>" in transcript
    assert "<bdi>helpful</bdi>" not in transcript
    of_step = await text(client, f"/runs/{judged}/steps/2")
    assert 'value="own-word"' in of_step and 'value="forged"' not in of_step
    assert "forged" in of_step.partition('aria-label="Scores"')[2]
    assert "grounded" not in of_step.partition("<main")[2].partition('id="request"')[0]


async def test_a_label_from_elsewhere_is_there_when_the_run_is_opened_again(client: Client, store: Store, judged: str) -> None:
    await text(client, f"/runs/{judged}")
    label(store, judged, {"span_id": "", "label": "late", "note": "", "author": "bob"})
    assert '<span class="status warn">late</span>' in await text(client, f"/runs/{judged}")
    label(store, judged, {"span_id": "", "label": "bad", "note": "refunded twice", "author": "ann"})


async def test_programs_and_coding_agents_read_the_same_scores(client: Client, judged: str) -> None:
    outline = SHOW.execute(RunSource(RunsPlace()), ShowParameters(run=judged))
    answer = await (await client.get(f"/api/v1/runs/{judged}")).json()
    assert [score["explanation"] for score in answer["scores"]] == [score.explanation for score in outline.scores]
    assert "step 1: grounded 0.25 fail (llm)" in Tools(Project()).why_failed(judged, budget=20_000)
