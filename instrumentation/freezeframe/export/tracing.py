"""The tracing side: provider, ids, limits, and the processor that joins spans with the recording for them."""

from __future__ import annotations

import os
import random
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Sampler

from freezeframe._guard import guard
from freezeframe.context.current import PLACE, Lane, Place, current_place, leave
from freezeframe.export.export_queue import ExportQueue, size_of
from freezeframe.export.sampling import HeldRuns, RunSampling, remote_parent
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.sink import Payload
from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import NO_PARENT

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from freezeframe.context.structure import AgentStructure


_MANY: Final = 100_000
_SPAN_ID_BITS: Final = 2**64 - 1
_SERVERS: Final = frozenset(
    {
        *("fastapi", "starlette"),  # make spans once there is a provider, which may be ours
        *(
            f"opentelemetry.instrumentation.{name}"
            for name in "aiohttp_server asgi django fastapi flask starlette wsgi".split()
        ),
    }
)
"""Scopes of spans about requests: they matter only if a run is in their trace."""
_FORGOTTEN: Final = 10_000
"""Payloads whose span never arrives (dropped by another processor's wrapper) are dropped beyond this many."""


class OwnIds(IdGenerator):
    """Ids from a separate generator: the SDK's draws from `random` itself, and so changes a seeded program's results."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - ids need to be unique, not secret; seeded by the operating system
        os.register_at_fork(after_in_child=self._random.seed)

    def generate_span_id(self) -> int:
        """Return 64 random bits, not zero."""
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        """Return 128 random bits, not zero."""
        return self._random.getrandbits(128) or 1

    def is_trace_id_random(self) -> bool:
        """Return True: all bits are random."""
        return True


def make_provider(service_name: str, sampler: Sampler | None = None) -> TracerProvider:
    """Return our provider. High limits: the SDK's default of 128 attributes drops the oldest, which are the input."""
    attributes: dict[str, Any] = {"service.name": service_name} if service_name else {}
    return _Provider(
        resource=Resource.create(attributes),
        sampler=sampler,
        id_generator=OwnIds(),
        span_limits=SpanLimits(
            max_span_attributes=_MANY,
            max_event_attributes=_MANY,
            max_link_attributes=_MANY,
            max_events=_MANY,
            max_links=_MANY,
            max_span_attribute_length=SpanLimits.UNSET,
            max_attribute_length=SpanLimits.UNSET,
        ),
        shutdown_on_exit=False,
    )


class _Provider(TracerProvider):
    """The SDK's, which starts a pool of threads in each forked child, to find out the process's attributes.

    With gevent, waiting between ``fork`` and ``exec`` lets the program's other greenlets run: the child would
    continue as a second program, and fork again. So the child determines the attributes itself, outside the
    application's lane.
    """

    def _handle_fork(self) -> None:
        token = PLACE.set(Place(lane=Lane()))
        with guard("provider.fork"):
            self._tracers_lock = threading.Lock()
            for detector in resources._build_resource_detectors():
                if detector.is_process_dependent():
                    self._update_resource(detector.detect())
        leave(token)


