"""Runs from a file of spans: lines of OTLP/JSON, as `freezeframe run --file` and any OTLP file exporter write them, or one
document, as the HTTP APIs of backends return it.

OTLP as protobuf is read, too, and a directory of such files. They are not redacted; they are for the machine on which they were
recorded. The file of another instrumentation is read as the collector reads it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError, WireError
from freezeframe_schemas.gaps import OF_ANOTHER
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import SpanRecord

_NAMES: Final = re.compile(r"(?!.*(?:metrics|PROVENANCE)).*\.(?:pb|binpb|jsonl?)(?:\.gz)?")
"""OTLP files are named after their signal; metrics are not read."""


_MAX_NAMED: Final = 5
_CONTENT: Final = frozenset({genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES})


def split_name(text: str) -> tuple[Path, str] | None:
    """Return the file and the run that ``spans.jsonl`` or ``spans.jsonl:4bf9`` names, None if no such file is there."""
    if _holds_spans(Path(text)):
        return Path(text), ""
    name, _, run = text.rpartition(":")
    return (Path(name), run) if name and _holds_spans(Path(name)) else None


def _holds_spans(path: Path) -> bool:
    """Return whether the path is a file, or a directory of OTLP files; a fixture's directory is not one."""
    return path.is_file() or (path.is_dir() and not (path / "manifest.json").exists() and bool(files_of(path)))


def files_of(directory: Path) -> list[Path]:
    """Return the directory's files of spans and log records."""
    return sorted(path for path in directory.iterdir() if _NAMES.fullmatch(path.name))


def files_below(directory: Path) -> list[Path]:
    """Return those of the directories below it, too, as exporters to object stores make them of days and hours."""
    return [file for folder in sorted({path.parent for path in directory.rglob("*")}) for file in files_of(folder)]


def load_run_of_file(path: Path, run: str = "") -> Run:
    """Return a run of the file: the one whose id starts with `run` (or is the caller's own id); the newest by default.

    Raises:
        RunError: no such run, or several.
        WireError: the file is not OTLP.
    """
    return pick_run(path, load_runs_of_file(path), run)


def load_runs_of_file(path: Path) -> list[Run]:
    """Return all runs of the file, the newest last.

    Raises:
        WireError: the file is not OTLP.
    """
    return _runs_of(files_of(path) if path.is_dir() else [path])


def load_runs_below(directory: Path) -> list[Run]:
    """Return all runs of the OTLP files in a directory and those below it, the newest last; raises as `load_runs_of_file`."""
    return _runs_of(files_below(directory))


def pick_run(path: Path, runs: list[Run], run: str) -> Run:
    """Return the named run of a path's runs; raises as `load_run_of_file`. By default, one with content comes first."""
    if not runs:
        raise RunError(f"{path}: holds no spans", do="record into it: freezeframe run --file FILE -- python agent.py")
    found = [item for item in runs if item.trace_id.startswith(run.lower()) or item.entry.run_id == run]
    if not run:
        meant = [item for item in runs if not any(gap.kind in OF_ANOTHER for gap in item.gaps)]
        found = ([item for item in meant if _has_content(item)] or meant or runs)[-1:]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(item.trace_id for item in runs[-5:]) or "none"
    raise RunError(
        f"{path}: run {run!r} names {len(found)} of its {len(runs)} runs", do=f"name one as {path}:ID; the last ones are {ids}"
    )


def others_of(path: Path, runs: list[Run], taken: Run) -> str:
    """Return a line that names the other runs of a path and the chosen one; empty if it was named."""
    others = [item.trace_id for item in runs if item is not taken and _has_content(item)]
    if not others:
        return ""
    named = [f"{path}:{trace_id}" for trace_id in others[: -_MAX_NAMED - 1 : -1]] + ["..."] * (len(others) > _MAX_NAMED)
    return f"{path} holds {len(runs)} runs, took {taken.trace_id}; others: {', '.join(named)}"


def _has_content(run: Run) -> bool:
    """Return whether the span records a call; some SDKs leave empty spans."""
    from freezeframe_schemas.reported_calls import reported_calls  # which loads wire dialects

    return bool(run.exchanges) or any(not _CONTENT.isdisjoint(call.attributes) for call in reported_calls(run.spans))


def _runs_of(files: Iterable[Path]) -> list[Run]:
    read = [(file, list(_spans_of(file))) for file in files]
    try:
        return runs_of_spans(span for _, spans in read for span in spans)
    except WireError as error:  # names the span; one trace may be in several files
        file = next(
            (f"{file}, " for file, spans in read for span in spans if span.span_id and span.span_id in error.message), ""
        )
        raise WireError(f"{file}{error.message}", do=error.do) from error


def runs_of_spans(spans: Iterable[SpanRecord]) -> list[Run]:
    """Return the runs that the spans belong to, the newest last."""
    traces: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        traces[span.trace_id].append(span)
    from freezeframe_replay.sources.foreign import joined  # which loads every vendor's conventions

    return sorted(map(build_run, joined(traces.values())), key=lambda item: item.entry.start_time_unix_nano)


def _spans_of(path: Path) -> Iterator[SpanRecord]:
    """Yield the spans of every line; of the document, if the file is one document over many lines; or of protobuf."""
    from freezeframe_replay.sources.otlp import spans_of_document
    from freezeframe_replay.sources.otlp_bytes import documents_of, is_text, spans_of_protobuf

    if not is_text(path):
        yield from spans_of_protobuf(path)
        return
    for line, _, value in documents_of(path):
        try:
            yield from spans_of_document(value)
        except WireError as error:
            raise WireError(f"{path}{f', line {line}' if line else ''}: {error}") from error
