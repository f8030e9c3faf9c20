"""Recorded agent runs come out of the store complete enough to replay exactly."""

from __future__ import annotations

import pytest
from airline import KEY, numbered, record, redacted, replay

from freezeframe import seams
from freezeframe_collector.store import Store
from freezeframe_redaction import Redactor, load_policy
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict


@pytest.mark.long
def test_redacted_airline_runs_replay_exactly_from_the_store(store: Store, facade_url: str) -> None:
    recorded, url = record(numbered(20, 25))
    redactor = Redactor(load_policy("strict"), KEY)
    # In-memory runs all count their ids from 1; here they share a store with other tests' runs.
    for played in recorded:
        store.insert(redacted(played, redactor), f"airline-{played.number}")
    runs = open_runs(facade_url)
    try:
        for played in recorded:
            spans = runs.load_spans(played.spans[0].trace_id)
            assert not [value for value in played.who.private if value in repr(spans)]
            report, world = replay(freeze(build_run(spans)), played, url)
            assert verdict(report) is Verdict.IDENTICAL
            assert len(report.served) == report.steps > 0
            assert world.touched == 0
    finally:
        runs.close()
        seams.uninstall()
