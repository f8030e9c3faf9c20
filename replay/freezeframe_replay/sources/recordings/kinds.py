"""Which kinds of recordings can be imported: a row each, with what reads it; and how their spans are put into requests."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.foreign import in_conventions
from freezeframe_replay.sources.otlp_requests import OtlpRequest, requests_of_spans
from freezeframe_replay.sources.recordings.api_calls import (
    read_batch,
    read_bedrock,
    read_helicone,
    read_jsonl,
    read_llm_fixture,
    read_stored,
)
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
from freezeframe_replay.sources.recordings.mitmproxy import read_mitmproxy
from freezeframe_replay.sources.recordings.mlflow import read_mlflow
from freezeframe_replay.sources.recordings.observed import BRAINTRUST, OPIK, WEAVE, read_observed
from freezeframe_replay.sources.recordings.phoenix import read_phoenix
from freezeframe_replay.sources.recordings.trajectories import (
    read_atif,
    read_swe_agent,
    read_tau_bench,
    read_who_and_when,
)
from freezeframe_replay.sources.recordings.vcr import read_cassette
from freezeframe_schemas.errors import RunError, WireError
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingKind:
    name: str
    """As it is typed."""
    holds: str
    """What a file of it is, for help."""
    files: tuple[str, ...]
    """How the files of a directory are named that are read."""
    read: Callable[[Path, Origin], Iterator[SpanRecord]]
    is_folder: bool = False
    """Whether the files of a directory are one recording."""


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
        RecordingKind(
            name="vcr",
            holds="cassettes of vcrpy and of VCR for Ruby and R",
            files=("*.yaml", "*.yml", "*.json"),
            read=read_cassette,
        ),
        RecordingKind(name="har", holds="HTTP Archives of browsers and proxies", files=("*.har",), read=read_har),
        RecordingKind(name="mitmproxy", holds="flows of mitmproxy", files=("*.flow", "*.flows", "*.mitm"), read=read_mitmproxy),
        RecordingKind(
            name="batch", holds="batches of OpenAI and Anthropic", files=("*.jsonl",), read=read_batch, is_folder=True
        ),
        RecordingKind(
            name="openai-stored", holds="stored completions of OpenAI", files=("*.json", "*.jsonl"), read=read_stored
        ),
        RecordingKind(
            name="bedrock",
            holds="invocation logs of Bedrock",
            files=("*.json", "*.jsonl", "*.json.gz", "*.jsonl.gz"),
            read=read_bedrock,
        ),
        RecordingKind(name="helicone", holds="requests of Helicone", files=("*.json", "*.jsonl"), read=read_helicone),
        RecordingKind(name="jsonl", holds="lines with a request and a response", files=("*.jsonl",), read=read_jsonl),
        RecordingKind(name="llm-fixture", holds="fixtures of llm-fixture-replay", files=("*.jsonl",), read=read_llm_fixture),
        RecordingKind(name="langfuse", holds="traces that Langfuse exports", files=("*.json",), read=read_langfuse),
        RecordingKind(
            name="mlflow", holds="MLflow's SQLite store, or a trace as JSON", files=("*.db", "*.json"), read=read_mlflow
        ),
        RecordingKind(name="phoenix", holds="spans that Phoenix exports", files=("*.json",), read=read_phoenix),
        RecordingKind(name="langsmith", holds="runs of LangSmith", files=("*.json", "*.jsonl"), read=read_langsmith),
        RecordingKind(
            name="claude-code", holds="sessions of Claude Code", files=("*.jsonl",), read=_of_talks(read_claude_code)
        ),
        RecordingKind(name="codex", holds="sessions of Codex CLI", files=("rollout-*.jsonl",), read=_of_talks(read_codex)),
        RecordingKind(
            name="gemini-cli",
            holds="sessions of Gemini CLI",
            files=("session-*.json", "session-*.jsonl"),
            read=_of_talks(read_gemini_cli),
        ),
        RecordingKind(
            name="braintrust", holds="logs of Braintrust", files=("*.json", "*.jsonl"), read=read_observed(BRAINTRUST)
        ),
        RecordingKind(name="opik", holds="spans of Opik", files=("*.json", "*.jsonl"), read=read_observed(OPIK)),
        RecordingKind(name="weave", holds="calls of Weave", files=("*.json", "*.jsonl"), read=read_observed(WEAVE)),
        RecordingKind(name="inspect", holds="logs of Inspect", files=("*.eval", "*.json"), read=_of_talks(read_inspect)),
        RecordingKind(name="atif", holds="ATIF trajectories", files=("*.json",), read=_of_talks(read_atif)),
        RecordingKind(name="tau-bench", holds="results of tau-bench", files=("*.json",), read=_of_talks(read_tau_bench)),
        RecordingKind(
            name="who-and-when", holds="conversations of Who&When", files=("*.json",), read=_of_talks(read_who_and_when)
        ),
        RecordingKind(name="swe-agent", holds="trajectories of SWE-agent", files=("*.traj",), read=_of_talks(read_swe_agent)),
    )
}


def recordings_in(source: Path, kind: RecordingKind) -> list[Path]:
    """Return the files that a source names: itself, or those of a directory and the ones below it."""
    if not source.is_dir():
        return [source]
    found = {path for name in kind.files for path in source.rglob(name) if path.is_file()}
    return sorted({path.parent for path in found} if kind.is_folder else found)


def requests_of_recording(path: Path, kind: RecordingKind) -> Iterator[OtlpRequest]:
    """Yield the requests that carry a file's spans. The whole file is read before the first one: nothing is half imported.

    Raises:
        RunError: it holds no run.
        WireError: the file is not of this kind; the message says where.
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
        WireError: the file is not of this kind; the message says where.
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
