"""`freezeframe replay RUN_OR_FIXTURE [-- CMD]`: run it again, offline, and show where it leaves the recording."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.colour import show
from freezeframe_replay.cli.command import Command, flag, one_of, option, repeatable
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import warn
from freezeframe_replay.engine.policy import HERMETIC, Fence, ReplayPolicy
from freezeframe_replay.local.target import open_store
from freezeframe_replay.operations.replay import REPLAY, ReplayParameters
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.writing import write_to
from freezeframe_replay.process.kept import kept_run
from freezeframe_replay.process.packed_environment import make_environment
from freezeframe_replay.process.surroundings import Interpreter
from freezeframe_replay.report.render import counted
from freezeframe_replay.report.report_text import report_text
from freezeframe_replay.sources.fixture_archive import fixture_of, is_archive, unpacked
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.divergence import Report, Served
from freezeframe_schemas.errors import ConfigError, ReplayError, RunError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, exit_code, judged_to_json

_MAX_TURNS: Final = 10_000
"""Runs of one conversation that are replayed at most."""


COMMAND: Final = Command(
    replay_error=EXIT_CODES[Verdict.INCOMPARABLE],
    description="The recorded entry point is called with the recorded (redacted) input; sockets are fenced, and "
    "tools are not called. After `--`, name a program to start instead.",
    examples={
        "freezeframe replay 4bf92f35": "a run in the store",
        "freezeframe replay tests/regressions/late-order": "a fixture: no store needed",
        "freezeframe replay fixture-4bf92f35.tar.gz": "a fixture archive, from the replay service",
        "freezeframe replay bug.ffz --packed-code": "a packed run, by the code in the file",
        "freezeframe replay bug.ffz --packed-code --with-uv": "the same, with its packages, which uv installs",
        "freezeframe replay 4bf92f35 -- python agent.py": "another program",
        "freezeframe replay 4bf92f35 --ignore body.temperature": "a field that may differ",
        "freezeframe replay 4bf92f35 --live model": "ask the real model once fixed code leaves the recording",
        "freezeframe replay 4bf92f35 --run-tool refund": "run a fixed tool's code on the recorded calls",
        "freezeframe replay --session chat-81": "a conversation, turn by turn; the exit code is the worst",
        "freezeframe replay 4bf92f35 --hermetic": "also start no processes and write no files",
        "git bisect run freezeframe replay FIXTURE": "the commit that changed the behaviour",
    },
    exit_codes={
        0: "identical; what was not compared is named on the line",
        1: "failed: no such run, a damaged fixture, no store",
        3: "diverged",
        125: "incomparable: nothing was compared, or the result says nothing about the code (different input, the network,"
        " a fence, code that cannot run); the line gives the reason",
    },
    takes_program=True,
    options=(
        one_of(
            option("run", metavar="RUN_OR_FIXTURE", nargs="?", help=options.TARGET_HELP),
            option("--session", metavar="ID", help="replay all runs of this conversation, oldest first"),
        ),
        options.IGNORE,
        options.LIVE,
        option("--live-from", type=options.positive, metavar="N", help="make them for real from step N on, recorded or not"),
        option(
            "--from",
            dest="begin",
            type=options.positive,
            metavar="N",
            help="begin in the middle, at the last framework border before step N (requires framework_state)",
        ),
        repeatable(
            "--allow-tool",
            metavar="NAME",
            help="let this tool run for real if the recording holds no answer (repeatable)",
        ),
        repeatable(
            "--run-tool",
            metavar="NAME",
            help="run this tool's own code on its recorded calls, and compare the result (repeatable)",
        ),
        flag("--run-changed", "run each tool whose code changed since the recording, likewise"),
        flag("--at-commit", "run the code of the recorded commit, in a temporary checkout"),
        flag(
            "--packed-code",
            "run the code that is packed in the file (only if you trust who sent it: it runs as you)",
        ),
        flag(
            "--with-uv",
            "with --packed-code: first install its Python and its locked packages with uv, temporarily",
        ),
        option(
            "-o",
            "--output",
            type=Path,
            metavar="DIR",
            help="keep what the program did as a separate fixture, including the answers that it got live",
        ),
        flag("--real-time", "replay at the recorded speed, streams chunk by chunk"),
        flag("--hermetic", "also fence off starting processes and changing files"),
        repeatable(
            "--fence",
            choices=[fence.value for fence in Fence],
            help="fence off one of these; reads: of files that belong neither to the program, nor to Python, nor to the system "
            "(repeatable)",
        ),
        repeatable("--allow-path", metavar="PATH", help="file or directory that the program may change, and the fences allow"),
        repeatable("--allow-program", metavar="NAME", help="program that the fences allow to start"),
        options.timeout(of="the program"),
        options.REQUIRE_VALUES,
        flag("--quiet", "print one line"),
        flag("--whole", "print 10,000 characters on each side of the first difference"),
        flag("--show-output", "let the program write to this terminal"),
        options.JSON,
        options.STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Replay and print the report; the exit code is the verdict."""
    if arguments.session is not None:
        return _replay_session(arguments)
    if arguments.with_uv and not arguments.packed_code:
        raise ConfigError("--with-uv requires --packed-code: it installs what the code in a file needs")
    path = Path(arguments.run)
    if is_archive(path):
        with unpacked(path, code=arguments.packed_code) as opened:
            packed = opened.pack is not None and opened.pack.code_files
            if arguments.packed_code and not packed:
                raise _no_code(path)
            fixture = fixture_of(opened, path)
            python = None
            if arguments.with_uv:
                python = make_environment(opened, fixture, quiet=arguments.quiet or arguments.json)
            code = _replay(arguments, fixture, opened.code if arguments.packed_code else None, python)
        if code == EXIT_CODES[Verdict.INCOMPARABLE] and packed and not arguments.with_uv:
            print(_offer(path, None if arguments.packed_code else packed), file=sys.stderr)
        return code
    if arguments.packed_code:
        raise _no_code(path)
    return _replay(arguments)


