"""The collector's own retention: what `expire` does, by the hour and by the configuration."""

from __future__ import annotations

import datetime as dt
import time

import agent_loops
import pytest

from freezeframe_collector.service import Sweeper
from freezeframe_collector.settings.config import parse_tenant_days
from freezeframe_collector.store import Store
from freezeframe_collector.store.retention import Retention
from freezeframe_schemas.errors import ConfigError

LATER = dt.datetime.fromtimestamp(agent_loops.START_NS / 1e9, dt.UTC).date() + dt.timedelta(days=40)


def runs(store: Store) -> int:
    return int(store.query(f"SELECT count() FROM {store.database}.runs WHERE status = 'ok'")[1][0][0])


@pytest.mark.proof
@pytest.mark.long
def test_a_sweep_drops_the_days_that_are_over(own: Store) -> None:
    own.insert(agent_loops.agent_run(2, turns=2), token="swept")
    sweeper = Sweeper(own, Retention(days=30))
    sweeper.sweep(LATER - dt.timedelta(days=20))
    kept = runs(own)
    sweeper.sweep(LATER + dt.timedelta(days=200))
    assert (kept, runs(own)) == (1, 0)


@pytest.mark.long
def test_the_thread_sweeps_by_itself_and_stops_when_told(own: Store) -> None:
    spans = agent_loops.agent_run(2, turns=2, start_ns=10**18, spread_ns=1)  # in 2001: over, whatever today is
    own.insert(spans, token="old")
    sweeper = Sweeper(own, Retention(days=1, failed_days=1), interval_s=0.05)
    sweeper.start()
    while runs(own):  # the test's own time limit bounds it
        time.sleep(0.01)
    assert sweeper.stop(300)
    assert runs(own) == 0


def test_days_of_tenants_are_read_and_faults_named() -> None:
    assert parse_tenant_days("acme=30, beta=7") == {"acme": 30, "beta": 7}
    assert parse_tenant_days("") == {}
    with pytest.raises(ConfigError, match=r"retention.tenants: found 'beta', expected TENANT=DAYS"):
        parse_tenant_days("acme=30,beta")
