"""Recorded traffic in the store: what real SDKs sent and received comes out as it went in."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import recorded_runs
import recorded_traffic

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import replace_pending
from freezeframe_schemas.otlp.decode import Limits, decode_traces
from freezeframe_schemas.otlp.logs import decode_logs
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables.streams import FOLDED
from freezeframe_schemas.tables.templates import CutMemory, cut, fill

pytestmark = pytest.mark.long
OTLP = [Path(__file__).parents[1] / "data" / name for name in ("otlp", "otlp_agents")]


def test_every_recorded_body_comes_out_of_its_cut() -> None:
    memory = CutMemory()
    folded = 0
    for file, rows in recorded_traffic.load_conversations().items():
        for row in rows:
            for attribute in ("request", "response"):
                raw = recorded_traffic.body_of(row[attribute])
                made = cut(raw)
                assert memory.cut(file, attribute, raw) == made
                assert fill(made.template, made.hashes, dict(zip(made.hashes, made.pieces, strict=True))) == raw
                folded += made.template.startswith(FOLDED.decode())
    assert folded > 300


def test_what_other_instrumentations_sent_comes_out_of_the_store_as_it_went_in(store: Store, facade_url: str) -> None:
    runs: dict[str, dict[str, SpanRecord]] = defaultdict(dict)
    for number, scenario in enumerate(sorted(path for folder in OTLP for path in folder.iterdir() if path.is_dir())):
        for body in sorted(scenario.glob("*.pb")):
            raw = body.read_bytes()
            spans = decode_traces(raw).spans if body.name.endswith(".traces.pb") else decode_logs(raw, Limits()).events.spans
            for span in spans:
                own = f"{number:02x}071b" + span.trace_id[6:]
                runs[own][span.span_id] = replace(span, trace_id=own)
    assert len(runs) > 50
    store.insert([span for spans in runs.values() for span in spans.values()], token="other-instrumentations")
    with closing(open_runs(facade_url)) as opened:
        for trace_id, spans in runs.items():
            assert {span.span_id: span for span in opened.load_spans(trace_id)} == spans


@pytest.mark.proof
def test_recorded_runs_come_out_of_the_store_as_they_went_in(store: Store, facade_url: str) -> None:
    """A run of an agent that streams, and a provider's exchanges."""
    (day,) = recorded_runs.record_days(1, most=1)
    runs: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in day:
        runs[span.trace_id].append(span)
    assert any(span.attributes.get(genai.REQUEST_STREAM) for span in day)
    store.insert(day, token="recorded")
    opened = open_runs(facade_url)
    for trace_id, spans in runs.items():
        expected = {span.span_id: span for span in replace_pending(spans)}
        assert {span.span_id: span for span in replace_pending(opened.load_spans(trace_id))} == expected
    opened.close()
