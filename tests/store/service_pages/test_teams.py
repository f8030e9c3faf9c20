"""Runs of several agents, recorded with OpenInference's instrumentors: SQL and pages name who made each call."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from clients.team import all_teams
from handmade_runs import moved
from recorded_teams import recorded_team
from service_pages import Client, text

from freezeframe_collector.store import Store
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind

pytestmark = pytest.mark.long  # a store


@pytest.fixture(params=sorted(all_teams()))
def team(request: pytest.FixtureRequest, store: Store) -> tuple[str, str]:
    """Put the run of a team into the store, once; return the team and the run's id."""
    name: str = request.param
    trace_id = name.encode().hex()[:8].ljust(32, "7")
    service = {genai.SERVICE_NAME: f"team-{name}"}
    spans = moved(list(recorded_team(name)), trace_id, 0)
    spans = [replace(span, resource=replace(span.resource, attributes=service)) for span in spans]
    store.insert(spans, token=f"team-{name}")
    return name, trace_id


def test_the_view_of_agents_counts_each_call_once(team: tuple[str, str], store: Store) -> None:
    """Though the instrumentor has a span for it, too."""
    name, trace_id = team
    expected = Counter(all_teams()[name].agents)
    query = f"SELECT agent, toUInt32(count()) FROM {store.database}.model_calls WHERE trace_id = '{trace_id}' GROUP BY agent"
    assert {agent: int(calls) for agent, calls in store.query(query)[1]} == expected
    in_view = f"SELECT agent FROM {store.database}.agents"
    assert expected.keys() <= {agent for (agent,) in store.query(in_view)[1]}


async def test_the_pages_of_a_run_name_the_agent_of_each_call(team: tuple[str, str], client: Client) -> None:
    """The transcript and the timeline at each call, and the lanes those of their calls, if there are several."""
    name, trace_id = team
    agents = all_teams()[name].agents
    shown = r"<span[^>]*>agent <bdi>([^<]*)</bdi>"
    transcript = await text(client, f"/runs/{trace_id}")
    calls = [part for part in transcript.split('<span class="kind">')[1:] if part.startswith(Kind.MODEL.value)]
    assert [re.findall(shown, part)[:1] for part in calls] == [[agent] for agent in agents]
    timeline = await text(client, f"/runs/{trace_id}?tab=timeline")
    assert Counter(agents) <= Counter(re.findall(shown, timeline))
    lanes = re.findall(r"<dt>[^<]+ <bdi>([^<]*)</bdi></dt>", timeline)
    assert {agent for lane in lanes for agent in lane.split(", ")} == (set(agents) if "<h2>Lanes</h2>" in timeline else set())
