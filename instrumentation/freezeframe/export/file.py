"""Spans in a file, for use without a collector."""

from __future__ import annotations

import os
from collections.abc import Sequence

from freezeframe.export.export_queue import BatchDeadline, BatchResult
from freezeframe_schemas.span import SpanRecord


class FileExporter:
    """Lines of OTLP/JSON, one batch per line."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, records: Sequence[SpanRecord], deadline: BatchDeadline) -> BatchResult:
        """Append one line."""
        import orjson

        from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

        del deadline
        line = orjson.dumps(spans_to_otlp_json(list(records))) + b"\n"
        with open(self._path, "ab", opener=_private) as file:
            file.write(line)
        return BatchResult(delivered=len(records))

    def idle(self) -> bool:
        """Do nothing: no batch waits here."""
        return False

    def close(self) -> None:
        """Do nothing: no state is held between batches."""


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read: the content is not redacted."""
    return os.open(path, flags, 0o600)
