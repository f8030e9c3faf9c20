"""`freezeframe doctor`: find faults on this machine, with remedies."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Final

from freezeframe_replay.cli.command import Command
from freezeframe_replay.cli.options import DATA, JSON, home_of, print_json
from freezeframe_replay.local.checkup import CheckResult, Grade, checkup
from freezeframe_replay.report.render import printable

COMMAND: Final = Command(
    examples={
        "freezeframe doctor": "each check: ok, warn or fail, and how to fix it",
        "freezeframe doctor --json": "the same for a script",
    },
    exit_codes={0: "no check failed", 1: "at least one failed"},
    options=(
        DATA,
        JSON,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print each finding; 1 if a check failed."""
    findings: list[CheckResult] = []
    for finding in checkup(home_of(arguments)):
        findings.append(finding)
        if not arguments.json:
            _print(finding)
    if arguments.json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    return 1 if any(finding.grade is Grade.FAIL for finding in findings) else 0


def _print(finding: CheckResult) -> None:
    print(f"{finding.grade.value:<5} {finding.check:<20} {printable(finding.found)}", flush=True)
    if finding.do:
        print(f"      {'':<20} do: {printable(finding.do)}", flush=True)
