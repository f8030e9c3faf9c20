"""`gen_ai.client.*` metrics of model calls, through the program's own MeterProvider."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from capture_provider import Provider
from opentelemetry import metrics
from opentelemetry.metrics import _internal
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.util._once import Once

from freezeframe._guard import RAISE_VARIABLE
from freezeframe.testing import capture
from freezeframe_schemas import genai


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    """Return name of the metric -> its data points."""
    data = reader.get_metrics_data()
    scopes = [] if data is None else [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    return {m.name: list(m.data.data_points) for scope in scopes if scope.scope.name == genai.SCOPE for m in scope.metrics}


def ask(url: str, path: str = "/v1/chat/completions") -> None:
    """Make one model call."""
    httpx.post(f"{url}{path}", json={"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]})


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    """Set the program's MeterProvider, for this test only."""
    monkeypatch.setattr(_internal, "_METER_PROVIDER", None)
    monkeypatch.setattr(_internal, "_METER_PROVIDER_SET_ONCE", Once())
    found = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([found]))
    return found


def test_a_model_call_is_measured_with_its_tokens_and_duration(provider: Provider, reader: InMemoryMetricReader) -> None:
    with capture() as captured:
        ask(provider.url)
        [call] = captured.spans
    found = points(reader)
    [duration] = found[genai.METRIC_DURATION]
    assert duration.sum == (call.end_time_unix_nano - call.start_time_unix_nano) / 1e9
    assert duration.attributes[genai.OPERATION_NAME] == genai.OP_CHAT
    assert duration.attributes[genai.PROVIDER_NAME] == "openai"
    assert duration.attributes[genai.REQUEST_MODEL] == "gpt-4o"
    counted = {point.attributes[genai.TOKEN_TYPE]: point.sum for point in found[genai.METRIC_TOKENS]}
    assert counted == {"input": call.integer(genai.USAGE_INPUT_TOKENS), "output": call.integer(genai.USAGE_OUTPUT_TOKENS)}


def test_a_refused_call_has_its_error_and_no_tokens(provider: Provider, reader: InMemoryMetricReader) -> None:
    provider.faults = ["500"]
    with capture():
        ask(provider.url)
    found = points(reader)
    [duration] = found[genai.METRIC_DURATION]
    assert duration.attributes[genai.ERROR_TYPE] == "server_error"
    assert genai.METRIC_TOKENS not in found


def test_an_instrument_that_raises_costs_no_span(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a MeterProvider of the program's own")

    monkeypatch.setattr("opentelemetry.metrics.get_meter", broken)
    monkeypatch.setenv(RAISE_VARIABLE, "0")
    with capture() as captured:
        ask(provider.url)
        assert len(captured.spans) == 1
