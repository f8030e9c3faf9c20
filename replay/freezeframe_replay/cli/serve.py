"""`freezeframe replay serve RUN_OR_FIXTURE... [-- CMD]`: recorded runs as an HTTP server, for programs in any language."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.local.target import load_as_fixture, target_as_typed
from freezeframe_replay.process.child_task import key_of
from freezeframe_replay.process.mcp_stdio import answer_lines, hand_on_lines
from freezeframe_replay.process.programs import collector_settings, record_program, run_program, serving
from freezeframe_replay.process.served_run import MCP_VARIABLE, ServedRun
from freezeframe_replay.process.wire_server import call_of
from freezeframe_replay.report.render import ID_DIGITS, counted
from freezeframe_replay.report.report_text import report_text
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.errors import ConfigError, FixtureError, RunError
from freezeframe_schemas.exchange import Exchange, Kind, Request
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, exit_code, judged_to_json

COMMAND: Final = Command(
    description="SDKs reach the server through their base URL. The program after `--` is started with the variables "
    "for that; without a program, they are printed. A tool that the program requests at $FREEZEFRAME_TOOLS_URL/NAME, "
    "or over MCP at $FREEZEFRAME_MCP_URL, is answered from the run; the program's own tools run for real.",
    examples={
        "freezeframe replay serve 4bf92f35 -- node agent.mjs": "start the program, then report where it left the run",
        "freezeframe replay serve tests/regressions/late-order --port 8000": "until Ctrl-C",
        "freezeframe replay serve 4bf92f35 9c1e77d0 --port 8000": "several at once, below /-/run/ID",
        "freezeframe replay serve 4bf92f35 --live-miss -- node agent.mjs": "the real model answers what the run lacks",
        "freezeframe replay serve 4bf92f35 --proxy -- node agent.mjs": "also its tools' calls over http and https",
        "freezeframe replay serve 4bf92f35 --mcp": "its tools as an MCP server over stdin and stdout",
    },
    exit_codes={
        0: "identical: every recorded request was made, and no other; input and outcome are not observed",
        1: "failed: no such run, one of the runs could not be served, or the program could not be started",
        3: "diverged",
        125: "incomparable: the program requested none of the recorded steps",
    },
    takes_program=True,
    options=(
        option("runs", nargs="+", metavar="RUN_OR_FIXTURE", help=options.TARGET_HELP),
        option("--port", type=options.port, default=0, metavar="N", help="port on 127.0.0.1 (default: any free one)"),
        flag("--no-token", "answer anyone on this machine; without it, the server's URL contains a token"),
        flag(
            "--proxy",
            "also act as the program's proxy for http and https: its other calls are answered from the run or refused",
        ),
        flag(
            "--mcp",
            "speak MCP over standard input and output, until the client closes it; inside a program that `serve` started, its "
            "run answers",
        ),
        flag(
            "--live-miss",
            "a model call that the run does not hold goes to the real provider, with the program's own keys, and is recorded "
            "as a run; its tools and other calls run for real, and are recorded, too",
        ),
        options.IGNORE,
        options.timeout(of="the program"),
        options.REQUIRE_VALUES,
        options.JSON,
        options.STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Serve while the program runs, or until Ctrl-C; the exit code is the verdict."""
    if arguments.mcp and (url := os.environ.get(MCP_VARIABLE)):
        hand_on_lines(url)
        return 0
    if arguments.program and len(arguments.runs) > 1:
        raise ConfigError("a program can be answered from only one run", do="name one, or start the program yourself")
    if arguments.live_miss and (arguments.mcp or not arguments.program):
        raise ConfigError("--live-miss requires a program after `--`, and does not work with --mcp")
    if arguments.proxy and arguments.mcp:
        raise ConfigError("--proxy does not work with --mcp, which opens no port")
    named, runs = _served_of(arguments)
    refused = len(arguments.runs) - len(runs)
    if arguments.live_miss:
        return _report(arguments, named, runs, _run_with_misses(arguments, runs[0]))
    status: int | None = 0
    if arguments.mcp:
        answer_lines(runs[0].tools.answer)
    else:
        try:
            server = serving(runs, arguments.port, is_open=arguments.no_token, is_proxy=arguments.proxy)
            with server as (url, through_us):
                if arguments.program:
                    variables = {**os.environ, **runs[0].environment(url), **through_us}
                    sys.stdout.flush()
                    output = sys.stderr if arguments.json else None
                    status = run_program(
                        arguments.program, variables, timeout_s=arguments.timeout, stdout=output, stdin=subprocess.DEVNULL
                    )
                else:
                    _wait(url, runs, through_us)
        except OSError as error:
            raise ConfigError(f"--port {arguments.port}: cannot listen on it: {error.strerror}") from error
    return _report(arguments, named, runs, status) or (1 if refused else 0)


