"""`freezeframe experiment judge NAME`: a judge's verdicts next to the labels that people gave by hand."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, bound, place_of, print_json
from freezeframe_replay.experiments.agreement import Agreement, Target, agreement, class_of
from freezeframe_replay.local.target import open_store
from freezeframe_replay.report.render import ID_DIGITS, counted, table_text

NOTHING: Final = 125
_SHOWN: Final = 10
"""Targets on which judge and person differ that the text names."""
_ASKED: Final = """
    SELECT trace_id, ifNull(step, 0), by = 'hand', label, value FROM scores
    WHERE (by = 'hand' AND label != '') OR (name = {name:String} AND by != 'hand' AND of != 'session'
        AND (label != '' OR value IS NOT NULL) AND trace_id IN (SELECT trace_id FROM labels))
    ORDER BY at
"""

COMMAND: Final = Command(
    description="A judge is whatever writes scores under this name: evaluation events of OpenTelemetry, annotations of "
    "OpenInference. Compared are the last verdict and the last label on the same run or step. Words such as pass, correct and "
    "up count as good, fail, incorrect and down as bad; without such a word a number decides.",
    examples={
        "freezeframe experiment judge correctness": "agreement, Cohen's kappa, who said what",
        "freezeframe experiment judge hallucination --high-is-bad": "a high number is a bad verdict",
        "freezeframe experiment judge quality --good-from 4": "numbers from 1 to 5",
        "freezeframe experiment judge correctness --json": "for a script, with all runs on which they differ",
    },
    exit_codes={NOTHING: "nothing was judged by both"},
    options=(
        option("name", metavar="NAME", help="name of the scores, as in the view `scores`"),
        option("--good-from", type=bound, default=0.5, metavar="N", help="least number that is good (default: 0.5)"),
        flag("--high-is-bad", "numbers from --good-from on are bad, those below good"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison."""
    _, rows = open_store(place_of(arguments)).sql(_ASKED, {"name": arguments.name})
    by_hand: dict[Target, str] = {}
    by_judge: dict[Target, str] = {}
    for trace_id, step, is_hand, label, value in rows:
        found = class_of(label, value, passes_from=arguments.good_from, high_is_bad=arguments.high_is_bad and not is_hand)
        (by_hand if is_hand else by_judge)[trace_id, step] = found
    result = agreement(arguments.name, by_hand, by_judge)
    if arguments.json:
        print_json(_to_json(result))
    elif result.compared:
        print("\n".join(_lines(result)))
    else:
        print(
            f"{arguments.name}: {counted(len(by_hand), 'label')} by hand, {counted(len(by_judge), 'verdict')} on the same "
            "runs, none on the same run or step; label some: freezeframe runs label RUN good"
        )
    return 0 if result.compared else NOTHING


def _to_json(result: Agreement) -> dict[str, Any]:
    return {
        "judge": result.judge,
        "compared": result.compared,
        "agreed": result.agreed,
        "kappa": result.kappa,
        "counts": [{"hand": hand, "judge": judge, "count": count} for (hand, judge), count in sorted(result.counts.items())],
        "differ": [{"run": run, "step": step or None} for run, step in result.differ],
    }


def _lines(result: Agreement) -> Iterator[str]:
    kappa = "not defined: both gave one class only" if result.kappa is None else f"{result.kappa:.2f}"
    share = f"{result.agreed} of {counted(result.compared, 'label')} by hand ({result.agreed / result.compared:.0%})"
    yield f"{result.judge}: agrees with {share}, kappa {kappa}"
    classes = result.classes
    rows = [[hand, *(str(result.counts.get((hand, judge), 0)) for judge in classes)] for hand in classes]
    yield table_text(["by hand", *(f"judge: {each}" for each in classes)], rows, right=range(1, len(classes) + 1))
    for run, step in result.differ[:_SHOWN]:
        yield f"differ: run {run[:ID_DIGITS]}" + (f", step {step}" if step else "")
    if len(result.differ) > _SHOWN:
        yield f"... and {len(result.differ) - _SHOWN} more (--json lists all)"
