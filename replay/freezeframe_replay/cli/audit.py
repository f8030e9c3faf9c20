"""`freezeframe audit RUN -o DIR [--key FILE]`: a run as files that a third party can check without freezeframe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from freezeframe_replay.cli.options import add_json, add_store, print_json
from freezeframe_replay.cli.target import TARGET_HELP, load_as_fixture
from freezeframe_replay.report.render import printable
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, why_nothing_to_check


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", metavar="RUN_OR_FIXTURE", help=TARGET_HELP)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="directory of the export, empty or new")
    parser.add_argument("--key", type=Path, metavar="FILE", help="sign it: an Ed25519 private key in PEM")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Write the export and print its seal."""
    from freezeframe_replay.report.audit import write_audit

    fixture = load_as_fixture(arguments, arguments.run)
    why = why_nothing_to_check(fixture)
    if why is not None:
        print(f"freezeframe audit: {why}; nothing was written", file=sys.stderr)
        return EXIT_CODES[Verdict.INCOMPARABLE]
    seal = write_audit(fixture, arguments.output, key=arguments.key)
    if arguments.json:
        said = {"run": fixture.run_id, "audit": str(arguments.output), "seal": seal, "signed": arguments.key is not None}
        print_json({**said, "exchanges": len(fixture.steps), "gaps": list(fixture.gaps)})
    else:
        signed = "signed" if arguments.key is not None else "not signed"
        print(f"wrote {arguments.output}: {len(fixture.steps)} exchanges of run {fixture.run_id}, {signed}\nseal {seal}")
        for gap in fixture.gaps:
            print(f"  lacks: {printable(gap)}")
        print(f"next: python {arguments.output / 'check.py'}")
    return 0
