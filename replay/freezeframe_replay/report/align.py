"""Align: two runs side by side, step by step, with the changes of each pair. Pure.

Steps are paired within a lane, so the order between tasks and threads does not count: first those with equal
request keys, in order; steps between two such pairs are paired by kind and name; the rest was added or removed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from freezeframe_replay.engine.compare import CONTEXT, Difference, differences, json_or_text
from freezeframe_replay.engine.freeze import Alias, keyed_anew, make_alias, transient_fields
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange, Kind, Lane
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.keys import comparable_body
from freezeframe_schemas.prices import Price, price_of
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import decode_body, find_dialect_of

CHANGES_SHOWN: Final = 20
"""Differences kept per step; a replaced prompt differs in many places."""
MAX_DIFFERENCES: Final = 5000
"""Limit of a step's differences that are checked for whether they vary by themselves."""
ASKED: Final = "asked"
ANSWERED: Final = "answered"
_PART_ID: Final = "$.messages[*].parts[*].id"
"""The model's name for a call of a tool: new in each answer."""
_MIN_ID_LENGTH: Final = 10
"""Minimum characters, with quotes, of a varying text that is recognised when the program repeats it."""

Field = tuple[str, str, str, str]
"""Kind and name of a call, `ASKED` or `ANSWERED`, and a path with ``[*]`` for any place in a list."""

NO_INPUT: Final = "the input (not recorded)"
NO_OUTCOME: Final = "the outcome (not recorded)"


