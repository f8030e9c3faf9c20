"""The tools.

A coding agent reads their docstrings and parameters, so they are short. Each is an operation, in this process
and in a thread: the server answers other calls meanwhile. Only a replayed program has a separate process.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio
from pydantic import Field

from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.experiments.dataset import result_file
from freezeframe_replay.experiments.fork import Edit, Target
from freezeframe_replay.local.target import is_fixture, load_run, sql_store_of
from freezeframe_replay.mcp.answers import (
    MAX_TOKENS,
    MIN_TOKENS,
    answer_text,
    page_size,
    page_text,
)
from freezeframe_replay.mcp.project import WIDTH, Project
from freezeframe_replay.operations.dataset import DATASET, DatasetParameters
from freezeframe_replay.operations.diff import DIFF, DiffParameters
from freezeframe_replay.operations.experiment import EXPERIMENT, RESULTS, ExperimentParameters, ResultsParameters, keep_results
from freezeframe_replay.operations.export import EXPORT, FORMATS, ExportParameters
from freezeframe_replay.operations.failures import FAILURES, FailuresParameters
from freezeframe_replay.operations.fixture import FIXTURE, FixtureParameters
from freezeframe_replay.operations.fork import FORK, ForkParameters, edit_at
from freezeframe_replay.operations.operation import Operation, P, R
from freezeframe_replay.operations.replay import (
    REPLAY,
    STEP,
    Replayed,
    ReplayParameters,
    StepParameters,
    replayed_text,
)
from freezeframe_replay.operations.runs import RUNS, RunsParameters
from freezeframe_replay.operations.show import with_scores
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.sql import SQL, SqlParameters
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.failure import failure_lines, find_failure, stack_lines
from freezeframe_replay.report.outline import Outline
from freezeframe_replay.report.reading import LastReading
from freezeframe_replay.report.regression import Expect
from freezeframe_replay.report.render import ID_DIGITS, outline_text
from freezeframe_replay.report.transcript_text import passages
from freezeframe_replay.sources.ages import age_s
from freezeframe_replay.sources.run_list import RunQuery
from freezeframe_replay.sources.span_file import split_name
from freezeframe_replay.sources.store import KeptStore
from freezeframe_replay.sources.store_door import is_backend
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import ConfigError, FreezeframeError, RunError
from freezeframe_schemas.run import EntryKind, Run
from freezeframe_schemas.verdict import Verdict, verdict

_MAX_RUNS: Final = 100
_MAX_QUERY_LENGTH: Final = 20_000
_MAX_TEXT_LENGTH: Final = 50_000

RunName = Annotated[
    str, Field(description="id of a run or its first digits, `last`, `last-failed`, or the path of a fixture in the project")
]
Budget = Annotated[
    int | None, Field(ge=MIN_TOKENS, le=MAX_TOKENS, description="tokens that the answer may take (default: the server's)")
]
Since = Annotated[str, Field(description="only the last 15m, 1h, 7d, ...")]
NewDirectory = Annotated[str, Field(description="new directory in the project, for example tests/regressions/late-order")]
RunTools = Annotated[
    list[str] | None,
    Field(description="tools whose own code runs, after an edit in it; their calls are answered", max_length=20),
]
Step = Annotated[int, Field(ge=1, description="number of a step")]


class Tools:
    """Tools of the server for one project. Each method in `index.TOOLS` is a tool."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._store = KeptStore(lambda: sql_store_of(project.place))
        self._source = RunSource(project.place, self._store)
        self._last = LastReading()
        self._ids: dict[str, str] = {}
        """Short name -> trace id, of runs that were read: the store keeps the last one open under its whole id."""
        self._running = anyio.Lock()
        """One program at a time: each is the user's code."""

    # -- look -----------------------------------------------------------------------------------------------------------

    async def find_runs(
        self,
        text: Annotated[
            str, Field(description="words in inputs, answers, errors or payloads; empty for all", max_length=400)
        ] = "",
        status: Literal["", "failed", "partly", "unfinished", "ended", "ok"] = "",
        since: Since = "",
        limit: Annotated[int, Field(ge=1, le=_MAX_RUNS)] = 20,
        after: Annotated[str, Field(description="id of the run to go on after", max_length=64)] = "",
        budget: Budget = None,
    ) -> str:
        """Find recorded runs, newest first. Status `partly`: ok, but a step in it failed; `ended`: it may have failed."""
        query = RunQuery(words=text.strip(), status=status, since=_start(since), after=after, size=limit)
        page = await self._compute(RUNS, RunsParameters(query=query, counted=True))
        if not page.rows:
            return self._answer("", "no run matches; find_runs() without arguments lists all", budget)
        last = page.rows[-1].trace_id[:ID_DIGITS]
        more = f'; find_runs(after="{last}", ...) lists more' if page.last < page.total else ""
        return self._answer(
            RUNS.to_text(page, WIDTH),
            f'next: why_failed(run="{page.rows[0].trace_id[:ID_DIGITS]}") or transcript(run=...){more}',
            budget,
            head=f"runs {page.first} to {page.last} of {page.total}",
            more="a smaller limit with `after` goes through all",
        )

    async def failures(self, since: Since = "7d", budget: Budget = None) -> str:
        """Group recent failed runs by what ended them, with the newest run of each group; then errors that were handled."""
        found = await self._do(FAILURES, FailuresParameters(since=_start(since)))
        return self._answer(found, 'next: why_failed(run=...) for a run of the column "newest"', budget)

    def why_failed(self, run: RunName = "last-failed", budget: Budget = None) -> str:
        """Say why a run failed: exception, first failed step, stack; then its input, outcome, commit, steps, and how far it
        can be replayed. Also describes a run that is ok.
        """
        loaded, named = self._load(run)
        why, first = why_text(loaded, with_scores(self._last.of(loaded).outline, self._source, named))
        at = f", step={first}" if first is not None else ""
        return self._answer(why, f'next: transcript(run="{named}"{at}) or replay(run="{named}")', budget)

    def transcript(
        self,
        run: RunName,
        step: Annotated[int | None, Field(ge=1, description="begin at this step")] = None,
        at: Annotated[int, Field(ge=0, description="go on at this character, as the answer before said")] = 0,
        budget: Budget = None,
    ) -> str:
        """Read a run as one conversation: system prompt, messages, tool calls with results, retrieved chunks, errors. A long
        one comes in parts; each answer names the call for the next part.
        """
        loaded, named = self._load(run)
        size = page_size(budget or self._project.budget)
        page, after, whole = page_text(passages(self._last.of(loaded).transcript), step=step, at=at, size=size)
        if not whole:
            return self._answer("", f'no call of a model or a tool was recorded; why_failed(run="{named}")', budget)
        if after:
            then = f'next: transcript(run="{named}", at={after}) goes on (of {whole} characters)'
        else:
            then = f'this is the end of {whole} characters; next: replay(run="{named}")'
        return self._answer(page, then, budget)

    async def sql(
        self,
        query: Annotated[str, Field(description="one SELECT of ClickHouse SQL", max_length=_MAX_QUERY_LENGTH)],
        budget: Budget = None,
    ) -> str:
        """Query the store, read-only. Views: runs, steps, errors, model_calls, tool_calls, search(words='...'), readiness;
        `DESCRIBE steps` lists columns. Give a LIMIT. The answer is CSV.
        """
        found = await self._do(SQL, SqlParameters(query=query))
        return self._answer(found, "next: why_failed(run=...) or transcript(run=...) for a trace_id", budget)

    async def diff_runs(self, before: RunName, after: RunName, budget: Budget = None) -> str:
        """Compare two runs step by step: the first difference, and the changed requests and answers."""
        names = [self._project.run_name(name) for name in (before, after)]
        found = await self._do(DIFF, DiffParameters(before=names[0], after=names[1]))
        return self._answer(found, "next: transcript(run=..., step=N) around the first difference", budget)

    # -- re-enact -------------------------------------------------------------------------------------------------------

    async def replay(
        self,
        run: RunName,
        ignore: Annotated[
            list[str] | None,
            Field(description="parts of requests that may differ, for example body.temperature", max_length=20),
        ] = None,
        run_tools: RunTools = None,
        budget: Budget = None,
    ) -> str:
        """Run the project's code again on the run's recorded input. Every model, tool and retrieval is answered from the
        recording: no network, no key, and no tool's code but that of `run_tools`. `identical`: the code behaves as recorded, so
        a bug in the run is reproduced. `diverged`: the first difference is shown; after an edit it is its effect.
        """
        named = self._project.run_name(run)
        policy = ReplayPolicy(ignore=tuple(ignore or ()), run_tools=frozenset(run_tools or ()))
        replayed = await self._start(REPLAY, lambda trial: ReplayParameters(run=named, trial=trial), policy)
        return self._replayed(replayed, named, budget)

    async def stop_at_step(self, run: RunName, step: Step, budget: Budget = None) -> str:
        """Replay up to a step and stop in the project's code: its frames with their variables, the request that it is about
        to make, what was recorded there, and the answer that it would get.
        """
        named = self._project.run_name(run)
        replayed = await self._start(STEP, lambda trial: StepParameters(run=named, step=step, trial=trial))
        return self._replayed(replayed, named, budget)

    # -- change and keep ------------------------------------------------------------------------------------------------

    async def fork(
        self,
        run: RunName,
        directory: NewDirectory,
        step: Annotated[int | None, Field(ge=1, description="the step whose answer to change")] = None,
        result: Annotated[Any, Field(description="what the tool or retriever returns, as JSON")] = None,
        response: Annotated[str, Field(description="what the model says", max_length=_MAX_TEXT_LENGTH)] = "",
        values: Annotated[list[str] | None, Field(description="PATH=JSON in the step's answer", max_length=20)] = None,
        inputs: Annotated[
            list[str] | None, Field(description='PATH=JSON in the input, kwargs.question="Where?"', max_length=20)
        ] = None,
        budget: Budget = None,
    ) -> str:
        """Write a fixture of the run with a tool's result, a model's answer or the input changed, to ask: what would the code
        have done then? Replay the fixture to see it.
        """
        named, output = self._project.run_name(run), self._project.new_directory(directory)
        if inputs:
            await anyio.to_thread.run_sync(self._check_input, named)
        edits = [edit_at(Target.INPUT, text) for text in inputs or ()]
        if result is not None:
            edits.append(Edit(target=Target.RESULT, step=step, value=result))
        if response:
            edits.append(Edit(target=Target.RESPONSE, step=step, value=response))
        edits += [edit_at(Target.BODY, text, step) for text in values or ()]
        made = await self._compute(FORK, ForkParameters(run=named, edits=edits, output=output))
        return self._written(FORK, made, f'next: replay(run="{output}")', budget)

    async def save_test(
        self,
        run: RunName,
        directory: NewDirectory,
        expect: Annotated[
            Literal["changed", "identical"],
            Field(
                description="changed: fails while the recorded failure is re-enacted; identical: fails once anything differs"
            ),
        ] = "changed",
        budget: Budget = None,
    ) -> str:
        """Write the run as a fixture with a pytest regression test next to it, which needs no store, network or key."""
        parameters = FixtureParameters(
            run=self._project.run_name(run),
            output=self._project.new_directory(directory),
            expect=Expect(expect),
            command=self._project.program,
        )
        made = await self._compute(FIXTURE, parameters)
        return self._written(FIXTURE, made, f"next: run `pytest {made.fixture}` in the project", budget)

    async def export(
        self,
        run: RunName,
        format: Annotated[str, Field(description=f"one of {', '.join(FORMATS)}")],  # noqa: A002 - as the command calls it
        file: Annotated[str, Field(description="new file in the project (audit: a directory), for example out/run.jsonl")],
        budget: Budget = None,
    ) -> str:
        """Write a run in the format of another tool; `pack` is one file with its code and a page. Nothing is sent anywhere."""
        parameters = ExportParameters(format=format, runs=[self._project.run_name(run)], output=self._project.new_file(file))
        made = await self._compute(EXPORT, parameters)
        return self._written(EXPORT, made, f"next: {made.then}" if made.then else "", budget)

    async def save_dataset(
        self,
        directory: NewDirectory,
        where: Annotated[
            str, Field(description="SQL condition on the view `runs`; empty for all", max_length=_MAX_QUERY_LENGTH)
        ] = "",
        since: Since = "7d",
        limit: Annotated[int, Field(ge=1, le=_MAX_RUNS)] = 20,
        budget: Budget = None,
    ) -> str:
        """Write the newest runs that a condition chooses as a folder of fixtures."""
        output = self._project.new_directory(directory)
        parameters = DatasetParameters(output=output, where=where, since=_start(since), limit=limit)
        made = await self._compute(DATASET, parameters)
        return self._written(DATASET, made, f'next: experiment(dataset="{output}")', budget)

    async def experiment(
        self,
        dataset: Annotated[str, Field(description="directory that save_dataset wrote")],
        run_tools: RunTools = None,
        keep: Annotated[
            str,
            Field(description="new name under which the dataset keeps the result: shorter-prompt", max_length=60),
        ] = "",
        budget: Budget = None,
    ) -> str:
        """Replay every run of a dataset with the code of the project, offline, and list the runs that changed. To compare
        several edits, keep each under its own name, then read experiment_results.
        """
        folder, policy = self._project.folder(dataset), ReplayPolicy(run_tools=frozenset(run_tools or ()))
        file = Path(self._project.new_file(str(result_file(folder, keep)))) if keep else None
        result = await self._start(EXPERIMENT, lambda trial: ExperimentParameters(dataset=folder, trial=trial), policy)
        then = "next: replay(run=...) for a run that changed"
        if file is not None:
            await anyio.to_thread.run_sync(keep_results, result, {"": file})
            then += f'; experiment_results(dataset="{folder}") compares what is kept'
        return self._answer(EXPERIMENT.to_text(result, WIDTH), then, budget)

    async def experiment_results(
        self,
        dataset: Annotated[str, Field(description="directory of a dataset, or of one of its fixtures")],
        names: Annotated[list[str] | None, Field(description="only these kept results; one shows what it changed")] = None,
        budget: Budget = None,
    ) -> str:
        """Read the kept results of experiments, of `experiment` or of the user: in which runs each candidate passes, what it
        fixes and breaks. Nothing is run.
        """
        found = await self._do(RESULTS, ResultsParameters(dataset=self._project.folder(dataset), names=names or ()))
        then = f'next: experiment_results(dataset="{dataset}", names=["NAME"]) for what one changed'
        return self._answer(found, then, budget)

    # -- what all of them use -------------------------------------------------------------------------------------------

    def _load(self, named: str) -> tuple[Run, str]:
        """Return a run, and its name for later calls: `last` may be another one by then.

        Raises:
            ConfigError: it is a fixture.
        """
        name = self._project.run_name(named)
        if split_name(name) is not None:
            return load_run(self._project.place, name), name
        if is_fixture(name):
            raise ConfigError(f"run: {name!r} is a fixture, which can be replayed, not read", do="name the run, or replay it")
        if is_backend(self._project.place.store or ""):
            return load_run(self._project.place, name), name
        try:
            run = self._store.load(self._ids.get(name, name))
        except RunError as error:
            if name != "last-failed":
                raise
            raise RunError(error.message, do='find_runs(text="a word of the wrong answer"): a wrong run can be `ok`') from None
        short_id = run.trace_id[:ID_DIGITS]
        self._ids[short_id] = run.trace_id
        return run, short_id

    def _check_input(self, named: str) -> None:
        """Refuse to change what a recorded command line is: a replay starts it.

        Raises:
            ConfigError: the run's entry point is a command.
        """
        if self._source.fixture(named).entry.kind is EntryKind.COMMAND:
            raise ConfigError(
                "input: the entry point of this run is a command, and a tool may not change what is run",
                do="type it yourself: freezeframe experiment fork RUN -o DIR --input PATH=JSON",
            )

    async def _compute(self, operation: Operation[P, R], parameters: P) -> R:
        """Return an operation's result, computed in a thread."""
        return await anyio.to_thread.run_sync(operation.execute, self._source, parameters)

    async def _do(self, operation: Operation[P, R], parameters: P) -> str:
        """Return the text of an operation's result."""
        return operation.to_text(await self._compute(operation, parameters), WIDTH)

    async def _start(
        self, operation: Operation[P, R], parameters_of: Callable[[Trial], P], policy: ReplayPolicy | None = None
    ) -> R:
        """Return the result of an operation that runs the user's code; a call that is cancelled ends the program.

        Raises:
            FreezeframeError: it failed; the message may quote a recording.
        """
        stop = threading.Event()

        def look(served: object) -> None:
            del served
            if stop.is_set():
                raise FreezeframeError("the call was cancelled")

        trial = Trial(
            policy=policy or ReplayPolicy(),
            command=self._project.program,
            timeout_s=self._project.timeout_s,
            on_look=look,
        )
        async with self._running:
            future = asyncio.get_running_loop().run_in_executor(None, operation.execute, self._source, parameters_of(trial))
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                stop.set()
                with anyio.CancelScope(shield=True), contextlib.suppress(FreezeframeError):
                    await future
                raise
            except FreezeframeError as error:
                raise FreezeframeError(self._answer(str(error), "", None)) from error

    def _replayed(self, replayed: Replayed, named: str, budget: int | None) -> str:
        text = "\n".join(filter(None, [replayed_text(replayed, WIDTH), replayed.warning]))
        return self._answer(text, next_text(replayed.report, named), budget)

    def _written(self, operation: Operation[P, R], made: R, then: str, budget: int | None) -> str:
        """Return the answer about files that were written."""
        warnings: Sequence[str] = getattr(made, "warnings", ())
        return self._answer("\n".join([operation.to_text(made, WIDTH), *warnings]), then, budget)

    def _answer(self, recorded: str, then: str, budget: int | None, *, head: str = "", more: str = "") -> str:
        return answer_text(
            recorded, then=then, budget=budget or self._project.budget, mark=secrets.token_hex(4), head=head, more=more
        )


