"""`freezeframe step RUN --until N [-- CMD]`: replay up to a step, and show the request there and the place in the code."""

from __future__ import annotations

import argparse
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, RUN_OR_FIXTURE, STORE, place_of, positive, terminal_width, timeout, trial_of
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.operations.replay import STEP, StepParameters, replayed_text
from freezeframe_replay.operations.source import RunSource
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, exit_code, judged_to_json

COMMAND: Final = Command(
    replay_error=EXIT_CODES[Verdict.INCOMPARABLE],
    description="Shows the call that is about to be made: the frames of the program's own code with their variables, "
    "the request next to the recorded one, and the recorded answer. Another N moves back or forward.",
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
    options=(
        RUN_OR_FIXTURE,
        option(
            "--until",
            type=positive,
            required=True,
            metavar="N",
            help="stop before this step, as numbered by `freezeframe show`",
        ),
        flag("--full", "show complete requests and answers"),
        timeout(of="the program"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Replay up to the step; 0 if the program stopped there."""
    parameters = StepParameters(run=arguments.run, step=arguments.until, trial=trial_of(arguments, ReplayPolicy()))
    replayed = STEP.execute(RunSource(place_of(arguments)), parameters)
    report = replayed.report
    if arguments.json:
        print(judged_to_json(report))
    else:
        print(replayed_text(replayed, terminal_width(), full=arguments.full))
    if report.stopped is None:
        return exit_code(report)
    if not arguments.json:
        back = f"--until {arguments.until - 1} goes back, " if arguments.until > 1 else ""
        print(f"next: {back}--until {arguments.until + 1} goes on")
    return 0
