"""`freezeframe audit RUN -o DIR [--key FILE]`: a run as files that a third party can check without freezeframe."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, option
from freezeframe_replay.cli.options import JSON, RUN_OR_FIXTURE, STORE, place_of, print_json
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_replay.report.audit import write_audit
from freezeframe_replay.report.render import printable
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, why_nothing_to_check

COMMAND: Final = Command(
    replay_error=EXIT_CODES[Verdict.INCOMPARABLE],
    description="The export holds canonical JSON lines in a hash chain, a seal, a README, and a script that checks "
    "them with the standard library alone. With --key, the seal is signed and can be checked with OpenSSL.",
    examples={
        "freezeframe audit 4bf92f35 -o audit/4bf92f35": "not signed; keep the seal elsewhere",
        "freezeframe audit 4bf92f35 -o audit/4bf92f35 --key key.pem": "signed (Ed25519)",
        "python audit/4bf92f35/check.py": "what the third party runs",
    },
    exit_codes={0: "written", 125: "nothing to audit: the run recorded no calls, no input and no outcome"},
    options=(
        RUN_OR_FIXTURE,
        option("-o", "--output", type=Path, required=True, metavar="DIR", help="directory to write to, empty or new"),
        option("--key", type=Path, metavar="FILE", help="Ed25519 private key (PEM) to sign the export with"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Write the export and print its seal."""
    with Progress(f"exporting run {arguments.run}", quiet=arguments.json):
        fixture = load_as_fixture(place_of(arguments), arguments.run)
        why = why_nothing_to_check(fixture)
        if why is not None:
            raise ReplayError(f"{why}; nothing was written")
        seal = write_audit(fixture, arguments.output, key=arguments.key)
    if arguments.json:
        result = {"run": fixture.run_id, "audit": str(arguments.output), "seal": seal, "signed": arguments.key is not None}
        print_json({**result, "exchanges": len(fixture.steps), "gaps": list(fixture.gaps)})
    else:
        signed = "signed" if arguments.key is not None else "not signed"
        print(f"wrote {arguments.output}: {len(fixture.steps)} exchanges of run {fixture.run_id}, {signed}\nseal {seal}")
        for gap in fixture.gaps:
            print(f"  lacks: {printable(gap)}")
        print(f"next: python {arguments.output / 'check.py'}")
    return 0
