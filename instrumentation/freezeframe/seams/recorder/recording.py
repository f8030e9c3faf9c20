"""Recording: one exchange while it happens, and its span. It ends once: on the end, an error, a close, or when dropped.

Everything that can wait does: the caller's path keeps references and times; the attributes are built where spans are
exported (`enrich`). The payload is never on the OTel span itself, so that neither a user's span limits cut it
nor another vendor's exporter sends it.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet

from freezeframe._guard import guard
from freezeframe.context.answers import Answers, KnownTexts
from freezeframe.context.current import PLACE, Inside, Place, current_place, leave
from freezeframe.context.silence import is_suppressed
from freezeframe.seams.recorder.body import Body
from freezeframe.seams.recorder.responder import Call
from freezeframe_schemas import exchange, genai, values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, FunctionCode, Headers, Kind, Request, Response

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from freezeframe._config import Settings
    from freezeframe.context.current import RunContext
    from freezeframe.context.structure import AgentStructure
    from freezeframe.seams.recorder.hiding import Hiding
    from freezeframe.seams.recorder.sink import RootSpan, Sink
    from freezeframe_schemas.span import Attributes

EXCHANGE_SEQUENCE: Final = itertools.count()
"""Order of issue within the process."""

_FIRST_ERROR_STATUS: Final = 400
_TOOLS: Final = frozenset({Kind.TOOL, Kind.RETRIEVAL})

_NO_FACTS: Final[Mapping[str, str]] = {}

Held = Callable[[], list[Callable[[], None]] | None]
"""Returns the work to do at the first call, which makes it a run; None if it is one already."""
_NOT_HELD: Final[Held] = lambda: None  # noqa: E731 - typed


class OpenResult(Protocol):
    """A result that the program takes bit by bit."""

    def is_of(self, run: RunContext) -> bool: ...

    def end(self) -> None:
        """End its exchange, once."""
        ...


class Losses(Protocol):
    """Notes effects of a call that a replay will lack, and parts of its result that it will change."""

    def sent(self) -> None:
        """Note that the program sent a value into a generator."""
        ...

    def ended(self, result: object, error: BaseException | None) -> None:
        """Examine the call's effects, and its result or exception."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Recorder:
    """The recorder that the seams of a process share; made by `instrument()`."""

    tracer: Tracer
    settings: Settings
    sink: Sink
    root: RootSpan
    describe_spans: Hiding | None = None
    """Put the GenAI attributes on the OTel span itself, for other vendors' exporters, without the content that this hides.

    It does so on the application's path.
    """
    structure: AgentStructure | None = None
    _under_way: WeakSet[Recording] = field(default_factory=lambda: WeakSet[Recording](), init=False)
    known_texts: KnownTexts = field(default_factory=KnownTexts, init=False)
    results: WeakSet[OpenResult] = field(default_factory=lambda: WeakSet[OpenResult](), init=False)
    """Database results that the program may still read."""

    def __post_init__(self) -> None:
        # The parent ends them. A child that did so at its ``exec``, too, would send spans, and under gevent wait for that.
        os.register_at_fork(after_in_child=self._under_way.clear)

    def start(
        self,
        *,
        kind: Kind,
        name: str,
        seam: str,
        request: Request,
        request_body: Body,
        dialect: str | None = None,
        provider: str | None = None,
        call_id: str | None = None,
        facts: Mapping[str, str] = _NO_FACTS,
        code: Callable[[], FunctionCode | None] | None = None,
    ) -> Recording | None:
        """Open the span of one exchange, with these facts as attributes.

        None if the run is not sampled, or the program asked for silence.
        """
        import opentelemetry.trace as trace

        if kind not in (Kind.MODEL, Kind.HTTP) and is_suppressed():  # the seams of these know whose silence it is
            return None
        remote = kind in (Kind.MODEL, Kind.HTTP, Kind.MCP, Kind.DATABASE)
        held = self._held_back() if kind in (Kind.DATABASE, Kind.FILE) else _NOT_HELD
        context, attributes = self._place(kind, is_call=held() is None)
        span = self.tracer.start_span(
            name,
            context=context,
            kind=trace.SpanKind.CLIENT if remote else trace.SpanKind.INTERNAL,
            attributes={**attributes, **facts} if facts else attributes,
        )
        if not span.is_recording():
            return None
        recording = Recording(
            span=span,
            sink=self.sink,
            template=partial(
                Exchange,
                kind=kind,
                name=name,
                seam=seam,
                dialect=dialect,
                lane=current_place().lane.path,
                sequence=next(EXCHANGE_SEQUENCE),
                call_id=call_id,
            ),
            request=request,
            request_body=request_body,
            provider=provider,
            limit_bytes=self.settings.max_body_bytes,
            describe_span=self.describe_spans,
            random_state=self._state_to_report(),
            held=held,
            run=current_place().run,
            known_texts=self.known_texts,
            code=code,
            is_tool=kind in _TOOLS,
        )
        self._under_way.add(recording)
        return recording

    def _place(self, kind: Kind, *, is_call: bool) -> tuple[Context | None, dict[str, str]]:
        """Return the context of a new exchange's span, and its initial attributes."""
        attributes: dict[str, str] = {} if self.describe_spans is None else {genai.EXCHANGE_KIND: kind.value}
        around = current_place().call_span_id
        if around:
            attributes[genai.EXCHANGE_INSIDE] = around
        context = self.root.context_for_exchange(is_call=is_call)
        if self.structure is not None:
            with guard("recorder.structure"):
                context, agent = self.structure.place(context)
                if agent:
                    attributes[genai.AGENT_NAME] = agent
        return context, attributes

    def _held_back(self) -> Held:
        """Return the functions to call at the first call of a request or task, or of the whole program, which makes it a run.

        A database query or a file read does not make it one.
        """
        run = current_place().run
        return self.root.held_back if run is None else lambda: run.at_first_call if run.begins else None

    def _state_to_report(self) -> object:
        """Return the state of `random` that the run began with, once it has drawn: it may be killed before its entry ends."""
        run = current_place().run
        draws = self.root.draws() if run is None else run.draws
        return None if draws is None else draws.state_to_report()

    def keep(self, call: Call, answer: Exchange) -> None:
        """Record a call that a replay answered: made at this place, otherwise as recorded."""
        with guard("recorder.keep"):
            context = self.root.context_for_exchange()
            span = self.tracer.start_span(call.name, context=context, start_time=answer.start_time_unix_nano)
            changed = replace(
                answer,
                kind=call.kind,
                name=call.name,
                seam=call.seam,
                dialect=call.dialect,
                lane=call.lane,
                sequence=call.sequence,
                call_id=call.call_id,
            )
            self.sink.expect(span, Answered(changed, call.provider))
            self.sink.count(span)
            span.end(answer.end_time_unix_nano)

    def finish_results(self, run: RunContext) -> None:
        """End the database results that a run leaves open: after the run, nothing reads them for it."""
        for taken in list(self.results) if self.results else ():
            if taken.is_of(run):
                taken.end()

    def finish_all(self) -> None:
        """End the recordings in progress when the process ends: unclosed streams, calls of daemon threads."""
        for taken in list(self.results):
            taken.end()
        self._finish(list(self._under_way))

    def finish_left_behind(self) -> None:
        """End recordings left open by ended runs, before a process that may not do so by itself ends."""
        self._finish([found for found in self._under_way if found.run is not None and found.run.is_over])

    def _finish(self, recordings: list[Recording]) -> None:
        for recording in recordings:
            recording.finish(Completion.NONE if recording.status is None else Completion.CLOSED_EARLY)


