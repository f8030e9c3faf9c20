"""The tools. Their docstrings and parameters are what a coding agent reads, so they are short.

Looking is done by the functions behind the pages; everything that starts a program or writes a file is the command that a
person would type, run in the project.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, Literal

import anyio
from pydantic import Field

from freezeframe_replay.local.target import is_fixture, load_as_fixture, load_run, sql_store_of
from freezeframe_replay.mcp.answers import (
    MAX_TOKENS,
    MIN_TOKENS,
    answer_text,
    page_size,
    page_text,
)
from freezeframe_replay.mcp.project import WIDTH, Project, Ran, option
from freezeframe_replay.mcp.texts import list_lines, replay_text, stopped_text, why_text
from freezeframe_replay.operations.diff import DIFF, DiffParameters
from freezeframe_replay.operations.failures import FAILURES, FailuresParameters
from freezeframe_replay.operations.operation import Operation, P, R
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.sql import SQL, SqlParameters
from freezeframe_replay.report.reading import LastReading
from freezeframe_replay.report.render import ID_DIGITS, short
from freezeframe_replay.report.transcript_text import passages
from freezeframe_replay.sources.ages import age_s
from freezeframe_replay.sources.kept_store import KeptStore
from freezeframe_replay.sources.run_list import RunQuery, find_runs
from freezeframe_replay.sources.span_file import split_name
from freezeframe_replay.sources.store_door import is_backend
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import ConfigError, FreezeframeError, RunError
from freezeframe_schemas.run import EntryKind, Run
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, judged_from_json

_OPEN: Final = EXIT_CODES[Verdict.INCOMPARABLE]
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
Step = Annotated[int, Field(ge=1, description="number of a step")]


class Tools:
    """What the server offers, over one project. Each method of `index.TOOLS` is a tool."""

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

    def find_runs(
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
        start = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s(since)) if since else None
        cursor = self._store.use(lambda store: store.find(after)) if after else ""
        query = RunQuery(words=text.strip(), status=status, since=start, after=cursor, size=limit)
        page = self._store.use(lambda store: find_runs(store, query))
        if not page.rows:
            return self._answer("", "no run matches; find_runs() without arguments lists all", budget)
        last = page.rows[-1].trace_id[:ID_DIGITS]
        more = f'; find_runs(after="{last}", ...) lists more' if page.last < page.total else ""
        return self._answer(
            "\n".join(list_lines(page)),
            f'next: why_failed(run="{page.rows[0].trace_id[:ID_DIGITS]}") or transcript(run=...){more}',
            budget,
            head=f"runs {page.first} to {page.last} of {page.total}",
            more="a smaller limit with `after` goes through all",
        )

    async def failures(self, since: Since = "7d", budget: Budget = None) -> str:
        """Group the failed steps of recent runs by what failed, with the newest run of each group."""
        start = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s(since))
        found = await self._do(FAILURES, FailuresParameters(since=start))
        return self._answer(found, 'next: why_failed(run=...) for a run of the column "newest"', budget)

    def why_failed(self, run: RunName = "last-failed", budget: Budget = None) -> str:
        """Say why a run failed: exception, first failed step, stack; then its input, outcome, commit, steps, and how far it
        can be replayed. Also describes a run that is ok."""
        loaded, named = self._load(run)
        why, first = why_text(loaded, self._last.of(loaded).outline)
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
        one comes in parts; each answer names the call for the next part."""
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
        `DESCRIBE steps` lists columns. Give a LIMIT. The answer is CSV."""
        found = await self._do(SQL, SqlParameters(query=query))
        return self._answer(found, "next: why_failed(run=...) or transcript(run=...) for a trace_id", budget)

    async def diff_runs(self, before: RunName, after: RunName, budget: Budget = None) -> str:
        """Compare two runs step by step: where they first differ, and what was asked and answered differently."""
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
        budget: Budget = None,
    ) -> str:
        """Run the project's code again on the run's recorded input. Every model, tool and retrieval is answered from the
        recording: no network, no key, no tool is called. `identical`: the code behaves as recorded, so a bug in the run is
        reproduced. `diverged`: the first difference is shown; after an edit it is the effect of the edit."""
        named = self._project.run_name(run)
        ran = await self._start("replay", named, "--json", *(option("--ignore", part) for part in ignore or ()))
        return self._replayed(ran, replay_text, named, budget)

    async def stop_at_step(self, run: RunName, step: Step, budget: Budget = None) -> str:
        """Replay up to a step and stop in the project's code: its frames with their variables, the request that it is about
        to make, what was recorded there, and the answer that it would get."""
        named = self._project.run_name(run)
        ran = await self._start("step", named, option("--until", str(step)), "--json")
        return self._replayed(ran, stopped_text, named, budget)

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
        have done then? Replay the fixture to see it."""
        named, written = self._project.run_name(run), self._project.new_directory(directory)
        if inputs:
            await anyio.to_thread.run_sync(self._check_input, named)
        words = [option("--output", written)]
        words += [] if step is None else [option("--step", str(step))]
        words += [] if result is None else [option("--result", json.dumps(result))]
        words += [option("--response", response)] if response else []
        words += [option(name, text) for name, texts in (("--set", values), ("--input", inputs)) for text in texts or ()]
        ran = await self._project.run("experiment", "fork", named, *words)
        return self._ran(ran, f'next: replay(run="{written}")', budget)

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
        named, written = self._project.run_name(run), self._project.new_directory(directory)
        program = ["--", *self._project.program] if self._project.program else []
        ran = await self._project.run("fixture", named, option("--output", written), "--pytest", f"--expect={expect}", *program)
        return self._ran(ran, f"next: run `pytest {written}` in the project", budget)

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
        age_s(since)
        written = self._project.new_directory(directory)
        words = [option("--output", written), option("--since", since), option("--limit", str(limit)), "--quiet"]
        words += [option("--where", where)] if where else []
        ran = await self._project.run("experiment", "dataset", *words)
        return self._ran(ran, f'next: experiment(dataset="{written}")', budget)

    async def experiment(
        self, dataset: Annotated[str, Field(description="directory that save_dataset wrote")], budget: Budget = None
    ) -> str:
        """Replay every run of a dataset with the code of the project, offline, and list the runs that changed."""
        folder = self._project.fixture_path(dataset)
        ran = await self._start("experiment", folder, "--quiet")
        then = "next: replay(run=...) for a run that changed"
        return self._ran(ran, then, budget, fine=EXIT_CODES.values())

    # -- what all of them use -------------------------------------------------------------------------------------------

    def _load(self, named: str) -> tuple[Run, str]:
        """Return a run, and how to name it from now on: `last` may be another one by then.

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
        if load_as_fixture(self._project.place, named).entry.kind is EntryKind.COMMAND:
            raise ConfigError(
                "input: the entry point of this run is a command, and a tool may not change what is run",
                do="type it yourself: freezeframe experiment fork RUN -o DIR --input PATH=JSON",
            )

    async def _do(self, operation: Operation[P, R], parameters: P) -> str:
        """Return the text of an operation's result."""
        found = await anyio.to_thread.run_sync(operation.execute, self._source, parameters)
        return operation.to_text(found, WIDTH)

    async def _start(self, command: str, *words: str) -> Ran:
        """Run a command that runs the user's code."""
        async with self._running:
            limit = option("--timeout", f"{self._project.timeout_s:g}")
            return await self._project.run(command, *words, limit, program=True)

    def _replayed(self, ran: Ran, said: Callable[[Report, str], tuple[str, str]], named: str, budget: int | None) -> str:
        """Return the answer of a command that judged a replay; without a report it says why there is none."""
        if not ran.out.startswith("{"):
            return self._ran(ran, f'next: why_failed(run="{named}") says how far the run can be replayed', budget, fine=[_OPEN])
        text, then = said(judged_from_json(ran.out), named)
        return self._answer("\n".join(filter(None, [text, ran.err])), then, budget, head=short(ran.line))

    def _ran(self, ran: Ran, then: str, budget: int | None, *, fine: Collection[int] = (0,)) -> str:
        """Return the answer of a command.

        Raises:
            FreezeframeError: it failed.
        """
        if ran.code not in fine:
            raise FreezeframeError(self._answer(ran.text, "", budget, head=f"exit code {ran.code}: {short(ran.line)}"))
        return self._answer(ran.text, then, budget, head=short(ran.line))

    def _answer(self, recorded: str, then: str, budget: int | None, *, head: str = "", more: str = "") -> str:
        return answer_text(
            recorded, then=then, budget=budget or self._project.budget, mark=secrets.token_hex(4), head=head, more=more
        )
