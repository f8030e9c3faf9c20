"""The texts of runs' gaps for state carried over from earlier runs of their process."""

from __future__ import annotations

from dataclasses import replace

from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import SpanRecord


def carried_texts(spans: list[SpanRecord]) -> list[list[str]]:
    """Return the texts of the gap, for each run in order."""
    traces: dict[str, list[SpanRecord]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    runs = [build_run(each) for each in traces.values()]
    assert all(readiness(replace(run, verified=True)).level < 6 for run in runs if run.gaps)
    return [[gap.text for gap in run.gaps if gap.kind is GapKind.CARRIED_OVER] for run in runs]