@dataclass(frozen=True, slots=True)
class Answered:
    """The payload of a call that a replay answered."""

    exchange: Exchange
    provider: str | None

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self.exchange.request.body) + len(self.exchange.response.body)

    def describe(self, own: Attributes) -> tuple[str | None, Attributes]:
        """Return the span's name and attributes with the exchange."""
        from freezeframe.seams.recorder.enrich import describe_exchange

        return describe_exchange(own, self.exchange, self.provider)


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class Recording:
    """One exchange in progress. `dialect` and `provider` are read by the exporter's side."""

    span: Span
    sink: Sink
    template: Callable[..., Exchange]
    """Creates the exchange, once the rest of it is known."""
    request: Request
    """Without its body."""
    request_body: Body
    provider: str | None
    limit_bytes: InitVar[int]
    describe_span: Hiding | None = None
    random_state: object = None
    held: Held = _NOT_HELD
    losses: Losses | None = None
    run: RunContext | None = None
    known_texts: KnownTexts = field(default_factory=KnownTexts)
    code: Callable[[], FunctionCode | None] | None = None
    """Returns the code that answers."""
    is_tool: bool = False
    """True for a tool or retriever: what it calls is recorded, too."""
    body: Body = field(init=False)
    status: int | None = None
    reason: str | None = None
    version: str | None = None
    headers: Headers = ()
    completion: Completion = Completion.NONE
    error: str | None = None
    _start_ns: int = field(default_factory=time.perf_counter_ns, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    """Reentrant, like the queue's."""
    _done: bool = field(default=False, init=False)

    def __post_init__(self, limit_bytes: int) -> None:
        """Expect a response of up to this many bytes."""
        self.body = Body(limit_bytes)

    def answered(self, status: int, headers: Headers, reason: str | None, version: str | None) -> None:
        """Note the head of an HTTP response; without a reason if the protocol has none."""
        self.status, self.version = status, version
        self.reason = None if (status, reason) == (200, "OK") else reason
        self.headers = headers

    def chunk(self, data: bytes) -> None:
        """Note a piece of the response, as it arrived."""
        self.body.add(data, time.perf_counter_ns() - self._start_ns)

    def finish(self, completion: Completion, error: BaseException | None = None, *, result: object = None) -> None:
        """End the exchange and its span. The first call decides, later ones do nothing."""
        with self._lock:
            if self._done:
                return
            self._done = True
        if self.losses is not None:
            with guard("recording.losses"):
                self.losses.ended(result, error)
            self.losses = None
        with guard("recording.finish"):
            self.completion = completion
            if error is not None:
                self.error = values.encode_exception(error)
            self._mark(error)
            if self.describe_span is not None:
                self._describe(self.describe_span)
        end = partial(self._end, time.time_ns())
        waiting = self.held()
        if waiting is None:
            end()
        else:
            waiting.append(end)

    def _end(self, end_ns: int) -> None:
        with guard("recording.end"):
            self.sink.expect(self.span, self)
            self.sink.count(self.span)
            self.span.end(end_ns)

    def _mark(self, error: BaseException | None) -> None:
        """Set the span's status and ``error.type``, and add the exception as an event, which other exporters also show."""
        if error is None and (self.status is None or self.status < _FIRST_ERROR_STATUS):
            return
        from opentelemetry.trace import Status, StatusCode

        if error is not None:
            kind, text = values.class_path(type(error)).replace(":", "."), str(error)[:500]
            self.span.set_attribute(genai.ERROR_TYPE, kind)
            self.span.set_status(Status(StatusCode.ERROR, text))
            # Without the stack: it is long, and the payload has the exception itself.
            self.span.add_event("exception", {genai.EXCEPTION_TYPE: kind, genai.EXCEPTION_MESSAGE: text})
        else:
            self.span.set_attribute(genai.ERROR_TYPE, str(self.status))
            self.span.set_status(Status(StatusCode.ERROR))

    def _describe(self, hiding: Hiding) -> None:
        from freezeframe.seams.recorder.enrich import genai_attributes, span_name

        exchange = self.exchange()
        attributes: dict[str, Any] = genai_attributes(exchange, self.provider)
        shown: Any = hiding.of(attributes)
        self.span.set_attributes(shown)
        self.span.update_name(span_name(exchange, attributes))

    @contextmanager
    def inside(self) -> Generator[None]:
        """Make this the current span and the enclosing call, for the code that answers it."""
        from opentelemetry import context, trace

        place, span_id = current_place(), f"{self.span.get_span_context().span_id:016x}"
        inside = Inside() if self.is_tool else None
        inner = Place(lane=place.lane.aside(), run=place.run, inside_call=True, inside=inside, call_span_id=span_id)
        token = context.attach(trace.set_span_in_context(self.span))
        place_token = PLACE.set(inner)
        try:
            yield
        finally:
            leave(place_token)
            context.detach(token)

    @property
    def size(self) -> int:
        """Bytes held."""
        return self.request_body.size + self.body.size

    def describe(self, own: Attributes) -> tuple[str | None, Attributes]:
        """Return the span's name and attributes with the exchange, and the GenAI attributes."""
        from freezeframe.seams.recorder.enrich import describe_exchange

        if self.random_state is not None:
            own = {**own, genai.ENTRY_RANDOM_STATE: json.dumps(self.random_state)}
        exchange = self.exchange()
        name, attributes = describe_exchange(own, exchange, self.provider)
        with guard("recording.answers"):
            (Answers() if self.run is None else self.run.answers).note(exchange, attributes, self.known_texts)
        return name, attributes

    def exchange(self) -> Exchange:
        """Return the recorded exchange, once it is finished."""
        response = Response(
            status=self.status,
            reason=self.reason,
            version=self.version,
            headers=self.headers,
            chunks=tuple(
                Chunk(data=data, offset_ns=offset) for data, offset in zip(self.body.pieces, self.body.offsets_ns, strict=True)
            ),
            completion=self.completion,
            omitted=self.body.omitted,
        )
        request = self.request.with_body(b"".join(self.request_body.pieces), self.request_body.omitted)
        code = None if self.code is None else self.code()
        return self.template(request=request, response=response, error=self.error, code=code)


@contextmanager
def outside_lane() -> Generator[None]:
    """Keep tasks and threads of the block from counting in the application's lane: a replay does not run it."""
    token = PLACE.set(replace(current_place(), lane=current_place().lane.aside()))
    try:
        yield
    finally:
        leave(token)


class while_reading:  # noqa: N801 - as `while_sending`
    """Read the whole response; its exchange ends when the block does."""

    __slots__ = ("_recording",)

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._recording.finish(Completion.COMPLETE)
        elif isinstance(error, GeneratorExit):
            self._recording.finish(Completion.CLOSED_EARLY)
        else:
            self._recording.finish(Completion.BROKEN, error)


class while_sending:  # noqa: N801 - reads like the function that `contextmanager` would return, at a third of the cost
    """Make the real network call, recorded or not: outside the application's lane, and as one call, however many clients take
    part in it. If it raises, its recording ends without an answer.
    """

    __slots__ = ("_recording", "_token")

    def __init__(self, recording: Recording | None = None) -> None:
        self._recording = recording

    def __enter__(self) -> None:
        place = current_place()
        self._token = PLACE.set(place.to_send())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        leave(self._token)
        if error is not None and self._recording is not None:
            self._recording.finish(Completion.NONE, error)


def lane_of_call() -> exchange.Lane:
    """Return the lane of the running code."""
    return current_place().lane.path
