"""Outline: the shown parts of a run, as a value, which the terminal, the page and JSON render. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from freezeframe_replay.report.tagged import call_text, error_text, outcome_text
from freezeframe_replay.sources.scores import RunScore
from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Completion, Exchange, Kind, Request, Response, format_lane
from freezeframe_schemas.fixture import Fixture, Loss
from freezeframe_schemas.lane_names import ROOT_LANE, lane_names
from freezeframe_schemas.lifecycle import RunStatus, is_pending, status_of
from freezeframe_schemas.run import KIT, NOT_VERIFIED, Entry, Run, readiness, spans_in_scope
from freezeframe_schemas.span import SpanRecord, StatusCode
from freezeframe_schemas.tables.previews import input_preview
from freezeframe_schemas.wire import decode_body
from freezeframe_schemas.wire.document import as_object, parse

_REPORTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(genai.MODEL_OPERATIONS, Kind.MODEL.value),
    genai.OP_EXECUTE_TOOL: Kind.TOOL.value,
    genai.OP_RETRIEVAL: Kind.RETRIEVAL.value,
}
"""Kind of call that a span of another instrumentation reports, by its operation."""
_VERIFY: Final = "replay it: level 6 is that of a run whose replay was seen to be identical"
_NO_END: Final = "none: no end was recorded; the run is still going, or was killed"
_ASKED: Final = (genai.TOOL_CALL_ARGUMENTS, genai.RETRIEVAL_QUERY, genai.INPUT_MESSAGES)
_ANSWERED: Final = (genai.TOOL_CALL_RESULT, genai.OUTPUT_MESSAGES, genai.RETRIEVAL_DOCUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One line of the tree."""

    depth: int
    step: int | None
    """Number of the step as replay reports name it; None for spans that are not exchanges."""
    inside: int | None = None
    """Step that answers for this one in a replay."""
    kind: str
    """``run``, a `Kind`, or ``span``. In a run without exchanges, another instrumentation's report gives the kind."""
    name: str
    detail: str = ""
    """Model, arguments or query in a few words."""
    ms: float
    status: str
    failed: bool
    tokens: tuple[int, int] | None = None
    """Input and output tokens of a model call."""
    lane: str = ""
    lane_name: str = ""
    """The lane as `lane_names` calls it."""
    agent: str = ""
    """The agent that made the call, as a framework or another instrumentation names it."""
    span_id: str
    attempt: Attempt | None = None
    """Set if the call was made more than once."""
    request: str | None = None
    """Body as text, or the request as another instrumentation reports it; set if the whole outline was requested."""
    response: str | None = None

    @property
    def is_uncounted(self) -> bool:
        """Return whether it is an answered call of a model whose tokens were not counted."""
        return self.kind == Kind.MODEL.value and self.tokens is None and not self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class KitRow:
    """One field of the replay kit, and the number of spans that have it, of those that need it."""

    name: str
    level: int
    means: str
    present: int
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A run in the form that is shown."""

    run_id: str
    name: str
    status: RunStatus
    start_time_unix_nano: int
    ms: float
    """For an unfinished run: until its last sign of life."""
    entry_kind: str | None
    entry_target: str
    entry_file: str | None
    called_with: str
    """The recorded input as a call, ``answer("Where is my order?", user="u1")``."""
    outcome: str
    """``returned "..."``, ``raised KeyError: 'x'``, or ``not recorded``."""
    who: Mapping[str, str]
    """The known ones of user, tenant, session, run."""
    environment: Mapping[str, str]
    nodes: tuple[Node, ...]
    kit: tuple[KitRow, ...] = ()
    level: int | None = None
    level_means: str = ""
    missing: tuple[str, ...] = ()
    """Names of the kit fields that are incomplete, those of the lowest level first."""
    gaps: tuple[str, ...] = ()
    cold: bool = False
    """True if the run cannot be re-enacted by itself."""
    advice: tuple[str, ...] = ()
    """Remedies for the gaps below the next level."""
    ledger: tuple[Loss, ...] = ()
    """Values that a run of another instrumentation lacks, and their other sources."""
    failure: tuple[str, ...] = ()
    """The failure of the run, or handled failures in it: a line each. Empty for an outline of a fixture."""
    reconstructed: int = 0
    """Number of steps of its reconstruction."""
    scores: tuple[RunScore, ...] = ()
    """Verdicts on the run and its steps; only a store has them."""

    @property
    def steps(self) -> int:
        """Return the number of steps that a replay answers."""
        return self.reconstructed or sum(1 for node in self.nodes if node.step is not None)


def _rebuilt(run: Run) -> Fixture | None:
    """Return another instrumentation's run as a fixture, None for any other run."""
    if run.exchanges:
        return None
    from freezeframe_replay.engine.reconstruct import can_be_reconstructed, reconstruct

    return reconstruct(run) if can_be_reconstructed(run) else None


