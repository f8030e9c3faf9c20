"""`freezeframe diff A B`: two runs side by side, the first difference, and what changed in each step."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.colour import show
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, place_of, print_json, terminal_width
from freezeframe_replay.cli.writing import write_whole
from freezeframe_replay.engine.compare import Difference
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_replay.report.align import Comparison, How, Side, StepPair, compare_runs
from freezeframe_replay.report.render import ID_DIGITS, cost, counted, duration, short
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import EXIT_CODES, Verdict

ALIKE: Final = 0
DIFFERENT: Final = 3
_MARKS: Final = {How.SAME: " ", How.CHANGED: "~", How.ADDED: "+", How.REMOVED: "-"}


COMMAND: Final = Command(
    description="Steps are paired by their request, in each task or thread in order, then by kind and name. Time and "
    "tokens are shown but do not count as differences.",
    examples={
        "freezeframe diff 4bf92f35 9c1e77d0": "two runs in the store",
        "freezeframe diff tests/regressions/late-order last": "a fixture and the newest run",
        "freezeframe diff before.jsonl after.jsonl --all --json": "for a script",
        "freezeframe diff last 4bf92f35 --html diff.html": "a self-contained page, to keep or to send",
    },
    exit_codes={
        0: "alike; anything that neither run recorded is named",
        3: "different",
        125: "incomparable: neither run recorded calls, input or outcome",
    },
    options=(
        option("before", metavar="A", help=TARGET_HELP),
        option("after", metavar="B", help="the other run, named in the same way"),
        flag("--all", "also show the steps that are the same"),
        flag("--fold", "only count what differs in every answer: the ids of a model's calls, and vectors"),
        option("--html", type=Path, metavar="FILE", help="write a self-contained page to this file"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison; 3 if the runs differ."""
    before, after = (load_as_fixture(place_of(arguments), named) for named in (arguments.before, arguments.after))
    varying = () if arguments.fold else None
    found = compare_runs(before, after, varying)
    if arguments.html is not None:
        _write_page(arguments.html, before, after, varying)
    if arguments.json:
        print_json({"alike": found.alike, "compared": found.compared, **dataclasses.asdict(found)})
    else:
        show(comparison_text(found, width=terminal_width(), everything=arguments.all))
    if not found.compared:
        return EXIT_CODES[Verdict.INCOMPARABLE]
    return ALIKE if found.alike else DIFFERENT


def _write_page(path: Path, before: Fixture, after: Fixture, varying: tuple[()] | None) -> None:
    from freezeframe_replay.engine.compare import WHOLE
    from freezeframe_replay.web.comparison import comparison_page

    found = compare_runs(before, after, varying, context=WHOLE)
    write_whole(path, comparison_page(found, alone=True).encode("utf-8", "replace"), option="--html")


def comparison_text(found: Comparison, *, width: int, everything: bool = False) -> str:
    """Return the comparison as text; equal steps are counted, or listed with `everything`."""
    lines = [_head(found)]
    if found.input:
        lines += ["  ~ input", *_differences(found.input, width)]
    for pair in found.pairs:
        if pair.how is not How.SAME or everything:
            lines += _pair(pair, width)
    if found.outcome:
        lines += ["  ~ outcome", *_differences(found.outcome, width)]
    same = sum(1 for pair in found.pairs if pair.how is How.SAME)
    if same and not everything and not found.alike:
        lines.append(f"  {same} more are the same (--all lists them)")
    return "\n".join(lines)


def _head(found: Comparison) -> str:
    names = f"{found.before[:ID_DIGITS]} and {found.after[:ID_DIGITS]}"
    if not found.compared:
        return f"incomparable: nothing was compared; neither run recorded calls, input or outcome; runs {names}"
    if found.alike:
        but_for = f", except {' and '.join(found.not_compared)}" if found.not_compared else ""
        return f"alike{but_for}: {counted(len(found.pairs), 'step')}, runs {names}"
    first = next((pair for pair in found.pairs if pair.says_otherwise), found.first)
    place = "in the input" if found.input else "in the outcome only"
    if first is not None and not found.input:
        place = f"at {_numbers(first.before, first.after)}"
    return f"different: first {place}, runs {names}"


def _numbers(before: Side | None, after: Side | None) -> str:
    if before is None:
        return f"step {after.step} of the second run, which is missing from the first" if after else ""
    if after is None:
        return f"step {before.step}, which is missing from the second run"
    return f"step {before.step}" if before.step == after.step else f"step {before.step} (in the second run {after.step})"


def _pair(pair: StepPair, width: int) -> Iterable[str]:
    side = pair.before or pair.after
    name = "" if side is None else side.name
    numbers = " > ".join(dict.fromkeys(str(one.step) for one in (pair.before, pair.after) if one is not None))
    figures = "  ".join(_figures(pair))
    call = short(f"  {_MARKS[pair.how]} {numbers:>3}  {pair.kind.value} {name}", width)
    if len(call) + 2 + len(figures) <= width:
        yield f"{call}  {figures}".rstrip()
    else:
        yield from (call, textwrap.fill(figures, width, initial_indent=" " * 8, subsequent_indent=" " * 8))
    if pair.request:
        yield "        asked"
        yield from _differences(pair.request, width)
    if pair.response:
        yield "        answered"
        yield from _differences(pair.response, width)
    if pair.varying:
        yield f"        varies by itself: {counted(len(pair.varying), 'field')}"


def _figures(pair: StepPair) -> Iterable[str]:
    sides = [side for side in (pair.before, pair.after) if side is not None]
    for texts in (
        [side.model or "" for side in sides],
        [f"{side.tokens[0]:,}+{side.tokens[1]:,} tokens" if side.tokens else "" for side in sides],
        [cost(side.cost_usd) for side in sides],
    ):
        if any(texts):
            yield " > ".join(dict.fromkeys(texts))
    yield " > ".join(duration(side.ms) for side in sides)


def _differences(found: Sequence[Difference], width: int) -> Iterable[str]:
    for item in found:
        yield short(f"          {item.path}", width)
        yield short(f"          - {item.recorded}", width)
        yield short(f"          + {item.live}", width)
