"""`freezeframe experiment canary FIXTURE...`: ask recorded questions again, live, and report drift."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option, repeatable
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, limit, place_of, positive, print_json, terminal_width
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.experiments.canary import Canary, RepeatedCall, ask_again, has_drifted, pinned_questions
from freezeframe_replay.experiments.dataset import load_dataset
from freezeframe_replay.local.target import fixture_directory, is_fixture, load_as_fixture
from freezeframe_replay.report.render import ID_DIGITS, short
from freezeframe_replay.sources.fixture_archive import is_archive
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import EXIT_CODES, Verdict

_IGNORABLE = ("model", "fingerprint", "finish", "calls", "text")


COMMAND: Final = Command(
    description="Drift is another model, fingerprint or wording. Run this command on a schedule. Requests go out as "
    "recorded, with the keys and base URLs of your environment; a key is sent only to a host known as the "
    "provider's, or one that you name. Wording counts only if the request asks for reproducible output (temperature "
    "0, or a seed).",
    examples={
        "freezeframe experiment canary tests/golden/order": "every model call of a fixture",
        "freezeframe experiment canary sets/pinned --ignore fingerprint --quiet": "a dataset, from cron",
        "freezeframe experiment canary last --step 1 --base-url http://127.0.0.1:8000/v1": "one step, at another address",
    },
    exit_codes={0: "nothing drifted", 3: "something did", 125: "a question got no answer"},
    options=(
        option("runs", nargs="+", metavar="RUN_OR_FIXTURE", help=f"{TARGET_HELP}; or a dataset directory"),
        repeatable("--step", type=positive, metavar="N", help="ask again only this step (repeatable)"),
        repeatable("--ignore", choices=_IGNORABLE, help="what may drift (repeatable)"),
        option("--base-url", default="", metavar="URL", help="base URL to ask (default: $OPENAI_BASE_URL and similar)"),
        option("--timeout", type=limit, default=60.0, metavar="S", help="time limit of one answer, in seconds"),
        flag("--quiet", "print only what drifted"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Ask and print the drift; 3 if there is any, 125 if a question got no answer."""
    canary = Canary(
        environment=os.environ,
        base_url=arguments.base_url,
        ignore=frozenset(arguments.ignore),
        timeout_s=arguments.timeout,
    )
    answers: list[RepeatedCall] = []
    quiet = arguments.quiet or arguments.json
    for fixture in _fixtures(arguments):
        for step in pinned_questions(fixture, frozenset(arguments.step)):
            with Progress(f"asking the model of run {fixture.run_id[:ID_DIGITS]}, step {step.number}", quiet=quiet):
                found = ask_again(fixture, step, canary)
            answers.append(found)
            if not arguments.json and not (arguments.quiet and not has_drifted(found) and not found.error):
                print("\n".join(_lines(found, drifted=has_drifted(found))), flush=True)
    if not answers:
        raise FixtureError("found no answered model call, so no question to ask again")
    drifted = sum(map(has_drifted, answers))
    silent = sum(bool(found.error) for found in answers)
    if arguments.json:
        result = {"drifted": drifted, "unanswered": silent, "ignored": sorted(canary.ignore)}
        print_json({**result, "asked": [dataclasses.asdict(found) for found in answers]})
    else:
        print(f"{len(answers)} asked, {drifted} drifted, {silent} unanswered{_not_compared(answers, canary.ignore)}")
    return EXIT_CODES[Verdict.DIVERGED if drifted else Verdict.INCOMPARABLE if silent else Verdict.IDENTICAL]


def _not_compared(asked: Sequence[RepeatedCall], ignored: frozenset[str]) -> str:
    """Return the uncompared parts, for the summary line."""
    unsteady = 0 if "text" in ignored else sum(not found.text_decides for found in asked)
    parts = [", ".join(sorted(ignored))] if ignored else []
    if unsteady:
        parts.append(f"the wording of {unsteady}, which did not ask for reproducible output")
    return f"; not compared: {', '.join(parts)}" if parts else ""


def _fixtures(arguments: argparse.Namespace) -> Iterator[Fixture]:
    for name in arguments.runs:
        if is_fixture(name) and not is_archive(Path(name)):
            dataset = load_dataset(fixture_directory(name))
            yield from map(dataset.load, dataset.rows)
        else:
            yield load_as_fixture(place_of(arguments), name)


def _lines(found: RepeatedCall, *, drifted: bool) -> Iterable[str]:
    width = terminal_width()
    state = "no answer" if found.error else "drifted" if drifted else "steady"
    yield short(f"{state}: run {found.run_id[:ID_DIGITS]} step {found.step}, {found.url}", width)
    if found.error:
        yield short(f"  {found.error}", width)
    for drift in found.drifts:
        note = "" if drift.what != "text" or found.text_decides else " (the request does not ask for reproducible output)"
        yield f"  {drift.what}{note}"
        yield short(f"    - {drift.recorded}", width)
        yield short(f"    + {drift.now}", width)