def outline_run(run: Run, *, full: bool = False) -> Outline:
    """Return the outline of a run from the store; `full` adds the bodies of its exchanges."""
    numbers = {exchange.span_id: number for number, exchange in enumerate(run.exchanges, 1)}
    sent_before = {span.span_id: span.integer(genai.HTTP_REQUEST_RESEND_COUNT) or 0 for span in run.spans}
    attempts = attempts_of((exchange, sent_before[exchange.span_id]) for exchange in run.exchanges)
    exchanges = {exchange.span_id: exchange for exchange in run.exchanges}
    reached = readiness(run)
    entry_span = next((span for span in run.spans if span.span_id == run.entry.span_id), run.spans[0])
    fields = _entry_fields(run.entry)
    prompt = (entry_span.text(genai.INPUT_MESSAGES) or "").encode(errors="replace")  # as another instrumentation reports it
    rebuilt = _rebuilt(run)
    fields["called_with"] = fields["called_with"] or input_preview({genai.INPUT_MESSAGES: prompt})
    return Outline(
        **fields,
        run_id=run.trace_id,
        status=run.status,
        environment=_environment(entry_span.resource.attributes),
        nodes=tuple(_in_context(_nodes(run, numbers, exchanges, full), lane_names(run.exchanges), attempts)),
        kit=tuple(_kit(run)),
        level=reached.level,
        level_means=reached.means,
        missing=tuple(item.field.name for item in sorted(reached.missing, key=lambda item: item.field.level)),
        gaps=tuple(str(gap) for gap in run.gaps),
        cold=reached.cold,
        advice=tuple(dict.fromkeys(gap.do for gap in run.gaps if gap.kind in reached.blocking and gap.do))
        or ((_VERIFY,) if NOT_VERIFIED in reached.blocking else ()),
        ledger=() if rebuilt is None else rebuilt.ledger,
        reconstructed=0 if rebuilt is None else len(rebuilt.steps),
    )


def outline_fixture(fixture: Fixture, *, full: bool = False) -> Outline:
    """Return the outline of a fixture. It contains only exchanges, so spans and readiness are unknown."""
    exchanges = [step.exchange for step in fixture.steps]
    depth: dict[int, int] = {}
    nodes: list[Node] = []
    for step in fixture.steps:
        at = depth[step.number] = 0 if step.inside is None else depth.get(step.inside, 0) + 1
        nodes.append(_exchange_node(step.exchange, depth=at, step=step.number, inside=step.inside, model=step.model, full=full))
    return Outline(
        **_entry_fields(fixture.entry),
        run_id=fixture.run_id,
        status=status_of(unfinished=fixture.entry.unfinished, failed=fixture.entry.failed, output=fixture.entry.output),
        environment=_environment(fixture.environment),
        nodes=tuple(_in_context(nodes, lane_names(exchanges), attempts_of((exchange, 0) for exchange in exchanges))),
        gaps=fixture.gaps,
        ledger=fixture.ledger,
    )


# -- the tree -----------------------------------------------------------------------------------------------------------


def _nodes(run: Run, numbers: Mapping[str, int], exchanges: Mapping[str, Exchange], full: bool) -> Iterable[Node]:
    known = {span.span_id for span in run.spans}
    children: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in run.spans:
        parent = span.parent_span_id if span.parent_span_id in known else run.enclosing.get(span.span_id, "")
        parent = "" if parent == span.span_id else parent
        children[parent].append(span)
    shown: set[str] = set()
    # spans that name each other as parents are below no root: they are listed after the tree, not lost
    todo = [(span, 0) for span in reversed(children[""])]
    rest = iter(run.spans)
    while True:
        while todo:
            span, depth = todo.pop()
            if span.span_id in shown:
                continue
            shown.add(span.span_id)
            yield _node(run, span, depth, numbers, exchanges, full)
            todo += [(child, depth + 1) for child in reversed(children[span.span_id])]
        lost = next((span for span in rest if span.span_id not in shown), None)
        if lost is None:
            return
        todo.append((lost, 0))


