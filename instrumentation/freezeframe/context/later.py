"""A span that starts only on demand: most requests make no call, so they have no run that needs a span.

It replaces its span wherever OpenTelemetry passes one. A span below it, a log line with its trace id, or an
attribute that the program sets starts it, with its proper start time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

from opentelemetry.context import attach, detach, get_current
from opentelemetry.trace import Span, SpanContext, set_span_in_context

__all__ = ["LaterSpan", "attach", "detach", "get_current", "set_span_in_context"]


class _Start:
    """One start at a time; a span is started once, even if several tasks and threads of its request need it."""

    lock = threading.RLock()  # reentrant: other processors may do anything when a span starts


_START: Final = _Start()


def _after_fork() -> None:
    _START.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


class LaterSpan(Span):
    """Placeholder for a span that `start` will start."""

    __slots__ = ("_start", "started")

    def __init__(self, start: Callable[[], Span]) -> None:
        self._start = start
        self.started: Span | None = None

    def real(self) -> Span:
        """Return the span."""
        if self.started is None:
            with _START.lock:
                if self.started is None:
                    self.started = self._start()
        return self.started

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real(), name)

    def get_span_context(self) -> SpanContext:
        return self.real().get_span_context()

    def is_recording(self) -> bool:
        return self.real().is_recording()

    def set_attributes(self, *args: Any, **kwargs: Any) -> None:
        self.real().set_attributes(*args, **kwargs)

    def set_attribute(self, *args: Any, **kwargs: Any) -> None:
        self.real().set_attribute(*args, **kwargs)

    def add_event(self, *args: Any, **kwargs: Any) -> None:
        self.real().add_event(*args, **kwargs)

    def add_link(self, *args: Any, **kwargs: Any) -> None:
        self.real().add_link(*args, **kwargs)

    def update_name(self, *args: Any, **kwargs: Any) -> None:
        self.real().update_name(*args, **kwargs)

    def set_status(self, *args: Any, **kwargs: Any) -> None:
        self.real().set_status(*args, **kwargs)

    def record_exception(self, *args: Any, **kwargs: Any) -> None:
        self.real().record_exception(*args, **kwargs)

    def end(self, *args: Any, **kwargs: Any) -> None:
        self.real().end(*args, **kwargs)
