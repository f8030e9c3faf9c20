"""The status of a run (ok, failed, ended, unfinished), and the pending span that marks its start until the entry span comes.

OpenTelemetry knows a span only once it has ended, so a process that is killed would take its run's entry with it. A *pending
span* goes out when an entry point begins. It is a child of the entry span, with its own id: a backend that keeps the
first of two spans with one id would otherwise never show the entry's end. It holds the entry point's input and
environment. Whenever
we read a run, `replace_pending` puts the entry span in its place. If the entry span never arrived, the pending
span replaces it, and the run
is *unfinished*: still running, or killed.

`status_of` and `status_sql` are generated from the same rows, `_RULES`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

NO_PARENT: Final = "0" * 16
"""Parent id in a pending span whose entry span has no parent: OpenTelemetry's invalid span id."""


COLLECTOR_HEADER: Final = "freezeframe-collector"
"""A collector's answers to traces have it, as a header or as gRPC's trailing metadata. Any other receiver would show a pending
span as a second one, so a sender that does not know who receives asks first.
"""


class RunStatus(StrEnum):
    """End of a run, as far as recorded. The values are those of the column ``runs.status``."""

    OK = "ok"
    """Every entry point that began has ended, and the outermost one did not end in an error."""
    FAILED = "error"
    """The outermost entry point ended in an error."""
    ENDED = "ended"
    """A program ended without an exception, and its exit status is not known, so it may have failed."""
    UNFINISHED = "unfinished"
    """An entry point began, and its end was not recorded: it is still running, or was killed."""

    @property
    def word(self) -> str:
        return "failed" if self is RunStatus.FAILED else self.value


NOT_OK: Final = (RunStatus.FAILED, RunStatus.UNFINISHED)
"""Statuses that `runs --failed` lists."""

_RULES: Final = ((RunStatus.UNFINISHED, "unfinished"), (RunStatus.FAILED, "failed"), (RunStatus.ENDED, "exit_unknown"))
"""A status and the condition for it; the first that is true wins."""


EXIT_UNKNOWN: Final = '{"exit": null, "stdout"'
"""Start of the output of a program whose exit status is not known."""


def status_of(*, unfinished: bool, failed: bool, output: str | None) -> RunStatus:
    """Return a run's status: whether one of its entry points has no end, and how its outermost one ended."""
    facts = {"unfinished": unfinished, "failed": failed, "exit_unknown": (output or "").startswith(EXIT_UNKNOWN)}
    return next((status for status, fact in _RULES if facts[fact]), RunStatus.OK)


def status_sql(*, unfinished: str, failed: str, output: str) -> str:
    """Return `status_of` as an SQL expression over two conditions and a text."""
    facts = {"unfinished": unfinished, "failed": failed, "exit_unknown": f"startsWith({output}, '{EXIT_UNKNOWN}')"}
    rules = ", ".join(f"{facts[fact]}, '{status.value}'" for status, fact in _RULES)
    return f"multiIf({rules}, '{RunStatus.OK.value}')"


def is_pending(span: SpanRecord) -> bool:
    """Return whether the span records that an entry point began."""
    return genai.ENTRY_BEGUN in span.attributes


def replace_pending(spans: Iterable[SpanRecord]) -> list[SpanRecord]:
    """Return the spans with each pending one left out, or in place of its entry span if that is missing."""
    received = list(spans)
    ended = {span.span_id for span in received if not is_pending(span)}
    settled = [span if not is_pending(span) else _as_entry(span) for span in received]
    return [span for span, original in zip(settled, received, strict=True) if span is original or span.span_id not in ended]


def unfinished_entries(settled: Iterable[SpanRecord]) -> Collection[str]:
    """Return the ids of the entry spans, of those that `replace_pending` returned, whose end was not recorded."""
    return {span.span_id for span in settled if is_pending(span)}


def _as_entry(pending: SpanRecord) -> SpanRecord:
    parent = pending.text(genai.ENTRY_BEGUN) or NO_PARENT
    return replace(pending, span_id=pending.parent_span_id, parent_span_id="" if parent == NO_PARENT else parent)