class CaptureProcessor(SpanProcessor):
    """Stamps the run's context on each span at start; at its end joins it with its recording and queues it."""

    def __init__(
        self, queue: ExportQueue, sampling: RunSampling | None = None, structure: AgentStructure | None = None
    ) -> None:
        self._queue = queue
        self._structure = structure
        self._sampling = sampling
        self._held = self._no_runs_held()
        self._requests = self._no_runs_held()
        """Facts about requests that have made no call so far."""
        self._announced: OrderedDict[int, None] = OrderedDict()
        """Traces with queued spans."""
        self._expected: dict[tuple[int, int], Payload] = {}
        self._exchanges: dict[int, int] = {}
        """Trace of a run in progress -> exchanges that have ended."""
        self._lock = threading.RLock()  # reentrant, like the queue's
        self.active = True
        os.register_at_fork(after_in_child=self._after_fork)

    def _no_runs_held(self) -> HeldRuns[tuple[ReadableSpan, Payload | None]]:
        return HeldRuns(self._queue.max_queue_bytes)

    def _after_fork(self) -> None:
        self._held = self._no_runs_held()
        self._requests = self._no_runs_held()
        self._announced = OrderedDict()
        self._expected = {}
        self._exchanges = {}
        self._lock = threading.RLock()  # reentrant, like the queue's

    def expect(self, span: trace.Span, payload: Payload) -> None:
        """Keep the payload for the span that ends next with this id."""
        context = span.get_span_context()
        with self._lock:
            while len(self._expected) >= _FORGOTTEN:
                del self._expected[next(iter(self._expected))]
            self._expected[context.trace_id, context.span_id] = payload

    def count(self, span: trace.Span) -> None:
        """Count an exchange that ends towards the run that began in its trace, if one did."""
        trace_id = span.get_span_context().trace_id
        with self._lock:
            if trace_id in self._exchanges:
                self._exchanges[trace_id] += 1

    def counted(self, span: trace.Span) -> int:
        """Return the exchanges of the entry span's run, and stop counting. Two runs in one trace share the count."""
        with self._lock:
            return self._exchanges.pop(span.get_span_context().trace_id, 0)

    def announce(self, span: trace.Span, beginning: Payload) -> None:
        """Send an entry span's pending span ahead, so a run is known even if its process is killed. A replay needs none."""
        with guard("processor.announce"):
            context = span.get_span_context()
            with self._lock:
                self._exchanges.setdefault(context.trace_id, 0)
            if not self.active or not isinstance(span, ReadableSpan) or switch.serving() is not None:
                return
            with self._lock:
                self._announced[context.trace_id] = None
            if context.trace_flags.sampled and (self._sampling is None or self._sampling.keeps(context.trace_id)):
                self._queue.put(_pending(span, context), beginning, promptly=True)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Copy user, tenant, session and run id onto the span."""
        with guard("processor.on_start"):
            run = current_place().run
            if self._structure is not None and self.active:
                self._structure.began(span, trace.get_current_span(parent_context))
            if self.active and (said := attributes_around(parent_context)):
                span.set_attributes(said)
            if run is not None and self.active:
                span.set_attributes(run.attributes())
                if span.instrumentation_scope is not None and span.instrumentation_scope.name != genai.SCOPE:
                    run.tracers.add(span.instrumentation_scope.name)
            if self._sampling is not None and _is_local_root(span):
                self._sampling.begin(span.get_span_context().trace_id, remote_parent(parent_context))

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span."""
        with guard("processor.on_end"):
            context = span.context
            if context is None or not self.active:
                return
            with self._lock:
                payload = self._expected.pop((context.trace_id, context.span_id), None)
            if switch.serving() is not None and switch.recorder() is None:
                return
            if self._sampling is not None and not self._sampling.keeps(context.trace_id):
                self._hold(self._sampling, context.trace_id, span, payload)
            elif context.trace_flags.sampled:
                for kept in self._kept(context.trace_id, span, payload):
                    self._queue.put(*kept)

    def _kept(self, trace_id: int, span: ReadableSpan, payload: Payload | None) -> list[tuple[ReadableSpan, Payload | None]]:
        """Return the spans to queue now.

        Spans about a request wait until another span of its trace is queued, or are dropped.
        """
        scope = "" if span.instrumentation_scope is None else span.instrumentation_scope.name
        with self._lock:
            is_announced = trace_id in self._announced
            if payload is None and (scope in _SERVERS or (scope == genai.SCOPE and not is_announced)):
                size, ends = size_of(span, payload), _is_local_root(span)
                return self._requests.add(trace_id, (span, payload), size, failed=is_announced, ends=ends)
            self._announced[trace_id] = None
            while len(self._announced) > _FORGOTTEN:
                self._announced.popitem(last=False)
        return [(span, payload)]

    def _hold(self, sampling: RunSampling, trace_id: int, span: ReadableSpan, payload: Payload | None) -> None:
        """With `keep_errors`, keep the span of an unsampled run until it is known whether the run fails."""
        if not sampling.keep_errors:
            return
        failed = span.status.status_code is trace.StatusCode.ERROR
        ends = _is_local_root(span)
        for kept in self._held.add(trace_id, (span, payload), size_of(span, payload), failed=failed, ends=ends):
            self._queue.put(*kept)

    def shutdown(self) -> None:
        """Deliver what is queued: the provider shuts down."""
        self._queue.flush(5.0)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Deliver what is queued."""
        return self._queue.flush(timeout_millis / 1000)


def _pending(span: ReadableSpan, context: trace.SpanContext) -> ReadableSpan:
    """Return the pending span of an entry span: its child, see `freezeframe_schemas.lifecycle`.

    Its id is derived from the entry span's, so that it draws nothing from the application's id generator.
    """
    parent = NO_PARENT if span.parent is None else format(span.parent.span_id, "016x")
    return ReadableSpan(
        name=span.name,
        context=trace.SpanContext(
            context.trace_id,
            ~context.span_id & _SPAN_ID_BITS or 1,
            is_remote=False,
            trace_flags=context.trace_flags,
            trace_state=context.trace_state,
        ),
        parent=context,
        resource=span.resource,
        attributes={**(span.attributes or {}), genai.ENTRY_BEGUN: parent},
        instrumentation_scope=span.instrumentation_scope,
        start_time=span.start_time,
        end_time=span.start_time,
    )


def _is_local_root(span: ReadableSpan) -> bool:
    return span.parent is None or span.parent.is_remote


# -- The variables and context of OpenInference -------------------------------------------------------------------------
# Read the values of OpenInference's context managers (``using_session``, ``using_user``, ...) for the code inside them.
# They keep it in the OTel context under OpenInference's attribute names, so it is read without importing the package.
#
# Source: ``openinference.instrumentation.context_attributes`` (``CONTEXT_ATTRIBUTES``).


_SAID: Final[Mapping[str, tuple[str, ...]]] = {
    "session.id": (genai.SESSION_ID, genai.CONVERSATION_ID),
    "user.id": (genai.USER_ID,),
    "llm.prompt_template.version": ("llm.prompt_template.version", genai.PROMPT_VERSION),
    **{name: (name,) for name in ("metadata", "tag.tags", "llm.prompt_template.template", "llm.prompt_template.variables")},
}
"""Name in the context -> our attributes; OpenInference's own name if the conventions have none."""


def attributes_around(context: Context | None) -> dict[str, Any]:
    """Return the attributes that a span which begins in this context (None: the current one) takes from it."""
    around = get_current() if context is None else context
    return {ours: around[name] for name in around.keys() & _SAID.keys() for ours in _SAID[name]}
