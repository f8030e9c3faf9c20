"""Failure: why a run failed, or which steps of it did, in the order in which one asks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from freezeframe_replay.report.outline import Node, Outline
from freezeframe_replay.report.render import printable, short
from freezeframe_replay.report.tagged import error_text
from freezeframe_schemas import genai
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord

_OTHERS: Final = 8
_REASON: Final = 600
_STACK_LINES: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Failure of a run."""

    what: str
    """Class and message of the exception that ended the run, else its status message; empty for a run that is ok."""
    steps: tuple[Node, ...]
    """The steps that failed, the first of them first. Of a failed call inside a failed call, the inner one comes first."""
    reason: str
    """What the first of them says."""
    stack: str
    """Traceback of the exception, of the run if it has one, else of the first failed step."""


def find_failure(run: Run, outline: Outline) -> Failure | None:
    """Return why the run failed, or what failed in it; None if nothing did."""
    spans = {span.span_id: span for span in run.spans}
    entry = spans.get(run.entry.span_id)
    failed = [node for node in outline.nodes if node.failed and node.span_id != run.entry.span_id]
    if run.exchanges:
        failed = [node for node in failed if node.step is not None]
    failed.sort(key=lambda node: (spans[node.span_id].end_time_unix_nano, -node.depth))
    if not failed and not run.failed:
        return None
    first = spans[failed[0].span_id] if failed else None
    reason = "" if first is None else _reason(first)
    ended = _reason(entry) if entry is not None and run.failed else ""
    kept = [span for span in (entry if run.failed else None, first) if span is not None]
    return Failure(what=ended, steps=tuple(failed), reason=reason, stack=next(_stacks(kept), ""))


def failure_lines(failure: Failure) -> Iterator[str]:
    """Yield the failure as text: what ended the run, the first failed step, the others, the stack."""
    if failure.what:
        yield f"failed: {_short(failure.what)}"
    if failure.steps:
        first, *others = failure.steps
        yield f"{'first failed step' if failure.what else 'the run is ok; the first failed step'}: {_place(first)}"
        if failure.reason and failure.reason != failure.what:
            yield f"  {_short(failure.reason)}"
        if others:
            more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else ""
            yield f"also failed: {', '.join(map(_place, others[:_OTHERS]))}{more}"
    if failure.stack:
        yield "stack, the innermost frames:"
        yield from (f"  {printable(line)}" for line in failure.stack.splitlines()[-_STACK_LINES:])


def _place(node: Node) -> str:
    return printable(f"{node.kind} {node.name}" if node.step is None else f"step {node.step} ({node.kind} {node.name})")


def _short(text: str) -> str:
    return short(text, _REASON)


def _reason(span: SpanRecord) -> str:
    """Return what a failed span says, the most telling first: its exception, its message, the provider's error."""
    raised = error_text(span.text(genai.ERROR_CHAIN) or "")
    raised_as = next(
        (
            _described(event.attributes.get(genai.EXCEPTION_TYPE), event.attributes.get(genai.EXCEPTION_MESSAGE))
            for event in span.events
            if genai.EXCEPTION_TYPE in event.attributes
        ),
        "",
    )
    kind = span.text(genai.ERROR_TYPE) or ""
    reported = span.text(genai.RESPONSE_ERROR) or ""
    message = span.status_message if kind in span.status_message else _described(kind, span.status_message)
    return raised or raised_as or (message if span.status_message else reported or kind)


def _described(kind: object, message: object) -> str:
    return ": ".join(str(text) for text in (kind, message) if text)


def _stacks(spans: Iterable[SpanRecord]) -> Iterator[str]:
    for span in spans:
        for event in reversed(span.events):
            text = event.attributes.get(genai.EXCEPTION_STACKTRACE)
            if isinstance(text, str) and text:
                yield text
