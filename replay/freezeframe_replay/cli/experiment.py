"""`freezeframe experiment DATASET [-- CMD]`: replay each run of a dataset with candidates; what do they change, fix, break?"""

from __future__ import annotations

import argparse
import copy
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from freezeframe_replay.cli import options
from freezeframe_replay.cli.colour import show
from freezeframe_replay.cli.command import Command, flag, option, repeatable, split_program
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import write_whole
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.request_edit import Part, RequestEdit, parse_parameter
from freezeframe_replay.experiments.candidate import ExperimentCandidate, noise
from freezeframe_replay.experiments.check import CheckCommand
from freezeframe_replay.experiments.dataset import check_name, result_file
from freezeframe_replay.experiments.experiment import Conditions, Kept
from freezeframe_replay.experiments.gates import Gates
from freezeframe_replay.experiments.judge import load_judge
from freezeframe_replay.experiments.results import kept_from_json
from freezeframe_replay.experiments.rows import EXIT_CODES, Judging, RowResult
from freezeframe_replay.experiments.tool_policy import rules_of, save_rules
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.operations.experiment import EXPERIMENT, ExperimentParameters, experiment_text, keep_results
from freezeframe_replay.operations.source import RunSource
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Kind

_CANDIDATE: Final = (
    option("--code", metavar="DIR_OR_COMMIT", help="candidate: the code of this folder, or of this commit"),
    option("--model", metavar="NAME", help="candidate: ask this model (with --live model)"),
    option("--system", metavar="TEXT", help="candidate: another system prompt (@FILE reads it from a file)"),
    repeatable("--replace", nargs=2, metavar=("OLD", "NEW"), help="candidate: replace this passage of the prompts"),
    repeatable("--set", metavar="NAME=JSON", help="candidate: a parameter, such as temperature=0"),
    options.LIVE,
    option(
        "--live-from",
        type=options.positive,
        metavar="N",
        help="make them for real from step N on, recorded or not",
    ),
    repeatable("--allow-tool", metavar="NAME", help="let this tool run for real (repeatable)"),
    repeatable(
        "--run-tool",
        metavar="NAME",
        help="run this tool's own code on its recorded calls, and compare what it returns (repeatable)",
    ),
    repeatable(
        "--fix-tool",
        metavar="NAME=JSON",
        help="let this tool answer this value, whatever its arguments (repeatable)",
    ),
    flag("--run-changed", "run each tool whose code changed since the recording, likewise"),
    options.IGNORE,
)
"""The options of one candidate. Given outside --candidate, they hold for all."""