def _in_context(nodes: Iterable[Node], lanes: Mapping[str, str], attempts: Mapping[str, Attempt]) -> Iterable[Node]:
    """Yield the nodes with what only the calls around them show."""
    for node in nodes:
        lane = "" if node.step is None else lanes["" if node.lane == ROOT_LANE else node.lane]
        yield replace(node, lane_name=lane, attempt=attempts.get(node.span_id))


def _node(
    run: Run, span: SpanRecord, depth: int, numbers: Mapping[str, int], exchanges: Mapping[str, Exchange], full: bool
) -> Node:
    exchange = exchanges.get(span.span_id)
    if exchange is not None:
        outer = run.enclosing.get(span.span_id)
        return _exchange_node(
            exchange,
            depth=depth,
            step=numbers[span.span_id],
            inside=None if outer is None else numbers.get(outer),
            model=span.text(genai.REQUEST_MODEL),
            tokens=_tokens(span),
            agent=span.text(genai.AGENT_NAME) or "",
            full=full,
        )
    failed = span.status_code is StatusCode.ERROR
    tool = span.text(genai.TOOL_NAME) or ""
    own_kind = "span" if run.exchanges else call_kind(span, None)
    return Node(
        depth=depth,
        step=None,
        kind="run" if span.span_id == run.entry.span_id else own_kind,
        name=span.name,
        detail=span.text(genai.REQUEST_MODEL) or ("" if tool in span.name else tool),
        ms=_ms(span.start_time_unix_nano, run.entry.end_time_unix_nano if is_pending(span) else span.end_time_unix_nano),
        status=span.text(genai.ERROR_TYPE) or "error" if failed else RunStatus.UNFINISHED if is_pending(span) else "ok",
        failed=failed,
        tokens=_tokens(span),
        span_id=span.span_id,
        request=_first(span, _ASKED) if full else None,
        response=_first(span, _ANSWERED) if full else None,
    )


def call_kind(span: SpanRecord, exchange: Exchange | None) -> str:
    """Return the kind of the call that a span holds or reports: a `Kind`, or ``span`` if it is not a call."""
    if exchange is not None:
        return exchange.kind.value
    return _REPORTED.get(span.text(genai.OPERATION_NAME) or "", "span")


def _first(span: SpanRecord, names: Iterable[str]) -> str | None:
    return next((text for name in names if (text := span.text(name))), None)


def _exchange_node(
    exchange: Exchange,
    *,
    depth: int,
    step: int,
    inside: int | None,
    model: str | None = None,
    tokens: tuple[int, int] | None = None,
    agent: str = "",
    full: bool = False,
) -> Node:
    status, failed = _status(exchange)
    return Node(
        depth=depth,
        step=step,
        inside=inside,
        kind=exchange.kind.value,
        name=exchange.name,
        detail=_detail(exchange, model),
        ms=_ms(exchange.start_time_unix_nano, exchange.end_time_unix_nano),
        status=status,
        failed=failed,
        tokens=tokens,
        lane=format_lane(exchange.lane) or ROOT_LANE,
        agent=agent,
        span_id=exchange.span_id,
        request=_body(exchange.request) if full else None,
        response=(_body(exchange.response) or error_text(exchange.error or "")) if full else None,
    )


def _status(exchange: Exchange) -> tuple[str, bool]:
    """Return the answer's status in a word or two, and whether it is a failure."""
    status, completion = exchange.response.status, exchange.response.completion
    words = [] if status is None else [str(status)]
    if exchange.error is not None:
        words.append(error_text(exchange.error).partition(":")[0])
    elif completion in (Completion.CLOSED_EARLY, Completion.BROKEN):
        words.append(completion.value.replace("_", " "))
    failed = exchange.error is not None or completion is Completion.BROKEN or (status is not None and status >= 400)
    return " ".join(words) or "ok", failed


def _detail(exchange: Exchange, model: str | None) -> str:
    if exchange.kind is Kind.MODEL:
        return model or ""
    if exchange.request.method:
        return urlsplit(exchange.request.url).netloc
    return call_text("", exchange.request.body.decode(errors="replace"))


def _tokens(span: SpanRecord) -> tuple[int, int] | None:
    """Return the counts; None if none were made: instrumentations write 0 and 0 for a stream without its usage."""
    into, out = span.integer(genai.USAGE_INPUT_TOKENS), span.integer(genai.USAGE_OUTPUT_TOKENS)
    return (into or 0, out or 0) if into or out else None


