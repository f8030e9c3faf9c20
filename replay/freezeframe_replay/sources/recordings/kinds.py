"""Kinds of recordings that can be imported: a row each, with its reader; and the packing of their spans into requests."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.foreign import in_conventions
from freezeframe_replay.sources.otlp_requests import OtlpRequest, requests_of_spans
from freezeframe_replay.sources.recordings import api_calls, trajectories
from freezeframe_replay.sources.recordings.claude_code import read_claude_code
from freezeframe_replay.sources.recordings.codex import read_codex
from freezeframe_replay.sources.recordings.conversations import Conversation, spans_of_conversation
from freezeframe_replay.sources.recordings.gemini_cli import read_gemini_cli
from freezeframe_replay.sources.recordings.har import read_har
from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.inspect_logs import read_inspect
from freezeframe_replay.sources.recordings.json_items import placed
from freezeframe_replay.sources.recordings.langfuse import read_langfuse
from freezeframe_replay.sources.recordings.langsmith import read_langsmith
from freezeframe_replay.sources.recordings.mlflow import read_mlflow
from freezeframe_replay.sources.recordings.observed import read_braintrust
from freezeframe_replay.sources.recordings.phoenix import read_phoenix
from freezeframe_replay.sources.recordings.vcr import read_cassette
from freezeframe_schemas.errors import RunError, WireError
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import SpanRecord


@dataclass(frozen=True, slots=True)
class RecordingKind:
    name: str
    """As it is typed."""
    holds: str
    """Description of its files, for help."""
    files: str
    """Name patterns of the files read in a directory, separated by spaces."""
    read: Callable[[Path, Origin], Iterator[SpanRecord]]
    is_folder: bool = False
    """True if the files of a directory are one recording."""


def _of_talks(read: Callable[[Path, Origin], Iterator[Conversation]]) -> Callable[[Path, Origin], Iterator[SpanRecord]]:
    """Return a reader of spans, over a `read` that yields conversations."""

    def spans(path: Path, origin: Origin) -> Iterator[SpanRecord]:
        for talk in read(path, origin):
            with placed(path, talk.name):
                yield from spans_of_conversation(talk, origin)

    return spans


RECORDINGS: Final = {
    row.name: row
    for row in (
        RecordingKind("vcr", "cassettes of vcrpy and of VCR for Ruby and R", "*.yaml *.yml *.json", read_cassette),
        RecordingKind("har", "HTTP Archives of browsers and proxies", "*.har", read_har),
        RecordingKind("batch", "batches of OpenAI and Anthropic", "*.jsonl", api_calls.read_batch, is_folder=True),
        RecordingKind("bedrock", "invocation logs of Bedrock", "*.json *.jsonl *.json.gz *.jsonl.gz", api_calls.read_bedrock),
        RecordingKind("jsonl", "lines with a request and a response", "*.jsonl", api_calls.read_jsonl),
        RecordingKind("langfuse", "traces that Langfuse exports", "*.json", read_langfuse),
        RecordingKind("mlflow", "MLflow's SQLite store, or a trace as JSON", "*.db *.json", read_mlflow),
        RecordingKind("phoenix", "spans that Phoenix exports", "*.json", read_phoenix),
        RecordingKind("langsmith", "runs of LangSmith", "*.json *.jsonl", read_langsmith),
        RecordingKind("claude-code", "sessions of Claude Code", "*.jsonl", _of_talks(read_claude_code)),
        RecordingKind("codex", "sessions of Codex CLI", "rollout-*.jsonl", _of_talks(read_codex)),
        RecordingKind("gemini-cli", "sessions of Gemini CLI", "session-*.json session-*.jsonl", _of_talks(read_gemini_cli)),
        RecordingKind("braintrust", "logs of Braintrust", "*.json *.jsonl", read_braintrust),
        RecordingKind("inspect", "logs of Inspect", "*.eval *.json", _of_talks(read_inspect)),
        RecordingKind("tau-bench", "results of tau-bench", "*.json", _of_talks(trajectories.read_tau_bench)),
        RecordingKind("tau2-bench", "simulations of tau2-bench", "*.json", _of_talks(trajectories.read_tau2_bench)),
        RecordingKind(
            "mini-swe-agent", "trajectories of mini-swe-agent", "*.traj.json", _of_talks(trajectories.read_mini_swe_agent)
        ),
    )
}


def recordings_in(source: Path, kind: RecordingKind) -> list[Path]:
    """Return the files of a source: itself, or those of a directory and the ones below it."""
    if not source.is_dir():
        return [source]
    found = {path for name in kind.files.split() for path in source.rglob(name) if path.is_file()}
    return sorted({path.parent for path in found} if kind.is_folder else found)


def requests_of_recording(path: Path, kind: RecordingKind) -> Iterator[OtlpRequest]:
    """Yield the requests that carry a file's spans. The whole file is read before the first one: nothing is half imported.

    Raises:
        RunError: it holds no run.
        WireError: the file is not of this kind; the message names the place.
    """
    origin = _origin(path, kind)
    with placed(path, "as OTLP"):
        if not sum(1 for _ in requests_of_spans(_read(path, kind, origin))):
            raise no_runs(path)
    yield from requests_of_spans(_read(path, kind, origin))


def no_runs(*paths: Path | str) -> RunError:
    """Return the error for files that hold nothing to import."""
    return RunError(f"no runs in {', '.join(map(str, paths))}")


def runs_of_recording(path: Path, kind: RecordingKind) -> list[Run]:
    """Return the runs of a file, in the order in which they end there.

    Raises:
        WireError: the file is not of this kind; the message names the place.
    """
    runs: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in _read(path, kind, _origin(path, kind)):
        runs[span.trace_id].append(span)
    try:
        return [build_run(in_conventions(spans)) for spans in runs.values()]
    except WireError as error:
        raise WireError(f"{path}: {error.message}") from None


def _read(path: Path, kind: RecordingKind, origin: Origin) -> Iterator[SpanRecord]:
    try:
        yield from kind.read(path, origin)
    except RecursionError:
        raise WireError(f"{path}: nested deeper than Python reads") from None


def _origin(path: Path, kind: RecordingKind) -> Origin:
    digests: list[str] = []
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as opened:
                digests.append(hashlib.file_digest(opened, "sha256").hexdigest())
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return Origin(kind=kind.name, name=path.stem, digest=digest)
