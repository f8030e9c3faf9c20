"""Recorded runs of the teams in `clients.teams`, with OpenInference's instrumentors, as OTLP."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

_FOLDER: Final = Path(__file__).parents[1] / "data" / "teams"


def recorded_team(name: str) -> Sequence[SpanRecord]:
    """Return the spans of a team's run."""
    return decode_traces(gzip.decompress(_file(name).read_bytes())).spans


def keep_team(name: str, spans: Sequence[SpanRecord]) -> None:
    """Write the spans of a team's run."""
    _FOLDER.mkdir(exist_ok=True)
    _file(name).write_bytes(gzip.compress(encode_traces(spans), mtime=0))


def _file(name: str) -> Path:
    return _FOLDER / f"{name}.pb.gz"
