"""What the tools say about runs and replays, as text, and which tool comes next. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from freezeframe_replay.mcp.project import WIDTH
from freezeframe_replay.report.failure import failure_lines, find_failure
from freezeframe_replay.report.outline import Outline
from freezeframe_replay.report.render import ID_DIGITS, counted, duration, moment, outline_text, short
from freezeframe_replay.report.report_text import report_text
from freezeframe_replay.report.standstill import standstill_lines
from freezeframe_replay.report.tagged import input_text
from freezeframe_replay.sources.run_list import RunPage
from freezeframe_replay.sources.store import RunRow
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import Verdict, verdict

_TEXT: Final = 120


def list_lines(page: RunPage) -> Iterator[str]:
    """Yield a line for each run, and below it why it was found or what failed in it."""
    for row in page.rows:
        yield _row(row)
        if row.trace_id in page.snippets:
            yield f"  found: {short(page.snippets[row.trace_id], _TEXT)}"
        if row.first_error:
            yield f"  error: {short(row.first_error, _TEXT)}"


def _row(row: RunRow) -> str:
    failed = f", {counted(row.errors, 'failed step')}" if row.errors else ""
    facts = [
        row.trace_id[:ID_DIGITS],
        moment(row.start_time),
        f"{RunStatus(row.status).word}{failed}",
        counted(row.steps, "step"),
        duration(row.ms),
        short(f"{row.name}({input_text(row.input)})", _TEXT),
    ]
    return "  ".join(facts)


def why_text(run: Run, outline: Outline) -> tuple[str, int | None]:
    """Return why a run failed, what it was and how far it replays; and the first failed step, if one has a number."""
    failure = find_failure(run, outline)
    lines = ["nothing failed in this run; a wrong answer is not a failure: read the transcript"]
    first = None
    if failure is not None:
        lines = list(failure_lines(failure))
        first = next((node.step for node in failure.steps if node.step is not None), None)
    return "\n".join([*lines, "", outline_text(outline, width=WIDTH)]), first


def replay_text(report: Report, named: str) -> tuple[str, str]:
    """Return what a replay found, and what to call next."""
    found = verdict(report)
    if found.agrees:
        stop = f'stop_at_step(run="{named}", step=N) shows the variables before step N'
        then = f'next: edit the code; replay(run="{named}") then shows the first effect. {stop}'
    elif found is Verdict.DIVERGED:
        at = "N" if report.first is None or report.first.step is None else report.first.step
        keep = f'save_test(run="{named}", directory="tests/regressions/NAME")'
        stop = f'stop_at_step(run="{named}", step={at}) shows the variables there'
        parts = json.dumps(list(report.first.differed)) if report.first is not None and report.first.differed else ""
        varies = f'; if it varies by itself, replay(run="{named}", ignore={parts})' if parts else ""
        then = f"next: if this difference is the fix, {keep}; else {stop}{varies}"
    else:
        then = f'next: why_failed(run="{named}") says how far the run can be replayed'
    return report_text(report, width=WIDTH, again=named), then


def stopped_text(report: Report, named: str) -> tuple[str, str]:
    """Return where a replay stopped, or why it did not, and what to call next."""
    if report.stopped is None:
        return replay_text(report, named)
    lines = standstill_lines(report, report.stopped, width=WIDTH, frames_first=True)
    then = f'next: stop_at_step(run="{named}", step={report.stopped.step + 1}) goes on; replay(run="{named}") runs all of it'
    return "\n".join(lines), then
