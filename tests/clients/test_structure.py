"""Teams of agents with OpenInference's instrumentors: who asked what is known, each call is there once, and replays do without.

`make test-clients` runs this where the frameworks are. FREEZEFRAME_UPDATE_GOLDEN=1 keeps what was recorded for the tests of the
store, the pages and the backends.
"""

from __future__ import annotations

import os

import pytest
from clients.client import CORE, Column, World
from clients.harness import finished, not_captured, not_replayed, on_disk, own_loop
from clients.provider import Provider
from clients.table import load_structure, write_structure
from clients.team import Team, all_teams
from recorded_teams import keep_team, recorded_team

import freezeframe
from freezeframe.testing import Captured, capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind, exchange_from_span
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

ENVIRONMENT = os.environ.get("FREEZEFRAME_CLIENTS", CORE)
UPDATE = "FREEZEFRAME_UPDATE_GOLDEN"
pytestmark = pytest.mark.long

HERE = [name for name, team in all_teams().items() if team.environment == ENVIRONMENT]
KEPT = ["openai-agents"]
"""Those whose packages the tests have anyway, without an instrumentor."""


def recorded(team: Team, *, structure: bool) -> tuple[Captured, Provider, object]:
    """Let the team work; return what was captured, what crossed the wire, and what it got."""
    with Provider(team.script) as provider, capture(structure=structure) as captured, own_loop():
        got = finished(freezeframe.run(name=team.use.__name__)(team.use)(World(provider.port)))
        captured.handle.flush(10)
    return captured, provider, got


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, openai-agents sends its traces nowhere."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize("name", HERE)
def test_each_call_is_recorded_once_and_names_its_agent(name: str) -> None:
    team = all_teams()[name]
    bare_captured, _, bare = recorded(team, structure=False)
    captured, provider, got = recorded(team, structure=True)
    assert got == bare
    run = build_run(captured.spans)
    assert not_captured(run, provider.crossed, Column.SYNC) == []
    agents = [span.text(genai.AGENT_NAME) for span in captured.spans if _is_model_call(span)]
    assert agents == list(team.agents)
    assert not any(span.text(genai.AGENT_NAME) for span in bare_captured.spans)
    if os.environ.get(UPDATE):
        keep_team(name, captured.spans)
        write_structure(team, len(agents))


def _is_model_call(span: SpanRecord) -> bool:
    exchange = exchange_from_span(span)
    return exchange is not None and exchange.kind is Kind.MODEL


@pytest.mark.parametrize("name", HERE)
def test_a_run_replays_alike_whether_it_was_recorded_with_the_instrumentor_or_not(name: str) -> None:
    team = all_teams()[name]
    for structure in (True, False):
        captured, provider, got = recorded(team, structure=structure)
        fixture = on_disk(freeze(build_run(captured.spans)))
        assert not_replayed(fixture, team.use, World(provider.port), got) == []


@pytest.mark.skipif(ENVIRONMENT != CORE, reason="elsewhere the instrumentors are installed")
@pytest.mark.parametrize("name", KEPT)
def test_a_run_that_was_recorded_with_the_instrumentor_replays_without_it(name: str) -> None:
    team = all_teams()[name]
    _, provider, got = recorded(team, structure=True)
    fixture = on_disk(freeze(build_run(recorded_team(name))))
    assert not_replayed(fixture, team.use, World(provider.port), got) == []


@pytest.mark.skipif(ENVIRONMENT != CORE, reason="once is enough")
def test_every_team_has_been_tried() -> None:
    tried = {name: set(row["agents"]) for name, row in load_structure().items()}
    assert tried == {name: set(team.agents) for name, team in all_teams().items()}
