"""Gaps: the known omissions of a run, each with the highest level that the run can still reach, and its remedy.

The one definition for Python and SQL: a row of the store holds the kinds of its span's gaps, and the view `readiness` uses
`CEILINGS`, as `run.readiness` does.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from freezeframe_schemas import genai, values
from freezeframe_schemas.span import SpanRecord


class GapKind(StrEnum):
    ORPHAN_SPANS = "orphan_spans"
    EXCHANGES_LOST = "exchanges_lost"
    """The run made more exchanges than it has spans for."""
    ATTRIBUTES_DROPPED = "attributes_dropped"
    REQUEST_OMITTED = "request_omitted"
    RESPONSE_OMITTED = "response_omitted"
    RESULT_OPAQUE = "result_opaque"
    HTTP_UNRECORDED = "http_unrecorded"
    ENTRY_UNREACHABLE = "entry_unreachable"
    MAIN_GUARD = "main_guard"
    INPUT_OPAQUE = "input_opaque"
    INPUT_CHANGED = "input_changed"
    FILE_READ = "file_read"
    FILE_WRITTEN = "file_written"
    DATABASE = "database"
    CONNECTION = "connection"
    PROCESS = "process"
    UNFINISHED = "unfinished"
    """The run's end was not recorded, so neither were its outcome and the gaps reported with it."""
    CALLER_LEFT = "caller_left"
    """The run was ended from outside (its caller gave up or went away), which a replay does not repeat."""
    TOOL_CHANGES = "tool_changes"
    """A tool changed its arguments, and a replay, which does not run it, serves only its result."""
    CARRIED_OVER = "carried_over"
    """An earlier run of the process changed something that this one's code names."""
    RESULT_CHANGED = "result_changed"
    """A call's result or exception is rebuilt similar, but not equal."""
    OUTCOME_PARTLY = "outcome_partly"
    """A replay does not compare some effect of the entry point. The run can be re-enacted all the same."""
    RANDOM_UNRECORDED = "random_unrecorded"
    CLOCK_UNRECORDED = "clock_unrecorded"
    """The program reads the time past the clock that a replay sets."""
    WORKER = "worker"
    """The run is a worker process's part of the program that started it."""
    STARTED_BY = "started_by"
    """Another recorded program started this one. It can be re-enacted all the same."""
    HASH_SEED = "hash_seed"
    """The program makes sets or hashes, whose seed is not known. A replay may be identical all the same."""
    VARIABLE = "variable"
    """The program names an environment variable that is not recorded. A replay may be identical all the same."""
    UNREAD = "unread"
    """The collector's redaction could not read everything in time and kept hashes."""
    UNSEEN = "unseen"
    """A record that this version cannot read."""


CEILINGS: Final[Mapping[GapKind, int]] = {
    **dict.fromkeys(GapKind, 5),
    **dict.fromkeys((GapKind.OUTCOME_PARTLY, GapKind.HASH_SEED, GapKind.VARIABLE, GapKind.STARTED_BY), 6),
    # With one of these, the run cannot be started again by itself, or one of its steps cannot be answered.
    **dict.fromkeys(
        (
            GapKind.ENTRY_UNREACHABLE,
            GapKind.WORKER,
            GapKind.INPUT_OPAQUE,
            GapKind.REQUEST_OMITTED,
            GapKind.RESPONSE_OMITTED,
            GapKind.EXCHANGES_LOST,
            GapKind.UNREAD,
        ),
        2,
    ),
}
"""Kind -> the highest level that a run with such a gap reaches."""
OF_ANOTHER: Final = frozenset({GapKind.WORKER, GapKind.STARTED_BY})
"""Gaps of a run that one program made for another: ``last`` never means such a run."""
_KINDS: Final = frozenset(GapKind)


NOT_REPEATED: Final = "which a replay does not do"
NOT_WHOLE: Final = "which a replay does not give back whole"
NOT_SET: Final = "which a replay does not set"
"""One of these three, or `NOT_MARKED`, is in the text of each gap by which a replay of unchanged code may diverge."""
NOT_MARKED: Final = "outside any tool"
KEPT_ANSWER: Final = "an answer that it kept from an earlier run"
"""In the text of the gaps by which a replay of unchanged code diverges for certain."""
NOT_COMPARED: Final = "a replay does not compare "
"""Start of the text of each gap that a verdict has to name; the uncompared part of the outcome follows."""

OF_A_WORKER: Final = "the run is what a worker process did for the program that started it, and a replay does not start workers"

EFFECTS: Final[Mapping[GapKind, str]] = {
    GapKind.FILE_WRITTEN: "what it does to files outside its steps",
    GapKind.PROCESS: "what it gives to programs that it starts",
    GapKind.DATABASE: "what it does in databases outside its steps",
}
"""Kind -> uncompared effects of a run with such a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One thing that the run is known to lack."""

    kind: GapKind
    text: str
    """The omission, and its place."""
    do: str = ""
    """The remedy."""

    @property
    def ceiling(self) -> int:
        """Return the highest level that a run with this gap reaches."""
        return CEILINGS[self.kind]

    def __str__(self) -> str:
        return f"{self.text}: {self.do}" if self.do else self.text


def gaps_to_json(gaps: Iterable[Gap]) -> str:
    """Return the gaps seen while recording, in the form that the entry span holds (`genai.ENTRY_GAPS`)."""
    return json.dumps([{"kind": gap.kind.value, "text": gap.text, "do": gap.do} for gap in gaps], ensure_ascii=False)


