"""`freezeframe export` out of a real store: runs by SQL, and Parquet, which the store writes itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call

from freezeframe_collector.store import Store
from freezeframe_replay.cli import main

pytestmark = pytest.mark.long  # a store


def test_runs_chosen_by_sql_are_exported_and_rows_are_written_as_parquet(
    store: Store, facade_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "e4" * 16  # other tests of this store write the run of make_run
    spans = [replace(span, trace_id=run) for span in make_run(model_call("hello", "hi"))]
    store.insert(list(spans), token="export")
    where = ["--sql", f"SELECT trace_id FROM runs WHERE trace_id = '{run}'", "--store", facade_url]
    calls = tmp_path / "calls.har"
    assert main(["export", *where, "--unredacted", "--to", "har", str(calls)]) == 0
    assert len(json.loads(calls.read_text())["log"]["entries"]) == 1
    assert main(["export", *where, "--to", "parquet", str(tmp_path / "a.parquet")]) == 0
    named = ["export", run, "--store", facade_url, "--to", "parquet", str(tmp_path / "b.parquet")]
    assert main(named) == 1
    assert "it was never redacted" in capsys.readouterr().err
    assert main([*named, "--unredacted"]) == 0
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    assert pandas.read_parquet(tmp_path / "a.parquet").to_dict("records") == [{"trace_id": run}]
    assert set(parquet.read_table(tmp_path / "b.parquet")["span_id"].to_pylist()) == {span.span_id for span in spans}
    assert main(["export", "--sql", "SELECT nothing", "--store", facade_url, "--to", "parquet", str(tmp_path / "c")]) == 1
    assert not (tmp_path / "c").exists()
    assert "nothing" in capsys.readouterr().err
