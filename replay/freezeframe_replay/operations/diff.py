"""Compare two runs; other runs of the same entry point show which fields vary by themselves."""

from __future__ import annotations

import dataclasses
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from freezeframe_replay.engine.compare import CONTEXT, WHOLE, Difference, differences
from freezeframe_replay.engine.freeze import make_alias
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.align import (
    ANSWERED,
    ASKED,
    MAX_DIFFERENCES,
    Comparison,
    Field,
    How,
    Side,
    StepPair,
    align,
    compare_runs,
    field_of,
    is_made_anew,
    values_of,
)
from freezeframe_replay.report.render import ID_DIGITS, cost, counted, duration, short
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture, Step

MAX_OTHERS: Final = 3
"""Runs that are read to learn which fields vary by themselves."""
MAX_STEPS: Final = 300
"""Maximum calls of such a run: it is read while someone waits."""
_OTHERS: Final = """
SELECT trace_id FROM runs WHERE (service, name) IN (SELECT service, name FROM runs WHERE trace_id = {first:String})
AND trace_id NOT IN {compared:Array(String)} AND exchanges BETWEEN 1 AND {steps:UInt32}
ORDER BY start_time DESC LIMIT {number:UInt32}
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DiffParameters:
    """The two runs."""

    before: str
    after: str
    whole: bool = False
    """True if differing texts are whole, up to 10,000 characters, and not shortened to their first difference."""


def diff(source: RunSource, parameters: DiffParameters) -> Comparison:
    """Return two runs side by side; values that vary by themselves are separate (decision 0104).

    Raises:
        FreezeframeError: one of them cannot be read.
    """
    one, other = source.fixture(parameters.before), source.fixture(parameters.after)
    context = WHOLE if parameters.whole else CONTEXT
    found = compare_runs(one, other, varying=(), context=context)
    stored = [run.run_id for run, name in ((one, parameters.before), (other, parameters.after)) if source.is_stored(name)]
    if not stored or not any(pair.says_otherwise and pair.how is How.CHANGED for pair in found.pairs):
        return found
    chosen = {"first": stored[0], "compared": [one.run_id, other.run_id], "steps": MAX_STEPS, "number": MAX_OTHERS}
    _, rows = source.use(lambda store: store.sql(_OTHERS, chosen))
    others = [source.fixture(str(row[0])) for row in rows]
    varying = varying_fields((side, run) for run in others for side in (one, other))
    if not varying:
        return found
    return dataclasses.replace(compare_runs(one, other, varying=varying, context=context), learned_from=len(others))


def _to_json(found: Comparison) -> dict[str, Any]:
    return {"alike": found.alike, "compared": found.compared, **dataclasses.asdict(found)}


DIFF: Final = Operation(
    name="diff",
    parameters=DiffParameters,
    compute=diff,
    to_json=_to_json,
    to_text=lambda found, width: comparison_text(found, width=width),
)


# -- Two runs side by side as text: the first difference, and what changed in each step. Pure --------------------------


_MARKS: Final = {How.SAME: " ", How.CHANGED: "~", How.ADDED: "+", How.REMOVED: "-"}


def comparison_text(found: Comparison, *, width: int, everything: bool = False) -> str:
    """Return the comparison as text; equal steps are counted, or listed with `everything`."""
    lines = [_head(found)]
    if found.input:
        lines += ["  ~ input", *_differences(found.input, width)]
    for pair in found.pairs:
        if pair.how is not How.SAME or everything:
            lines += _pair(pair, width)
    if found.outcome:
        lines += ["  ~ outcome", *_differences(found.outcome, width)]
    same = sum(1 for pair in found.pairs if pair.how is How.SAME)
    if same and not everything and not found.alike:
        lines.append(f"  {same} more are the same (--all lists them)")
    return "\n".join(lines)


def _head(found: Comparison) -> str:
    names = f"{found.before[:ID_DIGITS]} and {found.after[:ID_DIGITS]}"
    if not found.compared:
        return f"incomparable: nothing was compared; neither run recorded calls, input or outcome; runs {names}"
    if found.alike:
        but_for = f", except {' and '.join(found.not_compared)}" if found.not_compared else ""
        return f"alike{but_for}: {counted(len(found.pairs), 'step')}, runs {names}"
    first = next((pair for pair in found.pairs if pair.says_otherwise), found.first)
    place = "in the input" if found.input else "in the outcome only"
    if first is not None and not found.input:
        place = f"at {_numbers(first.before, first.after)}"
    return f"different: first {place}, runs {names}"


def _numbers(before: Side | None, after: Side | None) -> str:
    if before is None:
        return f"step {after.step} of the second run, which is missing from the first" if after else ""
    if after is None:
        return f"step {before.step}, which is missing from the second run"
    return f"step {before.step}" if before.step == after.step else f"step {before.step} (in the second run {after.step})"


def _pair(pair: StepPair, width: int) -> Iterable[str]:
    side = pair.before or pair.after
    name = "" if side is None else side.name
    numbers = " > ".join(dict.fromkeys(str(one.step) for one in (pair.before, pair.after) if one is not None))
    figures = "  ".join(_figures(pair))
    call = short(f"  {_MARKS[pair.how]} {numbers:>3}  {pair.kind.value} {name}", width)
    if len(call) + 2 + len(figures) <= width:
        yield f"{call}  {figures}".rstrip()
    else:
        yield from (call, textwrap.fill(figures, width, initial_indent=" " * 8, subsequent_indent=" " * 8))
    if pair.request:
        yield "        asked"
        yield from _differences(pair.request, width)
    if pair.response:
        yield "        answered"
        yield from _differences(pair.response, width)
    if pair.varying:
        yield f"        varies by itself: {counted(len(pair.varying), 'field')}"


def _figures(pair: StepPair) -> Iterable[str]:
    sides = [side for side in (pair.before, pair.after) if side is not None]
    for texts in (
        [side.model or "" for side in sides],
        [f"{side.tokens[0]:,}+{side.tokens[1]:,} tokens" if side.tokens else "" for side in sides],
        [cost(side.cost_usd) for side in sides],
    ):
        if any(texts):
            yield " > ".join(dict.fromkeys(texts))
    yield " > ".join(duration(side.ms) for side in sides)


def _differences(found: Sequence[Difference], width: int) -> Iterable[str]:
    for item in found:
        yield short(f"          {item.path}", width)
        yield short(f"          - {item.recorded}", width)
        yield short(f"          + {item.live}", width)


# -- Varying: which fields of a call differ each time that runs of one entry point ask the same. Pure ------------------
# A field counts only if it differed at least twice and never stayed as it was: a price that changed once is a change.
# What a model says and what a program asks (messages, prompts, arguments) is never counted, however much it varies.


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
        is_undisturbed = (one.entry.input, one.entry.argv) == (other.entry.input, other.entry.argv)
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
