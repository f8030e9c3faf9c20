"""`freezeframe import KIND SOURCE...`: send what other tools recorded to the collector, which redacts it."""  # noqa: N999 - as the command

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli.command import Command, flag, option, repeatable
from freezeframe_replay.cli.options import DATA, JSON, home_of, positive, print_json, terminal_width
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.local.collector import flush, read_ports
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.outline import Outline, outline_run
from freezeframe_replay.report.render import ID_DIGITS, counted, ledger_lines, size_text
from freezeframe_replay.sources.backends import BACKENDS, list_backend_runs, load_backend_spans
from freezeframe_replay.sources.exports.endpoints import rejected_spans
from freezeframe_replay.sources.http_door import deliver
from freezeframe_replay.sources.otlp_requests import JSON as JSON_TYPE
from freezeframe_replay.sources.otlp_requests import (
    METRICS,
    OtlpRequest,
    request_with_content,
    requests_of_file,
    requests_of_spans,
)
from freezeframe_replay.sources.recordings.kinds import (
    RECORDINGS,
    no_runs,
    recordings_in,
    requests_of_recording,
    runs_of_recording,
)
from freezeframe_replay.sources.span_file import files_below, load_runs_below, load_runs_of_file
from freezeframe_schemas.address import shown_address
from freezeframe_schemas.content_references import ContentReader, make_reader
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RunError, WireError
from freezeframe_schemas.local_tokens import SENDER, bearer, read_token
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import SpanRecord

_OTLP: Final = "otlp"
_MAX_NAMED: Final = 10


def _source(text: str) -> Path | str:
    return text if "://" in text else Path(text)