COMMAND: Final = Command(
    description="Every run of the dataset is reported, for every candidate. A candidate is the code in the working tree, "
    "or that of --code, and whatever --model, --system, --replace and --set change in the requests to the model. Path, "
    "tools, arguments and targets are compared exactly; the judge decides whether different words mean the same, and the "
    "check whether an outcome is right. What makes no live call runs once; the rest --repeats times. An experiment that "
    "was stopped goes on where it was.",
    examples={
        "freezeframe experiment sets/week": "did my change alter any of these runs? offline",
        "freezeframe experiment sets/week --model gpt-5-mini --live model": "another model",
        "freezeframe experiment sets/week --system @new.txt --live model --judge judges:same": "another prompt, judged",
        "freezeframe experiment sets/week --check 'pytest -q -k order'": "what does my change fix, and what does it break?",
        "freezeframe experiment sets/week --live model --candidate 'mini=--model gpt-5-mini' --candidate "
        "'short=--system @short.txt' --noise --repeats 5 --check ./right.sh --budget 2.50": "which is better? five times each",
        "freezeframe experiment sets/week --candidate old=--code=v1.4 --candidate new= --as release": "two commits; keep it",
        "freezeframe experiment sets/week --check ./right.sh --against release": "in CI: 3 if a run of it fails now",
        "freezeframe experiment sets/week --jobs 4 --json -o result.json": "for a script",
        "freezeframe experiment sets/week --model m --live model --max-changed 2 --max-cost 0.05": "as a gate in CI",
    },
    exit_codes={
        0: "nothing changed; with a check, nothing broke; no gate was exceeded",
        3: "at least one run changed; with a check, broke; or a gate was exceeded",
        125: "neither, but some runs could not be compared, what a gate needs is not known, or the budget left cells",
    },
    takes_program=True,
    options=(
        option(
            "dataset",
            type=Path,
            metavar="DATASET",
            help="directory that `freezeframe experiment dataset` wrote, or a fixture's",
        ),
        repeatable(
            "--candidate",
            metavar="NAME=OPTIONS",
            help="one of several candidates, with its options: 'mini=--model gpt-5-mini' (repeatable)",
        ),
        *_CANDIDATE,
        flag("--save-tools", "save what these options say about tools in the dataset (tools.json), for all later experiments"),
        flag("--noise", "also ask the recorded models again, unchanged: what changes by itself"),
        option("--repeats", type=options.positive, default=1, metavar="R", help="times for what is live (default: 1)"),
        option(
            "--check",
            metavar="COMMAND",
            help="a run passes if this exits with 0; it gets the outcome on stdin, and in the file $FREEZEFRAME_CHECK_OUTCOME",
        ),
        option("--judge", metavar="MODULE:FUNCTION", help="ask this function whether different words mean the same"),
        flag("--judge-live", "let the judge ask a model for real, and record the answers"),
        option(
            "--budget",
            type=options.bound,
            metavar="USD",
            help="stop before a live call of a candidate may exceed this, at list price; with a larger one, the same "
            "command goes on",
        ),
        flag("--fresh", "make all cells anew, also those that a stopped experiment had finished"),
        option("--jobs", type=options.positive, default=1, metavar="N", help="replays at the same time (default: 1)"),
        options.timeout(of="one run, and of one check"),
        option("--max-changed", type=options.whole, metavar="N", help="gate: at most N runs may change (default: none)"),
        option(
            "--max-broken", type=options.whole, metavar="N", help="gate: at most N runs that passed may fail (with --check: 0)"
        ),
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
            help="keep the result in the dataset under this name, a column of the page /sets; of several candidates, "
            "each as NAME-CANDIDATE",
        ),
        option("--against", metavar="NAME", help="compare with a kept result in place of the recorded runs"),
        option("-o", "--output", type=Path, metavar="FILE", help="also write the result to this file as JSON"),
        flag("--all", "also list the rows that are the same"),
        options.REQUIRE_VALUES,
        options.QUIET,
        options.JSON,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Run it, print the tables; the exit code is the finding."""
    candidates = list(_candidates(arguments))
    if arguments.save_tools:
        save_rules(arguments.dataset, rules_of(_policy(arguments)))
    keep = dict(_kept_files(arguments, candidates))
    with Progress("replaying the first run", quiet=arguments.quiet or arguments.json) as progress:

        def on_row(done: int, total: int, row: RowResult) -> None:
            progress.step(done, total, f"{row.name}  {row.finding.value}  {row.why}")

        check = None if arguments.check is None else CheckCommand(command=arguments.check, timeout_s=arguments.timeout)
        gates = Gates(
            changed=arguments.max_changed,
            broken=arguments.max_broken,
            p95_s=arguments.max_p95,
            usd=arguments.max_cost,
        )
        conditions = Conditions(
            judging=_judging(arguments),
            check=check,
            repeats=arguments.repeats,
            budget_usd=arguments.budget,
            jobs=arguments.jobs,
            gates=gates,
            kept=dict(_against(arguments, candidates)),
            against=arguments.against or "",
            fresh=arguments.fresh,
            outputs=() if arguments.output is None else (arguments.output,),
            on_row=on_row,
        )
        parameters = ExperimentParameters(dataset=arguments.dataset, candidates=tuple(candidates), conditions=conditions)
        found = EXPERIMENT.execute(RunSource(RunsPlace()), parameters)
    document = EXPERIMENT.to_json(found)
    keep_results(found, keep)
    if arguments.output is not None:
        write_whole(arguments.output, f"{options.json_text(document)}\n".encode(), parents=True)
    if arguments.json:
        options.print_json(document)
    else:
        show(experiment_text(found, width=options.terminal_width(), everything=arguments.all))
    return EXIT_CODES[found.finding]


def _candidates(arguments: argparse.Namespace) -> Iterator[ExperimentCandidate]:
    """Yield the candidates of the command line. Options outside --candidate hold for each.

    Raises:
        ConfigError: a name is given twice or does not suit a file, or the options are not those of a candidate.
    """
    names: set[str] = set()
    for given in arguments.candidate:
        name, equals, text = given.partition("=")
        if not equals or name in names:
            found = f"{name!r} twice" if name in names else repr(given)
            raise ConfigError(f"--candidate: found {found}, expected NAME=OPTIONS, for example 'mini=--model gpt-5-mini'")
        check_name(name)
        names.add(name)
        yield _candidate(name, _own_arguments(name, text, arguments))
    if not names:
        yield _candidate("", arguments)
    if arguments.noise:
        yield noise(options.trial_of(arguments, ReplayPolicy(ignore=tuple(arguments.ignore))), code=arguments.code or "")


def _own_arguments(name: str, text: str, arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments with those of a candidate's own options."""

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise ConfigError(f"--candidate {name}: {message}", do="see `freezeframe experiment --help`")

    parser = Parser(prog=name, add_help=False, allow_abbrev=False)
    for declare in _CANDIDATE:
        declare(parser)
    try:
        words, program = split_program(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"--candidate {name}: {text!r}: {error}") from None
    own = parser.parse_args(words, argparse.Namespace(**copy.deepcopy(vars(arguments))))
    own.program = program or arguments.program
    return own


def _candidate(name: str, arguments: argparse.Namespace) -> ExperimentCandidate:
    trial = options.trial_of(arguments, _policy(arguments))
    return ExperimentCandidate(name=name, trial=trial, code=arguments.code or "")


def _kept_files(arguments: argparse.Namespace, candidates: Sequence[ExperimentCandidate]) -> Iterator[tuple[str, Path]]:
    """Yield the name of each candidate and the file that keeps its result."""
    named: str | None = arguments.named
    for candidate in candidates if named is not None else ():
        if not candidate.is_noise:
            yield candidate.name, result_file(arguments.dataset, "-".join(filter(None, (named, candidate.name))))


def _against(arguments: argparse.Namespace, candidates: Sequence[ExperimentCandidate]) -> Iterator[tuple[str, Kept]]:
    """Yield the name of each candidate and the result that it is compared with, that under its name if possible.

    Raises:
        ConfigError: no such result was kept, or it is not readable.
    """
    against: str = arguments.against or ""
    for candidate in candidates if against else ():
        names = dict.fromkeys(("-".join(filter(None, (against, candidate.name))), against))
        files = {name: result_file(arguments.dataset, name) for name in names}
        found = next((name for name, file in files.items() if file.is_file()), None)
        if found is None:
            there = sorted(file.stem for file in (arguments.dataset / "results").glob("*.json"))
            raise ConfigError(
                f"--against {against}: {files[against]} is not there; kept: {', '.join(there) or 'none'}",
                do="keep a result with --as NAME",
            )
        try:
            data: Any = json.loads(files[found].read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigError(f"--against {found}: {files[found]}: not readable: {error}") from error
        yield candidate.name, kept_from_json(found, data)


def _policy(arguments: argparse.Namespace) -> ReplayPolicy:
    edits = tuple(_edits(arguments))
    live = frozenset(Kind(name) for name in arguments.live)
    if edits and Kind.MODEL not in live:
        raise ConfigError(
            f"{edits[0]} requires --live model: the recording holds no answer to an edited request",
            do="add --live model; it uses the API keys of your environment, at your cost",
        )
    if arguments.live_from is not None and not live:
        raise ConfigError("--live-from requires --live, for example --live model")
    return ReplayPolicy(
        ignore=tuple(arguments.ignore),
        live=live,
        live_from=arguments.live_from,
        allow_tools=frozenset(arguments.allow_tool),
        run_tools=frozenset(arguments.run_tool),
        run_changed=arguments.run_changed,
        fixed_tools=dict(map(_fixed_tool, arguments.fix_tool)),
        require_values=arguments.require_values,
        edits=edits,
    )


def _fixed_tool(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    try:
        if name and equals:
            return name, json.dumps(json.loads(value), ensure_ascii=False)
    except ValueError:
        pass
    raise ConfigError(f"--fix-tool: found {text!r}, expected NAME=JSON, for example 'weather={{\"celsius\": 20}}'")


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
