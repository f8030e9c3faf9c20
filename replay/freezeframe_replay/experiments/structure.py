"""Structure: compare a candidate with the recording: path, tools, shapes of arguments, and targets. Pure.

Calls are compared within a lane, in order, so tasks that happened to run in a different order make no difference. Refused
attempts (429 and the like) are left out on both sides: a retry is not a decision of the program.

A *target* is an argument that names something: a number, a boolean, a text without white space (``"A-1042"``). A text with
white space is wording, and only its place counts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from freezeframe_schemas.divergence import Made, Report
from freezeframe_schemas.exchange import Completion, Exchange, Kind, format_lane
from freezeframe_schemas.fixture import Fixture

_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class Aspect(StrEnum):
    """The first aspect in which two runs differ, from the coarsest to the finest."""

    SAME = "same"
    PATH = "path"
    """A different sequence of calls."""
    SHAPE = "shape"
    """The same call with arguments of different names or types."""
    TARGET = "target"
    """The same call aimed at something else."""
    CUT = "cut"
    """The same up to a call that the recording cannot answer; the rest is unknown offline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Result of the comparison. `recorded` and `candidate` are the first calls that differ, as text."""

    aspect: Aspect
    step: int | None = None
    """The recorded step at which they differ."""
    recorded: str = ""
    candidate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    step: int | None
    label: str
    arguments: Any = None
    cut: bool = False

    def __str__(self) -> str:
        if self.arguments is None:
            return self.label
        positional = [json.dumps(item, ensure_ascii=False) for item in self.arguments.get("args") or ()]
        named = [f"{key}={json.dumps(item, ensure_ascii=False)}" for key, item in (self.arguments.get("kwargs") or {}).items()]
        return f"{self.label}({', '.join([*positional, *named])})"


def compare_structure(fixture: Fixture, report: Report) -> Structure:
    """Return the first structural difference between a recorded run and a replay's program."""
    refused = {step.number for step in fixture.askable if is_refusal(step.exchange)}
    recorded: dict[str, list[_Call]] = defaultdict(list)
    for step in fixture.askable:
        if step.number not in refused:
            exchange = step.exchange
            recorded[format_lane(exchange.lane)].append(
                _Call(step=step.number, label=_label(exchange.kind, exchange.name), arguments=_arguments_of(exchange))
            )
    made: dict[str, list[_Call]] = defaultdict(list)
    for call in report.made:
        if call.step not in refused:
            made[call.lane].append(_made(call))
    was_cut = any(call.how == "missed" for call in report.made)
    cut: Structure | None = None
    for lane in sorted({*recorded, *made}):
        found = _compare_lane(recorded[lane], made[lane], was_cut=was_cut)
        if found.aspect is Aspect.CUT:
            cut = cut or found
        elif found.aspect is not Aspect.SAME:
            return found
    return cut or Structure(aspect=Aspect.SAME)


def _compare_lane(recorded: Sequence[_Call], made: Sequence[_Call], *, was_cut: bool) -> Structure:
    for index in range(max(len(recorded), len(made))):
        before = recorded[index] if index < len(recorded) else None
        after = made[index] if index < len(made) else None
        if after is None and was_cut:  # this lane ended with the run
            return Structure(aspect=Aspect.CUT, step=before.step if before else None, recorded=str(before or ""))
        aspect = _compare_call(before, after)
        if aspect is Aspect.SAME and after is not None and after.cut:
            aspect = Aspect.CUT
        if aspect is not Aspect.SAME:
            step = before.step if before is not None else None
            return Structure(aspect=aspect, step=step, recorded=str(before or "nothing"), candidate=str(after or "nothing"))
    return Structure(aspect=Aspect.SAME)


def _compare_call(before: _Call | None, after: _Call | None) -> Aspect:
    if before is None or after is None or before.label != after.label:
        return Aspect.PATH
    if shape(before.arguments) != shape(after.arguments):
        return Aspect.SHAPE
    if list(targets(before.arguments)) != list(targets(after.arguments)):
        return Aspect.TARGET
    return Aspect.SAME


def shape(value: Any) -> Any:
    """Return a JSON value with each leaf as the name of its type, and a list of equal shapes as one of them."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        shapes = [shape(item) for item in value]
        return shapes[:1] if all(item == shapes[0] for item in shapes) else shapes
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def targets(value: Any) -> Iterable[Any]:
    """Yield the leaves that name something, in order of their keys."""
    if isinstance(value, dict):
        for _, item in sorted(value.items()):
            yield from targets(item)
    elif isinstance(value, list):
        for item in value:
            yield from targets(item)
    elif not isinstance(value, str) or not any(map(str.isspace, value)):
        yield value


def _made(call: Made) -> _Call:
    label = _label(Kind(call.call_kind), call.name)
    arguments = None if call.arguments is None else _json(call.arguments)
    return _Call(step=call.step, label=label, arguments=arguments, cut=call.how == "missed")


def _label(kind: Kind, name: str) -> str:
    return kind.value if kind is Kind.MODEL else name


def _arguments_of(exchange: Exchange) -> Any:
    return None if exchange.request.method else _json(exchange.request.body.decode(errors="replace"))


def is_refusal(exchange: Exchange) -> bool:
    """Return whether a provider refused the call, or did not answer it."""
    if exchange.kind is not Kind.MODEL:
        return False
    return exchange.response.status in _RETRIED or exchange.response.completion is Completion.NONE


def _json(text: str) -> Any:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return {"args": [text]}
    return value if isinstance(value, dict) else {"args": [value]}
