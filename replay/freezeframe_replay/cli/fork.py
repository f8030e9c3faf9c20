"""`freezeframe fork RUN -o DIR --step N ...`: a fixture of the run with one thing changed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from freezeframe_replay.cli.options import add_json, add_store, positive, print_json
from freezeframe_replay.cli.target import TARGET_HELP, load_as_fixture
from freezeframe_replay.fork import Edit, Target, fork
from freezeframe_schemas.errors import ConfigError, FixtureError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", metavar="RUN_OR_FIXTURE", help=TARGET_HELP)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="directory of the fork, made if need be"
    )
    parser.add_argument(
        "--step", type=positive, metavar="N", help="the step whose answer is changed, as `freezeframe show` counts"
    )
    parser.add_argument("--result", metavar="JSON", help="what the tool or retriever returns (@FILE reads it from there)")
    parser.add_argument("--response", metavar="TEXT", help="what the model says (@FILE reads it from there)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=JSON",
        help="one value in the step's answer, for example choices[0].message.content (may be given again)",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="PATH=JSON",
        help="one argument of the entry point, for example kwargs.question (may be given again)",
    )
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Write the fork and say what to type next."""
    from freezeframe_schemas.fixture import write_fixture

    edits = list(_edits(arguments))
    if not edits:
        raise ConfigError("found no change, expected --step N with --result, --response or --set, or --input")
    made = fork(load_as_fixture(arguments, arguments.run), edits)
    directory: Path = arguments.output
    try:
        write_fixture(made, directory)
    except OSError as error:
        raise FixtureError(f"{directory}: cannot be written: {error.strerror}", do="name another directory with -o") from error
    if arguments.json:
        print_json({"run": made.run_id, "forked_from": made.forked_from, "fixture": str(directory), "edits": list(made.edits)})
        return 0
    print(f"wrote {directory}: run {made.forked_from} with")
    for told in made.edits:
        print(f"  {told}")
    print(f"next: freezeframe replay {directory}")
    return 0


def _edits(arguments: argparse.Namespace) -> Iterator[Edit]:
    for path, value in map(_assignment, arguments.input):
        yield Edit(target=Target.INPUT, path=path, value=value)
    step: int | None = arguments.step
    if step is None and (arguments.set or arguments.result is not None or arguments.response is not None):
        raise ConfigError("--step: not given, expected the number of the step whose answer is changed")
    if arguments.result is not None:
        yield Edit(target=Target.RESULT, step=step, value=_json(_text(arguments.result), "--result"))
    if arguments.response is not None:
        yield Edit(target=Target.RESPONSE, step=step, value=_text(arguments.response))
    for path, value in map(_assignment, arguments.set):
        yield Edit(target=Target.BODY, step=step, path=path, value=value)


def _assignment(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"found {text!r}, expected PATH=JSON")
    return path, _json(value, path)


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(f"{where}: found {text[:80]!r}, expected JSON (a text stands in double quotes)") from None


def _text(given: str) -> str:
    if not given.startswith("@"):
        return given
    path = Path(given[1:])
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
