"""Failure: the cause of a run's failure, or its failed steps, the most important first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
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
    what: str
    """Class and message of the exception that ended the run, else its status message; empty for a run that is ok."""
    frame: OwnFrame | None
    """The place in the program's own code where it was raised."""
    ended_by: Node | None
    """The step that raised it."""
    handled: tuple[tuple[Node, str], ...]
    """The failed steps after which the run went on, each with its message. Without steps that failed inside another."""
    steps: tuple[Node, ...]
    """The steps that failed, the one that ended the run first. Of failed calls inside each other, the inner one is first."""
    reason: str
    """Message of the first of them."""
    stack: str
    """Traceback of the exception, of the run if it has one, else of the first failed step; frames of libraries are folded."""


def find_failure(run: Run, outline: Outline) -> Failure | None:
    """Return the cause of the run's failure, or its failed steps; None without failures."""
    spans = {span.span_id: span for span in run.spans}
    entry = spans.get(run.entry.span_id)
    failed = [node for node in outline.nodes if node.failed and node.span_id != run.entry.span_id]
    if run.exchanges:
        failed = [node for node in failed if node.step is not None]
    failed.sort(key=lambda node: (spans[node.span_id].end_time_unix_nano, -node.depth))
    if not failed and not run.failed:
        return None
    ended = _reason(entry) if entry is not None and run.failed else ""
    own = next(_stacks([entry] if entry is not None and run.failed else []), "")
    reasons = {node.span_id: _reason(spans[node.span_id]) for node in failed}
    causes = [node for node in failed if ended and _is_of(reasons[node.span_id], ended, own)]
    ended_by = next((node for node in reversed(causes) if reasons[node.span_id] == ended), causes[-1] if causes else None)
    failed.sort(key=lambda node: node is not ended_by)
    numbers = {node.step for node in failed}
    handled = [node for node in failed if node not in causes and node.inside not in numbers] if ended or not run.failed else []
    first = spans[failed[0].span_id] if failed else None
    kept = [span for span in (entry if run.failed else None, first) if span is not None]
    stack = next(_stacks(kept), "")
    return Failure(
        what=ended,
        frame=own_frame(stack, outline.entry_file or ""),
        ended_by=ended_by,
        handled=tuple((node, reasons[node.span_id]) for node in handled),
        steps=tuple(failed),
        reason="" if first is None else reasons[failed[0].span_id],
        stack=folded(stack),
    )


def _is_of(reason: str, ended: str, stack: str) -> bool:
    """Return whether a step's error is the one that ended the run, or its traceback names it as a cause."""
    return bool(reason) and (reason == ended or any(line.strip(" |").endswith(reason) for line in stack.splitlines()))


def failure_lines(failure: Failure) -> Iterator[str]:
    """Yield the failure as text: the exception and its place, the step, the handled ones, the stack."""
    if failure.what:
        yield f"failed: {_short(failure.what)}"
        if failure.frame is not None:
            yield f"  {_short(failure.frame.text)}"
    if failure.ended_by is not None:
        yield f"ended by {_place(failure.ended_by)}"
    for node, reason in failure.handled[:_OTHERS]:
        yield f"{_place(node)} failed and was handled{f': {_short(reason)}' if reason else ''}"
    if len(failure.handled) > _OTHERS:
        yield f"and {len(failure.handled) - _OTHERS} more failed and were handled"
    named = {failure.ended_by, *(node for node, _ in failure.handled)}
    others = [node for node in failure.steps if node not in named]
    if others:
        more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else ""
        yield f"also failed: {', '.join(map(_place, others[:_OTHERS]))}{more}"
        if failure.ended_by is None and failure.reason and failure.reason != failure.what:
            yield f"  {_short(failure.reason)}"


def stack_lines(failure: Failure) -> Iterator[str]:
    if failure.stack:
        yield "stack, the innermost frames:"
        yield from (f"  {printable(line)}" for line in failure.stack.splitlines()[-_STACK_LINES:])


def _place(node: Node) -> str:
    return printable(f"{node.kind} {node.name}" if node.step is None else f"step {node.step} ({node.kind} {node.name})")


