"""Export formats: a row each, with its writer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from freezeframe._version import __version__
from freezeframe_replay.sources.exports import datasets
from freezeframe_replay.sources.exports.datasets import DatasetExample, examples_of, write_lines, write_pytest
from freezeframe_replay.sources.exports.endpoints import LANGFUSE, LANGSMITH, MLFLOW, OTLP, PHOENIX, Endpoint
from freezeframe_replay.sources.exports.openinference import in_openinference, reported_again
from freezeframe_replay.sources.recordings.har import write_har
from freezeframe_replay.sources.recordings.vcr import write_cassette
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Completion, Exchange
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import JsonObject, dump


class Needs(StrEnum):
    """Input of an export."""

    SPANS = "spans"
    """Needs spans, which a fixture does not have."""
    CALLS = "HTTP calls"
    """Needs calls with their bytes, which a run of another instrumentation does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    run_id: str
    spans: Sequence[SpanRecord] = ()
    exchanges: Sequence[Exchange] = ()


@dataclass(slots=True, kw_only=True)
class Export:
    """One export in progress: its options, and the runs it left out."""

    form: str = ""
    """The suffix of the file's name, without the dot."""
    each_call: bool = False
    written: int = 0
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Omitted item, in the singular, and reason -> count."""


Write = Callable[[Iterable[Exported], Export], Iterator[str | bytes]]


@dataclass(frozen=True, slots=True)
class ExportKind:
    name: str
    """Name on the command line."""
    makes: str
    """Description of the output, for help."""
    forms: tuple[str, ...]
    """Suffixes that the file's name may have; files in a directory get the first."""
    write: Write
    needs: Needs
    counts: str
    """The counted item, in the singular."""
    loses: str
    """Parts of a run that no file of this kind has."""
    file_is_a_run: bool = False
    """Several runs then go into a directory."""
    endpoint: Endpoint | None = None
    """Destination to which it can be sent, if any."""
    in_openinference: bool = False
    """True if its readers show OpenInference's attributes."""


def form_of(kind: ExportKind, destination: str) -> str:
    """Return the form that a file's name implies; if a kind has only one form, any name will do.

    Raises:
        ConfigError: the name ends in none of several forms.
    """
    found = PurePath(destination).suffix.removeprefix(".").lower()
    if found in kind.forms or len(kind.forms) == 1 or destination == "-":
        return found if found in kind.forms else kind.forms[0]
    ends = ", ".join(f".{form}" for form in kind.forms)
    raise ConfigError(f"{destination}: cannot tell the format of {kind.name}", do=f"give a name that ends in one of {ends}")


# -- HTTP calls -----------------------------------------------------------------------------------------------------------


def _http_calls(runs: Iterable[Exported], export: Export, *, unanswered: bool = False) -> Iterator[Exchange]:
    """Yield the HTTP calls that such a file can hold; count the others."""
    for run in runs:
        for exchange in run.exchanges:
            response = exchange.response
            if not exchange.request.method:
                export.left_out["call", "of functions (tools, retrieval, MCP), which are not HTTP"] += 1
            elif exchange.request.omitted or response.omitted:
                export.left_out["call", "whose bodies were not recorded"] += 1
            elif response.status is None and not unanswered:
                export.left_out["call", "that got no answer"] += 1
            else:
                export.written += 1
                if response.completion is Completion.BROKEN:
                    export.left_out["ending", "of an answer that broke off: written as a complete one"] += 1
                yield exchange


def _vcr(runs: Iterable[Exported], export: Export) -> Iterator[str]:
    return write_cassette(_http_calls(runs, export))


def _har(runs: Iterable[Exported], export: Export) -> Iterator[str]:
    return write_har(_http_calls(runs, export, unanswered=True), creator="freezeframe", version=__version__)


# -- spans ----------------------------------------------------------------------------------------------------------------


