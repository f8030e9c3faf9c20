"""A miss: a call that has no recording, described against the nearest recorded one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from freezeframe.seams import Call
from freezeframe_replay.engine.compare import CONTEXT, WHOLE, described, shorten
from freezeframe_replay.engine.freeze import transient_fields
from freezeframe_replay.engine.pairs import Settled
from freezeframe_replay.engine.private_values import PrivateValues
from freezeframe_schemas import genai
from freezeframe_schemas.divergence import Divergence, DivergenceKind
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import RECONSTRUCTED, Exchange, Kind, format_lane
from freezeframe_schemas.fixture import Step
from freezeframe_schemas.gaps import NOT_MARKED, NOT_REPEATED, NOT_SET, NOT_WHOLE
from freezeframe_schemas.keys import RequestKey, comparable_body, request_key
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.document import as_object, as_objects, parse

_MAY_BE_MEASURED: Final = re.compile(r"(?<![\d.])\d+\.\d+(?:e-?\d+)?(?![\d@]|\.\d)|(?<![\w.-])\d{3,}(?![\w@-]|\.\d)")
"""A fraction, or a longer integer, that is not part of a name or an id: ``<1764.210.53@host>``."""
_OF_A_CALL: Final = re.compile(r"(?:tool |the result of \S+ )?(\S+) ")
"""Start of a gap that belongs to one function, if it is one of the recorded calls."""
_CHANGES_FILES: Final = re.compile(rf" (?:writes|removes|makes the folder|renames|cuts|links) .*, {NOT_MARKED}")
"""A gap of unmarked code by which a run got nothing from outside, but its replay may: what it wrote is there now."""
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{6,16}\b")
"""The address of an object in its default `repr`."""
_MAX_REASONS: Final = 3
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)?")
_EXACT: Final = re.compile(r"\.\d{3}")
_NEARLY: Final = 0.1
"""Part of the larger of two numbers by which they may differ if they have few decimals: a changed price differs by more."""
_MAY_COME_OF_A_GAP: Final = frozenset(
    {
        DivergenceKind.REQUEST_CHANGED,
        DivergenceKind.EXTRA_CALL,
        DivergenceKind.MISSING_CALL,
        DivergenceKind.OUTCOME_CHANGED,
        DivergenceKind.STILL_WAITED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A step that can be requested, with its key."""

    step: Step
    key: RequestKey


Components = Callable[[Recorded], "tuple[tuple[str, ...], tuple[str, ...]]"]
"""step -> names of the components in which the call differs from it, and in which it agrees."""
Settle = Callable[[Recorded, Any, Any], Settled]
"""(step, its marked body, marked live body) -> their comparison, with parts that vary anyway replaced by the recorded ones."""


def about_step(kind: DivergenceKind, step: Step, note: str) -> Divergence:
    exchange = step.exchange
    lane = format_lane(exchange.lane)
    return Divergence(kind=kind, step=step.number, lane=lane, call_kind=exchange.kind.value, name=exchange.name, note=note)


def describe_miss(
    call: Call,
    key: RequestKey,
    *,
    recorded: Sequence[Recorded],
    used: Collection[int],
    same: Sequence[Recorded],
    values: PrivateValues,
    settle: Settle,
    components: Components,
) -> Divergence:
    """Describe a request that has no recording: against the nearest unused one, if any is near.

    `same` are used steps that recorded exactly this request.
    """
    nearest = _nearest(call, key, [item for item in recorded if item.step.number not in used])
    common: dict[str, Any] = {"lane": format_lane(call.lane), "call_kind": call.kind.value, "name": call.name}
    if same or nearest is None:
        numbers = ", ".join(str(item.step.number) for item in same)
        again = f"this request was recorded (step {numbers}) and already used: the program requests it again"
        body = comparable_body(call.request, alias=values.show)
        live, whole = (shorten(body, 2 * context) for context in (CONTEXT, WHOLE))
        return Divergence(
            kind=DivergenceKind.EXTRA_CALL,
            live=live,
            whole_live=whole if whole != live else None,
            note=again if same else f"no recorded {call.kind.value} call is left for it",
            **common,
        )
    return _changed(call, nearest, values, settle, components, common)


def _changed(
    call: Call,
    nearest: Recorded,
    values: PrivateValues,
    settle: Settle,
    components: Components,
    common: dict[str, Any],
) -> Divergence:
    exchange = nearest.step.exchange
    transient = transient_fields(call.request)
    recorded_body = comparable_body(exchange.request, transient=transient, alias=values.mark)
    settled = settle(nearest, recorded_body, comparable_body(call.request, transient=transient, alias=values.mark))
    found = described({"body": values.show_tree(recorded_body)}, {"body": values.show_tree(settled.tree)})
    differed, agreed = components(nearest)
    if found is None:
        marked = nearest.step.exchange, call
        name = differed[0] if differed else "kind"
        was, now = (_component(asked, name, values) for asked in marked)
        found = {"path": f"$.{name}", "recorded": was, "live": now}
    return Divergence(
        kind=DivergenceKind.REQUEST_CHANGED,
        step=nearest.step.number,
        would_have_returned=_answer_text(exchange),
        agreed=agreed,
        differed=differed,
        note=values.note(recorded_body, settled),
        **found,
        **common,
    )


def _component(asked: Exchange | Call, name: str, values: PrivateValues) -> str | None:
    key = request_key(asked.kind, asked.name, asked.request, alias=values.show)
    return dict(key.components).get(name)


def _nearest(call: Call, key: RequestKey, unused: Sequence[Recorded]) -> Recorded | None:
    """Return the unused step of the same kind (and function) that agrees most; the next in the lane wins a tie."""
    candidates = [
        item
        for item in unused
        if item.step.exchange.kind is call.kind and (bool(call.request.method) or item.step.exchange.name == call.name)
    ]
    if not candidates:
        return None
    return max(
        candidates,
        key=lambda item: (
            item.step.exchange.lane == call.lane,
            len(item.key.agreeing(key)),
            -item.step.number,
        ),
    )


