"""`freezeframe experiment fuzz RUN [-- CMD]`: perturb a run slightly, and list the perturbations that flip it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command, flag, option, repeatable
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.experiments.fuzz import Effect, Fuzzing, flips, fuzz, unknown
from freezeframe_replay.experiments.perturb import Aim, Perturbation
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_replay.report.render import table_text
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.verdict import EXIT_CODES, Verdict

_AIMS = ("prompt", "result", "chunks", "order")


COMMAND: Final = Command(
    replay_error=EXIT_CODES[Verdict.INCOMPARABLE],
    description="The question is typed differently, a tool returns less or fails, a stream is cut in other places, "
    "concurrent answers arrive in a different order. Offline, the model keeps to its recorded answers, so you see "
    "what the code does with the change. The same seed tries the same perturbations.",
    examples={
        "freezeframe experiment fuzz last": "twenty perturbations, offline",
        "freezeframe experiment fuzz last --aim result --rounds 50 -o flips": "tool results; keep what flips",
        "freezeframe experiment fuzz last --aim prompt --live model": "what the real model does with a typo",
    },
    exit_codes={
        0: "no perturbation flips it",
        3: "at least one does",
        125: "the run itself is not re-enacted, or nothing could be perturbed or compared",
    },
    takes_program=True,
    options=(
        options.RUN_OR_FIXTURE,
        option("--rounds", type=options.positive, default=20, metavar="N", help="perturbations to try (default: 20)"),
        option("--seed", type=int, default=1, metavar="N", help="the same seed tries the same perturbations (default: 1)"),
        repeatable("--aim", choices=_AIMS, help="perturb only this (repeatable; default: all)"),
        repeatable("--live", choices=["model"], help="ask the model for real"),
        option("-o", "--output", type=Path, metavar="DIR", help="write each run that flips to this directory, as a fixture"),
        options.timeout(of="one replay"),
        flag("--all", "also list the perturbations that flip nothing"),
        options.QUIET,
        options.JSON,
        options.STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Fuzz and print the table; 3 if a perturbation flipped the run, 125 if the run itself is not re-enacted."""
    fuzzing = Fuzzing(
        seed=arguments.seed,
        rounds=arguments.rounds,
        aims=tuple(map(Aim, arguments.aim)) or tuple(Aim),
        trial=options.trial_of(arguments, ReplayPolicy(live=frozenset(map(Kind, arguments.live)))),
    )
    with Progress("replaying the run as it is", quiet=arguments.quiet or arguments.json) as progress:

        def on_effect(effect: Effect, item: Perturbation, total: int) -> None:
            progress.step(effect.number, total, f"{effect.effect:<8} {effect.aim.value}  {effect.text}")
            if effect.flips and arguments.output is not None:
                write_fixture(item.fixture, arguments.output / f"{effect.number:03}-{effect.aim.value}")

        effects = fuzz(load_as_fixture(options.place_of(arguments), arguments.run), fuzzing, on_effect=on_effect)
    flipped, open_ones = flips(effects), unknown(effects)
    if arguments.json:
        document = {"seed": arguments.seed, "tried": len(effects), "flipped": len(flipped), "unknown": len(open_ones)}
        options.print_json({**document, "effects": [dataclasses.asdict(effect) for effect in effects]})
    else:
        rest = f"; {len(open_ones)} undecided" if open_ones else ""
        print(f"{len(flipped)} of {len(effects)} perturbations flip the run{rest} (seed {arguments.seed})")
        if len(effects) < arguments.rounds:
            print(f"  there are no more; --rounds asked for {arguments.rounds}")
        print(_table(effects if arguments.all else flipped), end="")
        if flipped and arguments.output is not None:
            print(f"next: freezeframe replay {arguments.output}/{flipped[0].number:03}-{flipped[0].aim.value}")
    if flipped:
        return EXIT_CODES[Verdict.DIVERGED]
    return EXIT_CODES[Verdict.INCOMPARABLE if len(open_ones) == len(effects) else Verdict.IDENTICAL]


def _table(effects: Sequence[Effect]) -> str:
    if not effects:
        return ""
    rows = [
        (str(effect.number), effect.aim.value, str(effect.step or ""), effect.text, effect.effect, effect.detail)
        for effect in effects
    ]
    header = ("#", "aim", "step", "perturbation", "flips", "how")
    width = options.terminal_width()
    table = table_text(header, rows, right=(0, 2), cell_width=max(40, width // 2), cut=(5,), width=width - 2)
    return "".join(f"  {line}\n" for line in table.splitlines())