_HELD: Final = "; ".join(f"{kind.name} ({kind.holds})" for kind in RECORDINGS.values())
COMMAND: Final = Command(
    description="SOURCE is a file, a directory of such files, or the URL of a backend. OTLP can be JSON lines, one JSON "
    "document, or protobuf, also compressed with gzip, as the file and S3 exporters of the OpenTelemetry Collector "
    "write it. A file of any other kind is read to its end before it is sent. Spans that are already stored are not "
    "stored twice, so you can repeat the command.",
    examples={
        "freezeframe import otlp spans.jsonl": "one file",
        "freezeframe import otlp traces/ --dry-run": "show what a replay will lack; send nothing",
        "freezeframe import otlp spans.jsonl --from 4001": "continue where it stopped",
        "freezeframe import vcr tests/cassettes/": "each cassette as a run",
        "freezeframe import phoenix http://127.0.0.1:6006/shop": "the newest runs of a backend",
    },
    options=(
        option("kind", choices=[_OTLP, *RECORDINGS], metavar="KIND", help=f"what the files hold: {_OTLP}; {_HELD}"),
        option("sources", nargs="+", type=_source, metavar="SOURCE", help=f"file, directory, or URL ({', '.join(BACKENDS)})"),
        option("--limit", type=positive, default=100, metavar="N", help="from a backend: its newest N runs (default: 100)"),
        option("--from", dest="first", type=positive, default=1, metavar="N", help="begin with request N of the first file"),
        repeatable(
            "--content-from",
            dest="places",
            metavar="PREFIX[=BASE]",
            help="where spans of otlp may point to for their messages: a folder or http(s)://HOST/PATH, may be repeated; "
            "=BASE names a copy elsewhere, as of s3://BUCKET/PATH; nothing is read by default",
        ),
        flag("--dry-run", "send nothing; print what each run does not hold"),
        JSON,
        DATA,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Send the requests, or print the gaps that a replay of their runs will have."""
    missing = next((source for source in arguments.sources if isinstance(source, Path) and not source.exists()), None)
    if missing is not None:
        raise ConfigError(f"{missing}: no such file or directory")
    files = _files(arguments)
    if arguments.dry_run:
        return _show(files, arguments)
    sent, runs = _send_all(files, arguments, home_of(arguments))
    if not sent["requests"] and not sent["unreadable"]:
        raise no_runs(*arguments.sources)
    if arguments.json:
        print_json({**sent, "runs": runs})
    else:
        print(f"sent {counted(sent['requests'], 'request')} of {counted(len(files), 'file')}" + _left_out(sent))
        print(_next(runs), end="")
    return 1 if sent["rejected"] or sent["unreadable"] else 0


def _files(arguments: argparse.Namespace) -> list[Path | str]:
    """Return the files to read one by one, and the URLs."""
    kind, found = arguments.kind, list[Path | str]()
    for source in arguments.sources:
        if isinstance(source, str) and kind not in BACKENDS:
            raise ConfigError(f"import {kind}: found a URL, expected a file or a directory")
        if isinstance(source, str):
            found.append(source)
        elif kind != _OTLP:
            found += recordings_in(source, RECORDINGS[kind])
        elif source.is_dir() and not arguments.dry_run:
            found += files_below(source)
        else:  # one trace may be in several files of a directory
            found.append(source)
    return found


def _left_out(sent: Counter[str]) -> str:
    parts = [f"refused: {counted(sent['rejected'], 'span')} (freezeframe status)"] if sent["rejected"] else []
    parts += [f"left out: {counted(sent['metrics'], 'request')} of metrics"] if sent["metrics"] else []
    parts += [f"could not be read: {counted(sent['unreadable'], 'file')}"] if sent["unreadable"] else []
    return "; ".join(["", *parts])


def _next(runs: list[str]) -> str:
    """Return the lines that name the runs, and the next commands."""
    if not runs:
        return ""
    more = f"\n  and {len(runs) - _MAX_NAMED:,} more" if len(runs) > _MAX_NAMED else ""
    named = "\n".join(f"  {run}" for run in runs[:_MAX_NAMED])
    typed = f"freezeframe show {runs[0][:ID_DIGITS]}" if len(runs) == 1 else "freezeframe runs"
    return f"{counted(len(runs), 'run')}:\n{named}{more}\nnext: {typed}\n"


def _shown(file: Path | str) -> str:
    return shown_address(file) if isinstance(file, str) else str(file)


def _send_all(files: list[Path | str], arguments: argparse.Namespace, home: Home) -> tuple[Counter[str], list[str]]:
    """Send every request of the files, from `--from` of the first file on; return the counts, and the runs' ids."""
    port = read_ports(home).get("http")
    if not port or not flush(home):
        raise ConfigError(f"no collector is running for {home.directory}", do="start it with `freezeframe up`")
    sent: Counter[str] = Counter()
    runs: dict[str, None] = {}
    reader = make_reader(arguments.places)

    def send(file: Path | str) -> None:
        for request in _requests(file, arguments, reader):
            if file == files[0] and request.number < arguments.first:
                continue
            if request.signal == METRICS:
                sent["metrics"] += 1
                continue
            progress.say(f"{_shown(file)}: sending request {request.number:,}, {size_text(len(request.body))}")
            sent["rejected"] += _send(request, _shown(file), arguments.kind, home, port)
            sent["requests"] += 1
            runs.update(dict.fromkeys(request.runs))

    with Progress("reading", quiet=arguments.json) as progress:
        sent["unreadable"] = _each(files, send, progress)
        for reason, count in reader.unread.items():
            progress.note(f"freezeframe: {counted(count, 'text')} that spans point to not read: {reason}")
        progress.say("waiting until all of it is stored")
        flush(home)
    return sent, [*runs]


def _each(files: list[Path | str], use: Callable[[Path | str], None], progress: Progress) -> int:
    """Use each file. Of several, unreadable ones are reported and left out; return their number.

    Raises:
        WireError: the only file cannot be read.
        RunError: it holds no run.
    """
    unreadable = 0
    for file in files:
        try:
            use(file)
        except (WireError, RunError, PermanentStoreError) as error:
            if len(files) == 1:
                raise
            progress.note(f"freezeframe: {error}")
            unreadable += not isinstance(error, RunError)
    return unreadable


def _requests(file: Path | str, arguments: argparse.Namespace, reader: ContentReader) -> Iterator[OtlpRequest]:
    if isinstance(file, str):
        return requests_of_spans(span for spans in _traces_of(file, arguments) for span in spans)
    if arguments.kind != _OTLP:
        return requests_of_recording(file, RECORDINGS[arguments.kind])
    found = requests_of_file(file)
    return (part for request in found for part in request_with_content(request, reader)) if reader.places else found


def _traces_of(url: str, arguments: argparse.Namespace) -> Iterator[list[SpanRecord]]:
    """Yield the spans of each run of a backend, the oldest first."""
    store = f"{arguments.kind}+{url}"
    for listed in reversed(list_backend_runs(store, arguments.limit)):
        yield load_backend_spans(store, listed.trace_id)


def _send(request: OtlpRequest, file: str, kind: str, home: Home, port: int) -> int:
    """Send one request; return how many of its spans were refused."""
    headers = {"Content-Type": request.content_type, **bearer(read_token(home.directory, SENDER))}
    http_request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{request.signal}", data=request.body, headers=headers)
    again = f"everything before it is stored; continue with `freezeframe import {kind} {file} --from {request.number}`"
    return _rejected(request.content_type, deliver(http_request, what=f"{file}, {request.place}", again=again))


def _rejected(content_type: str, body: bytes) -> int:
    """Return the number of spans or records that the collector refused, from its answer."""
    if content_type == JSON_TYPE:
        partial: dict[str, Any] = json.loads(body or b"{}").get("partialSuccess") or {}
        return int(partial.get("rejectedSpans") or partial.get("rejectedLogRecords") or 0)
    return rejected_spans(body)  # the answer for log records has the same form


def _show(files: list[Path | str], arguments: argparse.Namespace) -> int:
    """Print the gaps of a replay of each run in the files: its ledger, or its gaps if bytes were recorded."""
    rows: list[dict[str, Any]] = []

    def show(file: Path | str) -> None:
        for run in map(outline_run, _runs(file, arguments)):
            rows.append(_row(run))
            if not arguments.json:
                lines = ledger_lines(run, terminal_width() - 2) if run.ledger else [*run.gaps] or ["nothing to reconstruct"]
                print("\n".join([f"{run.run_id}  {run.name}", *(f"  {line}" for line in lines)]))

    with Progress("reading", quiet=arguments.json or sys.stdout.isatty()) as progress:
        unreadable = _each(files, show, progress)
    if not rows and not unreadable:
        raise no_runs(*arguments.sources)
    if arguments.json:
        print_json(rows)
    return 1 if unreadable else 0


def _row(run: Outline) -> dict[str, Any]:
    return {
        "run": run.run_id,
        "name": run.name,
        "steps": run.steps,
        "ledger": [dataclasses.asdict(loss) for loss in run.ledger],
        "gaps": run.gaps,
    }


def _runs(file: Path | str, arguments: argparse.Namespace) -> list[Run]:
    if isinstance(file, str):
        runs = list(map(build_run, _traces_of(file, arguments)))
    elif arguments.kind == _OTLP:
        runs = load_runs_below(file) if file.is_dir() else load_runs_of_file(file)
    else:
        runs = runs_of_recording(file, RECORDINGS[arguments.kind])
    if not runs:
        raise no_runs(file)
    return runs
