"""Texts of the tools: why a run failed, and which tool comes next. Pure."""

from __future__ import annotations

import json

from freezeframe_replay.mcp.project import WIDTH
from freezeframe_replay.report.failure import failure_lines, find_failure, stack_lines
from freezeframe_replay.report.outline import Outline
from freezeframe_replay.report.render import outline_text
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import Verdict, verdict


def why_text(run: Run, outline: Outline) -> tuple[str, int | None]:
    """Return why a run failed, what it was and how far it replays; and the first failed step, if one has a number."""
    failure = find_failure(run, outline)
    lines = ["nothing failed in this run; a wrong answer is not a failure: read the transcript"]
    first = None
    if failure is not None:
        lines = [*failure_lines(failure), *stack_lines(failure)]
        first = next((node.step for node in failure.steps if node.step is not None), None)
    return "\n".join([*lines, "", outline_text(outline, width=WIDTH)]), first


def next_text(report: Report, named: str) -> str:
    """Return what to call after a replay."""
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
