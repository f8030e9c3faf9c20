"""Each operation has one answer: command line, HTTP API, MCP and pages render the value that it returns."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from handmade_runs import make_run, moved, tool_call
from service_pages import Client

from freezeframe_collector.store import Store
from freezeframe_replay.cli import main
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.mcp.project import WIDTH, Project
from freezeframe_replay.mcp.tools import Tools
from freezeframe_replay.operations.diff import DiffParameters
from freezeframe_replay.operations.failures import FailuresParameters
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.show import ShowParameters
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.sql import SqlParameters
from freezeframe_replay.operations.table import OPERATIONS
from freezeframe_replay.sources.store import json_form
from freezeframe_replay.web.comparison import comparison_page
from freezeframe_schemas import genai
from freezeframe_schemas.span import Resource

pytestmark = pytest.mark.long  # a store

QUERY = "SELECT trace_id, name, start_time FROM runs WHERE service = 'one-answer' ORDER BY trace_id"
RUNS = [f"{number:032x}" for number in range(0xD00F0, 0xD00F5)]


@pytest.fixture(scope="session")
def varied(store: Store) -> Sequence[str]:
    """Five runs of one entry point, whose tool returns another ticket each time; in the second, the place changed, too."""
    for number, run in enumerate(RUNS):
        answer = {"ticket": f"ticket-{number:08}", "place": "Bonn" if number == 1 else "Lyon"}
        resource = Resource(attributes={genai.SERVICE_NAME: "one-answer"})
        spans = [replace(span, resource=resource) for span in make_run(tool_call("track", answer, "AC-1"), answer="found")]
        store.insert(moved(spans, run, number * 1_000_000_000), token=f"one-answer-{number}")
    return RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The same request at each door."""

    parameters: Any
    command: Sequence[str]
    address: str
    tool: str
    arguments: Mapping[str, Any]
    body: Mapping[str, Any] | None = None
    """What is posted to the address."""
    has_json: bool = True
    """Whether the command has --json."""
    full: Any = None
    """Parameters of the address, if it returns more."""
    page: tuple[str, Callable[[RunSource], str]] | None = None
    """Address of the page, and what it is to be."""


def cases() -> Mapping[str, Case]:
    before, after = RUNS[:2]
    return {
        "diff": Case(
            parameters=DiffParameters(before=before, after=after),
            command=["diff", before, after],
            address=f"/api/v1/diff?before={before}&after={after}",
            tool="diff_runs",
            arguments={"before": before, "after": after},
            page=(
                f"/diff?before={before}&after={after}",
                lambda source: comparison_page(
                    BY_NAME["diff"].execute(source, DiffParameters(before=before, after=after, whole=True))
                ),
            ),
        ),
        "failures": Case(
            parameters=FailuresParameters(since=dt.datetime.now(dt.UTC) - dt.timedelta(days=7)),
            command=["failures", "--since", "7d"],
            address="/api/v1/failures?since=7d",
            tool="failures",
            arguments={"since": "7d"},
        ),
        "show": Case(
            parameters=ShowParameters(run=before),
            command=["show", before],
            address=f"/api/v1/runs/{before}",
            full=ShowParameters(run=before, full=True),
            tool="why_failed",
            arguments={"run": before},
        ),
        "sql": Case(
            parameters=SqlParameters(query=QUERY),
            command=["sql", QUERY, "--format", "csv"],
            address="/api/v1/sql",
            body={"query": QUERY},
            has_json=False,
            tool="sql",
            arguments={"query": QUERY},
        ),
    }


BY_NAME = {operation.name: operation for operation in OPERATIONS}


def test_every_operation_has_a_case() -> None:
    assert cases().keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.proof if name == "show" else ()) for name in BY_NAME])
@pytest.mark.usefixtures("varied")
async def test_all_doors_give_one_answer(
    name: str, client: Client, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    case, operation = cases()[name], BY_NAME[name]
    source = RunSource(RunsPlace())
    value = operation.execute(source, case.parameters)

    as_json = in_json(operation, value)
    answer = await client.request("POST" if case.body else "GET", case.address, json=case.body)
    returned = as_json if case.full is None else in_json(operation, operation.execute(source, case.full))
    assert (answer.status, await answer.json()) == (200, returned)
    if case.has_json:
        await asyncio.to_thread(main, [*case.command, "--json"])
        assert json.loads(capsys.readouterr().out) == as_json
    await asyncio.to_thread(main, case.command)
    text = operation.to_text(value, WIDTH).rstrip("\n")
    printed = capsys.readouterr().out
    assert printed == f"{text}\n" or printed.startswith(f"{text}\n\nnext: ")
    said = getattr(Tools(Project()), case.tool)(**case.arguments, budget=20_000)
    assert text in (await said if inspect.isawaitable(said) else said)
    if case.page is not None:
        address, page = case.page
        assert await (await client.get(address)).text() == page(source)


def in_json(operation: Operation[Any, Any], value: Any) -> Any:
    return json.loads(json.dumps(operation.to_json(value), default=json_form))


@pytest.mark.usefixtures("varied", "client")
def test_what_varies_by_itself_is_no_first_difference() -> None:
    """The ticket differs in every run; the place in one only."""
    found = BY_NAME["diff"].execute(RunSource(RunsPlace()), DiffParameters(before=RUNS[0], after=RUNS[1]))
    (pair,) = found.pairs
    assert found.learned_from == 3
    assert ([item.path for item in pair.response], [item.path for item in pair.varying]) == (
        ["$.result.place"],
        ["$.result.ticket"],
    )
    assert not replace(found, pairs=(replace(pair, response=()),)).alike, "what varies still counts"