def _replay_session(arguments: argparse.Namespace) -> int:
    """Replay the runs of a conversation in their order, each by itself; return the worst exit code."""
    if arguments.begin or arguments.output or arguments.packed_code or arguments.json:
        raise ConfigError(
            "--session replays several runs: it takes no --from, --output, --packed-code or --json",
            do="replay the runs of the conversation one by one",
        )
    place = options.place_of(arguments)
    rows = open_store(place).list_runs(_MAX_TURNS, session=arguments.session, order="start_time ASC, trace_id")
    if not rows:
        raise RunError(f"session {arguments.session}: no such session in the store", do="list the runs with `freezeframe runs`")
    codes: list[int] = []
    for number, row in enumerate(rows, 1):
        print(f"turn {number} of {len(rows)}: {row.name}", flush=True)
        arguments.run = row.trace_id
        try:
            codes.append(_replay(arguments))
        except (RunError, ReplayError) as error:  # the other turns still matter
            print(f"freezeframe replay: {error}", file=sys.stderr)
            codes.append(COMMAND.code_of(error))
    print(f"session {arguments.session}: {codes.count(0)} of {len(codes)} turns identical")
    return next(code for code in (1, EXIT_CODES[Verdict.DIVERGED], EXIT_CODES[Verdict.INCOMPARABLE], 0) if code in codes)


def _no_code(path: Path) -> ConfigError:
    return ConfigError(f"--packed-code: {path} holds no code", do="leave it out, and start in the folder of the agent's code")


def _offer(path: Path, files: int | None) -> str:
    """Return the command to run packed code, and why it was not run; with `files` None, the one to install its requirements."""
    again = f"freezeframe replay {shlex.quote(str(path))} --packed-code"
    if files is None:
        return f"  If packages are missing or differ, uv can install the recorded ones: {again} --with-uv"
    return (
        f"  {path} also holds {'a file' if files == 1 else f'{files} files'} of code. The replay took the code of this folder: "
        "code in a file that someone sent can do all that you can.\n"
        f"  If you trust it: {again}"
    )


def _replay(
    arguments: argparse.Namespace,
    fixture: Fixture | None = None,
    cwd: Path | None = None,
    python: Interpreter | None = None,
) -> int:
    """Replay the run that the arguments name, or the fixture of an archive, in the folder `cwd` (None: this one)."""
    if arguments.at_commit and cwd is not None:
        raise ConfigError("--at-commit and --packed-code both name the code to run", do="leave one of them out")
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        spans = None if arguments.output is None else Path(scratch) / "spans.jsonl"
        with Progress("starting the program", quiet=arguments.quiet or arguments.json or arguments.show_output) as progress:

            def on_look(served: Mapping[int, Served]) -> None:
                progress.say(f"{len(served)} steps answered")

            trial = dataclasses.replace(
                options.trial_of(arguments, _policy(arguments)),
                cwd=cwd,
                at_commit=arguments.at_commit,
                quiet=arguments.json or not arguments.show_output,
                interpreter=python,
                on_look=on_look,
            )
            parameters = ReplayParameters(run=arguments.run, begin=arguments.begin, trial=trial, spans=spans, fixture=fixture)
            replayed = REPLAY.execute(RunSource(options.place_of(arguments)), parameters)
        warn("replay", filter(None, [replayed.warning]))
        report = replayed.report
        if arguments.json:
            print(judged_to_json(report))
        else:
            width, again = options.terminal_width(), replayed.again
            test = next(map(str, sorted(Path(arguments.run).glob("test_*.py"))), "")
            show(report_text(report, quiet=arguments.quiet, width=width, again=again, whole=arguments.whole, test=test))
            if report.live and spans is None and not arguments.quiet:
                print("  next: if this is the fix, keep it with its live answers: the same command with -o DIR")
        if spans is not None:
            _keep(replayed.fixture, spans, report, arguments)
    return exit_code(report)


def _keep(origin: Fixture, spans: Path, report: Report, arguments: argparse.Namespace) -> None:
    """Write the replay as a run.

    Raises:
        FixtureError: it was cut short, or the directory cannot be written.
    """
    directory: Path = arguments.output
    made = kept_run(origin, spans, report, ignore=arguments.ignore, keys=options.home_of(arguments).directory / KEYS)
    warn("replay", write_to(directory, made))
    if not arguments.json:
        print(
            f"wrote {directory}: {counted(len(made.steps), 'step')} of run {made.run_id}, "
            f"{counted(len(report.live), 'call')} made for real"
        )
        print(
            f"  freezeframe replay {directory} needs no network; as a test: freezeframe fixture {directory} -o "
            f"{directory} --pytest"
        )


def _policy(arguments: argparse.Namespace) -> ReplayPolicy:
    if arguments.live_from is not None and not arguments.live:
        raise ConfigError("--live-from requires --live, for example --live model")
    return ReplayPolicy(
        ignore=tuple(arguments.ignore),
        live=frozenset(Kind(name) for name in arguments.live),
        live_from=arguments.live_from,
        allow_tools=frozenset(arguments.allow_tool),
        run_tools=frozenset(arguments.run_tool),
        run_changed=arguments.run_changed,
        real_time=arguments.real_time,
        fences=frozenset(map(Fence, arguments.fence)) | (HERMETIC if arguments.hermetic else frozenset()),
        allow_paths=tuple(arguments.allow_path),
        allow_programs=frozenset(arguments.allow_program),
        require_values=arguments.require_values,
    )
