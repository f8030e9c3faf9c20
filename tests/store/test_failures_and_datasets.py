"""`freezeframe failures` and `dataset` over a store: similar failures are one group, and runs are chosen by SQL."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import agent_loops
import pytest
from handmade_runs import make_run, model_call
from loopback import QuietHandler, listening

import freezeframe
from freezeframe.testing import capture
from freezeframe_collector.store import Store
from freezeframe_replay.cli import main
from freezeframe_replay.experiments.dataset import load_dataset
from freezeframe_replay.sources.failures import list_failures
from freezeframe_replay.sources.run_list import RunQuery, list_runs
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.errors import PermanentStoreError
from freezeframe_schemas.span import Resource, StatusCode

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
    _, counted = runs.sql(f"SELECT count() FROM runs WHERE service = '{SERVICE}' AND status = 'error'")
    assert sum(group.runs for group in groups if not group.handled) == counted[0][0] > 0
    _, found = runs.sql(f"SELECT trace_id, signature FROM errors WHERE service = '{SERVICE}'")
    assert {(group.newest, group.signature) for group in groups} <= {(trace_id, signature) for trace_id, signature in found}
    assert [(group.handled, -group.runs) for group in groups] == sorted((group.handled, -group.runs) for group in groups)


def test_a_condition_that_is_no_sql_is_refused(runs: RunStore) -> None:
    with pytest.raises(PermanentStoreError):
        list_failures(runs, where="no such column = 1")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [pytest.param("failures", marks=pytest.mark.proof), "runs"])
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


SHOP = "failing-shop"


@freezeframe.tool
def price(article: str) -> int:
    """Fail for some articles."""
    if article == "soft":
        raise TimeoutError("the shop does not answer")
    return {"kettle": 3}[article]


@freezeframe.run
def sell(article: str, number: int) -> int:
    """Fail in one of three ways, after an error that is caught or not."""
    with contextlib.suppress(TimeoutError):
        price("soft")
    if article == "many":
        raise ValueError(f"order {number}: too many")
    return bill(price(article) // number, number)


def bill(total: int, number: int) -> int:
    if number > 90:
        raise ValueError(f"order {number}: too many")
    return total


@pytest.fixture(scope="module")
def sold(store: Store, facade_url: str) -> Iterator[RunStore]:
    """Twelve runs: four causes, each in several runs; and some that went on after an error."""
    with capture() as captured:
        for article, number in (("gone", 1), ("gone", 2), ("many", 71), ("many", 72), ("many", 73), ("kettle", 0)):
            with contextlib.suppress(Exception):
                sell(article, number)
        for number in (97, 98, 3, 4):
            with contextlib.suppress(Exception):
                sell("kettle", number)
        spans = captured.spans
    named = [
        replace(
            span,
            trace_id=f"5e11{span.trace_id[4:]}",  # those of `capture` are the same in each test
            resource=replace(span.resource, attributes={**span.resource.attributes, genai.SERVICE_NAME: SHOP}),
        )
        for span in spans
    ]
    store.insert(named, token="sold")
    opened = open_runs(facade_url)
    yield opened
    opened.close()


def test_runs_are_grouped_by_what_ended_them_and_a_caught_error_is_no_cause(sold: RunStore) -> None:
    """The same message in two functions is two causes; a tool's error that ended a run counts once."""
    groups = list_failures(sold, where=f"service = '{SHOP}'")
    here = Path(__file__).name
    ended = [group for group in groups if not group.handled]
    assert {(re.sub(r":\d+", "", group.frame), group.type, group.runs, group.failures) for group in ended} == {
        (f"{here} in price", "builtins.KeyError", 2, 2),
        (f"{here} in sell", "builtins.ValueError", 3, 3),
        (f"{here} in bill", "builtins.ValueError", 2, 2),
        (f"{here} in sell", "builtins.ZeroDivisionError", 1, 1),
    }
    handled = [(group.kind, group.subject, group.type, group.runs) for group in groups if group.handled]
    assert handled == [("tool", "price", "builtins.TimeoutError", 2)]


def test_a_run_in_the_list_has_the_error_that_ended_it(sold: RunStore) -> None:
    page = list_runs(sold, RunQuery(chosen={"service": SHOP}, status="failed"))
    assert {row.first_error for row in page.rows} == {
        "KeyError: 'gone'",
        *(f"ValueError: order {number}: too many" for number in (71, 72, 73, 97, 98)),
        "ZeroDivisionError: integer division or modulo by zero",
    }


def test_a_tool_call_names_the_code_behind_it(sold: RunStore) -> None:
    _, rows = sold.sql(f"SELECT DISTINCT tool, code, code_digest FROM tool_calls WHERE service = '{SHOP}'")
    [(tool, code, digest)] = rows
    assert (tool, code.rpartition(":")[0].endswith(Path(__file__).name), digest[:7]) == ("price", True, "source:")


def test_a_new_group_is_posted_once_and_again_until_it_is_taken(
    store: Store, facade_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The groups of the first look are known; a run of a known group is no alert."""
    monkeypatch.setenv("FREEZEFRAME_WEBHOOK_SECRET", "whsec_c2VjcmV0")
    monkeypatch.setenv("FREEZEFRAME_DATA", str(tmp_path))
    status, posted = [204], list[dict[str, str]]()

    class Receiver(QuietHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["data"])
            self.send_response(status[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

    def insert(number: int, message: str) -> None:
        failed = replace(
            make_run(model_call("Where?", "There."))[0],
            trace_id=f"{number:032x}",
            status_code=StatusCode.ERROR,
            status_message=message,
        )
        named = failed.with_attributes({genai.ERROR_TYPE: "ValueError", genai.ENTRY_TARGET: "watched:answer"})
        service = Resource(attributes={genai.SERVICE_NAME: "watched"})
        store.insert([replace(named, resource=service)], token=f"watched {number}")

    with listening(Receiver) as url:
        look = ["failures", "--store", facade_url, "--where", "service = 'watched'", "--post", f"{url}/hook"]
        insert(0xA1, "no stock")
        assert main(look) == 0
        insert(0xA2, "no stock")
        assert (main(look), posted) == (0, [])
        insert(0xA3, "no price")
        status[0] = 503
        assert main(look) == 1
        status[0] = 204
        assert [main(look), main(look)] == [0, 0]
    assert [each["run"] for each in posted] == [f"{0xA3:032x}"] * 2, "refused once"
    assert "no price" in posted[0]["message"]
    assert "status 503" in capsys.readouterr().err
