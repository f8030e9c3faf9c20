"""True if the running code is not to be traced: OpenTelemetry's keys for that, one of which ``suppress_tracing`` sets."""

from __future__ import annotations


def is_suppressed() -> bool:
    """Return whether the program, another instrumentation or an exporter at work asked for silence."""
    import opentelemetry.context as context  # `from` would look for a submodule each time

    # Made anew in each process, and named by no public function: OpenInference and OpenTelemetry's exporters import it, too.
    drawn = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "")
    return bool(context.get_value("suppress_instrumentation") or context.get_value(drawn))