def _served_of(arguments: argparse.Namespace) -> tuple[list[str], list[ServedRun]]:
    """Return the runs that can be served, with their names; name the others, unless there is only one."""
    names: list[str] = []
    runs: list[ServedRun] = []
    for named in arguments.runs:
        try:
            runs.append(_served(arguments, named))
            names.append(named)
        except (RunError, FixtureError) as error:
            if len(arguments.runs) == 1 or (named == arguments.runs[-1] and not runs):
                raise
            print(f"not served: {named}: {error}", file=sys.stderr)
    return names, runs


def _served(arguments: argparse.Namespace, named: str) -> ServedRun:
    fixture = load_as_fixture(options.place_of(arguments), named)
    live = frozenset({Kind.MODEL}) if arguments.live_miss else frozenset[Kind]()
    policy = ReplayPolicy(ignore=tuple(arguments.ignore), require_values=arguments.require_values, live=live)
    return ServedRun(fixture, policy=policy, key=key_of(fixture, options.home_of(arguments).directory / KEYS))


def _run_with_misses(arguments: argparse.Namespace, run: ServedRun) -> int:
    """Run the program under the recording proxy, which answers from the run; return its exit status."""

    def known(request: Request) -> Exchange | None:
        parts = urlsplit(request.url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        original = replace(request, url=run.url_of(request.method, target) or request.url)
        return run.session.respond(call_of(original, request.body))

    settings = collector_settings({}, arguments.data)
    recorder, status, fate = record_program(
        arguments.program,
        settings=settings,
        timeout_s=arguments.timeout,
        known=known,
        stdout=sys.stderr,
        is_proxy=arguments.proxy,
    )
    calls = sum(recorder.counts.values())
    print(f"made for real and recorded: {counted(calls, 'call')}, run {recorder.trace_id}", file=sys.stderr)
    if fate.failed:
        print(f"  lost: {counted(fate.failed, 'span')} could not be delivered: {fate.why}", file=sys.stderr)
    return status


def _report(arguments: argparse.Namespace, names: Sequence[str], runs: Sequence[ServedRun], status: int | None) -> int:
    """Print the findings of each run, to stderr if stdout is the client's; return the worst exit code."""
    reports = [run.report(status) for run in runs]
    output = sys.stderr if arguments.mcp else sys.stdout
    if arguments.json:
        texts = list(map(judged_to_json, reports))
        print(texts[0] if len(texts) == 1 else json.dumps(list(map(json.loads, texts)), indent=1), file=output)
    else:
        for report, named in zip(reports, names, strict=True):
            again = target_as_typed(options.place_of(arguments), named, report.run_id)
            print(report_text(report, width=options.terminal_width(), again=again), file=output)
    codes = set(map(exit_code, reports))
    return next(code for code in (EXIT_CODES[Verdict.DIVERGED], EXIT_CODES[Verdict.INCOMPARABLE], 0) if code in codes)


def _wait(url: str, runs: Sequence[ServedRun], through_us: Mapping[str, str]) -> None:
    """Print the addresses of the runs, and wait for Ctrl-C."""
    for run in runs if len(runs) > 1 else ():
        print(f"{run.fixture.run_id[:ID_DIGITS]}: {url}/-/run/{run.fixture.run_id[:ID_DIGITS]}")
    variables = {**(runs[0].environment(url) if len(runs) == 1 else {}), **through_us}
    print("\n".join(f"export {name}={value}" for name, value in variables.items()), flush=True)
    print(f"serving; the report is at {url}/-/report; Ctrl-C stops and prints it", file=sys.stderr, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print(file=sys.stderr)
