"""`freezeframe experiment fork RUN -o DIR --step N ...`: a fixture of the run with one thing changed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli.command import Command, option, repeatable
from freezeframe_replay.cli.options import (
    JSON,
    RUN_OR_FIXTURE,
    STORE,
    new_directory,
    place_of,
    positive,
    print_json,
    text_or_file,
)
from freezeframe_replay.cli.writing import write_to
from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_schemas.errors import ConfigError

COMMAND: Final = Command(
    description="Change a tool's result, a model's answer or the input. The replay of a fork answers as recorded up "
    "to the changed step and gives the changed answer there. The first request that the recording does not hold "
    "shows what the code does with it, and `replay DIR --live model` goes on from there. You can fork a fork.",
    examples={
        "freezeframe experiment fork last -o forks/a --step 2 --result '[]'": "the tool finds nothing",
        """freezeframe experiment fork last -o forks/b --step 2 --set '[0].id="AC-9"'""": "one field of its result",
        "freezeframe experiment fork last -o forks/c --step 1 --response 'I do not know.'": "the model's words",
        """freezeframe experiment fork last -o forks/d --input 'args[0]="Where?"'""": "the input of the entry point",
    },
    options=(
        RUN_OR_FIXTURE,
        new_directory(of="fork"),
        option("--step", type=positive, metavar="N", help="the step whose answer to change, as numbered by `freezeframe show`"),
        option("--result", metavar="JSON", help="what the tool or retriever returns (@FILE reads it from a file)"),
        option("--response", metavar="TEXT", help="what the model says (@FILE reads it from a file)"),
        repeatable(
            "--set",
            metavar="PATH=JSON",
            help="one value in the step's answer, for example choices[0].message.content (repeatable)",
        ),
        repeatable(
            "--input", metavar="PATH=JSON", help="one argument of the entry point, for example kwargs.question (repeatable)"
        ),
        repeatable("--flag", metavar="NAME=VALUE", help="a feature flag (repeatable)"),
        option("--clock", metavar="TIME", help="when the run began, for example 2026-12-24T18:00:00Z"),
        option("--commit", metavar="REV", help="the commit that `freezeframe replay --at-commit` checks out"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Write the fork and print the next command."""
    edits = list(_edits(arguments))
    if not edits:
        raise ConfigError(
            "no change given; use --step N with --result, --response or --set, or --input, --flag, --clock, --commit"
        )
    made = fork(load_as_fixture(place_of(arguments), arguments.run), edits)
    directory: Path = arguments.output
    write_to(directory, made, command="experiment fork")
    if arguments.json:
        print_json({"run": made.run_id, "forked_from": made.forked_from, "fixture": str(directory), "edits": list(made.edits)})
        return 0
    print(f"wrote {directory}: run {made.forked_from} with")
    for edit in made.edits:
        print(f"  {edit}")
    print(f"next: freezeframe replay {directory}{' --at-commit' if arguments.commit else ''}")
    return 0


def _edits(arguments: argparse.Namespace) -> Iterator[Edit]:
    for path, value in map(_assignment, arguments.input):
        yield Edit(target=Target.INPUT, path=path, value=value)
    for name, value in map(_named_value, arguments.flag):
        yield Edit(target=Target.FLAG, path=name, value=value)
    if arguments.clock is not None:
        yield Edit(target=Target.CLOCK, value=arguments.clock)
    if arguments.commit is not None:
        yield Edit(target=Target.COMMIT, value=arguments.commit)
    step: int | None = arguments.step
    if step is None and (arguments.set or arguments.result is not None or arguments.response is not None):
        raise ConfigError("--step is required: the number of the step whose answer to change")
    if arguments.result is not None:
        yield Edit(target=Target.RESULT, step=step, value=_json(text_or_file(arguments.result, "--result"), "--result"))
    if arguments.response is not None:
        yield Edit(target=Target.RESPONSE, step=step, value=text_or_file(arguments.response, "--response"))
    for path, value in map(_assignment, arguments.set):
        yield Edit(target=Target.BODY, step=step, path=path, value=value)


def _assignment(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"found {text!r}, expected PATH=JSON")
    return path, _json(value, path)


def _named_value(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``; a value that is not valid JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--flag: found {text!r}, expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(f"{where}: found {text[:80]!r}, expected JSON (text goes in double quotes)") from None
