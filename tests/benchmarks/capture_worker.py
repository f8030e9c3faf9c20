"""One subject of the capture benchmark: an application that calls a provider, with one way of capturing it, or none.

Runs in the environment of its subject, so it imports the standard library and the subject only. Reads a scenario's name and a
number of calls a line from stdin, and prints the CPU and wall seconds of that many calls, delivery of all spans included.

    python tests/benchmarks/capture_worker.py SUBJECT URL
"""

# Peers are imported in environments of their own.
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Deliver = Callable[[], object]
"""Delivers every span that there is."""


def bare(url: str) -> Deliver:
    """Capture nothing."""
    del url
    return lambda: None


def freezeframe(url: str) -> Deliver:
    """Capture with this project."""
    import freezeframe

    handle = freezeframe.instrument(endpoint=url, root=False)
    return lambda: handle.flush(30)


def openinference(url: str) -> Deliver:
    """Capture with OpenInference's instrumentors."""
    from openinference.instrumentation.anthropic import AnthropicInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor

    provider = _sdk_provider(url)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    AnthropicInstrumentor().instrument(tracer_provider=provider)
    return lambda: provider.force_flush(30_000)


def official(url: str) -> Deliver:
    """Capture with OpenTelemetry's own GenAI instrumentors, contents on the spans."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
    from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    provider = _sdk_provider(url)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    AnthropicInstrumentor().instrument(tracer_provider=provider)
    return lambda: provider.force_flush(30_000)


def langfuse(url: str) -> Deliver:
    """Capture with Langfuse: its drop-in for OpenAI, and for Anthropic the instrumentor that its documentation names."""
    from langfuse import Langfuse
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor

    client = Langfuse(public_key="pk-lf-bench", secret_key="sk-lf-bench", host=url, flush_interval=0.5)
    importlib.import_module("langfuse.openai")  # patches the SDK where it is imported
    AnthropicInstrumentor().instrument()
    return client.flush


def traceloop(url: str) -> Deliver:
    """Capture with Traceloop's OpenLLMetry."""
    os.environ |= {"TRACELOOP_TELEMETRY": "false", "TRACELOOP_METRICS_ENABLED": "false", "TRACELOOP_SUPPRESS_WARNINGS": "true"}
    from traceloop.sdk import Instruments, Traceloop
    from traceloop.sdk.tracing.tracing import TracerWrapper

    Traceloop.init(
        app_name="bench",
        api_endpoint=url,
        api_key="bench",
        telemetry_enabled=False,
        instruments={Instruments.OPENAI, Instruments.ANTHROPIC},
    )
    return TracerWrapper().flush


SUBJECTS: dict[str, Callable[[str], Deliver]] = {
    subject.__name__: subject for subject in (bare, freezeframe, openinference, official, langfuse, traceloop)
}


def _sdk_provider(url: str) -> Any:
    """Return a provider that exports as freezeframe does: over HTTP, each half second, without the SDK's limit of 128."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=100_000))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces"), schedule_delay_millis=500))
    return provider


def scenarios(url: str) -> dict[str, Callable[[int], None]]:
    """Return what is measured: name -> a function that makes so many calls."""
    import anthropic
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    claude = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
    small: Any = [{"role": "user", "content": "Say hello."}]
    roles = ("user", "assistant")
    large: Any = [{"role": roles[i % 2], "content": f"message {i}: " + "some words of a talk " * 25} for i in range(100)]
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string", "description": "a parameter"} for i in range(8)}}
    tools: Any = [{"type": "function", "function": {"name": f"tool_{i}", "parameters": schema}} for i in range(10)]

    def chat_small(calls: int) -> None:
        for _ in range(calls):
            client.chat.completions.create(model="gpt-4o", messages=small)

    def chat_large(calls: int) -> None:
        for _ in range(calls):
            client.chat.completions.create(model="gpt-4o", messages=large, tools=tools, temperature=0.2)

    def openai_stream(calls: int) -> None:
        for _ in range(calls):
            for _ in client.chat.completions.create(model="gpt-4o", messages=small, stream=True):
                pass

    def anthropic_stream(calls: int) -> None:
        for _ in range(calls):
            for _ in claude.messages.create(model="claude-test", max_tokens=9, messages=small, stream=True):
                pass

    async def concurrent(calls: int) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as many:
            for _ in range(calls // 50):
                asked = (many.chat.completions.create(model="gpt-4o", messages=small) for _ in range(50))
                await asyncio.gather(*asked)

    def async_50(calls: int) -> None:
        asyncio.run(concurrent(calls))

    return {run.__name__: run for run in (chat_small, chat_large, openai_stream, anthropic_stream, async_50)}


def main(subject: str, url: str) -> None:
    """Turn the subject on, warm up, and answer stdin."""
    os.environ["ANTHROPIC_OPEN_TELEMETRY"] = "false"
    deliver = SUBJECTS[subject](url)
    runs = scenarios(url)
    for name, run in runs.items():  # imports, caches, connections
        run(50 if name == "async_50" else 5)
    deliver()
    print("ready", flush=True)
    for line in sys.stdin:
        name, calls = line.split()
        cpu, wall = time.process_time(), time.perf_counter()
        runs[name](int(calls))
        wall = time.perf_counter() - wall
        deliver()
        cpu = time.process_time() - cpu
        print(cpu, wall, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
