"""Write or send runs in a format for other tools."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.pack import pack
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.audit import write_audit
from freezeframe_replay.report.render import counted, printable
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
from freezeframe_replay.sources.fixture_archive import PACK_SUFFIX
from freezeframe_replay.sources.passing_on import policies_of, refuse_bare
from freezeframe_schemas.address import shown_address, split_address
from freezeframe_schemas.errors import ConfigError, FixtureError, ReplayError, RunError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import why_nothing_to_check
from freezeframe_schemas.whole_file import replace_file

PACK: Final = "pack"
AUDIT: Final = "audit"
FORMATS: Final[Mapping[str, str]] = {
    PACK: "one file with the run, its code and a page to read it",
    AUDIT: "files that others can check without freezeframe",
    **{kind.name: kind.makes for kind in EXPORTS.values()},
}
"""Name of a format -> its description."""
MAX_RUNS: Final = 1000
"""Runs that SQL chooses, unless another number is given."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExportParameters:
    """The runs, the format, and the destination."""

    format: str
    """One of `FORMATS`."""
    output: str | BinaryIO
    """A file, a directory or the URL of a backend, as the format allows; or an open file."""
    runs: Sequence[str] = ()
    sql: str = ""
    """Runs whose ids are in the first column of this query."""
    limit: int = MAX_RUNS
    each_call: bool = False
    """Rows of a dataset are model calls, not runs."""
    unredacted: bool = False
    """Export runs that were never redacted."""
    code: str | None = None
    """Of a pack: see `pack`."""
    folder: Path = Path()
    """Of a pack: the folder of the agent's code."""
    key: Path | None = None
    """Of an audit: the private key that signs it."""
    on_run: Callable[[int, int, str], object] | None = None
    """Called with the number of runs done, their total, and the next one's name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExportSummary:
    document: Mapping[str, Any]
    lines: Sequence[str]
    """The same for people."""
    rejected: int = 0
    """Spans that a backend did not accept."""
    warnings: Sequence[str] = ()
    then: str = ""
    """The command to type next."""


def export(source: RunSource, parameters: ExportParameters) -> ExportSummary:
    """Write or send.

    Raises:
        ConfigError: the format or the output is wrong, or a run was never redacted.
        RunError: no run, or one that lacks what the format needs.
        FixtureError: a file cannot be written.
        ReplayError: there is nothing to audit.
        StoreError: the store or the backend refuses it, or does not answer.
    """
    if parameters.format not in FORMATS:
        raise ConfigError(f"export: found {parameters.format!r:.80}, expected one of {', '.join(FORMATS)}")
    if bool(parameters.runs) == bool(parameters.sql):
        raise ConfigError("choose runs in exactly one way: by name, or with --sql")
    names = parameters.runs or _chosen(source, parameters)
    if not names:
        raise RunError("no matching runs", do="list them with `freezeframe runs`")
    if parameters.format in EXPORTS:
        return _export(source, parameters, names, EXPORTS[parameters.format])
    if len(names) > 1:
        raise ConfigError(f"--as {parameters.format}: holds one run, found {len(names)}", do="export them one by one")
    return (_pack if parameters.format == PACK else _audit)(source, parameters, names[0])


def _chosen(source: RunSource, parameters: ExportParameters) -> Sequence[str]:
    _, rows = source.use(lambda store: store.sql(parameters.sql))
    return list(dict.fromkeys(str(row[0]) for row in rows))[: parameters.limit]


def _load(source: RunSource, parameters: ExportParameters, name: str) -> Run | Fixture:
    """Return a run that may be passed on.

    Raises:
        ConfigError: it was never redacted.
    """
    found = source.load(name)
    if isinstance(found, Fixture):
        run_id, policies = found.run_id, {found.redaction.policy}
    else:
        run_id, policies = found.trace_id, policies_of(found.spans)
    if not parameters.unredacted:
        refuse_bare(run_id, policies, made="an export", anyway="export it as it is: --unredacted")
    return found


# -- one run --------------------------------------------------------------------------------------


def _pack(source: RunSource, parameters: ExportParameters, name: str) -> ExportSummary:
    output = parameters.output
    if isinstance(output, str) and Path(output).suffix != PACK_SUFFIX:
        raise ConfigError(f"-o {output}: expected a name that ends in {PACK_SUFFIX}", do=f"-o {Path(output).stem}{PACK_SUFFIX}")
    found = _load(source, parameters, name)
    run_id = found.run_id if isinstance(found, Fixture) else found.trace_id
    named = Path(output).name if isinstance(output, str) else f"{run_id[:8]}{PACK_SUFFIX}"
    packed = pack(found, parameters.folder, code=parameters.code, name=named)
    _write(output, [packed.content])
    return ExportSummary(
        document={**packed.document(), PACK: str(output)},
        lines=list(packed.lines(str(output))),
        warnings=packed.warnings,
        then=f"freezeframe replay {output}{' --packed-code' if packed.code else ''}",
    )


def _audit(source: RunSource, parameters: ExportParameters, name: str) -> ExportSummary:
    if not isinstance(parameters.output, str) or parameters.output == "-":
        raise ConfigError("--as audit: makes several files", do="name a directory with -o")
    found = _load(source, parameters, name)
    fixture = found if isinstance(found, Fixture) else source.fixture(name)
    why = why_nothing_to_check(fixture)
    if why is not None:
        raise ReplayError(f"{why}; nothing was written")
    seal = write_audit(fixture, Path(parameters.output), key=parameters.key)
    is_signed, steps = parameters.key is not None, len(fixture.steps)
    facts = {"run": fixture.run_id, AUDIT: parameters.output, "seal": seal, "signed": is_signed}
    signed = "signed" if is_signed else "not signed"
    wrote = f"wrote {parameters.output}: {counted(steps, 'exchange')} of run {fixture.run_id}, {signed}"
    return ExportSummary(
        document={**facts, "exchanges": steps, "gaps": list(fixture.gaps)},
        lines=[wrote, f"seal {seal}", *(f"  lacks: {printable(gap)}" for gap in fixture.gaps)],
        then=f"python {Path(parameters.output) / 'check.py'}",
    )


# -- formats of other tools -----------------------------------------------------------------------


def _export(source: RunSource, parameters: ExportParameters, names: Sequence[str], kind: ExportKind) -> ExportSummary:
    made, rejected, output = Export(each_call=parameters.each_call), 0, parameters.output
    runs = _runs(source, parameters, names, kind)
    if isinstance(output, str) and "://" in output:
        rejected = _send(runs, kind, made, output)
    elif kind.file_is_a_run and len(names) > 1:
        _write_directory(runs, kind, made, output)
    else:
        made.form = form_of(kind, output if isinstance(output, str) else "-")
        _write(output, kind.write(runs, made))
    left_out = [f"{counted(count, what)} {why}" for (what, why), count in made.left_out.items()]
    shown = shown_address(output) if isinstance(output, str) else "-"
    lines = [f"{'sent to' if '://' in shown else 'wrote'} {shown}: {counted(made.written, kind.counts)} of "]
    lines[0] += counted(len(names), "run")
    lines += [f"  left out: {line}" for line in left_out]
    lines += [f"  refused by it: {counted(rejected, 'span')}"] * (rejected > 0)
    lines += [f"  {kind.name} does not hold: {kind.loses}"] * bool(kind.loses)
    document = {
        "kind": kind.name,
        "to": shown,
        "runs": len(names),
        "written": made.written,
        "rejected": rejected,
        "left_out": left_out,
        "not_held": kind.loses,
    }
    return ExportSummary(document=document, lines=lines, rejected=rejected)


def _runs(source: RunSource, parameters: ExportParameters, names: Sequence[str], kind: ExportKind) -> Iterator[Exported]:
    """Yield the runs, one at a time.

    Raises:
        ConfigError: one was never redacted, or is a fixture and the format needs spans.
        RunError: one lacks something that the format needs.
    """
    for done, name in enumerate(names):
        if parameters.on_run is not None:
            parameters.on_run(done, len(names), f"exporting {name}")
        found = _load(source, parameters, name)
        if not isinstance(found, Fixture):
            made = Exported(run_id=found.trace_id, spans=found.spans, exchanges=found.exchanges)
        elif kind.needs is Needs.SPANS:
            raise ConfigError(f"{name}: a fixture holds no spans, which {kind.name} needs", do="name the run in the store")
        else:
            made = Exported(run_id=found.run_id, exchanges=[step.exchange for step in found.steps])
        if kind.needs is Needs.CALLS and not any(exchange.request.method for exchange in made.exchanges):
            raise RunError(
                f"run {made.run_id}: holds no HTTP call with its bytes, which {kind.name} needs", do="export it to otlp"
            )
        yield made


def _write_directory(runs: Iterable[Exported], kind: ExportKind, made: Export, output: str | BinaryIO) -> None:
    """Write a file for each run, named after it."""
    if not isinstance(output, str) or Path(output).is_file():
        raise ConfigError(f"--as {kind.name}: holds one run per file", do="name a directory with -o")
    made.form = kind.forms[0]
    for run in runs:
        _write(str(Path(output) / f"{run.run_id}.{made.form}"), kind.write([run], made))


def _write(output: str | BinaryIO, pieces: Iterable[str | bytes]) -> None:
    """Write a file whole, or not at all, in folders that are made for it.

    Raises:
        FixtureError: it cannot be written.
    """
    encoded = (piece if isinstance(piece, bytes) else piece.encode("utf-8", "backslashreplace") for piece in pieces)
    if not isinstance(output, str):
        for piece in encoded:
            output.write(piece)
        output.flush()
        return
    path = Path(output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, encoded)
    except OSError as error:
        raise FixtureError(f"{path}: cannot be written: {error.strerror}", do="name another file with -o") from error


def _send(runs: Iterable[Exported], kind: ExportKind, made: Export, url: str) -> int:
    """Send the spans; return the number not accepted."""
    if kind.endpoint is None:
        raise ConfigError(f"--as {kind.name}: found a URL, expected a file", do="only spans are sent: --as otlp -o URL")
    if split_address(url).scheme not in {"http", "https"}:
        raise ConfigError(f"--as {kind.name} -o {shown_address(url)}: expected {kind.endpoint.form}")
    sender = Sender(endpoint=kind.endpoint, url=url, environ=os.environ)
    for spans in requests_of_spans(runs, kind, made):
        sender.send(spans)
    return sender.rejected


def exported_bytes(source: RunSource, parameters: ExportParameters) -> bytes:
    """Return the file of an export; raises as `export`. The parameters' output is not used."""
    content = io.BytesIO()
    export(source, dataclasses.replace(parameters, output=content))
    return content.getvalue()


EXPORT: Final = Operation(
    name="export",
    parameters=ExportParameters,
    compute=export,
    to_json=lambda made: dict(made.document),
    to_text=lambda made, _: "\n".join(made.lines),
)