class How(StrEnum):
    """Relation of two steps."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    """In the second run only."""
    REMOVED = "removed"
    """In the first run only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run's half of a pair."""

    step: int
    name: str
    model: str | None = None
    """The model that answered, if recorded, else the requested one."""
    tokens: tuple[int, int] | None = None
    """Input and output."""
    cost_usd: float | None = None
    """At list price; None if the model's price is unknown."""
    ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPair:
    """A step of each run, or of one of them. Time and tokens are reported and never make a pair `changed`."""

    how: How
    kind: Kind
    before: Side | None
    after: Side | None
    request: tuple[Difference, ...] = ()
    response: tuple[Difference, ...] = ()
    varying: tuple[Difference, ...] = ()
    """Values that vary by themselves, if they were separated. A pair that differs only there is `changed`, too."""

    @property
    def says_otherwise(self) -> bool:
        """Return whether they differ in more than values that vary by themselves."""
        return self.how in (How.ADDED, How.REMOVED) or bool(self.request or self.response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs side by side."""

    before: str
    """Id of the first run."""
    after: str
    pairs: tuple[StepPair, ...]
    input: tuple[Difference, ...] = ()
    outcome: tuple[Difference, ...] = ()
    not_compared: tuple[str, ...] = ()
    """Parts that one of the runs did not record or keep, a few words each."""
    learned_from: int = 0
    """Number of other runs that showed which values vary by themselves."""

    @property
    def first(self) -> StepPair | None:
        return next((pair for pair in self.pairs if pair.how is not How.SAME), None)

    @property
    def alike(self) -> bool:
        """Return whether the runs have the same requests, answers and ends."""
        return self.compared and self.first is None and not self.input and not self.outcome

    @property
    def compared(self) -> bool:
        """Return whether any part could be compared: a step, an input, or an outcome."""
        return bool(self.pairs) or not {NO_INPUT, NO_OUTCOME} <= set(self.not_compared)


def compare_runs(
    before: Fixture, after: Fixture, varying: Collection[Field] | None = None, *, context: int = CONTEXT
) -> Comparison:
    """Return the two runs side by side, in the order of the first run's steps.

    Args:
        before: the first run.
        after: the second one.
        varying: fields that vary by themselves (`varying_fields`): differences in them, and in values generated
            for each answer, are marked. None marks nothing.
        context: characters kept before and after the first differing one of two long texts.
    """
    # Under one key, a value has one surrogate in both runs, and a different surrogate is a different value.
    same_key = before.redaction.key_id == after.redaction.key_id
    aliases: tuple[Alias, Alias] = (str, str) if same_key else (make_alias(before.redaction), make_alias(after.redaction))
    sort = _Sorter(varying)
    return Comparison(
        before=before.run_id,
        after=after.run_id,
        pairs=tuple(_pair(one, other, aliases, sort, context) for one, other in align(before, after)),
        input=_texts(before.entry.input, after.entry.input, aliases, context),
        outcome=_texts(before.entry.outcome, after.entry.outcome, aliases, context),
        not_compared=tuple(_not_compared(before, after)),
    )


def _not_compared(before: Fixture, after: Fixture) -> Iterator[str]:
    if before.entry.input is None and after.entry.input is None:
        yield NO_INPUT
    if before.entry.outcome is None and after.entry.outcome is None:
        yield NO_OUTCOME
    exchanges = [step.exchange for fixture in (before, after) for step in fixture.steps]
    left_out = sum(bool(part.omitted) for exchange in exchanges for part in (exchange.request, exchange.response))
    if left_out:
        yield f"{left_out} {'body' if left_out == 1 else 'bodies'} (not kept)"


def align(before: Fixture, after: Fixture) -> list[tuple[Step | None, Step | None]]:
    """Return the steps of both runs in pairs, ordered as the first run; an added step follows the one before it."""
    placed: list[tuple[tuple[int, int], tuple[Step | None, Step | None]]] = []
    left, right = keyed_anew(before), keyed_anew(after)
    for lane in sorted({step.exchange.lane for step in [*left, *right]}):
        last = 0
        for one, other in _align_lane(_of_lane(left, lane), _of_lane(right, lane)):
            last = last if one is None else one.number
            placed.append(((last, 0 if one is not None or other is None else other.number), (one, other)))
    return [pair for _, pair in sorted(placed, key=lambda item: item[0])]


def _of_lane(steps: Iterable[Step], lane: Lane) -> list[Step]:
    return [step for step in steps if step.exchange.lane == lane]


def _align_lane(before: list[Step], after: list[Step]) -> Iterator[tuple[Step | None, Step | None]]:
    for equal, left, right in _blocks(before, after, lambda step: step.key):
        if equal:
            yield from zip(left, right, strict=True)
            continue
        for alike, one, other in _blocks(left, right, lambda step: f"{step.exchange.kind}\0{step.exchange.name}"):
            if alike:
                yield from zip(one, other, strict=True)
            else:
                yield from ((step, None) for step in one)
                yield from ((None, step) for step in other)


def _blocks(
    before: list[Step], after: list[Step], label: Callable[[Step], str]
) -> Iterator[tuple[bool, list[Step], list[Step]]]:
    """Yield stretches of both runs in turn: a flag for equal labels, and their steps."""
    matcher = SequenceMatcher(None, [label(step) for step in before], [label(step) for step in after], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        yield tag == "equal", before[i:j], after[k:m]


# -- one pair -----------------------------------------------------------------------------------------------------------


def _pair(one: Step | None, other: Step | None, aliases: tuple[Alias, Alias], sort: _Sorter, context: int) -> StepPair:
    step = one or other
    assert step is not None
    kind = step.exchange.kind
    said_before, said_after = _output_attributes(one), _output_attributes(other)
    sides = _side(one, said_before), _side(other, said_after)
    if one is None or other is None:
        return StepPair(how=How.ADDED if one is None else How.REMOVED, kind=kind, before=sides[0], after=sides[1])
    asked, answered = (
        differences(*values, context=context)
        for values in (
            (_request_value(one.exchange, aliases[0]), _request_value(other.exchange, aliases[1])),
            (_answered(one.exchange, said_before, aliases[0]), _answered(other.exchange, said_after, aliases[1])),
        )
    )
    request, varies = sort(one.exchange, ASKED, asked)
    response, varies_too = sort(one.exchange, ANSWERED, answered)
    varying = (*varies, *varies_too)[:CHANGES_SHOWN]
    how = How.CHANGED if request or response or varying else How.SAME
    return StepPair(how=how, kind=kind, before=sides[0], after=sides[1], request=request, response=response, varying=varying)


class _Sorter:
    """Separates values that vary by themselves from changes, step by step. A text that varied is recognised when repeated."""

    def __init__(self, varying: Collection[Field] | None) -> None:
        self._varying = varying
        self._seen: set[tuple[str, str]] = set()

    def __call__(
        self, exchange: Exchange, part: str, found: Iterable[Difference]
    ) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
        """Return the first differences that are changes, and the first ones that vary by themselves."""
        if self._varying is None:
            return _first(found), ()
        changes: list[Difference] = []
        varies: list[Difference] = []
        for item in islice(found, MAX_DIFFERENCES):
            field, sides = field_of(exchange, part, item.path), (item.recorded, item.live)
            if sides in self._seen or field in self._varying or is_made_anew(exchange, part, field[3]):
                varies.append(item)
                if min(map(len, sides)) >= _MIN_ID_LENGTH and item.recorded.startswith('"'):
                    self._seen.add(sides)
            else:
                changes.append(item)
        return _first(changes), _first(varies)


def field_of(exchange: Exchange, part: str, path: str) -> Field:
    return exchange.kind.value, exchange.name, part, re.sub(r"\[\d+\]", "[*]", path)


def is_made_anew(exchange: Exchange, part: str, path: str) -> bool:
    """Return whether a field of an answer is generated each time and means nothing to a reader: ids of calls, vectors."""
    if part != ANSWERED or exchange.kind is not Kind.MODEL:
        return False
    match = find_dialect_of(exchange.request) if exchange.request.method else None
    is_vectors = match is not None and match.dialect.operation == genai.OP_EMBEDDINGS
    return path == _PART_ID or (is_vectors and "embedding" in path)


def values_of(step: Step, alias: Alias) -> tuple[Any, Any]:
    """Return a step's request and answer in the form in which they are compared."""
    return _request_value(step.exchange, alias), _answered(step.exchange, _output_attributes(step), alias)


def _request_value(exchange: Exchange, alias: Alias) -> Any:
    request = exchange.request
    if not request.method:
        return comparable_body(request, alias=alias)
    return {"body": comparable_body(request, transient=transient_fields(request), alias=alias)}


def _answered(exchange: Exchange, said: dict[str, AttributeValue], alias: Alias) -> Any:
    """Return the part of an answer on which the program depends: for a model, its messages without ids and chunk borders."""
    response, answer = exchange.response, dict[str, Any]()
    if response.status is not None:
        answer["status"] = response.status
    if exchange.error is not None:
        answer["error"] = json_or_text(alias(exchange.error))
    messages = said.get(genai.OUTPUT_MESSAGES)
    if isinstance(messages, str):
        answer["messages"] = json_or_text(alias(messages))
    else:
        answer["result" if response.status is None else "body"] = json_or_text(alias(response.body.decode(errors="replace")))
    return answer


def _output_attributes(step: Step | None) -> dict[str, AttributeValue]:
    """Return the attributes that the wire dialect reads from a model's answer."""
    if step is None or step.exchange.kind is not Kind.MODEL:
        return {}
    request, response = step.exchange.request, step.exchange.response
    match = find_dialect_of(request) if request.method else None
    if match is None:
        return {}
    content_type = next((text for name, text in response.headers if name.lower() == "content-type"), "")
    return match.dialect.response_attributes(
        decode_body(response.body, response.headers),
        content_type=content_type,
        status=response.status or 200,
        headers=response.headers,
    )


def _side(step: Step | None, said: dict[str, AttributeValue]) -> Side | None:
    if step is None:
        return None
    exchange = step.exchange
    into, out = said.get(genai.USAGE_INPUT_TOKENS), said.get(genai.USAGE_OUTPUT_TOKENS)
    model = said.get(genai.RESPONSE_MODEL) or step.model
    day = dt.datetime.fromtimestamp(exchange.start_time_unix_nano / 1e9, dt.UTC).date()
    price = price_of(model, day) if isinstance(model, str) else None
    return Side(
        step=step.number,
        name=exchange.name,
        model=model if isinstance(model, str) else None,
        tokens=(into, out if isinstance(out, int) else 0) if isinstance(into, int) else None,
        cost_usd=None if price is None else _cost_usd(price, said),
        ms=round((exchange.end_time_unix_nano - exchange.start_time_unix_nano) / 1e6, 1),
    )


def side_of(step: Step) -> Side:
    """Return a step's facts, as one half of a pair."""
    side = _side(step, _output_attributes(step))
    assert side is not None
    return side


def _cost_usd(price: Price, said: dict[str, AttributeValue]) -> float:
    def count(name: str) -> int:
        value = said.get(name)
        return value if isinstance(value, int) else 0

    return price.cost_usd(
        input_tokens=count(genai.USAGE_INPUT_TOKENS),
        output_tokens=count(genai.USAGE_OUTPUT_TOKENS),
        cache_read=count(genai.USAGE_CACHE_READ_TOKENS),
        cache_write=count(genai.USAGE_CACHE_WRITE_TOKENS),
    )


def _texts(before: str | None, after: str | None, aliases: tuple[Alias, Alias], context: int) -> tuple[Difference, ...]:
    one, other = (
        None if text is None else json_or_text(alias(text)) for text, alias in zip((before, after), aliases, strict=True)
    )
    return _first(differences(one, other, context=context))


def _first(found: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(islice(found, CHANGES_SHOWN))
