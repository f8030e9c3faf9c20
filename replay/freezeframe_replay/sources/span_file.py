"""Runs from a file of spans: lines of OTLP/JSON, as `freezeframe run --file` and any OTLP file exporter write them, or one
document, as the HTTP APIs of backends return it.

OTLP as protobuf is read, too. Such a file is not redacted; it is for the machine on which it was recorded.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.otlp import spans_of_document
from freezeframe_replay.sources.otlp_bytes import spans_of_bytes
from freezeframe_schemas.errors import RunError, WireError
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import SpanRecord

_HEAD_BYTES: Final = 4096
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def split_name(text: str) -> tuple[Path, str] | None:
    """Return the file and the run that ``spans.jsonl`` or ``spans.jsonl:4bf9`` names, None if no such file is there."""
    if Path(text).is_file():
        return Path(text), ""
    name, _, run = text.rpartition(":")
    return (Path(name), run) if name and Path(name).is_file() else None


def load_run_of_file(path: Path, run: str = "") -> Run:
    """Return a run of the file: the one whose id starts with `run` (or is the caller's own id); the newest by default.

    Raises:
        RunError: no such run, or several.
        WireError: the file is not OTLP.
    """
    runs = load_runs_of_file(path)
    if not runs:
        raise RunError(f"{path}: holds no spans", do="record into it: freezeframe run --file FILE -- python agent.py")
    found = [item for item in runs if item.trace_id.startswith(run.lower()) or item.entry.run_id == run] if run else runs[-1:]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(item.trace_id for item in runs[-5:]) or "none"
    raise RunError(
        f"{path}: run {run!r} names {len(found)} of its {len(runs)} runs", do=f"name one as {path}:ID; the last ones are {ids}"
    )


def load_runs_of_file(path: Path) -> list[Run]:
    """Return all runs of the file, the newest last.

    Raises:
        WireError: the file is not OTLP.
    """
    spans: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in _spans_of(path):
        spans[span.trace_id].append(span)
    return sorted((build_run(members) for members in spans.values()), key=lambda item: item.entry.start_time_unix_nano)


def _spans_of(path: Path) -> Iterator[SpanRecord]:
    """Yield the spans of every line; of the document, if the file is one document over many lines; or of protobuf."""
    if not _is_text(path):
        try:
            yield from spans_of_bytes(path.read_bytes())
        except WireError as error:
            raise WireError(
                f"{path}: {error}, expected OTLP (JSON lines, one JSON document, or protobuf)",
                do="name a file of spans, a fixture's directory or its .tar.gz, or the id of a run",
            ) from error
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield from spans_of_document(json.loads(line))
            except (ValueError, RecursionError) as error:
                if number == 1 and (document := _whole(path)) is not None:
                    yield from _of_whole(path, document)
                    return
                raise WireError(
                    f"{path}, line {number}: not JSON ({error}), expected one OTLP/JSON request a line, or one document",
                    do="name a fixture's directory, a file written by `freezeframe run --file`, or the id of a run",
                ) from error
            except WireError as error:
                raise WireError(f"{path}, line {number}: {error}") from error


def _of_whole(path: Path, document: Any) -> list[SpanRecord]:
    try:
        return spans_of_document(document)
    except WireError as error:
        raise WireError(f"{path}: {error}") from error


def _is_text(path: Path) -> bool:
    """Return whether the file may be JSON, which holds no control character; the tags of protobuf are such characters."""
    with path.open("rb") as file:
        return _CONTROL.search(file.read(_HEAD_BYTES)) is None


def _whole(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
