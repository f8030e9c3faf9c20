"""The replay law: record -> OTLP -> redact -> store -> load -> replay gives zero divergences; one changed field gives its own.

Held for every variant of the example agent: the openai SDK sync, async and streamed, the streamed Anthropic summary, LangGraph.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from order_shop import EXAMPLE
from theatre import VARIANTS, Recorded, Theatre

from freezeframe.seams import serve, stop_serving
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.backends import load_backend_spans
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.exchange import Chunk, Kind
from freezeframe_schemas.fixture import Fixture, Step, load_fixture, write_fixture
from freezeframe_schemas.run import NOT_VERIFIED, build_run, readiness
from freezeframe_schemas.verdict import Verdict, verdict

# the first test of a session also waits for everything to start, and for four agents to answer
pytestmark = [pytest.mark.long, pytest.mark.timeout(900), pytest.mark.usefixtures("warm_python")]

every_variant = pytest.mark.parametrize("variant", VARIANTS)
two_variants = pytest.mark.parametrize("variant", [pytest.param("stream", marks=pytest.mark.proof), "langgraph"])
"""For tests that do not depend on how the agent asks its model."""


def play(fixture: Fixture) -> Report:
    """Re-enact the fixture with the example's own code, in its own folder."""
    return reenact(fixture, cwd=EXAMPLE)


def change_step(fixture: Fixture, number: int, **changes: Any) -> Fixture:
    """Return the fixture with one step's exchange changed."""
    steps = tuple(
        replace(step, exchange=replace(step.exchange, **changes)) if step.number == number else step for step in fixture.steps
    )
    return replace(fixture, steps=steps)


def first_of(fixture: Fixture, kind: Kind, *, after: int = 0) -> Step:
    return next(step for step in fixture.askable if step.exchange.kind is kind and step.number > after)


@pytest.mark.proof("verdict identical", "law replay", "command replay", "command fixture")
@every_variant
def test_a_recorded_run_replays_with_zero_divergences_and_reaches_nothing(theatre: Theatre, variant: str) -> None:
    recorded = theatre.runs[variant]
    before = theatre.shop.calls()
    report = play(recorded.fixture)
    assert report.divergences == ()
    assert verdict(report) is Verdict.IDENTICAL
    assert len(report.served) == report.steps == len(recorded.fixture.askable) == 8
    assert {item.how for item in report.served} == {"exact"}
    assert report.sockets_tried == 0
    assert theatre.shop.calls() == before


@pytest.mark.proof
@every_variant
def test_the_store_holds_the_run_whole_enough_for_the_highest_level(theatre: Theatre, variant: str) -> None:
    run = theatre.runs[variant].run
    assert readiness(run).blocking == (NOT_VERIFIED,)
    assert readiness(replace(run, verified=True)).level == 6


@pytest.mark.proof
@every_variant
def test_a_fixture_comes_back_from_its_files_unchanged(theatre: Theatre, variant: str, tmp_path: Path) -> None:
    fixture = theatre.runs[variant].fixture
    write_fixture(fixture, tmp_path)
    assert load_fixture(tmp_path) == fixture


@pytest.mark.proof
@every_variant
def test_every_model_response_is_served_with_the_recorded_bytes_and_borders(theatre: Theatre, variant: str) -> None:
    fixture = theatre.runs[variant].fixture
    models = [step for step in fixture.askable if step.exchange.kind is Kind.MODEL]
    serve(ReplaySession(fixture))
    try:
        with httpx.Client() as client:
            for step in models:
                request, response = step.exchange.request, step.exchange.response
                with client.stream(request.method, request.url, content=request.body, headers=dict(request.headers)) as live:
                    # in this order: reading on past a stream that the agent closed early is a miss
                    pieces = [piece for _, piece in zip(response.chunks, live.iter_raw(), strict=False)]
                assert live.status_code == response.status
                assert pieces == [chunk.data for chunk in response.chunks]
    finally:
        stop_serving()
    assert models


@two_variants
def test_a_changed_prompt_diverges_at_its_own_step_and_field(theatre: Theatre, variant: str) -> None:
    fixture = theatre.runs[variant].fixture
    step = first_of(fixture, Kind.MODEL)
    request = step.exchange.request
    body = json.loads(request.body)
    body["messages"][0]["content"] += " Answer in rhymes."
    changed = replace(request, body=json.dumps(body).encode())
    report = play(change_step(fixture, step.number, request=changed))
    assert report.first is not None
    assert report.first.kind is DivergenceKind.REQUEST_CHANGED
    assert report.first.step == step.number
    assert report.first.path == "$.body.messages[0].content"
    assert report.first.differed == ("body.messages",)


@pytest.mark.parametrize("variant", ["langgraph"])
def test_a_changed_tool_result_diverges_at_the_next_model_call(theatre: Theatre, variant: str) -> None:
    fixture = theatre.runs[variant].fixture
    tool = next(step for step in fixture.askable if step.exchange.name == "get_price")
    response = tool.exchange.response
    text = response.body.decode().replace("price unavailable", "price withdrawn")
    changed = replace(response, chunks=(Chunk(data=text.encode()),))
    report = play(change_step(fixture, tool.number, response=changed))
    assert report.first is not None
    assert report.first.kind is DivergenceKind.REQUEST_CHANGED
    assert report.first.step == first_of(fixture, Kind.MODEL, after=tool.number).number
    assert "withdrawn" in (report.first.live or "")
    assert "unavailable" in (report.first.recorded or "")


@two_variants
def test_a_changed_answer_of_the_last_model_is_a_changed_outcome(theatre: Theatre, variant: str) -> None:
    recorded = theatre.runs[variant]
    entry = replace(recorded.fixture.entry, output='"We lost it."')
    report = play(replace(recorded.fixture, entry=entry))
    assert [item.kind for item in report.divergences] == [DivergenceKind.OUTCOME_CHANGED]


@pytest.mark.parametrize("variant", ["stream"])
def test_a_run_replays_the_same_through_the_exporters_layout(theatre: Theatre, variant: str) -> None:
    """A reader that knows only the OpenTelemetry Collector's tables gets the whole run, and a replay of it is identical."""
    recorded = theatre.runs[variant]
    port = json.loads((theatre.data / "ports.json").read_text())["clickhouse"]
    url = f"clickhouse://127.0.0.1:{port}/freezeframe?table=otel_traces"
    run = build_run(load_backend_spans(url, recorded.run.trace_id))
    assert readiness(run) == readiness(recorded.run)
    assert freeze(run) == recorded.fixture
    assert verdict(play(freeze(run))) is Verdict.IDENTICAL


@pytest.mark.proof
def test_freezing_the_same_run_twice_gives_the_same_fixture(theatre: Theatre) -> None:
    recorded: Recorded = theatre.runs["sync"]
    assert freeze(recorded.run) == recorded.fixture
