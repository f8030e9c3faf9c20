"""`freezeframe export RUN --to KIND DEST`: recorded runs in the forms that other tools read."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, place_of, positive, print_json
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import write_whole
from freezeframe_replay.local.target import load_target, open_store
from freezeframe_replay.report.render import counted
from freezeframe_replay.sources.exports.endpoints import Sender
from freezeframe_replay.sources.exports.kinds import (
    EXPORTS,
    Export,
    Exported,
    ExportKind,
    Needs,
    form_of,
    requests_of_spans,
)
from freezeframe_replay.sources.passing_on import policies_of, refuse_bare
from freezeframe_schemas.address import shown_address, split_address
from freezeframe_schemas.errors import ConfigError, RunError
from freezeframe_schemas.fixture import Fixture

_MADE: Final = "; ".join(f"{kind.name} ({kind.makes})" for kind in EXPORTS.values())
COMMAND: Final = Command(
    description="DEST is a file, - for stdout, or the URL of a backend that accepts OTLP. An export holds what the "
    "store holds: the redacted content. A run that was never redacted is refused.",
    examples={
        "freezeframe export last --to otlp run.jsonl": "spans, as any OTLP backend takes them",
        "freezeframe export 4bf92f35 --to phoenix http://127.0.0.1:6006": "to a backend",
        "freezeframe export 4bf92f35 --to vcr tests/cassettes/late.yaml": "its HTTP calls",
        """freezeframe export --sql "SELECT trace_id FROM runs" --to inspect week.jsonl""": "a dataset",
    },
    options=(
        option("runs", nargs="*", metavar="RUN", help=TARGET_HELP),
        option(
            "--to",
            nargs=2,
            required=True,
            metavar=("KIND", "DEST"),
            help=_MADE,
        ),
        option("--sql", metavar="QUERY", help="runs whose ids are in the first column of this query"),
        option("--limit", type=positive, default=1000, metavar="N", help="at most N runs by SQL (default: 1000)"),
        option(
            "--each", choices=["run", "call"], default="run", help="rows of a dataset: one per run (default), or per model call"
        ),
        flag("--unredacted", "export runs that were never redacted"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Write or send, and list what was left out."""
    name, destination = arguments.to
    if bool(arguments.runs) == bool(arguments.sql):
        raise ConfigError("choose runs in exactly one way: by name, or with --sql")
    kind = EXPORTS.get(name)
    if kind is None:
        raise ConfigError(f"--to {name}: expected one of {', '.join(EXPORTS)}")
    names = arguments.runs or _chosen(arguments)
    if not names:
        raise RunError("no matching runs", do="list them with `freezeframe runs`")
    export = Export(each_call=arguments.each == "call")
    rejected = 0
    with Progress("exporting", quiet=_is_quiet(arguments)) as progress:
        runs = _exported(arguments, names, kind, progress)
        if "://" in destination:
            rejected = _send(runs, kind, export, destination)
        elif kind.file_is_a_run and len(names) > 1:
            _write_directory(runs, kind, export, Path(destination))
        else:
            _write(runs, kind, export, destination)
    _report(arguments, kind, export, len(names), shown_address(destination), rejected)
    return 1 if rejected else 0


def _is_quiet(arguments: argparse.Namespace) -> bool:
    """Return whether progress would be in the way: of a script, or of what is printed on the same terminal."""
    return arguments.json or (arguments.to[1] == "-" and sys.stdout.isatty())


def _chosen(arguments: argparse.Namespace) -> list[str]:
    _, rows = open_store(place_of(arguments)).sql(arguments.sql)
    return list(dict.fromkeys(str(row[0]) for row in rows))[: arguments.limit]


