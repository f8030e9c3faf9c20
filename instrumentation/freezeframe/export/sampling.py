"""Sampling by run: a run is kept whole or not at all, because half a run can neither be read nor re-enacted.

The decision is made once, at the beginning of the run, from the application's id for it or from the trace id,
so it is the same in every process of the run; below a remote parent it is the parent's. With `keep_errors`, the
spans of a run that is
not kept wait in memory until it ends, and are kept after all if one of them ended in an error.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from freezeframe._guard import log_once
from freezeframe.context.current import current_place

if TYPE_CHECKING:
    from opentelemetry.context import Context

_T = TypeVar("_T")

_BITS: Final = 64
_REMEMBERED: Final = 10_000
"""Runs whose decision is remembered; beyond this, the trace id decides again."""


class RunSampling:
    """Choice of the runs to keep. Called from any thread."""

    def __init__(self, *, share: float, keep_errors: bool) -> None:
        self.keep_errors = keep_errors
        self._bound = round(share * 2**_BITS)
        self._decided: OrderedDict[int, bool] = OrderedDict()
        self._lock = threading.RLock()  # reentrant: a garbage collection inside may end a recording

    def begin(self, trace_id: int, parent: trace.SpanContext | None) -> bool:
        """Decide for the run that begins with this trace id, and remember it. A second call gives the same answer.

        Args:
            trace_id: the run's trace id.
            parent: the context of a remote parent, or None.
        """
        run = current_place().run
        with self._lock:
            kept = self._decided.get(trace_id)
            if kept is None:
                if parent is not None:
                    kept = parent.trace_flags.sampled
                else:
                    kept = self._draw(trace_id if run is None or run.id is None else _number(run.id))
                self._decided[trace_id] = kept
                while len(self._decided) > _REMEMBERED:
                    self._decided.popitem(last=False)
            return kept

    def keeps(self, trace_id: int) -> bool:
        """Return whether the run is kept."""
        with self._lock:
            kept = self._decided.get(trace_id)
        return self._draw(trace_id) if kept is None else kept

    def _draw(self, number: int) -> bool:
        # The low bits, as in the SDK's TraceIdRatioBased: next to another SDK with the same share, both keep the same traces.
        return number & (2**_BITS - 1) < self._bound


def _number(run_id: str) -> int:
    return int.from_bytes(hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def remote_parent(context: Context | None) -> trace.SpanContext | None:
    """Return the parent in another process, None without one or if it is in this process."""
    parent = trace.get_current_span(context).get_span_context()
    return parent if parent.is_valid and parent.is_remote else None


class RunSampler(Sampler):
    """`RunSampling` as the sampler of our own provider, so that the decision also travels to the processes downstream."""

    def __init__(self, sampling: RunSampling) -> None:
        self._sampling = sampling

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: Any = None,
        attributes: Any = None,
        links: Sequence[Any] | None = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        """Decide at the run's first span; the spans below follow it."""
        parent = trace.get_current_span(parent_context)
        above = parent.get_span_context()
        if above.is_valid and not above.is_remote:
            kept, recorded = above.trace_flags.sampled, parent.is_recording()
        else:
            remote = above if above.is_valid else None
            kept = self._sampling.begin(trace_id, remote)
            recorded = self._sampling.keep_errors and remote is None
        decision = Decision.RECORD_AND_SAMPLE if kept else Decision.RECORD_ONLY if recorded else Decision.DROP
        return SamplingResult(decision, attributes if decision.is_recording() else None, above.trace_state)

    def get_description(self) -> str:
        """Return the sampler's name in the SDK's messages."""
        return "freezeframe.RunSampler"


@dataclass(slots=True)
class _HeldRun(Generic[_T]):
    items: list[_T] = field(default_factory=list[_T])
    size: int = 0
    failed: bool = False


class HeldRuns(Generic[_T]):
    """Spans of runs that are kept only if one of them fails, until it ends. Bounded: the oldest run is dropped, whole."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._runs: OrderedDict[int, _HeldRun[_T]] = OrderedDict()
        self._settled: OrderedDict[int, bool] = OrderedDict()
        """Runs that ended or were dropped -> whether their later spans are kept."""
        self._size = 0
        self._lock = threading.RLock()

    def add(self, trace_id: int, item: _T, size: int, *, failed: bool, ends: bool) -> list[_T]:
        """Hold one more; return those to keep: the whole run if it ends with this one and failed, else none."""
        with self._lock:
            if (kept := self._settled.get(trace_id)) is not None:
                return [item] if kept else []
            run = self._runs.setdefault(trace_id, _HeldRun[_T]())
            run.items.append(item)
            run.size += size
            run.failed |= failed
            self._size += size
            if ends:
                self._settle(trace_id, kept=run.failed)
                return run.items if run.failed else []
            while self._size > self._limit_bytes:
                self._settle(next(iter(self._runs)), kept=False)
                log_once(
                    "sampling.held", "freezeframe: unfinished runs fill %d bytes; some errors are not kept", self._limit_bytes
                )
        return []

    def _settle(self, trace_id: int, *, kept: bool) -> None:
        self._size -= self._runs.pop(trace_id).size
        self._settled[trace_id] = kept
        while len(self._settled) > _REMEMBERED:
            self._settled.popitem(last=False)
