"""`freezeframe export` out of a real store: runs chosen by SQL."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call

from freezeframe_collector.store import Store
from freezeframe_replay.cli import main

pytestmark = pytest.mark.long  # a store


def test_runs_chosen_by_sql_are_exported(store: Store, facade_url: str, tmp_path: Path) -> None:
    run = "e4" * 16  # other tests of this store write the run of make_run
    spans = [replace(span, trace_id=run) for span in make_run(model_call("hello", "hi"))]
    store.insert(list(spans), token="export")
    where = ["--sql", f"SELECT trace_id FROM runs WHERE trace_id = '{run}'", "--store", facade_url]
    calls = tmp_path / "calls.har"
    assert main(["export", *where, "--unredacted", "--as", "har", "-o", str(calls)]) == 0
    assert len(json.loads(calls.read_text())["log"]["entries"]) == 1
