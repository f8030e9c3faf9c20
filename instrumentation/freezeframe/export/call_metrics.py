"""Metrics of model calls, ``gen_ai.client.*``, if the program has a MeterProvider; without one, nothing is measured.

They are recorded where spans are exported, from what the spans have: calls of runs that `sample` leaves out are not counted.

Source: semantic-conventions-genai, model/gen-ai/metrics.yaml, docs/gen-ai/gen-ai-metrics.md (names, units, boundaries)
"""

from __future__ import annotations

from typing import Any, Final

from freezeframe._version import __version__
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.span import SpanRecord

_NS_PER_S: Final = 1_000_000_000
_TOKENS: Final = tuple(4**power for power in range(14))
_SECONDS: Final = tuple(0.01 * 2**power for power in range(14))
_COMMON: Final = (
    genai.OPERATION_NAME,
    genai.PROVIDER_NAME,
    genai.REQUEST_MODEL,
    genai.RESPONSE_MODEL,
    genai.SERVER_ADDRESS,
    genai.SERVER_PORT,
)
_TYPES: Final = (("input", genai.USAGE_INPUT_TOKENS), ("output", genai.USAGE_OUTPUT_TOKENS))


class CallMetrics:
    """The two instruments, made at the first call. Until a MeterProvider is set, recording to them does nothing."""

    def __init__(self) -> None:
        self._tokens: Any = None
        self._duration: Any = None

    def note(self, span: SpanRecord) -> None:
        """Record the duration and tokens of a model call; spans of any other kind are ignored."""
        found = span.attributes
        if found.get(genai.EXCHANGE_KIND) != Kind.MODEL.value or genai.OPERATION_NAME not in found:
            return
        if self._duration is None:
            self._tokens, self._duration = _make()
        common: dict[str, Any] = {name: found[name] for name in _COMMON if name in found}
        failed = {genai.ERROR_TYPE: error} if (error := span.text(genai.ERROR_TYPE)) else {}
        self._duration.record((span.end_time_unix_nano - span.start_time_unix_nano) / _NS_PER_S, {**common, **failed})
        for kind, name in _TYPES:
            if (tokens := span.integer(name)) is not None:
                self._tokens.record(tokens, {**common, genai.TOKEN_TYPE: kind})


def _make() -> tuple[Any, Any]:
    from opentelemetry.metrics import get_meter

    meter = get_meter(genai.SCOPE, __version__, schema_url=genai.SCHEMA_URL)
    return (
        meter.create_histogram(
            genai.METRIC_TOKENS,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        ),
        meter.create_histogram(
            genai.METRIC_DURATION,
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
    )
