"""Each operation has one answer: command line, HTTP API, MCP and pages render the value that it returns."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from handmade_runs import make_run, moved, tool_call
from service_pages import Client

from freezeframe_collector.store import Store
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.experiments.fork import Edit, Target
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.mcp.project import WIDTH, Project
from freezeframe_replay.mcp.tools import Tools
from freezeframe_replay.operations.dataset import DatasetParameters
from freezeframe_replay.operations.diff import DIFF, DiffParameters
from freezeframe_replay.operations.experiment import EXPERIMENT, ExperimentParameters, ResultsParameters, keep_results
from freezeframe_replay.operations.export import ExportParameters
from freezeframe_replay.operations.failures import FailuresParameters
from freezeframe_replay.operations.fixture import FixtureParameters
from freezeframe_replay.operations.fork import ForkParameters
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.replay import REPLAY, ReplayParameters, StepParameters
from freezeframe_replay.operations.runs import RunsParameters
from freezeframe_replay.operations.show import SHOW, ShowParameters
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.sql import SqlParameters
from freezeframe_replay.operations.table import OPERATIONS
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.regression import Expect
from freezeframe_replay.sources.fixture_archive import fixture_files
from freezeframe_replay.sources.run_list import RunQuery
from freezeframe_replay.sources.store import json_form
from freezeframe_replay.web.comparison import comparison_page
from freezeframe_schemas import genai
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import Resource

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a store, and programs that are started again

QUERY = "SELECT trace_id, name, start_time FROM runs WHERE service = 'one-answer' ORDER BY trace_id"
WORDS = "the one and only answer"
RUNS = [f"{number:032x}" for number in range(0xD00F0, 0xD00F5)]


@pytest.fixture(scope="session")
def varied(store: Store) -> Sequence[str]:
    """Five runs of one entry point, whose tool returns another ticket each time; in the second, the place changed, too."""
    for number, run in enumerate(RUNS):
        answer = {"ticket": f"ticket-{number:08}", "place": "Bonn" if number == 1 else "Lyon"}
        resource = Resource(attributes={genai.SERVICE_NAME: "one-answer"})
        spans = [replace(span, resource=resource) for span in make_run(tool_call("track", answer, "AC-1"), question=WORDS)]
        spans = [replace(span, attributes={**span.attributes, genai.REDACTION_POLICY: "default@1"}) for span in spans]
        store.insert(moved(spans, run, number * 1_000_000_000), token=f"one-answer-{number}")
    return RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The same request at each door."""

    parameters: Any
    command: Sequence[str]
    tool: str
    arguments: Mapping[str, Any]
    address: str = ""
    """Of the API, if it has this operation."""
    body: Mapping[str, Any] | None = None
    """What is posted to the address."""
    returned: Callable[[RunSource, Any], Any] | None = None
    """What the address returns, if that is not the operation's own JSON."""
    has_json: bool = True
    """Whether the command has --json."""
    made: Sequence[str] = ()
    """Folders that each door writes."""
    page: tuple[str, Callable[[RunSource], str]] | None = None
    """Address of the page, and what it is to be."""


CHANGED = Edit(target=Target.RESULT, step=1, value=["AC-7"])


