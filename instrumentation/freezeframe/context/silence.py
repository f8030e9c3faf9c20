"""Detect code that is not to be traced, by OpenTelemetry's context keys, one of which ``suppress_tracing`` sets."""

from __future__ import annotations


def is_suppressed() -> bool:
    """Return whether the program, another instrumentation or a working exporter has suppressed tracing."""
    import opentelemetry.context as context  # `from` would look for a submodule each time

    # Made anew in each process, and named by no public function: OpenInference and OpenTelemetry's exporters import it, too.
    drawn = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "")
    return bool(context.get_value("suppress_instrumentation") or context.get_value(drawn))
