"""`freezeframe serve RUN_OR_FIXTURE [-- CMD]`: the recorded provider as an HTTP server, for programs in any language."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command
from freezeframe_replay.local.target import load_as_fixture, target_as_typed
from freezeframe_replay.report.render import report_text
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.divergence import Check
from freezeframe_schemas.errors import ConfigError, FixtureError, ReplayError
from freezeframe_schemas.verdict import exit_code, judged_to_json

COMMAND: Final = Command(
    description="SDKs reach the server through their base URL. The program after `--` is started with the variables for that; "
    "without a program they are printed. The program's own tools run for real.",
    examples={
        "freezeframe serve 4bf92f35 -- node agent.mjs": "start the program, then report where it left the run",
        "freezeframe serve tests/regressions/late-order --port 8000": "until Ctrl-C",
    },
    exit_codes={
        0: "identical: every recorded request was made, and no other; input and outcome are not observed",
        1: "failed: no such run, nothing to serve, or the program could not be started",
        3: "diverged",
        125: "incomparable: the program requested none of the recorded steps",
    },
    takes_program=True,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", metavar="RUN_OR_FIXTURE", help=options.TARGET_HELP)
    parser.add_argument("--port", type=options.port, default=0, metavar="N", help="port on 127.0.0.1 (default: any free one)")
    options.add_ignore(parser)
    options.add_timeout(parser, of="the program")
    options.add_require_values(parser)
    options.add_json(parser)
    options.add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Serve while the program runs, or until Ctrl-C; the exit code is the verdict."""
    from freezeframe_replay.engine.policy import Policy
    from freezeframe_replay.engine.session import ReplaySession
    from freezeframe_replay.process.child import key_of
    from freezeframe_replay.process.wire_server import environment_for, servable, serve_wire

    fixture = servable(load_as_fixture(options.place_of(arguments), arguments.run))
    if not fixture.steps:
        raise FixtureError(f"run {fixture.run_id}: found no HTTP exchanges, so a server has nothing to answer")
    session = ReplaySession(
        fixture,
        policy=Policy(ignore=tuple(arguments.ignore), require_values=arguments.require_values),
        key=key_of(fixture, options.home_of(arguments).directory / KEYS),
    )
    try:
        with serve_wire(session, arguments.port) as url:
            variables = environment_for(url, fixture)
            if arguments.program:
                status = _run(arguments.program, variables, arguments.timeout)
            else:
                status = _wait(variables)
    except OSError as error:
        raise ConfigError(f"--port {arguments.port}: cannot listen on it: {error.strerror}") from error
    # the program's input and outcome cannot be seen from outside
    report = replace(session.report(), input_check=Check.NOT_SEEN, outcome_check=Check.NOT_SEEN, exit_status=status)
    if arguments.json:
        print(judged_to_json(report))
    else:
        print(
            report_text(
                report,
                width=options.terminal_width(),
                again=target_as_typed(options.place_of(arguments), arguments.run, report.run_id),
            )
        )
    return exit_code(report)


def _run(program: list[str], variables: dict[str, str], timeout_s: float) -> int:
    """Run the program against the server and return its exit status; its output goes to our stderr."""
    try:
        done = subprocess.run(
            program,
            env={**os.environ, **variables},
            stdout=sys.stderr,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise ReplayError(f"{program[0]}: cannot be started: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise ReplayError(
            f"{' '.join(program)}: did not finish within {timeout_s:.0f} s", do="raise --timeout if it is only slow"
        ) from None
    return done.returncode


def _wait(variables: dict[str, str]) -> int:
    print("\n".join(f"export {name}={value}" for name, value in variables.items()), flush=True)
    print("serving; Ctrl-C stops and reports", file=sys.stderr, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return 0
