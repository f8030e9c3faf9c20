"""Varying: which fields of a call differ each time that runs of one entry point ask the same. Pure.

A field counts only if it differed at least twice and never stayed as it was: a price that changed once is a change. What a
model says and what a program asks (messages, prompts, arguments) is never counted, however much it varies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from freezeframe_replay.engine.compare import differences
from freezeframe_replay.engine.freeze import make_alias
from freezeframe_replay.report.align import ANSWERED, ASKED, MAX_DIFFERENCES, Field, align, field_of, is_made_anew, values_of
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture, Step

_MIN_RUNS: Final = 2
_CONTENT: Final = frozenset(
    {"kind", "name", "method", "host", "path", "body", "args", "kwargs"}
    | {f"body.{field}" for field in ("messages", "system", "input", "instructions", "prompt", "contents", "tools", "model")}
)
"""Components that are the question itself; so is every argument of a function."""


def varying_fields(pairs: Iterable[tuple[Fixture, Fixture]]) -> frozenset[Field]:
    """Return the values that vary by themselves, found by comparing runs with equal requests."""
    differed: Counter[Field] = Counter()
    stayed: set[Field] = set()
    for one, other in pairs:
        aliases = make_alias(one.redaction), make_alias(other.redaction)
        # a request says what varies by itself only while nothing else that came before it differs
        is_undisturbed = one.entry.input == other.entry.input
        for before, after in align(one, other):
            if before is None or after is None:
                is_undisturbed = False
                continue
            values = [values_of(step, alias) for step, alias in zip((before, after), aliases, strict=True)]
            if before.key == after.key or is_undisturbed:
                _count(before, ASKED, (values[0][0], values[1][0]), differed, stayed)
            if before.key == after.key:
                found = _count(before, ANSWERED, (values[0][1], values[1][1]), differed, stayed)
                is_undisturbed = is_undisturbed and all(is_made_anew(before.exchange, ANSWERED, item[3]) for item in found)
    return frozenset(item for item, times in differed.items() if times >= _MIN_RUNS and item not in stayed)


def _count(step: Step, part: str, values: tuple[Any, Any], differed: Counter[Field], stayed: set[Field]) -> frozenset[Field]:
    """Count the fields that differ in a pair of values, each once, and note those that do not; return the first."""
    paths = (item.path for item in islice(differences(*values), MAX_DIFFERENCES))
    found = frozenset(field_of(step.exchange, part, path) for path in paths)
    differed.update(item for item in found if not _is_text(step, part, item[3]))
    stayed.update(field_of(step.exchange, part, path) for path in islice(_equal(*values, "$"), MAX_DIFFERENCES))
    return found


def _is_text(step: Step, part: str, path: str) -> bool:
    if part == ANSWERED:
        return step.exchange.kind is Kind.MODEL and path.startswith("$.messages")
    first, _, rest = path.removeprefix("$.").partition(".")
    below = rest.partition(".")[0].partition("[")[0].partition("|")[0]
    return is_content(first.partition("[")[0]) if first != "body" else not below or is_content(f"body.{below}")


def is_content(component: str) -> bool:
    """Return whether a component of a request is the question itself."""
    return component in _CONTENT or component.startswith(("args.", "kwargs."))


def _equal(one: Any, other: Any, path: str) -> Iterator[str]:
    """Yield the paths of single values that are the same on both sides."""
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        for key in left.keys() & right.keys():
            yield from _equal(left[key], right[key], f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(cast("Sequence[Any]", one), cast("Sequence[Any]", other), strict=False)):
            yield from _equal(left, right, f"{path}[{index}]")
    elif repr(one) == repr(other):
        yield path
