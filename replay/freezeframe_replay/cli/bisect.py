"""`freezeframe replay bisect RUN --good A --bad B [-- CMD]`: the first commit whose code leaves the recording."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command, option
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.experiments.bisect import Bisection, Tried, bisect
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_replay.report.render import printable, short
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import EXIT_CODES, Verdict

_SHORT = 12


COMMAND: Final = Command(
    description="Runs `git bisect` in a separate worktree: your checkout is not touched. Commits whose code does not start are "
    "skipped. Run it from the directory in which the agent starts.",
    examples={
        "freezeframe replay bisect 4bf92f35": "from the recorded commit to HEAD",
        "freezeframe replay bisect tests/golden/order --good v1.4 --bad main": "between two commits",
    },
    exit_codes={0: "found", 125: "undecided: only skipped commits are left, or a commit's replay is not the same each time"},
    takes_program=True,
    options=(
        options.RUN_OR_FIXTURE,
        option("--good", metavar="COMMIT", help="commit that re-enacts the run (default: the commit of the recording)"),
        option("--bad", default="HEAD", metavar="COMMIT", help="commit that no longer does (default: HEAD)"),
        options.IGNORE,
        options.timeout(of="one replay"),
        options.QUIET,
        options.JSON,
        options.STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Bisect and name the commit; 125 if it is not known."""
    fixture = load_as_fixture(options.place_of(arguments), arguments.run)
    good = arguments.good or _recorded_commit(fixture)
    trial = options.trial_of(arguments, ReplayPolicy(ignore=tuple(arguments.ignore)))
    quiet = arguments.quiet or arguments.json
    with Progress("replaying the first commit", quiet=quiet) as progress:

        def on_try(tried: Tried) -> None:
            line = f"{tried.commit[:_SHORT]}  {tried.verdict.value:<12}  {tried.subject}"
            if not quiet:
                progress.note(short(line, options.terminal_width()))
            progress.say("replaying the next commit")

        found = bisect(Path.cwd(), fixture, trial, good=good, bad=arguments.bad, on_try=on_try)
    if arguments.json:
        options.print_json(dataclasses.asdict(found))
    else:
        replay = ["freezeframe", "replay", "--quiet", arguments.run, *(f"--ignore={name}" for name in arguments.ignore)]
        program = ["--", *trial.command] if trial.command else []
        print(_text(found, f"git bisect start {arguments.bad} {good} && git bisect run {shlex.join([*replay, *program])}"))
    return 0 if found.first_bad is not None else EXIT_CODES[Verdict.INCOMPARABLE]


def _recorded_commit(fixture: Fixture) -> str:
    commit = fixture.environment.get(genai.VCS_REVISION, "")
    if not commit:
        raise ConfigError(
            f"--good: not given, and run {fixture.run_id} does not name the commit of the recording",
            do="name a commit that re-enacts the run: --good COMMIT",
        )
    return commit


def _text(found: Bisection, command: str) -> str:
    by_hand = f"  by hand: {command}"
    if found.unsteady:
        first, again = found.unsteady
        differing = f"{first.commit[:_SHORT]} was {first.verdict.value}, and {again.verdict.value} when it was tried again"
        return f"undecided: the replay of one commit is not the same each time: {differing}\n{by_hand}"
    if found.first_bad is None:
        suspects = ", ".join(commit[:_SHORT] for commit in found.suspects)
        return f"undecided: some commits could not be compared; it is one of {suspects}\n{by_hand}"
    first = found.first_bad
    answer = printable(f"{first.commit} is the first commit that diverges from the recording: {first.subject}")
    lines: list[str] = []
    if first.first is not None:
        divergence = first.first
        step = "" if divergence.step is None else f" at step {divergence.step}"
        lines.append(f"  {divergence.kind.value}{step}: {divergence.call_kind} {divergence.name}".rstrip())
        if divergence.recorded is not None or divergence.live is not None:
            lines += [f"    {divergence.path}", f"    - {divergence.recorded}", f"    + {divergence.live}"]
    return "\n".join([answer, *(short(line, options.terminal_width()) for line in lines), by_hand])