def _ms(start_ns: int, end_ns: int) -> float:
    return round(max(end_ns - start_ns, 0) / 1e6, 3)


def _body(part: Request | Response) -> str:
    """Return a body in readable form: without its content-encoding, or a description if it is not text."""
    if part.omitted:
        return f"<not kept: {part.omitted}>"
    try:
        return decode_body(part.body, part.headers).decode()
    except (UnicodeDecodeError, WireError):
        return f"<{len(part.body)} bytes that are not text>"


# -- the entry ----------------------------------------------------------------------------------------------------------


def _entry_fields(entry: Entry) -> dict[str, Any]:
    who = {"user": entry.user, "tenant": entry.tenant, "session": entry.session, "run": entry.run_id}
    return {
        "name": entry.name,
        "start_time_unix_nano": entry.start_time_unix_nano,
        "ms": _ms(entry.start_time_unix_nano, entry.end_time_unix_nano),
        "entry_kind": None if entry.kind is None else entry.kind.value,
        "entry_target": entry.target,
        "entry_file": entry.file,
        "called_with": _called_with(entry),
        "outcome": _NO_END if entry.unfinished else outcome_text(entry.outcome, recorded_output=not entry.error),
        "who": {name: text for name, text in who.items() if text},
    }


def _called_with(entry: Entry) -> str:
    if not entry.input:
        return ""
    call = call_text(entry.target.rpartition(":")[2] or entry.name, entry.input)
    words: Any = parse(entry.argv or "")
    return f"{call} with {shlex.join(map(str, words))}" if isinstance(words, list) and words else call


def _environment(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of the code, with readable names."""
    dirty = str(attributes.get(genai.VCS_DIRTY, "")).lower() == "true"
    commit = str(attributes.get(genai.VCS_REVISION, ""))
    rows = {
        "commit": commit + (" with local changes" if commit and dirty else ""),
        "python": str(attributes.get(genai.RUNTIME_VERSION, "")),
        "time zone": str(attributes.get(genai.TIMEZONE, "")),
        "freezeframe": str(attributes.get(genai.LIBRARY_VERSION, "")),
        "packages": _packages(str(attributes.get(genai.PACKAGES, ""))),
    }
    return {name: text for name, text in rows.items() if text}


def _packages(text: str) -> str:
    return ", ".join(f"{name} {version}" for name, version in as_object(parse(text)).items())


def _kit(run: Run) -> Iterable[KitRow]:
    lacking = {item.field.name: len(item.span_ids) for item in readiness(run).missing}
    for field in KIT:
        if expected := len(spans_in_scope(run, field.scope)):
            present = expected - lacking.get(field.name, 0)
            yield KitRow(name=field.name, level=field.level, means=field.means, present=present, expected=expected)


# -- attempts ------------------------------------------------------------------------------------------------------------
# Attempts of one call: requests that a client sent again after an answer that it could not use. Pure.


_TRIED_AGAIN: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which clients send a request again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    number: int
    """From 1."""
    of: int
    before: str
    """Span id of the attempt before it; empty for the first."""

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.of}"


def attempts_of(calls: Iterable[tuple[Exchange, int]]) -> Mapping[str, Attempt]:
    """Return span id -> attempt, of calls that were made more than once.

    Args:
        calls: in their order, each with how often its client says that it was sent before: ``(exchange, 1)``. Where a client
            says nothing, an equal request in the same task or thread, right after one that failed, is another attempt.
    """
    found: dict[str, Attempt] = {}
    open_ones: dict[object, list[tuple[Exchange, int]]] = {}
    for exchange, sent_before in calls:
        if not exchange.request.method:
            continue
        place = (exchange.lane, exchange.request.url)
        row = open_ones.get(place, [])
        if row and (sent_before or _is_repeated(row[-1][0], exchange)):
            row.append((exchange, max(sent_before, row[-1][1]) + 1))
            numbered = enumerate(row)
            found |= {
                item.span_id: Attempt(number=number, of=row[-1][1], before=row[at - 1][0].span_id if at else "")
                for at, (item, number) in numbered
            }
        else:
            open_ones[place] = [(exchange, 1)]
    return found


def _is_repeated(one: Exchange, other: Exchange) -> bool:
    status = one.response.status
    failed = one.error is not None or one.response.completion in (Completion.BROKEN, Completion.NONE)
    is_tried_again = failed or (status is not None and (status >= 500 or status in _TRIED_AGAIN))
    return is_tried_again and one.request.method == other.request.method and one.request.body == other.request.body
