"""One page: the form in which one thing of a run is changed, to see the code's reaction. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from urllib.parse import quote

from freezeframe_replay.report.messages import MessagePart
from freezeframe_replay.report.outline import Outline
from freezeframe_replay.report.render import ID_DIGITS
from freezeframe_replay.report.transcript import Transcript, Turn
from freezeframe_replay.web.markup import STEERING, place_of, render
from freezeframe_replay.web.step_pages import body_text
from freezeframe_schemas.errors import ReplayError, RunError
from freezeframe_schemas.exchange import Exchange, Kind
from freezeframe_schemas.run import EntryKind, Run

_MAX_LENGTH: Final = 200_000
"""Characters that are edited in a page."""


class EditedPart(Enum):
    """The part that the form's text replaces; its value is the option of `freezeframe experiment fork`."""

    INPUT = "--input"
    """The input of the entry point, as tagged JSON."""
    RESULT = "--result"
    """A function's result, as tagged JSON."""
    TEXT = "--response"
    """A model's answer, or the body of another HTTP response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Editable:
    """Part of a run that can be edited."""

    answer: EditedPart
    place: str
    text: str
    """The recorded value."""
    step: int | None = None
    """None: the input."""
    note: str = ""


def find_editable(run: Run, outline: Outline, transcript: Transcript, step: int | None) -> Editable:
    """Return the part of a run to change: the answer of a step, or the input if no step is named.

    Raises:
        RunError: no such step.
        ReplayError: it cannot be changed in a page; the message gives the reason.
    """
    found = _input(run) if step is None else _answer(run, outline, transcript, step)
    if len(found.text) > _MAX_LENGTH:
        raise ReplayError(
            f"{found.place}: {len(found.text):,} characters, more than the {_MAX_LENGTH:,} that can be edited in a page",
            do=f"freezeframe experiment fork {run.trace_id[:ID_DIGITS]} -o forks/a",
        )
    return found


def edit_page(
    run: Run, editable: Editable, *, text: str, wrong: str, folder: str, token: str, likely: str | None = None
) -> str:
    """Return the page; `text` is the form's text, and `wrong` its fault.

    `likely` is the probable cost of live model calls; None if they are not offered.
    """
    named = run.trace_id[:ID_DIGITS]
    at = "" if editable.step is None else f" --step {editable.step}"
    return render(
        "edit.html",
        editable=editable,
        is_input=editable.answer is EditedPart.INPUT,
        is_json=editable.answer is not EditedPart.TEXT,
        text=_kept_json(text) if editable.answer is not EditedPart.TEXT else text,
        rows=min(max(text.count("\n") + 2, 6), 24),
        wrong=wrong,
        folder=folder,
        token=token,
        likely=likely,
        named=named,
        run_id=run.trace_id,
        run_link=f"/runs/{quote(run.trace_id)}",
        command=""
        if editable.step is None
        else f"freezeframe experiment fork {named} -o forks/a{at} {editable.answer.value} @FILE",
    )


def _input(run: Run) -> Editable:
    if run.entry.kind is EntryKind.COMMAND:
        raise ReplayError(
            f"run {run.trace_id[:ID_DIGITS]}: its entry point is a command, and a page may not change what is started",
            do="type it yourself: freezeframe experiment fork RUN -o DIR --input PATH=JSON",
        )
    if run.entry.input is None:
        raise ReplayError(f"run {run.trace_id[:ID_DIGITS]}: the input of its entry point was not recorded")
    return Editable(answer=EditedPart.INPUT, place="the input", text=_indented(json.loads(run.entry.input)))


def _answer(run: Run, outline: Outline, transcript: Transcript, step: int) -> Editable:
    node = next((node for node in outline.nodes if node.step == step), None)
    if node is None:
        raise RunError(f"step {step}: not in run {run.trace_id[:ID_DIGITS]}")
    if node.inside is not None:
        raise ReplayError(
            f"step {step} is inside step {node.inside}, which answers for it in a replay", do=f"change step {node.inside}"
        )
    exchange = next(exchange for exchange in run.exchanges if exchange.span_id == node.span_id)
    note = "It raised an error; your text is what it returns instead." if exchange.error else ""
    if exchange.request.method:
        text = _reply(transcript, exchange) if exchange.kind is Kind.MODEL else body_text(exchange.response)[0]
        return Editable(answer=EditedPart.TEXT, place=place_of(node), text=text, step=step, note=note)
    return Editable(answer=EditedPart.RESULT, place=place_of(node), text=_result(exchange), step=step, note=note)


def _reply(transcript: Transcript, exchange: Exchange) -> str:
    """Return the model's answer as text, without its tool calls."""
    turn = next((item for item in transcript.items if isinstance(item, Turn) and item.node.span_id == exchange.span_id), None)
    parts = () if turn is None else turn.answer
    return "\n".join(part.text for part in parts if isinstance(part, MessagePart) and part.kind == "text")


def _result(exchange: Exchange) -> str:
    try:
        value: Any = json.loads(exchange.response.body or b"null")
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and set(value) == {"yields", "return"}:
        value = value["yields"]  # as `fork` takes what a generator yields
    return _indented(value)


def _indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _kept_json(text: str) -> str:
    """Return JSON with control characters escaped, so that the form sends the same values back."""
    return re.sub(STEERING, lambda found: f"\\u{ord(found[0]):04x}", text)
