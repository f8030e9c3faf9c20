"""`freezeframe export RUN --as FORMAT`: recorded runs in the formats that others read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, place_of, positive, print_json, terminal_width
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import warn
from freezeframe_replay.operations.export import AUDIT, EXPORT, FORMATS, MAX_RUNS, PACK, ExportParameters
from freezeframe_replay.operations.pack import CODES
from freezeframe_replay.operations.source import RunSource
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.verdict import EXIT_CODES, Verdict

_MADE: Final = "; ".join(f"{name} ({makes})" for name, makes in FORMATS.items())
COMMAND: Final = Command(
    replay_error=EXIT_CODES[Verdict.INCOMPARABLE],
    description="An export holds what the store holds: the redacted content. A run that was never redacted is refused. A pack "
    "also holds the files of the recorded commit that this folder has, the lock file, and run.html; code is not redacted, and "
    "files whose names say that they hold keys, and those that git ignores, are left out. An audit holds canonical JSON lines "
    "in a hash chain, a seal, and a script that checks them with the standard library alone.",
    examples={
        "freezeframe export last --as pack -o bug.ffz": "in the agent's folder: one file to send",
        "freezeframe export last --as pack -o bug.ffz --code now": "with the files as they are, uncommitted changes included",
        "freezeframe replay bug.ffz --packed-code": "on the machine of the recipient",
        "freezeframe export 4bf92f35 --as audit -o audit/4bf92f35 --key key.pem": "signed (Ed25519)",
        "python audit/4bf92f35/check.py": "what the third party runs",
        "freezeframe export last --as otlp -o run.jsonl": "spans, as any OTLP backend takes them",
        "freezeframe export 4bf92f35 --as phoenix -o http://127.0.0.1:6006": "to a backend",
        "freezeframe export 4bf92f35 --as vcr -o tests/cassettes/late.yaml": "its HTTP calls",
        """freezeframe export --sql "SELECT trace_id FROM runs" --as inspect -o week.jsonl""": "a dataset",
    },
    exit_codes={125: "nothing to audit: the run recorded no calls, no input and no outcome"},
    options=(
        option("runs", nargs="*", metavar="RUN", help=TARGET_HELP),
        option("--as", dest="format", required=True, choices=list(FORMATS), metavar="FORMAT", help=_MADE),
        option(
            "-o",
            "--output",
            default="-",
            metavar="DEST",
            help="file, directory (audit, and several runs as vcr or har), - for stdout, or the URL of a backend that accepts "
            "OTLP (default: -)",
        ),
        option("--sql", default="", metavar="QUERY", help="runs whose ids are in the first column of this query"),
        option("--limit", type=positive, default=MAX_RUNS, metavar="N", help=f"at most N runs by SQL (default: {MAX_RUNS})"),
        option(
            "--each", choices=["run", "call"], default="run", help="rows of a dataset: one per run (default), or per model call"
        ),
        option(
            "--code",
            choices=CODES,
            help="pack: which files of this folder: of the recorded commit (default, if this is a clone that holds it); now, "
            "as they are in the work tree; none",
        ),
        option("--key", type=Path, metavar="FILE", help="audit: Ed25519 private key (PEM) to sign it with"),
        flag("--unredacted", "export runs that were never redacted"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Write or send, and list omissions."""
    _check_options(arguments)
    is_stdout = arguments.output == "-" and arguments.format not in (PACK, AUDIT)
    quiet = arguments.json or (is_stdout and sys.stdout.isatty())
    with Progress("exporting", quiet=quiet) as progress:
        parameters = ExportParameters(
            format=arguments.format,
            output=sys.stdout.buffer if is_stdout else arguments.output,
            runs=arguments.runs,
            sql=arguments.sql,
            limit=arguments.limit,
            each_call=arguments.each == "call",
            unredacted=arguments.unredacted,
            code=arguments.code,
            key=arguments.key,
            on_run=progress.step,
        )
        made = EXPORT.execute(RunSource(place_of(arguments)), parameters)
    warn("export", made.warnings)
    if arguments.json:
        print_json(EXPORT.to_json(made))
    else:
        lines = [EXPORT.to_text(made, terminal_width()), *filter(None, [made.then and f"next: {made.then}"])]
        print("\n".join(lines), file=sys.stderr if is_stdout else sys.stdout)
    return 1 if made.rejected else 0


def _check_options(arguments: argparse.Namespace) -> None:
    for name, of in (("code", PACK), ("key", AUDIT)):
        if getattr(arguments, name) is not None and arguments.format != of:
            raise ConfigError(f"--{name}: requires --as {of}")
    if arguments.json and arguments.output == "-":
        raise ConfigError("--json: the summary would be mixed with the export", do="name a file with -o")