def looking() -> Mapping[str, Case]:
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
                lambda source: comparison_page(DIFF.execute(source, DiffParameters(before=before, after=after, whole=True))),
            ),
        ),
        "failures": Case(
            parameters=FailuresParameters(since=dt.datetime.now(dt.UTC) - dt.timedelta(days=7)),
            command=["failures", "--since", "7d"],
            address="/api/v1/failures?since=7d",
            tool="failures",
            arguments={"since": "7d"},
        ),
        "runs": Case(
            parameters=RunsParameters(query=RunQuery(size=20)),
            command=["runs"],
            address="/api/v1/runs?limit=20",
            tool="find_runs",
            arguments={},
        ),
        "runs, failed": Case(
            parameters=RunsParameters(query=RunQuery(size=20, status="partly")),
            command=["runs", "--status", "partly"],
            address="/api/v1/runs?limit=20&status=partly",
            tool="find_runs",
            arguments={"status": "partly"},
        ),
        "runs, search": Case(
            parameters=RunsParameters(query=RunQuery(size=20, words=WORDS)),
            command=["runs", WORDS],
            address=f"/api/v1/runs?limit=20&words={WORDS}",
            tool="find_runs",
            arguments={"text": WORDS},
        ),
        "show": Case(
            parameters=ShowParameters(run=before),
            command=["show", before],
            address=f"/api/v1/runs/{before}",
            returned=lambda source, _: in_json(SHOW, SHOW.execute(source, ShowParameters(run=before, full=True))),
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


def keeping(run: str) -> Mapping[str, Case]:
    """Return the operations that re-enact or write, for a run of the folder's agent."""
    return {
        "replay": Case(
            parameters=ReplayParameters(run=run),
            command=["replay", run],
            address=f"/api/v1/runs/{run}/replay",
            body={},
            returned=lambda source, _: in_json(REPLAY, REPLAY.execute(source, ReplayParameters(run=run, trial=KEEPING_FRAMES))),
            tool="replay",
            arguments={"run": run},
        ),
        "step": Case(
            parameters=StepParameters(run=run, step=2),
            command=["step", run, "--until", "2"],
            tool="stop_at_step",
            arguments={"run": run, "step": 2},
        ),
        "fork": Case(
            parameters=ForkParameters(run=run, edits=[CHANGED], output=Path("made")),
            command=["experiment", "fork", run, "-o", "made", "--step", "1", "--result", '["AC-7"]'],
            address=f"/api/v1/runs/{run}/fork",  # it re-enacts the fork at once
            body={"step": 1, "target": "result", "value": ["AC-7"]},
            returned=lambda source, _: in_json(
                REPLAY, REPLAY.execute(source, ReplayParameters(run="made", trial=KEEPING_FRAMES))
            ),
            tool="fork",
            arguments={"run": run, "directory": "made", "step": 1, "result": ["AC-7"]},
            made=["made"],
        ),
        "fixture": Case(
            parameters=FixtureParameters(run=run, output=Path("made"), expect=Expect.CHANGED),
            command=["fixture", run, "-o", "made", "--pytest"],
            address=f"/api/v1/runs/{run}/fixture",
            returned=lambda _, value: fixture_files(Path(value.fixture)),
            tool="save_test",
            arguments={"run": run, "directory": "made"},
            made=["made"],
        ),
        "export": Case(
            parameters=ExportParameters(format="otlp", output="made/run.jsonl", runs=RUNS[:1]),
            command=["export", RUNS[0], "--as", "otlp", "-o", "made/run.jsonl"],
            address=f"/api/v1/runs/{RUNS[0]}/export/otlp",
            returned=lambda source, value: Path("made/run.jsonl").read_bytes(),
            tool="export",
            arguments={"run": RUNS[0], "format": "otlp", "file": "made/run.jsonl"},
            made=["made"],
        ),
        "dataset": Case(
            parameters=DatasetParameters(output=Path("made"), where=f"trace_id = '{run}'"),
            command=["experiment", "dataset", "--where", f"trace_id = '{run}'", "-o", "made"],
            tool="save_dataset",
            arguments={"directory": "made", "where": f"trace_id = '{run}'", "since": ""},
            made=["made"],
        ),
        "experiment": Case(
            parameters=ExperimentParameters(dataset=Path("set")),
            command=["experiment", "set"],
            tool="experiment",
            arguments={"dataset": "set"},
        ),
        "results": Case(
            parameters=ResultsParameters(dataset=Path("tried")),
            command=["experiment", "results", "tried"],
            tool="experiment_results",
            arguments={"dataset": "tried"},
        ),
    }


KEEPING_FRAMES = Trial(policy=ReplayPolicy(keep_frames=True))
"""The pages of a replay that the API starts show frames."""
BY_NAME = {operation.name: operation for operation in OPERATIONS}
NAMES = [*looking(), *keeping("")]
PROOFS = ("show", "replay")


def test_every_operation_has_a_case() -> None:
    assert {name.partition(",")[0] for name in NAMES} == BY_NAME.keys()


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.proof] * (name in PROOFS)) for name in NAMES])
@pytest.mark.usefixtures("varied")
async def test_all_doors_give_one_answer(
    name: str,
    client: Client,
    folder: Path,
    runs: Mapping[str, Run],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    run = runs["good"].trace_id
    case, operation = {**looking(), **keeping(run)}[name], BY_NAME[name.partition(",")[0]]
    source = RunSource(RunsPlace())
    write_fixture(freeze(runs["good"]), folder / "set")
    if name == "results":
        write_fixture(freeze(runs["good"]), folder / "tried")
        tried = EXPERIMENT.execute(source, ExperimentParameters(dataset=Path("tried")))
        keep_results(tried, {"": folder / "tried" / "results" / "as-it-is.json"})
    value = operation.execute(source, case.parameters)

    as_json = timeless(in_json(operation, value))
    if case.address:
        answer = await client.request("GET" if case.body is None else "POST", case.address, json=case.body)
        expected = as_json if case.returned is None else timeless(case.returned(source, value))
        assert (answer.status, timeless(await read(answer))) == (200, expected)
    if case.has_json:
        remove(case.made)
        await asyncio.to_thread(main, [*case.command, "--json"])
        assert timeless(json.loads(capsys.readouterr().out)) == as_json
    remove(case.made)
    await asyncio.to_thread(main, case.command)
    text = operation.to_text(value, WIDTH).rstrip("\n")
    printed = capsys.readouterr().out
    assert printed.startswith(text)
    assert printed.removeprefix(text).lstrip("\n")[:5] in ("", "next:")
    remove(case.made)
    said = getattr(Tools(Project()), case.tool)(**case.arguments, budget=20_000)
    assert text in (await said if inspect.isawaitable(said) else said)
    remove(case.made)
    if case.page is not None:
        address, page = case.page
        assert await (await client.get(address)).text() == page(source)


def timeless(value: Any) -> Any:
    """Return the value without the time that a replay took."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key != "seconds"}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def remove(folders: Sequence[str]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


async def read(answer: ClientResponse) -> Any:
    """Return the JSON of an answer, the files of its archive, or its bytes."""
    if answer.content_type == "application/json":
        return await answer.json()
    if answer.content_type != "application/gzip":
        return await answer.read()
    with tarfile.open(fileobj=io.BytesIO(await answer.read())) as archive:
        members = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in members.items() if file is not None}


def in_json(operation: Operation[Any, Any], value: Any) -> Any:
    return json.loads(json.dumps(operation.to_json(value), default=json_form))


@pytest.mark.usefixtures("varied", "client")
def test_what_varies_by_itself_is_no_first_difference() -> None:
    """The ticket differs in every run; the place in one only."""
    found = DIFF.execute(RunSource(RunsPlace()), DiffParameters(before=RUNS[0], after=RUNS[1]))
    (pair,) = found.pairs
    assert found.learned_from == 3
    assert ([item.path for item in pair.response], [item.path for item in pair.varying]) == (
        ["$.result.place"],
        ["$.result.ticket"],
    )
    assert not replace(found, pairs=(replace(pair, response=()),)).alike, "what varies still counts"