def miss_message(divergence: Divergence) -> str:
    """Return the divergence as the text of a `ReplayMiss`."""
    where = f" at step {divergence.step}" if divergence.step is not None else ""
    lines = [f"{divergence.kind.value} diverged{where}: {divergence.call_kind} {divergence.name}".rstrip()]
    if divergence.recorded is not None or divergence.live is not None:
        lines += [f"  {divergence.path}", f"  - {divergence.recorded}", f"  + {divergence.live}"]
    if divergence.note:
        lines.append(f"  {divergence.note}")
    return "\n".join(lines)


def _answer_text(exchange: Exchange) -> str:
    if exchange.error is not None and not exchange.response.chunks:
        return shorten(exchange.error)
    if exchange.seam == RECONSTRUCTED:
        answer = as_object(parse(exchange.response.body))
        return shorten(answer.get("error") or answer.get("result") or _in_words(as_objects(answer.get("parts"))))
    reply = _reply_text(exchange) if exchange.kind is Kind.MODEL else ""
    return shorten(reply or exchange.response.body.decode(errors="replace"), 160)


def _reply_text(exchange: Exchange) -> str:
    """Return the words and tool calls of a model's answer, without their envelope; nothing if the dialect finds none."""
    match = find_dialect_of(exchange.request)
    if match is None:
        return ""
    headers = exchange.response.headers
    content_type = next((text for name, text in headers if name.lower() == "content-type"), "")
    try:
        body = decode_body(exchange.response.body, headers)
    except WireError:
        return ""
    found = match.dialect.response_attributes(body, content_type=content_type, status=exchange.response.status or 200)
    messages: list[dict[str, Any]] = json.loads(str(found.get(genai.OUTPUT_MESSAGES) or "[]"))
    parts: list[dict[str, Any]] = [part for message in messages for part in message.get("parts") or ()]
    return _in_words(parts)


def _in_words(parts: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(
        str(part.get("content") or "") if part.get("type") != "tool_call" else f"{part.get('name')}({part.get('arguments')})"
        for part in parts
    ).strip()


def with_reason(
    divergences: Sequence[Divergence],
    gaps: Iterable[str],
    measured: Mapping[str, str] = MappingProxyType({}),
    *,
    recorded: Collection[str] = (),
    made: Sequence[str] = (),
) -> tuple[Divergence, ...]:
    """Return the divergences, the first one with the reasons for which unchanged code may diverge, too.

    Args:
        divergences: of a replay.
        gaps: of the run.
        measured: number that the program may have measured -> why it does not count as the recorded one.
        recorded: names of the run's calls.
        made: names of the calls that the replay made, in order.
    """
    if not divergences or divergences[0].kind not in _MAY_COME_OF_A_GAP:
        return tuple(divergences)
    first = divergences[0]
    reasons = (NOT_REPEATED, NOT_WHOLE, NOT_SET, NOT_MARKED)
    may_be = [gap for gap in gaps if any(words in gap for words in reasons)]
    changes = [gap for gap in may_be if _CHANGES_FILES.search(gap)]
    fitting = _fitting([gap for gap in may_be if gap not in changes], recorded, made) or _fitting(changes, recorded, made)
    notes = [
        first.note,
        _measured(first, measured),
        f"a gap of the run may be the reason: {'; '.join(fitting)}" if fitting else "",
    ]
    return (replace(first, note="; ".join(filter(None, notes))), *divergences[1:])


def _fitting(gaps: Sequence[str], recorded: Collection[str], made: Sequence[str]) -> Sequence[str]:
    """Return the gaps that may be the reason: those of the latest call with any, else those that belong to no call."""
    of_calls = {gap: found[1] for gap in gaps if (found := _OF_A_CALL.match(gap)) and found[1] in recorded}
    last = next((name for name in reversed(made) if name in of_calls.values()), None)
    fitting = [gap for gap in gaps if of_calls.get(gap) == last]
    return (*fitting[:_MAX_REASONS], *([f"{len(fitting) - _MAX_REASONS} more"] if len(fitting) > _MAX_REASONS else ()))


def _measured(divergence: Divergence, measured: Mapping[str, str]) -> str:
    """Return the note for two texts that differ only in addresses, or in what may be a duration: nearly equal, or exact."""
    recorded, live = str(divergence.recorded), str(divergence.live)
    if recorded != live and _ADDRESS.sub("", recorded) == _ADDRESS.sub("", live):
        return "only addresses of objects differ, as in each process: give the class a __repr__, or leave the address out"
    if apart := set(_NUMBER.findall(live)).intersection(measured) - set(_NUMBER.findall(recorded)):
        return f"{min(apart)} may be a duration that the program measured, {measured[min(apart)]}"
    if (
        recorded == live
        or not _MAY_BE_MEASURED.search(recorded)
        or _MAY_BE_MEASURED.sub("", recorded) != _MAY_BE_MEASURED.sub("", live)
    ):
        return ""
    if not all(map(_may_be_one, _MAY_BE_MEASURED.findall(recorded), _MAY_BE_MEASURED.findall(live))):
        return ""
    return (
        "only numbers differ: if the program computes with a duration that it measures, a replay gets nearly the same result; "
        "round it, or leave it out"
    )


def _may_be_one(recorded: str, live: str) -> bool:
    """Return whether two numbers may be the same quantity, measured twice."""
    was, now = float(recorded), float(live)
    return bool(_EXACT.search(recorded)) or abs(was - now) <= _NEARLY * max(was, now)