def requests_of_spans(runs: Iterable[Exported], kind: ExportKind, export: Export) -> Iterator[list[SpanRecord]]:
    """Yield the spans in pieces that a receiver takes in one request."""
    from freezeframe_replay.sources.otlp_requests import batches_of_spans  # which loads protobuf

    for run in runs:
        again = reported_again(run.spans) if kind.in_openinference else ()
        for batch in batches_of_spans(iter(run.spans)):
            export.written += len(batch)
            yield [in_openinference(span, again) for span in batch] if kind.in_openinference else batch


def _otlp(name: str) -> Write:
    def write(runs: Iterable[Exported], export: Export) -> Iterator[str | bytes]:
        from freezeframe_schemas.otlp.encode import encode_traces
        from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

        batches = requests_of_spans(runs, EXPORTS[name], export)
        match export.form:
            case "pb":  # protobuf messages one after the other are one message
                yield from (encode_traces(batch) for batch in batches)
            case "json":
                yield '{"resourceSpans": ['
                for number, batch in enumerate(batches):
                    pieces = (dump(item) for item in spans_to_otlp_json(batch)["resourceSpans"])
                    yield ("," if number else "") + ",\n".join(pieces)
                yield "]}\n"
            case _:
                yield from (f"{dump(spans_to_otlp_json(batch))}\n" for batch in batches)

    return write


# -- datasets -------------------------------------------------------------------------------------------------------------


def _examples(runs: Iterable[Exported], export: Export) -> Iterator[DatasetExample]:
    for run in runs:
        found = list(examples_of(run.run_id, run.spans, each_call=export.each_call))
        if not found:
            export.left_out["run", "of which no span holds both what a model was asked and its answer"] += 1
        export.written += len(found)
        yield from found


def _lines(row: Callable[[DatasetExample], JsonObject]) -> Write:
    return lambda runs, export: write_lines(_examples(runs, export), row)


def _pytest(runs: Iterable[Exported], export: Export) -> Iterator[str]:
    return write_pytest(_examples(runs, export))


_BYTES_LOSES: Final = "what started the run, its outcome, and the borders and times of chunks"
_DATASET_LOSES: Final = "everything but the question, the answer and the tools offered"


def _calls(name: str, makes: str, form: str, write: Write, loses: str = _BYTES_LOSES, *, alone: bool = False) -> ExportKind:
    return ExportKind(name, makes, (form,), write, Needs.CALLS, "HTTP call", loses, file_is_a_run=alone)


def _spans(name: str, makes: str, endpoint: Endpoint, loses: str = "", *, shown: bool = False) -> ExportKind:
    forms = ("jsonl", "json", "pb")
    return ExportKind(name, makes, forms, _otlp(name), Needs.SPANS, "span", loses, endpoint=endpoint, in_openinference=shown)


def _dataset(name: str, makes: str, form: str, write: Write) -> ExportKind:
    return ExportKind(name, makes, (form,), write, Needs.SPANS, "row", _DATASET_LOSES)


EXPORTS: Final = {
    row.name: row
    for row in (
        _spans("otlp", "OTLP: any tracing backend, or a file", OTLP),
        _spans("phoenix", "Arize Phoenix", PHOENIX, "the resource (commit, versions), times to the nanosecond", shown=True),
        _spans("mlflow", "MLflow", MLFLOW, shown=True),
        _spans("langfuse", "Langfuse", LANGFUSE, shown=True),
        _spans("langsmith", "LangSmith", LANGSMITH, shown=True),
        _calls("vcr", "a cassette of vcrpy", "yaml", _vcr, alone=True),
        _calls("har", "an HTTP Archive", "har", _har, _BYTES_LOSES + ", content-encodings", alone=True),
        _dataset("openai-evals", "samples of openai/evals", "jsonl", _lines(datasets.openai_evals)),
        _dataset("inspect", "samples of Inspect", "jsonl", _lines(datasets.inspect)),
        _dataset("pytest", "parameters of a test", "py", _pytest),
    )
}
