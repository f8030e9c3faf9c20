"""`freezeframe failures` and `dataset` over a store: similar failures are one group, and runs are chosen by SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import agent_loops
import pytest

from freezeframe_collector.store import Store
from freezeframe_replay.cli import main
from freezeframe_replay.experiments.dataset import load_dataset
from freezeframe_replay.sources.failures import list_failures
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.errors import PermanentStoreError

pytestmark = pytest.mark.long  # a filled store

SERVICE = "failing-service"


@pytest.fixture(scope="module")
def runs(store: Store, facade_url: str) -> Iterator[RunStore]:
    """Forty runs of a separate service."""
    spans = [
        replace(span, resource=replace(span.resource, attributes={**span.resource.attributes, genai.SERVICE_NAME: SERVICE}))
        for span in agent_loops.agent_runs(7000, 40)
    ]
    store.insert(spans, token="failures")
    opened = open_runs(facade_url)
    yield opened
    opened.close()


@pytest.mark.proof("command failures")
def test_failures_alike_are_one_group_with_a_run_that_has_it(runs: RunStore) -> None:
    groups = list_failures(runs, where=f"service = '{SERVICE}'")
    refused = [group for group in groups if group.kind == "model"]
    assert refused and len({group.signature for group in groups}) == len(groups)
    _, counted = runs.sql(f"SELECT count() FROM errors WHERE service = '{SERVICE}'")
    assert sum(group.failures for group in groups) == counted[0][0]
    _, found = runs.sql(f"SELECT trace_id, signature FROM errors WHERE service = '{SERVICE}'")
    assert {(group.newest, group.signature) for group in groups} <= {(trace_id, signature) for trace_id, signature in found}
    assert [group.runs for group in groups] == sorted((group.runs for group in groups), reverse=True)


def test_a_condition_that_is_no_sql_is_refused(runs: RunStore) -> None:
    with pytest.raises(PermanentStoreError):
        list_failures(runs, where="no such column = 1")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["failures", "runs"])
@pytest.mark.usefixtures("runs")
def test_no_line_of_a_table_is_wider_than_the_terminal(
    command: str, columns: int, facade_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([command, "--store", facade_url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= columns


@pytest.mark.proof("command experiment dataset")
def test_one_run_of_each_group_becomes_a_dataset(
    runs: RunStore, facade_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = f"service = '{SERVICE}'"
    out = str(tmp_path / "set")
    assert main(["failures", "--store", facade_url, "--where", where, "-o", out, "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)
    dataset = load_dataset(Path(out))
    assert {row.run_id for row in dataset.rows} == {group["newest"] for group in groups}
    assert all(row.note for row in dataset.rows)
    assert dataset.load(dataset.rows[0]).run_id == dataset.rows[0].run_id


def test_runs_are_chosen_by_a_condition_or_by_a_query(
    runs: RunStore, facade_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--store", facade_url, "--limit", "3", "--quiet"]
    assert (
        main(
            [
                "experiment",
                "dataset",
                *common,
                "--where",
                f"service = '{SERVICE}' AND tool_calls > 0",
                "-o",
                str(tmp_path / "a"),
            ]
        )
        == 0
    )
    query = f"SELECT DISTINCT trace_id FROM tool_calls WHERE service = '{SERVICE}' ORDER BY trace_id"
    assert main(["experiment", "dataset", *common, "--sql", query, "-o", str(tmp_path / "b")]) == 0
    _, expected = runs.sql(f"{query} LIMIT 3")
    assert [row.run_id for row in load_dataset(tmp_path / "b").rows] == [row[0] for row in expected]
    assert len(load_dataset(tmp_path / "a").rows) == 3
    assert main(["experiment", "dataset", *common, "--where", "service = 'nobody'", "-o", str(tmp_path / "c")]) == 1
    assert "no runs were chosen" in capsys.readouterr().err
