"""Two runs side by side as text: the first difference, and what changed in each step. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from freezeframe_replay.engine.compare import Difference
from freezeframe_replay.report.align import Comparison, How, Side, StepPair
from freezeframe_replay.report.render import ID_DIGITS, cost, counted, duration, short

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
