"""Names, types and members of attributes, checked against the registry of the GenAI conventions."""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import httpx
import opentelemetry.semconv._incubating.attributes as incubating
import opentelemetry.semconv.attributes as stable
import pytest
from bare_spans import bare_span
from capture_provider import Provider
from opentelemetry.metrics import NoOpMeter
from recorded_exchanges import Recorded

import freezeframe
from freezeframe.export.call_metrics import CallMetrics
from freezeframe.seams.recorder.enrich import describe_exchange
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange, Kind, Request
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.wire import find_dialect, generic

DATA: Final = Path(__file__).parents[1] / "data"
RUNS: Final = DATA / "demo_runs" / "streamed.traces.pb.gz"
REGISTRY: Final[Mapping[str, Any]] = json.loads((DATA / "semconv_genai" / "attributes.json").read_text())
TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "int": int,
    "double": float,
    "boolean": bool,
    "string[]": (tuple, list),
    "any": str,
}
NEWER: Final = frozenset(
    {
        genai.REQUEST_PREVIOUS_RESPONSE_ID,
        genai.REQUEST_REASONING_LEVEL,
        genai.USAGE_CACHE_WRITE_TOKENS,
        genai.PROMPT_VERSION,
    }
)
"""Names of the conventions' package of today; the copied registry is older than these."""


def _registered(*packages: ModuleType) -> Iterator[str]:
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__):
            names = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
            yield from (value for name, value in names.items() if name.isupper() and isinstance(value, str))


@pytest.mark.long
def test_each_standard_name_that_is_written_is_registered(exchanges: Sequence[Recorded]) -> None:
    """Of the attributes of recorded exchanges and of two recorded runs; those of freezeframe are its own."""
    registered = {*_registered(incubating, stable), *NEWER}
    written = {name for _, name, _ in _written(exchanges) if not name.startswith("freezeframe.")}
    assert len(written) > 30
    assert written - registered == set()


@pytest.mark.long
def test_each_value_has_the_registered_type_and_is_a_registered_member(exchanges: Sequence[Recorded]) -> None:
    """But for the operation of a request that is none of the conventions' operations, and for that of a run."""
    seen: set[str] = set()
    for source, name, value in _written(exchanges):
        expected = REGISTRY.get(name)
        if expected is None:
            continue
        seen.add(name)
        if isinstance(expected, list):
            assert value in {*expected, generic.OPERATION, genai.OP_INVOKE_WORKFLOW}, (source, name, value)
        else:
            assert isinstance(value, TYPES[expected]), (source, name, value)
            assert isinstance(value, bool) is (expected == "boolean"), (source, name, value)
    assert len(seen) > 20


def test_a_span_of_each_kind_has_registered_attributes_and_types() -> None:
    """Of a run that calls a model, a tool, a retriever and an MCP server."""
    with Provider() as provider, capture() as captured:
        answer("where?", provider.url)
        spans = {str(span.attributes.get(genai.OPERATION_NAME)): span for span in captured.spans}
    mcp = Exchange(kind=Kind.MCP, name="tools/call", seam="mcp", request=Request(body=MCP_CALL))
    name, attributes = describe_exchange({}, mcp, None)
    found = {**{span.name: span.attributes for span in spans.values()}, name: attributes}
    assert sorted(found) == ["answer", "chat gpt-4o", "execute_tool look_up", "retrieval find", "tools/call add"]
    for where, described in found.items():
        for attribute, value in described.items():
            if attribute.startswith(("gen_ai.", "mcp.")) and attribute not in NEWER:
                expected = REGISTRY[attribute]
                is_right = value in expected if isinstance(expected, list) else isinstance(value, TYPES[expected])
                assert is_right, (where, attribute, value)


def test_the_metrics_have_the_registered_units(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str]] = []

    class Meter(NoOpMeter):
        def create_histogram(self, name: str, unit: str = "", *rest: Any, **more: Any) -> Any:
            made.append((name, unit))
            return super().create_histogram(name, unit)

    def get_meter(name: str, *_: str, **__: str) -> Meter:
        return Meter(name)

    monkeypatch.setattr("opentelemetry.metrics.get_meter", get_meter)
    CallMetrics().note(bare_span(attributes={genai.EXCHANGE_KIND: Kind.MODEL.value, genai.OPERATION_NAME: genai.OP_CHAT}))
    assert dict(made) == json.loads((DATA / "semconv_genai" / "metrics.json").read_text())


MCP_CALL: Final = b'{"args": [], "kwargs": {"name": "add", "arguments": {"a": 1}}}'


@freezeframe.tool
def look_up(place: str) -> str:
    return place


@freezeframe.retriever
def find(query: str) -> list[dict[str, str]]:
    return [{"id": "1", "content": query}]


@freezeframe.run(agent=True)
def answer(question: str, url: str) -> str:
    httpx.post(f"{url}/v1/chat/completions", json={"model": "gpt-4o", "messages": [{"role": "user", "content": question}]})
    return f"{look_up(question)} {find(question)}"


def _written(exchanges: Sequence[Recorded]) -> Iterator[tuple[str, str, Any]]:
    """Yield where an attribute was written, its name and its value."""
    for row in exchanges:
        match = find_dialect(row.method, row.url)
        assert match is not None
        answer = match.dialect.response_attributes(row.response, content_type=row.content_type, status=row.status)
        for name, value in {**match.dialect.request_attributes(row.request), **answer}.items():
            yield row.id, name, value
    for span in decode_traces(gzip.decompress(RUNS.read_bytes())).spans:
        for name, value in span.attributes.items():
            yield span.name, name, value
