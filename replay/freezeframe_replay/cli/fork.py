"""`freezeframe experiment fork RUN -o DIR --step N ...`: a fixture of the run with one thing changed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
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
    terminal_width,
    text_or_file,
)
from freezeframe_replay.cli.writing import warn
from freezeframe_replay.experiments.fork import Edit, Target
from freezeframe_replay.operations.fork import FORK, ForkParameters, edit_at, json_of
from freezeframe_replay.operations.source import RunSource
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
    parameters = ForkParameters(run=arguments.run, edits=list(_edits(arguments)), output=arguments.output)
    made = FORK.execute(RunSource(place_of(arguments)), parameters)
    warn("experiment fork", made.warnings)
    if arguments.json:
        print_json(FORK.to_json(made))
        return 0
    print(FORK.to_text(made, terminal_width()))
    print(f"next: freezeframe replay {made.fixture}{' --at-commit' if made.at_commit else ''}")
    return 0


def _edits(arguments: argparse.Namespace) -> Iterator[Edit]:
    for text in arguments.input:
        yield edit_at(Target.INPUT, text)
    for name, value in map(_named_value, arguments.flag):
        yield Edit(target=Target.FLAG, path=name, value=value)
    if arguments.clock is not None:
        yield Edit(target=Target.CLOCK, value=arguments.clock)
    if arguments.commit is not None:
        yield Edit(target=Target.COMMIT, value=arguments.commit)
    step: int | None = arguments.step
    if arguments.result is not None:
        value = json_of(text_or_file(arguments.result, "--result"), "--result")
        yield Edit(target=Target.RESULT, step=step, value=value)
    if arguments.response is not None:
        yield Edit(target=Target.RESPONSE, step=step, value=text_or_file(arguments.response, "--response"))
    for text in arguments.set:
        yield edit_at(Target.BODY, text, step)


def _named_value(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``; a value that is not valid JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--flag: found {text!r}, expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