def span_gaps(span: SpanRecord) -> Iterator[Gap]:
    """Yield the gaps that the span alone shows. Never raises: anything unreadable in it is itself a gap."""
    attributes = span.attributes
    where = f"span {span.span_id} ({span.name})"
    if span.dropped_attributes_count:
        yield Gap(
            kind=GapKind.ATTRIBUTES_DROPPED,
            text=f"{where}: {span.dropped_attributes_count} attributes dropped by its SDK",
            do="raise its limit, OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
        )
    if genai.REDACTION_UNREAD in attributes:
        reason = span.text(genai.REDACTION_UNREAD) or ""
        limit = "request_cpu_s" if "request_cpu_s" in reason else "span_cpu_s"
        do = f"raise redaction.{limit} of the collector"
        if reason.startswith("detector "):
            do = "see that the detector answers in time"
        is_replayed = genai.EXCHANGE_KIND in attributes or genai.ENTRY_KIND in attributes
        yield Gap(
            # On a span that no replay asks for, this is the effect of an SDK's limit.
            kind=GapKind.UNREAD if is_replayed else GapKind.ATTRIBUTES_DROPPED,
            text=f"{where}: its longest texts are hashes, {reason}",
            do=do,
        )
    if genai.UNRECORDED_HTTP in attributes:
        yield from _unrecorded_http(span)
    if genai.ENTRY_GAPS in attributes:
        yield from _seen_while_recording(span)
    if genai.ENTRY_KIND in attributes and (left := _ended_from_outside(span.text(genai.ERROR_CHAIN))):
        yield Gap(
            kind=GapKind.CALLER_LEFT,
            text=f"the run was ended from outside ({left}), {NOT_REPEATED}: it may continue where the run did not",
            do="mark the function that sets the deadline",
        )
    if genai.EXCHANGE_KIND not in attributes:
        return
    for kind, part, attribute in (
        (GapKind.REQUEST_OMITTED, "request", genai.REQUEST_BODY_OMITTED),
        (GapKind.RESPONSE_OMITTED, "response", genai.RESPONSE_BODY_OMITTED),
    ):
        if attribute in attributes:
            why = span.text(attribute) or ""
            do = "raise max_body_bytes" if why.startswith("over limit") else ""
            yield Gap(kind=kind, text=f"{where}: {part} body not kept, {why}", do=do)
    body = span.text(genai.RESPONSE_BODY)
    if genai.HTTP_REQUEST_METHOD not in attributes and body is not None and values.is_opaque(body):
        yield Gap(
            kind=GapKind.RESULT_OPAQUE,
            text=f"the result of {span.name} holds a {_opaque_class(body)}, {NOT_WHOLE}",
            do="return plain data from it: JSON types, dataclasses, pydantic models",
        )


def _opaque_class(body: str) -> str:
    """Return the class of the first object in a result that cannot be rebuilt."""
    found = _OPAQUE.search(body)
    return found[1] if found else "value of an unknown class"


def counted(gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Yield each gap once, with the number of its spans: a call in a loop has one cause."""
    counts = Counter(gaps)
    for gap, count in counts.items():
        yield gap if count == 1 else replace(gap, text=f"{gap.text} ({count} calls)")


def _ended_from_outside(error: str | None) -> str:
    """Return the name of the exception (tagged JSON) with which the caller of an entry point ended it; else nothing."""
    found = _CLASS.match(error or "")
    return found[1] if found else ""


_OPAQUE: Final = re.compile(r'\{"\$type": ?"opaque", ?"class": ?"([^"]+)"')
_CLASS: Final = re.compile(r'\{"\$type": "exception", "class": "[\w.]+:(CancelledError|GeneratorExit|KeyboardInterrupt)"')


def _unrecorded_http(span: SpanRecord) -> Iterator[Gap]:
    text = span.text(genai.UNRECORDED_HTTP) or ""
    try:
        counts = {str(host): int(count) for host, count in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        yield _unreadable(span, genai.UNRECORDED_HTTP, text, "JSON {host: count}")
        return
    for host, count in counts.items():
        yield Gap(
            kind=GapKind.HTTP_UNRECORDED,
            text=f"{count} HTTP calls to {host} were not recorded, a replay will miss them",
            do="name the host in record_hosts, or make them in a function marked @freezeframe.tool",
        )


def _seen_while_recording(span: SpanRecord) -> Iterator[Gap]:
    text = span.text(genai.ENTRY_GAPS) or ""
    try:
        rows: list[Any] = json.loads(text)
        read = [(str(row["kind"]), str(row["text"]), str(row.get("do", ""))) for row in rows]
    except (ValueError, TypeError, KeyError, AttributeError):
        yield _unreadable(span, genai.ENTRY_GAPS, text, "a JSON list of {kind, text, do}")
        return
    for kind, what, do in read:
        # A later version may know more kinds; we still know that something is missing.
        yield Gap(kind=GapKind(kind) if kind in _KINDS else GapKind.UNSEEN, text=what, do=do)


def _unreadable(span: SpanRecord, name: str, found: str, expected: str) -> Gap:
    return Gap(kind=GapKind.UNSEEN, text=f"span {span.span_id}: {name}: found {found!r:.80}, expected {expected}")