def _exported(arguments: argparse.Namespace, names: Sequence[str], kind: ExportKind, progress: Progress) -> Iterator[Exported]:
    """Yield the runs, one at a time.

    Raises:
        ConfigError: one was never redacted, or is a fixture of which only spans could be exported.
        RunError: one does not hold what the kind needs.
    """
    for done, name in enumerate(names):
        progress.step(done, len(names), f"exporting {name}")
        found = load_target(place_of(arguments), name)
        if isinstance(found, Fixture):
            policies = {found.redaction.policy}
            made = Exported(run_id=found.run_id, exchanges=[step.exchange for step in found.steps])
            if kind.needs is Needs.SPANS:
                raise ConfigError(f"{name}: a fixture holds no spans, which {kind.name} needs", do="name the run in the store")
        else:
            policies = policies_of(found.spans)
            made = Exported(run_id=found.trace_id, spans=found.spans, exchanges=found.exchanges)
        if not arguments.unredacted:
            refuse_bare(made.run_id, policies, made="an export", anyway="export it as it is: --unredacted")
        if kind.needs is Needs.CALLS and not any(exchange.request.method for exchange in made.exchanges):
            raise RunError(
                f"run {made.run_id}: holds no HTTP call with its bytes, which {kind.name} needs", do="export it to otlp"
            )
        yield made


# -- files ----------------------------------------------------------------------------------------------------------------


def _write(runs: Iterable[Exported], kind: ExportKind, export: Export, destination: str) -> None:
    export.form = form_of(kind, destination)
    _write_pieces(kind.write(runs, export), destination)


def _write_directory(runs: Iterable[Exported], kind: ExportKind, export: Export, directory: Path) -> None:
    """Write a file for each run, named after it."""
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory}: is a file; {kind.name} holds one run per file", do="name a directory")
    export.form = kind.forms[0]
    for run in runs:
        _write_pieces(kind.write([run], export), str(directory / f"{run.run_id}.{export.form}"))


def _write_pieces(pieces: Iterable[str | bytes], destination: str) -> None:
    """Write a file whole, or not at all.

    Raises:
        FixtureError: it cannot be written.
    """
    encoded = (piece if isinstance(piece, bytes) else piece.encode("utf-8", "backslashreplace") for piece in pieces)
    if destination == "-":
        for piece in encoded:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    write_whole(Path(destination), encoded, option="--to", parents=True)


# -- backends -------------------------------------------------------------------------------------------------------------


def _send(runs: Iterable[Exported], kind: ExportKind, export: Export, url: str) -> int:
    """Send the spans; return how many were not taken."""
    sender = _sender(kind, url)
    for spans in requests_of_spans(runs, kind, export):
        sender.send(spans)
    return sender.rejected


def _sender(kind: ExportKind, url: str) -> Sender:
    if kind.endpoint is None:
        raise ConfigError(f"--to {kind.name}: found a URL, expected a file", do="only spans are sent: --to otlp URL")
    if split_address(url).scheme not in {"http", "https"}:
        raise ConfigError(f"--to {kind.name} {shown_address(url)}: expected {kind.endpoint.form}")
    return Sender(endpoint=kind.endpoint, url=url, environ=os.environ)


# -- what is said ---------------------------------------------------------------------------------------------------------


def _report(arguments: argparse.Namespace, kind: ExportKind, export: Export, runs: int, shown: str, rejected: int) -> None:
    left_out = [f"{counted(count, what)} {why}" for (what, why), count in export.left_out.items()]
    if arguments.json:
        summary: dict[str, Any] = {
            "kind": kind.name,
            "to": shown,
            "runs": runs,
            "written": export.written,
            "rejected": rejected,
            "left_out": left_out,
            "not_held": kind.loses,
        }
        print_json(summary)
        return
    out = sys.stderr if shown == "-" else sys.stdout
    verb = "sent to" if "://" in shown else "wrote"
    print(f"{verb} {shown}: {counted(export.written, kind.counts)} of {counted(runs, 'run')}", file=out)
    for line in left_out:
        print(f"  left out: {line}", file=out)
    if rejected:
        print(f"  refused by it: {counted(rejected, 'span')}", file=out)
    if kind.loses:
        print(f"  {kind.name} does not hold: {kind.loses}", file=out)
