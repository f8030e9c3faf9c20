"""`freezeframe experiment DATASET [-- CMD]`: replay each run of a dataset with a candidate, and list the changes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.colour import show
from freezeframe_replay.cli.command import Command, flag, option, repeatable
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import write_whole
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.request_edit import Part, RequestEdit, parse_parameter
from freezeframe_replay.experiments.dataset import result_file
from freezeframe_replay.experiments.experiment import EXIT_CODES, Gates, Judging, RowResult
from freezeframe_replay.experiments.judge import load_judge
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.operations.experiment import EXPERIMENT, ExperimentParameters, result_text
from freezeframe_replay.operations.source import RunSource
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Kind

COMMAND: Final = Command(
    description="Every run of the dataset is reported. The candidate is the code in the working tree, and whatever "
    "--model, --system, --replace and --set change in the requests to the model. Path, tools, arguments and targets "
    "are compared exactly; the judge decides whether different words mean the same.",
    examples={
        "freezeframe experiment sets/week": "did my change alter any of these runs? offline",
        "freezeframe experiment sets/week --model gpt-5-mini --live model": "another model",
        "freezeframe experiment sets/week --system @new.txt --live model --judge judges:same": "another prompt, judged",
        "freezeframe experiment sets/week --jobs 4 --json -o result.json": "for a script",
        "freezeframe experiment sets/week --model m --live model --max-changed 2 --max-cost 0.05": "as a gate in CI",
    },
    exit_codes={
        0: "nothing changed, or no gate was exceeded",
        3: "at least one run changed, or a gate was exceeded",
        125: "neither, but some runs could not be compared, or what a gate needs is not known",
    },
    takes_program=True,
    options=(
        option(
            "dataset",
            type=Path,
            metavar="DATASET",
            help="directory that `freezeframe experiment dataset` wrote, or a fixture's",
        ),
        option("--model", metavar="NAME", help="candidate: ask this model (with --live model)"),
        option("--system", metavar="TEXT", help="candidate: another system prompt (@FILE reads it from a file)"),
        repeatable("--replace", nargs=2, metavar=("OLD", "NEW"), help="candidate: replace this passage of the prompts"),
        repeatable("--set", metavar="NAME=JSON", help="candidate: a parameter, such as temperature=0"),
        options.LIVE,
        repeatable("--allow-tool", metavar="NAME", help="let this tool run for real (repeatable)"),
        options.IGNORE,
        option("--judge", metavar="MODULE:FUNCTION", help="ask this function whether different words mean the same"),
        flag("--judge-live", "let the judge ask a model for real, and record the answers"),
        option("--jobs", type=options.positive, default=1, metavar="N", help="replays at the same time (default: 1)"),
        options.timeout(of="one run"),
        option("--max-changed", type=options.whole, metavar="N", help="gate: at most N runs may change (default: none)"),
        option(
            "--max-p95",
            type=options.bound,
            metavar="SECONDS",
            help="gate: longest time that the calls of a run take, at the 95th percentile",
        ),
        option("--max-cost", type=options.bound, metavar="USD", help="gate: highest cost of a run, at list price"),
        option(
            "--as",
            dest="named",
            metavar="NAME",
            help="keep the result in the dataset under this name, a column of the page /sets",
        ),
        option("-o", "--output", type=Path, metavar="FILE", help="also write the result to this file as JSON"),
        flag("--all", "also list the rows that are the same"),
        options.REQUIRE_VALUES,
        options.QUIET,
        options.JSON,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Run it, print the table; the exit code is the finding."""
    kept = None if arguments.named is None else result_file(arguments.dataset, arguments.named)
    with Progress("replaying the first run", quiet=arguments.quiet or arguments.json) as progress:

        def on_row(done: int, total: int, row: RowResult) -> None:
            progress.step(done, total, f"{row.name}  {row.finding.value}  {row.why}")

        parameters = ExperimentParameters(
            dataset=arguments.dataset,
            trial=options.trial_of(arguments, _policy(arguments)),
            judging=_judging(arguments),
            gates=Gates(changed=arguments.max_changed, p95_s=arguments.max_p95, usd=arguments.max_cost),
            jobs=arguments.jobs,
            on_row=on_row,
        )
        result = EXPERIMENT.execute(RunSource(RunsPlace()), parameters)
    document = EXPERIMENT.to_json(result)
    for path in filter(None, (kept, arguments.output)):
        write_whole(path, f"{options.json_text(document)}\n".encode(), parents=True)
    if arguments.json:
        options.print_json(document)
    else:
        show(result_text(result, width=options.terminal_width(), everything=arguments.all))
    return EXIT_CODES[result.finding]


def _policy(arguments: argparse.Namespace) -> ReplayPolicy:
    edits = tuple(_edits(arguments))
    live = frozenset(Kind(name) for name in arguments.live)
    if edits and Kind.MODEL not in live:
        raise ConfigError(
            f"{edits[0]} requires --live model: the recording holds no answer to an edited request",
            do="add --live model; it uses the API keys of your environment, at your cost",
        )
    return ReplayPolicy(
        ignore=tuple(arguments.ignore),
        live=live,
        allow_tools=frozenset(arguments.allow_tool),
        require_values=arguments.require_values,
        edits=edits,
    )


def _edits(arguments: argparse.Namespace) -> Iterable[RequestEdit]:
    if arguments.model:
        yield RequestEdit(part=Part.MODEL, value=arguments.model)
    if arguments.system is not None:
        yield RequestEdit(part=Part.SYSTEM, value=options.text_or_file(arguments.system, "--system"))
    for old, new in arguments.replace:
        yield RequestEdit(part=Part.TEXT, name=old, value=new)
    yield from map(parse_parameter, arguments.set)


def _judging(arguments: argparse.Namespace) -> Any:
    if not arguments.judge:
        if arguments.judge_live:
            raise ConfigError("--judge-live requires --judge, which names the function that judges")
        return None
    return Judging(judge=load_judge(arguments.judge), records=arguments.dataset / "judgements", live=arguments.judge_live)
