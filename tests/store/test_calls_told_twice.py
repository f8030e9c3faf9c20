"""Calls of models that other instrumentations tell of: each counts once, in however many spans and log records it is told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from freezeframe_collector.otlp import Limits, decode_traces
from freezeframe_collector.otlp_logs import decode_logs
from freezeframe_collector.processors.normalise import normalise
from freezeframe_collector.store import Store
from freezeframe_schemas.span import SpanRecord

RECORDED = Path(__file__).parents[1] / "data" / "otlp"
SCENARIOS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def decoded_batches(scenario: str) -> Iterable[list[SpanRecord]]:
    """Yield what was sent, request by request."""
    for path in sorted((RECORDED / scenario).glob("*.pb")):
        body = path.read_bytes()
        spans = decode_logs(body, Limits()).events.spans if path.name.endswith(".logs.pb") else decode_traces(body).spans
        yield [normalise(span, "") for span in spans]


@pytest.fixture(scope="module")
def traces(store: Store) -> dict[str, set[str]]:
    """Put every recorded scenario into the store, request by request; return the traces of each."""
    found: dict[str, set[str]] = {}
    for scenario in SCENARIOS:
        for number, spans in enumerate(decoded_batches(scenario)):
            if spans:
                store.insert(spans, token=f"{scenario}-{number}")
            found.setdefault(scenario, set()).update(span.trace_id for span in spans)
    return found


EXPECTED = {
    "anthropic-msg": (2, 1212, 168),
    "openai-chat": (2, 174, 76),
    "openai-resp": (2, 262, 72),
    "oaiagents-resp": (2, 262, 72),
    "langgraph-chat": (2, 174, 76),
    "pydanticai-chat": (2, 174, 76),
    "vercelai-chat": (2, 174, 76),
    "adk-gemini": (2, 80, 22),
    "mlflow-chat": (2, 80, 22),
    "semantickernel-chat": (2, 80, 22),
    "strands-chat": (2, 80, 22),
    "smolagents-chat": (3, 174, 76),  # a third call, which was answered with an error
    "vercelai-chatstream": (2, 0, 0),  # of a stream that told no usage
}
"""Calls, tokens in, tokens out: of the conversation that each SDK was given, whoever tells of it."""
IN_A_TRACE_OF_ITS_OWN = {"anthropic-msg-tl"}
"""The SDK's own span of the same call does not say that it belongs to the instrumentation's: they cannot be told apart."""


@pytest.mark.long
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in IN_A_TRACE_OF_ITS_OWN])
def test_a_call_counts_once_however_many_spans_tell_of_it(store: Store, traces: dict[str, set[str]], scenario: str) -> None:
    """The SDK's own span, the instrumentation's around it and its log record carry the same usage: dollars follow one."""
    expected = list(EXPECTED[scenario.rpartition("-")[0]])
    named = ", ".join(f"'{trace_id}'" for trace_id in sorted(traces[scenario]))
    for source in (
        f"sum(model_calls), sum(input_tokens), sum(output_tokens) FROM freezeframe.runs WHERE trace_id IN ({named})",
        f"count(), sum(ifNull(input_tokens, 0)), sum(ifNull(output_tokens, 0)) FROM freezeframe.model_calls"
        f" WHERE trace_id IN ({named})",
        f"count(), sum(ifNull(input_tokens, 0)), sum(ifNull(output_tokens, 0)) FROM freezeframe.steps"
        f" WHERE kind = 'model' AND trace_id IN ({named})",
    ):
        _, rows = store.query(f"SELECT {source}")
        assert list(rows[0]) == expected, source
