"""Run: one trace rebuilt as a tree, the parts of the replay kit that it carries, and how far it can be re-enacted.

The kit is data (`KIT`): one row per field, with the attribute that holds it and the level that needs it. The SQL views are
generated from the same rows.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError
from freezeframe_schemas.exchange import Exchange, Kind, exchange_from_span
from freezeframe_schemas.gaps import Gap, GapKind, counted, span_gaps
from freezeframe_schemas.lifecycle import RunStatus, replace_pending, status_of, unfinished_entries
from freezeframe_schemas.span import Attributes, SpanRecord, StatusCode


class EntryKind(StrEnum):
    """Way to start a run again."""

    FUNCTION = "function"
    COMMAND = "command"
    REQUEST = "request"
    """An application is called with it."""
    TASK = "task"
    """A worker's: its function is called with the arguments."""
    PROGRAM = "program"
    """A program in any language, recorded from outside: it is started, and a server answers it."""

    @property
    def is_called(self) -> bool:
        """Return whether a replay calls it in a separate process; else the whole process is the run."""
        return self not in (EntryKind.COMMAND, EntryKind.PROGRAM)


_EXITED: Final = tuple(f'{{"exit": {digit}' for digit in range(1, 10))
CELL: Final = "__main__:<cell>"
"""Target of a run that is a cell of a notebook: called with the cell's text, in its kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The run's entry point, its input and its outcome."""

    kind: EntryKind | None = None
    name: str = ""
    target: str = ""
    file: str | None = None
    input: str | None = None
    """Tagged JSON, see `genai.ENTRY_INPUT`."""
    output: str | None = None
    """Tagged JSON."""
    error: str | None = None
    """Tagged JSON of the exception that the entry point raised."""
    random_state: str | None = None
    clock_readings: str | None = None
    flags: str | None = None
    environment: str | None = None
    """JSON object, see `genai.ENTRY_ENVIRONMENT`."""
    argv: str | None = None
    """JSON list, see `genai.ENTRY_ARGV`."""
    user: str | None = None
    tenant: str | None = None
    session: str | None = None
    run_id: str | None = None
    start_time_unix_nano: int = 0
    end_time_unix_nano: int = 0
    """For an unfinished run: the time of its last sign of life."""
    span_id: str = ""
    unfinished: bool = False
    """The run has no recorded end: it is still running, or was killed. See `lifecycle`."""

    @property
    def outcome(self) -> str | None:
        """Return its exception, or else its output."""
        return self.error or self.output

    @property
    def failed(self) -> bool:
        """Return whether it raised, or was a program that exited with another status than 0."""
        is_program = self.kind is not None and not self.kind.is_called
        return self.error is not None or (is_program and (self.output or "").startswith(_EXITED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One trace. `exchanges` are in the order of issue, `spans` in the order of start."""

    trace_id: str
    spans: tuple[SpanRecord, ...]
    entry: Entry
    exchanges: tuple[Exchange, ...]
    enclosing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Span id of a nested exchange -> span id of the exchange around it (a model call inside a tool)."""
    gaps: tuple[Gap, ...] = ()
    """The known gaps: orphan spans, dropped attributes, bodies over the limit, files read in unmarked code."""
    verified: bool = False
    """A replay in another process was identical. Only the store records that, not the spans."""

    @property
    def status(self) -> RunStatus:
        return status_of(unfinished=self.entry.unfinished, failed=self.failed, output=self.entry.output)

    @property
    def failed(self) -> bool:
        """Return whether the run's outermost span ended in an error."""
        return self.entry.failed or any(
            span.status_code is StatusCode.ERROR for span in self.spans if span.span_id == self.entry.span_id
        )


def build_run(spans: Iterable[SpanRecord], *, verified: bool = False) -> Run:
    """Return the run that the spans of one trace form. A span that came twice counts once, a pending one not at all.

    Raises:
        RunError: no spans, or spans of several traces.
        WireError: an exchange span contradicts itself.
    """
    received = list(spans)
    traces = sorted({span.trace_id for span in received})
    if len(traces) != 1:
        raise RunError(f"expected the spans of one trace, found {len(traces)}: {', '.join(traces[:3]) or 'none'}")
    by_id = {span.span_id: span for span in replace_pending(received)}
    ordered = tuple(sorted(by_id.values(), key=lambda span: (span.start_time_unix_nano, span.span_id)))
    exchanges = [exchange for span in ordered if (exchange := exchange_from_span(span)) is not None]
    exchanges.sort(key=lambda exchange: (exchange.sequence, exchange.start_time_unix_nano))
    exchange_ids = {exchange.span_id for exchange in exchanges}
    enclosing = {
        exchange.span_id: outer
        for exchange in exchanges
        if (outer := _enclosing(_above(by_id[exchange.span_id]), by_id, exchange_ids)) is not None
    }
    return Run(
        trace_id=traces[0],
        spans=ordered,
        entry=_entry(ordered),
        exchanges=tuple(exchanges),
        enclosing=enclosing,
        gaps=tuple(counted(_gaps(ordered, by_id))),
        verified=verified,
    )


def _enclosing(span_id: str, by_id: Mapping[str, SpanRecord], exchange_ids: set[str]) -> str | None:
    """Return the outermost exchange above `span_id`: the one that a replay answers in place of all those below it."""
    found: str | None = None
    seen: set[str] = set()
    while span_id in by_id and span_id not in seen:
        seen.add(span_id)
        if span_id in exchange_ids:
            found = span_id
        span_id = _above(by_id[span_id])
    return found


def _above(span: SpanRecord) -> str:
    """Return the span id of the recorded call around the span if it names one, else of its parent."""
    return span.text(genai.EXCHANGE_INSIDE) or span.parent_span_id


def _entry(spans: tuple[SpanRecord, ...]) -> Entry:
    marked = [span for span in spans if genai.ENTRY_KIND in span.attributes]
    roots = [span for span in spans if not span.parent_span_id]
    span = next(iter(marked or roots or spans))
    unfinished = bool(unfinished_entries(spans))
    kind = span.text(genai.ENTRY_KIND)
    return Entry(
        kind=EntryKind(kind) if kind in set(EntryKind) else None,
        name=span.name,
        target=span.text(genai.ENTRY_TARGET) or "",
        file=span.text(genai.ENTRY_FILE),
        input=span.text(genai.ENTRY_INPUT),
        output=span.text(genai.ENTRY_OUTPUT),
        error=span.text(genai.ERROR_CHAIN),
        random_state=_random_state(span, spans),
        clock_readings=span.text(genai.CLOCK_READINGS),
        flags=span.text(genai.FLAGS),
        environment=span.text(genai.ENTRY_ENVIRONMENT),
        argv=span.text(genai.ENTRY_ARGV),
        user=span.text(genai.USER_ID),
        tenant=span.text(genai.TENANT),
        session=span.text(genai.SESSION_ID),
        run_id=span.text(genai.RUN_ID),
        start_time_unix_nano=span.start_time_unix_nano,
        end_time_unix_nano=max(item.end_time_unix_nano for item in spans)
        if unfinished or kind == genai.ENTRY_PROMPT
        else span.end_time_unix_nano,
        span_id=span.span_id,
        unfinished=unfinished,
    )


def _random_state(entry: SpanRecord, spans: tuple[SpanRecord, ...]) -> str | None:
    """Return the state of `random` that a replay begins with.

    If the run drew nothing, it is derived from the run's id, so that a changed program draws the same in each replay.
    """
    recorded_state = entry.text(genai.ENTRY_RANDOM_STATE)
    if recorded_state != genai.RANDOM_UNUSED:
        return recorded_state
    drawn = [state for span in spans if (state := span.text(genai.ENTRY_RANDOM_STATE)) and state != genai.RANDOM_UNUSED]
    return drawn[0] if drawn else json.dumps(random.Random(entry.trace_id).getstate())  # noqa: S311 - no secret


def _gaps(spans: tuple[SpanRecord, ...], by_id: Mapping[str, SpanRecord]) -> Iterable[Gap]:
    orphans = [span for span in spans if span.parent_span_id and not {span.parent_span_id, _above(span)} & by_id.keys()]
    if orphans:
        first = f"{orphans[0].name} ({orphans[0].span_id})"
        yield Gap(kind=GapKind.ORPHAN_SPANS, text=f"{len(orphans)} spans name a parent that is not here, the first: {first}")
    made = sum(span.integer(genai.ENTRY_EXCHANGES) or 0 for span in spans)
    lost = made - sum(genai.EXCHANGE_KIND in span.attributes for span in spans)
    if lost > 0:
        yield Gap(
            kind=GapKind.EXCHANGES_LOST,
            text=f"{lost} of the {made} calls that the run made are missing: a replay will miss them",
            do="look for dropped spans with `freezeframe doctor` where it ran, `freezeframe status` where it was collected",
        )
    if unfinished_entries(spans):
        text = (
            "no end was recorded (still running, killed, or replaced by another program): a replay goes as far as the recording"
        )
        yield Gap(kind=GapKind.UNFINISHED, text=text)
    for span in spans:
        yield from span_gaps(span)


# -- the replay kit -----------------------------------------------------------------------------------------------------


class KitScope(StrEnum):
    """The spans of a run that must carry a kit field."""

    ENTRY = "entry"
    RESOURCE = "resource"
    MODEL = "model"
    TOOL = "tool"
    RETRIEVAL = "retrieval"
    TOOL_SPAN = "tool_span"
    """Spans of another instrumentation that describe a tool call, in a run without exchanges."""
    RETRIEVAL_SPAN = "retrieval_span"


KINDS_IN: Final[Mapping[KitScope, tuple[Kind, ...]]] = {
    KitScope.MODEL: (Kind.MODEL,),
    KitScope.TOOL: (Kind.TOOL, Kind.MCP),
    KitScope.RETRIEVAL: (Kind.RETRIEVAL,),
}
"""Scope -> the kinds of the exchanges in it."""
OPERATION_IN: Final[Mapping[KitScope, str]] = {
    KitScope.TOOL_SPAN: genai.OP_EXECUTE_TOOL,
    KitScope.RETRIEVAL_SPAN: genai.OP_RETRIEVAL,
}
"""Scope -> the operation of its spans, which are not exchanges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KitField:
    """One thing that a run depended on.

    Present if every span in `scope` has one of `attributes` and no attribute of `omitted`.
    """

    name: str
    level: int
    scope: KitScope
    attributes: tuple[str, ...]
    means: str
    omitted: str | None = None

    def carried_by(self, attributes: Attributes) -> bool:
        """Return whether a span (or its resource) with these attributes carries the field."""
        return any(name in attributes for name in self.attributes) and (self.omitted is None or self.omitted not in attributes)


def _kit(name: str, level: int, scope: KitScope, attributes: tuple[str, ...], means: str) -> KitField:
    omitted = next((_OMITTED[attribute] for attribute in attributes if attribute in _OMITTED), None)
    return KitField(name=name, level=level, scope=scope, attributes=attributes, means=means, omitted=omitted)


_OMITTED = {genai.REQUEST_BODY: genai.REQUEST_BODY_OMITTED, genai.RESPONSE_BODY: genai.RESPONSE_BODY_OMITTED}


LEVELS: Final[Mapping[int, str]] = {
    0: "nothing to re-enact",
    1: "steps logged",
    2: "tool input and output frozen",
    3: "completions frozen",
    4: "model pinned",
    5: "environment recorded",
    6: "hermetic",
}
RE_ENACTED_FROM: Final = 3
"""The lowest level at which a run can be re-enacted by itself. Below it, a run is a cold case."""
NO_EXCHANGES: Final = "no_exchanges"
"""Reason why a run without exchanges misses the next level, whatever else it lacks."""
UNSEEN: Final = ", not verified"
NOT_VERIFIED: Final = "not_verified"
"""Reason why a run without gaps misses level 6: no replay of it was identical, and no recording covers everything."""

_ANSWER = (genai.RESPONSE_BODY, genai.ERROR_CHAIN)

KIT: tuple[KitField, ...] = (
    _kit("tool_request", 2, KitScope.TOOL, (genai.REQUEST_BODY,), "arguments as the tool got them"),
    _kit("tool_response", 2, KitScope.TOOL, _ANSWER, "result or exception, exact"),
    _kit("retrieval_request", 2, KitScope.RETRIEVAL, (genai.REQUEST_BODY,), "query as the retriever got it"),
    _kit("retrieval_response", 2, KitScope.RETRIEVAL, _ANSWER, "chunks with ids, content and scores"),
    _kit("model_request", 3, KitScope.MODEL, (genai.REQUEST_BODY,), "request bytes: prompt, tools, every parameter"),
    _kit("model_response", 3, KitScope.MODEL, _ANSWER, "response bytes or the error raised"),
    _kit("model_chunks", 3, KitScope.MODEL, (genai.RESPONSE_CHUNK_SIZES, genai.ERROR_CHAIN), "chunk borders and offsets"),
    _kit("model_completion", 3, KitScope.MODEL, (genai.RESPONSE_COMPLETION,), "how the response ended"),
    _kit("entry_point", 3, KitScope.ENTRY, (genai.ENTRY_TARGET,), "the function or command that was run"),
    _kit("entry_input", 3, KitScope.ENTRY, (genai.ENTRY_INPUT,), "what it was run with"),
    _kit("model_requested", 4, KitScope.MODEL, (genai.REQUEST_MODEL,), "model id asked for"),
    _kit("provider", 4, KitScope.MODEL, (genai.PROVIDER_NAME,), "who was asked"),
    _kit("endpoint", 4, KitScope.MODEL, (genai.URL_FULL, genai.SERVER_ADDRESS), "where"),
    _kit("commit", 5, KitScope.RESOURCE, (genai.VCS_REVISION,), "commit of the agent's code"),
    _kit("commit_dirty", 5, KitScope.RESOURCE, (genai.VCS_DIRTY,), "whether the code differed from the commit"),
    _kit("python_version", 5, KitScope.RESOURCE, (genai.RUNTIME_VERSION,), "Python's version"),
    _kit("package_versions", 5, KitScope.RESOURCE, (genai.PACKAGES,), "versions of SDKs and frameworks"),
    _kit("time_zone", 5, KitScope.RESOURCE, (genai.TIMEZONE,), "local time zone"),
    _kit("environment", 5, KitScope.ENTRY, (genai.ENTRY_ENVIRONMENT,), "variables such as base URLs and regions"),
    _kit("flags", 5, KitScope.ENTRY, (genai.FLAGS,), "feature flags with their values"),
    _kit("random_state", 5, KitScope.ENTRY, (genai.ENTRY_RANDOM_STATE,), "state of `random` at entry"),
    _kit(
        "tool_span_request",
        2,
        KitScope.TOOL_SPAN,
        (genai.TOOL_CALL_ARGUMENTS,),
        "arguments, as another instrumentation reports them",
    ),
    _kit(
        "tool_span_response",
        2,
        KitScope.TOOL_SPAN,
        (genai.TOOL_CALL_RESULT, genai.ERROR_TYPE),
        "result or kind of error, likewise",
    ),
    _kit("retrieval_span_request", 2, KitScope.RETRIEVAL_SPAN, (genai.RETRIEVAL_QUERY,), "query, likewise"),
    _kit(
        "retrieval_span_response", 2, KitScope.RETRIEVAL_SPAN, (genai.RETRIEVAL_DOCUMENTS, genai.ERROR_TYPE), "chunks, likewise"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A kit field that some spans lack."""

    field: KitField
    span_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The level that a run can reach, and the names of everything it lacks for the next ones."""

    level: int
    missing: tuple[Missing, ...]
    blocking: tuple[str, ...] = ()
    """Everything missing for the next level: names of kit fields, kinds of gaps, or `NO_EXCHANGES`."""

    @property
    def means(self) -> str:
        """Return the level in words."""
        return LEVELS[self.level] + (UNSEEN if NOT_VERIFIED in self.blocking else "")

    @property
    def cold(self) -> bool:
        """Return whether the run cannot be re-enacted by itself: a cold case."""
        return self.level < RE_ENACTED_FROM


def spans_in_scope(run: Run, scope: KitScope) -> list[SpanRecord]:
    """Return the spans of the run that must carry a kit field of `scope`. Nested exchanges count too."""
    if scope in (KitScope.ENTRY, KitScope.RESOURCE):
        return [span for span in run.spans if span.span_id == run.entry.span_id]
    if scope in OPERATION_IN:
        # What another instrumentation records next to our exchanges is not used for a replay.
        spans = () if run.exchanges else run.spans
        return [span for span in spans if span.text(genai.OPERATION_NAME) == OPERATION_IN[scope]]
    return [span for span in run.spans if span.text(genai.EXCHANGE_KIND) in KINDS_IN[scope]]


def readiness(run: Run) -> Readiness:
    """Return how far the run can be re-enacted: one level below the first that `KIT` or a gap rules out.

    Level 6 is earned: no gap is known, and a replay of the run was identical.

    A run without exchanges reaches level 2 at most, if another instrumentation recorded its tools. Below level 3, a run
    that used no tool stays at level 1: it has no tool output to freeze.
    """
    scopes = {scope: spans_in_scope(run, scope) for scope in KitScope}
    lacking: dict[KitField, list[str]] = defaultdict(list)
    for kit_field in KIT:
        for span in scopes[kit_field.scope]:
            carried = span.resource.attributes if kit_field.scope is KitScope.RESOURCE else span.attributes
            if not kit_field.carried_by(carried):
                lacking[kit_field].append(span.span_id)
    missing = tuple(Missing(field=kit_field, span_ids=tuple(ids)) for kit_field, ids in lacking.items())
    ceilings = {item.field.name: item.field.level - 1 for item in missing} | {gap.kind.value: gap.ceiling for gap in run.gaps}
    level = min(ceilings.values(), default=max(LEVELS))
    if level == max(LEVELS) and not run.verified:
        ceilings[NOT_VERIFIED] = level = max(LEVELS) - 1
    blocking = tuple(sorted(name for name, ceiling in ceilings.items() if ceiling == level))
    if not run.exchanges:
        level, blocking = min(level, 2), (NO_EXCHANGES,)
    used_tools = any(scopes[scope] for scope in (*KINDS_IN, *OPERATION_IN) if scope is not KitScope.MODEL)
    if level == 2 and not used_tools:
        level = 1
    return Readiness(level=level if run.spans else 0, missing=missing, blocking=blocking)
