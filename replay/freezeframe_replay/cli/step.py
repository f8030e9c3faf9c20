"""`freezeframe step RUN --until N [-- CMD]`: replay up to a step, and show what is asked there and where the code is."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from typing import Final

from freezeframe_replay.cli.command import Command
from freezeframe_replay.cli.options import TARGET_HELP, add_json, add_store, add_timeout, place_of, positive, terminal_width
from freezeframe_replay.engine.compare import differences
from freezeframe_replay.engine.policy import Policy
from freezeframe_replay.local.target import load_as_fixture, target_as_typed
from freezeframe_replay.report.render import report_text, short
from freezeframe_schemas.divergence import Report, Stopped
from freezeframe_schemas.errors import FixtureError, ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, exit_code, judged_to_json

_LINES: Final = 40
"""Lines of a request that are shown; --full shows all."""


COMMAND: Final = Command(
    description="Shows the call about to be made. Stops in the program's own code: its frames and their variables, the request "
    "beside the recorded one, and the answer that is waiting. Another N moves back or forward.",
    examples={
        "freezeframe step last --until 4": "before the fourth step",
        "freezeframe step tests/regressions/late-order --until 2 -- python agent.py": "another program",
    },
    exit_codes={
        0: "stopped before the step",
        1: "failed: no such run, no such step",
        3: "the code diverged from the recording before the step",
        125: "incomparable: the program never reached the recorded entry point or the step",
    },
    takes_program=True,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", metavar="RUN_OR_FIXTURE", help=TARGET_HELP)
    parser.add_argument(
        "--until", type=positive, required=True, metavar="N", help="stop before this step, as numbered by `freezeframe show`"
    )
    parser.add_argument("--full", action="store_true", help="show complete requests and answers")
    add_timeout(parser, of="the program")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Replay up to the step; 0 if the program stopped there."""
    from freezeframe_replay.process.reenact import reenact

    fixture = load_as_fixture(place_of(arguments), arguments.run)
    _check(fixture, arguments.until)
    try:
        policy = Policy(stop_before=arguments.until)
        report = reenact(fixture, arguments.program, policy=policy, timeout_s=arguments.timeout)
    except ReplayError as error:
        print(f"freezeframe step: {error}", file=sys.stderr)
        return EXIT_CODES[Verdict.INCOMPARABLE]
    if arguments.json:
        print(judged_to_json(report))
    elif report.stopped is None:
        print(
            report_text(
                report, width=terminal_width(), again=target_as_typed(place_of(arguments), arguments.run, report.run_id)
            )
        )
    else:
        print("\n".join(_standstill(report, report.stopped, width=terminal_width(), full=arguments.full)))
    return 0 if report.stopped is not None else exit_code(report)


def _check(fixture: Fixture, number: int) -> None:
    step = next((step for step in fixture.steps if step.number == number), None)
    if step is None:
        raise FixtureError(f"--until {number}: no such step; run {fixture.run_id} has steps 1 to {len(fixture.steps)}")
    if step.inside is not None:
        raise FixtureError(
            f"--until {number}: step {number} is inside step {step.inside}, which answers for it", do=f"--until {step.inside}"
        )


def _standstill(report: Report, stopped: Stopped, *, width: int, full: bool) -> Iterable[str]:
    yield f"stopped before step {stopped.step} ({stopped.call_kind} {stopped.name}), run {report.run_id}"
    for item in report.served:
        yield short(f"  {item.step:>4}  {report.names.get(str(item.step), '')}", width)
    if report.divergences:
        yield f"  {len(report.divergences)} divergences before it (--json shows them)"
    yield "about to ask"
    if stopped.address:
        yield short(f"  {stopped.address}", width)
    yield from _body(stopped.request, width, full)
    changes = list(differences(_json(stopped.recorded), _json(stopped.request)))
    changes += differences(stopped.recorded_address, stopped.address, "address")
    yield "recorded: the same" if not changes else "recorded differently, in parts that do not decide"
    for item in changes:
        yield from (short(f"  {item.path}", width), short(f"  - {item.recorded}", width), short(f"  + {item.live}", width))
    yield "would be answered"
    yield from _body(stopped.answer, width, full)
    for frame in stopped.frames:
        yield short(f"at {_here(frame.place)}", width)
        yield from (short(f"    {name} = {text}", width) for name, text in frame.variables.items())
    back = f"--until {stopped.step - 1} goes back, " if stopped.step > 1 else ""
    yield f"next: {back}--until {stopped.step + 1} goes on"


def _body(text: str, width: int, full: bool) -> Iterable[str]:
    if not text:
        yield "  (no body)"
        return
    value = _json(text)
    lines = text.splitlines() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1).splitlines()
    shown = lines if full else lines[:_LINES]
    yield from (short(f"  {line}", width if not full else 10**6) for line in shown)
    if len(shown) < len(lines):
        yield f"  and {len(lines) - len(shown)} more lines (--full shows them)"


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _here(place: str) -> str:
    return place.removeprefix(os.path.join(os.getcwd(), ""))