def _start(since: str) -> dt.datetime | None:
    return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s(since)) if since else None


# -- Texts of the tools: why a run failed, and which tool comes next. Pure ---------------------------------------------


def why_text(run: Run, outline: Outline) -> tuple[str, int | None]:
    """Return the reason of a run's failure, its description and level; and the first failed step, if one has a number."""
    failure = find_failure(run, outline)
    lines = ["nothing failed in this run; a wrong answer is not a failure: read the transcript"]
    first = None
    if failure is not None:
        lines = [*failure_lines(failure), *stack_lines(failure)]
        first = next((node.step for node in failure.steps if node.step is not None), None)
    return "\n".join([*lines, "", outline_text(outline, width=WIDTH)]), first


def next_text(report: Report, named: str) -> str:
    """Return the next calls after a replay."""
    if report.stopped is not None:
        next_step = f'stop_at_step(run="{named}", step={report.stopped.step + 1})'
        return f'next: {next_step} goes on; replay(run="{named}") runs all of it'
    found = verdict(report)
    if found.agrees:
        stop = f'stop_at_step(run="{named}", step=N) shows the variables before step N'
        return f'next: edit the code; replay(run="{named}") then shows the first effect. {stop}'
    if found is not Verdict.DIVERGED and report.changed_code:
        names = json.dumps(sorted({name.partition(" ")[2] for name in report.changed_code}))
        return f'next: replay(run="{named}", run_tools={names}) runs the new code on the recorded calls'
    if found is not Verdict.DIVERGED:
        return f'next: why_failed(run="{named}") says how far the run can be replayed'
    at = "N" if report.first is None or report.first.step is None else report.first.step
    keep = f'save_test(run="{named}", directory="tests/regressions/NAME")'
    stop = f'stop_at_step(run="{named}", step={at}) shows the variables there'
    parts = json.dumps(list(report.first.differed)) if report.first is not None and report.first.differed else ""
    varies = f'; if it varies by itself, replay(run="{named}", ignore={parts})' if parts else ""
    return f"next: if this difference is the fix, {keep}; else {stop}{varies}"
