"""`freezeframe show RUN`: a run's tree, its replay kit, and how far it can be re-enacted."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, place_of, print_json, terminal_width
from freezeframe_replay.local.target import is_fixture, target_as_typed
from freezeframe_replay.operations.show import SHOW, ShowParameters
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.outline import Outline
from freezeframe_replay.report.render import outline_text
from freezeframe_schemas.lifecycle import RunStatus

COMMAND: Final = Command(
    description="RUN is a run's id, the first digits of it, the id that the program assigned, `last` or `last-failed`.",
    examples={
        "freezeframe show last": "the newest run",
        "freezeframe show 4bf92f35": "the run whose id starts with these digits",
        "freezeframe show 4bf92f35 --full": "with every exchange's request and response",
        "freezeframe show tests/regressions/late-order": "a fixture",
        "freezeframe show bug.ffz": "a packed run",
        "freezeframe show spans.jsonl": "the newest run of a file that `freezeframe run --file` wrote",
    },
    options=(
        option("run", metavar="RUN", help=TARGET_HELP),
        flag("--full", "show what was asked and answered in every step"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the outline."""
    source = RunSource(place_of(arguments))
    outline = SHOW.execute(source, ShowParameters(run=arguments.run, full=arguments.full))
    if arguments.json:
        print_json(SHOW.to_json(outline))
    else:
        print(outline_text(outline, full=arguments.full, width=terminal_width()))
        if source.is_stored(arguments.run) and not source.use(lambda store: store.is_settled(outline.run_id)):
            print("\nunsettled: a value was found late, and spans that were stored before may hold forms of it in clear")
            print("           until the run has ended, or has paused for a minute")
        again = target_as_typed(place_of(arguments), arguments.run, outline.run_id)
        print(f"\n{next_lines(outline, again, fixture=is_fixture(arguments.run))}")
    return 0


def next_lines(outline: Outline, again: str, *, fixture: bool) -> str:
    """Return the commands to type next; `again` names the run in them."""
    if outline.cold:
        return "\n".join(_next_of_a_cold_case(outline, again))
    lines = [f"next: freezeframe replay {again}"]
    if not fixture:
        lines.append(f"      freezeframe fixture {again} -o tests/regressions/{outline.run_id[:8]} --pytest")
    return "\n".join(lines)


def _next_of_a_cold_case(outline: Outline, again: str) -> Iterator[str]:
    """Yield the changes needed in the program or the recording; for a run with steps, name a command that can replay it."""
    if outline.advice:
        yield f"next: {'; '.join(outline.advice)}"
    elif outline.status is RunStatus.UNFINISHED:
        yield f"next: freezeframe show {again}, once it has ended: no step was recorded yet that a replay could compare"
    else:
        fields = ", ".join(outline.missing) or "exchanges"
        yield f"next: record it with freezeframe.instrument() and @freezeframe.run, so that it carries: {fields}"
    if outline.steps or outline.ledger:
        yield f"      or name the command that starts it: freezeframe replay {again} -- CMD"
