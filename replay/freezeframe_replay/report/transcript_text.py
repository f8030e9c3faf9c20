"""Transcripts as plain text, for readers that page through them. Pure.

A line that begins with ``step`` is ours. Lines of the recording follow a label or are indented by four blanks,
so that no recorded text can pose as another step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from freezeframe_replay.report.messages import MessagePart
from freezeframe_replay.report.outline import Node
from freezeframe_replay.report.render import duration, printable
from freezeframe_replay.report.transcript import Transcript, TranscriptCall, Turn
from freezeframe_schemas.lane_names import ROOT_LANE

_INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One call of a transcript as text."""

    step: int | None
    """None for a call without a recorded exchange."""
    text: str


def passages(transcript: Transcript) -> Iterator[Passage]:
    """Yield the transcript call by call; a call of a tool comes after the model call that asked for it."""
    for item in transcript.items:
        if isinstance(item, TranscriptCall):
            yield _call(item)
            continue
        yield Passage(step=item.node.step, text="\n".join(_turn(item, several=transcript.conversations > 1)))
        yield from (_call(part) for part in item.answer if isinstance(part, TranscriptCall))


def _turn(turn: Turn, *, several: bool) -> Iterator[str]:
    named = f"{turn.node.kind} {turn.model or turn.node.name}"
    yield _head(turn.node, named, f"conversation {turn.conversation}" if several else "", turn.cut)
    if turn.instructions:
        yield _labelled("system", turn.instructions)
    if turn.tools:
        yield _labelled("tools offered", ", ".join(turn.tools))
    yield from (_labelled("changed", change) for change in turn.changes)
    yield from (_part(part) for part in turn.new)
    yield from (_part(part) for part in turn.answer if isinstance(part, MessagePart))
    if turn.finish:
        yield _labelled("finish", turn.finish)
    if turn.error:
        yield _labelled("error", turn.error)


def _call(call: TranscriptCall) -> Passage:
    named = f"{call.kind} {call.name}"
    origin = "" if call.requested_in_step is None else f"asked for in step {call.requested_in_step}"
    lines = [_head(call.node, named, origin)] if call.node is not None else [_line("step none", named, "not recorded", origin)]
    if call.arguments:
        lines.append(_labelled("arguments", call.arguments))
    if call.documents:
        for document in call.documents:
            score = "" if document.score is None else f" score {document.score:.4g}"
            lines.append(_labelled(f"chunk {printable(document.id)}{score}", document.text))
    elif call.result:
        lines.append(_labelled("result", call.result))
    if call.received:
        lines.append(_labelled("the model received", call.received))
    if call.error:
        lines.append(_labelled("error", call.error))
    return Passage(step=None if call.node is None else call.node.step, text="\n".join(lines))


def _head(node: Node, named: str, *more: str) -> str:
    tokens = "" if node.tokens is None else f"{node.tokens[0]:,} > {node.tokens[1]:,} tokens"
    lane = "" if node.lane_name == ROOT_LANE else node.lane_name
    inside = "" if node.inside is None else f"inside step {node.inside}"
    failed = f"FAILED {node.status}" if node.failed else ""
    step = "step none" if node.step is None else f"step {node.step}"
    attempt = "" if node.attempt is None else str(node.attempt)
    return _line(step, named, attempt, failed, *more, tokens, duration(node.ms), lane, inside)


def _line(*words: str) -> str:
    return "  ".join(printable(word) for word in words if word)


def _part(part: MessagePart) -> str:
    label = part.role if part.kind == "text" else f"{part.role} ({part.kind})"
    return _labelled(label, f"{len(part.text):,} characters of vectors" if part.kind == "vectors" else part.text)


def _labelled(label: str, text: str) -> str:
    """Return a labelled text; its further lines are indented."""
    first, *rest = text.splitlines() or [""]
    return "\n".join([f"  {printable(label)}: {printable(first)}", *(f"{_INDENT}{printable(line)}" for line in rest)])
