"""The spans that the collector's benchmarks send, and their requests."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass

from freezeframe_schemas import genai
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanKind, SpanRecord

RUN_SPANS = 10
"""Spans of one trace: an agent's run has about that many or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests of one shape."""

    name: str
    span_bytes: int
    spans_per_request: int
    requests: int


LOADS = (
    Load(name="1 KB x 200", span_bytes=1_000, spans_per_request=200, requests=40),
    Load(name="9 KB x 50", span_bytes=9_000, spans_per_request=50, requests=60),
    Load(name="200 KB x 5", span_bytes=200_000, spans_per_request=5, requests=60),
    Load(name="9 KB x 1", span_bytes=9_000, spans_per_request=1, requests=1_500),
)

_ENGLISH = "ta re mi con sol ing er an the ion pro de st al ex per ver log tic ment us com ble ness"
_SYLLABLES = _ENGLISH.split()
_PII = ("alice.{n}@example.com", "+1 415 555 {n:04d}", "4111 1111 1111 1111", "Maria Jensen")


class Texts:
    """Text that compresses like English, with one finding of personal data in about two thousand words."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        words = ["".join(self.random.choices(_SYLLABLES, k=self.random.randint(1, 4))) for _ in range(20_000)]
        self._pool = self.random.choices(words, weights=[1 / (rank + 10) for rank in range(len(words))], k=200_000)

    def make(self, size_bytes: int) -> str:
        """Return about this much text."""
        count = max(1, size_bytes // 8)
        start = self.random.randrange(len(self._pool) - count - 1) if count < len(self._pool) else 0
        words = self._pool[start : start + count]
        for _ in range(count // 2000 + (self.random.random() < count % 2000 / 2000)):
            number = self.random.randrange(9999)
            words[self.random.randrange(len(words))] = self.random.choice(_PII).format(n=number)
        return " ".join(words)


def make_requests(load: Load, texts: Texts) -> list[bytes]:
    """Return the bodies; every span id is fresh, so that nothing is a duplicate. Spans come in runs of `RUN_SPANS`."""
    resource = Resource(attributes={genai.SERVICE_NAME: "bench", "telemetry.sdk.language": "python"})
    scope = Scope(name="opentelemetry.instrumentation.openai_v2", version="2.3b0")
    traces = (f"{texts.random.getrandbits(127) + 1:032x}" for _ in iter(int, 1))
    runs = itertools.chain.from_iterable(itertools.repeat(trace, RUN_SPANS) for trace in traces)
    return [
        encode_traces(
            _span(trace, load.span_bytes, texts, resource, scope) for trace in itertools.islice(runs, load.spans_per_request)
        )
        for _ in range(load.requests)
    ]


def _span(trace_id: str, size_bytes: int, texts: Texts, resource: Resource, scope: Scope) -> SpanRecord:
    share = size_bytes // 5
    said = [{"role": role, "parts": [{"type": "text", "content": texts.make(share)}]} for role in ("system", "user", "tool")]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": texts.make(share)}], "finish_reason": "stop"}]
    start = 1_780_000_000_000_000_000 + texts.random.randrange(10**12)
    attributes: dict[str, AttributeValue] = {
        genai.OPERATION_NAME: "chat",
        genai.PROVIDER_NAME: "openai",
        genai.REQUEST_MODEL: "gpt-4.1",
        genai.RESPONSE_MODEL: "gpt-4.1-2026-04-14",
        genai.RESPONSE_ID: f"chatcmpl-{texts.random.getrandbits(96):024x}",
        genai.USAGE_INPUT_TOKENS: texts.random.randrange(9000),
        genai.USAGE_OUTPUT_TOKENS: texts.random.randrange(2000),
        genai.REQUEST_TEMPERATURE: 0.7,
        genai.INPUT_MESSAGES: json.dumps(said),
        genai.OUTPUT_MESSAGES: json.dumps(answer),
    }
    return SpanRecord(
        trace_id=trace_id,
        span_id=f"{texts.random.getrandbits(63) + 1:016x}",
        name="chat gpt-4.1",
        kind=SpanKind.CLIENT,
        start_time_unix_nano=start,
        end_time_unix_nano=start + texts.random.randrange(10**7, 10**9),
        attributes=attributes,
        resource=resource,
        scope=scope,
    )
