"""Recorded runs of the teams in `clients.teams`, with OpenInference's instrumentors, as OTLP."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clients.team import all_teams

from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

_FOLDER: Final = Path(__file__).parents[1] / "data" / "teams"


def recorded_team(name: str) -> Sequence[SpanRecord]:
    """Return the spans of a team's run, with ids that no other team's has."""
    spans = decode_traces(gzip.decompress(_file(name).read_bytes())).spans
    mark = format(1 + sorted(all_teams()).index(name), "x")

    def own(identity: str | None) -> Any:
        return identity and mark + identity[1:]

    return [
        replace(span, trace_id=own(span.trace_id), span_id=own(span.span_id), parent_span_id=own(span.parent_span_id))
        for span in spans
    ]


def keep_team(name: str, spans: Sequence[SpanRecord]) -> None:
    """Write the spans of a team's run."""
    _FOLDER.mkdir(exist_ok=True)
    _file(name).write_bytes(gzip.compress(encode_traces(spans), mtime=0))


def _file(name: str) -> Path:
    return _FOLDER / f"{name}.pb.gz"