def _short(text: str) -> str:
    return short(text, _REASON)


def _reason(span: SpanRecord) -> str:
    """Return the error text of a failed span, the most specific first: its exception, its message, the provider's error."""
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


# -- Tracebacks as Python prints them ----------------------------------------------------------------------------------
# The program's own innermost frame, and the text with frames of libraries folded. Pure.


_FRAME: Final = re.compile(r'^[ |]*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_PACKAGE: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<name>[\w.-]+)")
_PYTHON: Final = re.compile(r"[/\\]lib[/\\]python\d[\d.]*[/\\]|^<frozen ")
_OURS: Final = re.compile(r"[/\\](?:site-packages|instrumentation)[/\\]freezeframe[/\\]")
_SOURCE: Final = ("    ", "  |     ", "    |     ")
"""Begins the line of code below a frame; in exception groups behind a bar."""
_CHAINED: Final = re.compile(r"^(?:During handling of the above|The above exception was the direct cause)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFrame:
    file: str
    line: int
    function: str
    source: str = ""
    """The line of code; empty if it is not known."""

    @property
    def text(self) -> str:
        """Return ``shop.py:31 in total: return ORDERS[order]``."""
        return f"{self.file}:{self.line} in {self.function}" + (f": {self.source}" if self.source else "")


def own_frame(stack: str, entry_file: str = "") -> OwnFrame | None:
    """Return the program's innermost frame of the exception that a traceback ends with, else of those before it.

    `entry_file`, as recorded, shows in which folder the program is; without it, only the name of a file is shown.
    """
    for block in reversed(_CHAINED.split(stack)):
        lines = block.splitlines()
        for at in range(len(lines) - 1, -1, -1):
            found = _FRAME.match(lines[at])
            if found is not None and not _is_foreign(found["file"]):
                after = next(iter(lines[at + 1 : at + 2]), "")
                source = after.strip(" |") if after.startswith(_SOURCE) and not _FRAME.match(after) else ""
                return OwnFrame(
                    file=_shown(found["file"], _root(stack, entry_file)),
                    line=int(found["line"]),
                    function=found["function"],
                    source=source,
                )
    return None


def folded(stack: str) -> str:
    """Return a traceback with a line in place of consecutive frames of libraries, and without freezeframe's own."""
    return "\n".join(_folded(stack))


def _folded(stack: str) -> Iterator[str]:
    for is_foreign, entries in groupby(_entries(stack), key=lambda entry: _is_foreign(entry[0])):
        group = list(entries)
        if not is_foreign:
            yield from (line for _, lines in group for line in lines)
            continue
        libraries = [_library(file) for file, _ in group if not _OURS.search(file)]
        if libraries:
            count = "1 frame" if len(libraries) == 1 else f"{len(libraries)} frames"
            yield f"  ... {count} of {', '.join(dict.fromkeys(libraries))}"


def _entries(stack: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the file of each frame, empty for lines between frames, with its lines."""
    entry: tuple[str, list[str]] = ("", [])
    for line in stack.splitlines():
        found = _FRAME.match(line)
        goes_on = entry[0] and line.startswith(_SOURCE) and found is None
        if goes_on:
            entry[1].append(line)
            continue
        if entry[1]:
            yield entry
        entry = (found["file"] if found else "", [line])
    if entry[1]:
        yield entry


def _is_foreign(file: str) -> bool:
    return any(each.search(file) is not None for each in (_PACKAGE, _PYTHON, _OURS))


def _library(file: str) -> str:
    found = _PACKAGE.search(file)
    return "Python" if found is None else found["name"].removesuffix(".py")


def _root(stack: str, entry_file: str) -> str:
    """Return the folder in which the program was started, with a slash, as the traceback names it."""
    for line in stack.splitlines() if entry_file else ():
        found = _FRAME.match(line)
        if found is not None and found["file"].endswith(f"/{entry_file}"):
            return found["file"].removesuffix(entry_file)
    return ""


def _shown(file: str, root: str) -> str:
    return file.removeprefix(root) if root and file.startswith(root) else re.split(r"[/\\]", file)[-1]
