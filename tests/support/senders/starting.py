"""Senders are switched on as their own pages say, with OTLP as the way out. Runs in the sender's own environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from clients.client import load


def start(name: str) -> Callable[[], object]:
    """Switch on a sender; return what sends the rest."""
    module, colon, kind = name.partition(":")
    if not colon:
        return globals()[name]()
    flush = exporting()
    getattr(load(module), kind)().instrument()
    return flush


def exporting() -> Callable[[], object]:
    """Make OpenTelemetry's SDK the global one, once, with spans and log records going out by OTLP."""
    trace, sdk = load("opentelemetry.trace"), load("opentelemetry.sdk.trace")
    if isinstance(trace.get_tracer_provider(), sdk.TracerProvider):
        return lambda: None
    provider = sdk.TracerProvider()
    exporter = load("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
    provider.add_span_processor(load("opentelemetry.sdk.trace.export").BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    logs = load("opentelemetry.sdk._logs").LoggerProvider()
    records = load("opentelemetry.exporter.otlp.proto.http._log_exporter").OTLPLogExporter()
    logs.add_log_record_processor(load("opentelemetry.sdk._logs.export").BatchLogRecordProcessor(records))
    load("opentelemetry._logs").set_logger_provider(logs)
    return lambda: [provider.force_flush(), logs.force_flush()]


def traceloop_sdk() -> Callable[[], object]:
    """Switch on Traceloop's SDK."""
    there = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
    name = os.environ["OTEL_SERVICE_NAME"]
    start = load("traceloop.sdk").Traceloop.init
    start(app_name=name, api_endpoint=there, api_key="k", disable_batch=True, telemetry_enabled=False)
    return lambda: None


def langfuse() -> Callable[[], object]:
    """Switch on Langfuse's SDK beside an exporter of OTLP: its own sends to Langfuse only."""
    flush = exporting()
    provider = load("opentelemetry.trace").get_tracer_provider()
    load("langfuse").Langfuse(
        public_key="pk-lf-1", secret_key="sk-lf-1", base_url="http://127.0.0.1:9", tracer_provider=provider
    )
    openai = load("openai")
    load("langfuse.openai")
    assert openai is not None
    return flush


def logfire() -> Callable[[], object]:
    """Switch on Logfire, which sends to OTEL_EXPORTER_OTLP_ENDPOINT by itself."""
    logfire = load("logfire")
    logfire.configure(send_to_logfire=False, console=False, metrics=False, inspect_arguments=False)
    for name in ("openai", "anthropic", "openai_agents"):
        getattr(logfire, f"instrument_{name}")()
    return logfire.force_flush


def langsmith() -> Callable[[], object]:
    """Switch on LangSmith's tracing by OpenTelemetry, and wrap the openai SDK, as its pages say."""
    flush = exporting()
    openai, wrap = load("openai"), load("langsmith.wrappers").wrap_openai
    plain = openai.OpenAI

    def wrapped(**options: Any) -> Any:
        return wrap(plain(**options))

    openai.OpenAI = wrapped
    return lambda: [load("langsmith.run_trees").get_cached_client().flush(), flush()]


def pydantic_ai_slim() -> Callable[[], object]:
    """Switch on Pydantic AI's own spans."""
    flush = exporting()
    load("pydantic_ai").Agent.instrument_all()
    return flush


def litellm() -> Callable[[], object]:
    """Switch on LiteLLM's own spans."""
    flush = exporting()
    load("litellm").callbacks = ["otel"]
    return flush


def mlflow() -> Callable[[], object]:
    """Switch on MLflow's autologging, which sends by OTLP what it would store."""
    mlflow = load("mlflow")
    for name in ("openai", "anthropic", "langchain"):
        getattr(mlflow, name).autolog()
    spans = load("mlflow.tracing.provider").provider  # its own, and flushed by nothing that is public
    return lambda: spans.get().force_flush()


def openlit() -> Callable[[], object]:
    """Switch on OpenLIT."""
    load("openlit").init(otlp_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], disable_batch=True, disable_metrics=True)
    return lambda: load("opentelemetry.trace").get_tracer_provider().force_flush()


def semantic_kernel() -> Callable[[], object]:
    """Pass on what Semantic Kernel logs, too: that is where its messages are."""
    flush = exporting()
    handler = load("opentelemetry.sdk._logs").LoggingHandler()
    logger = logging.getLogger("semantic_kernel.utils.telemetry.model_diagnostics")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return flush


anthropic = strands_agents = exporting
"""These have spans of their own as soon as there is a tracer provider."""
