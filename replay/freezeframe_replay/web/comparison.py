"""One page: two runs side by side. It loads nothing, and nothing of a recording reaches it unescaped. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from freezeframe_replay.report.align import Comparison, How, Pair, Side
from freezeframe_replay.web.markup import policy_of_a_file, render

_FOLDED_FROM: Final = 4
_WORDS: Final = {How.SAME: "same", How.CHANGED: "changed", How.ADDED: "only in the second", How.REMOVED: "only in the first"}


def comparison_page(found: Comparison, *, alone: bool = False) -> str:
    """Return the page; `alone` for a file that can be kept or sent: without links, and with its policy in it."""
    sides = [[pair.before for pair in found.pairs if pair.before], [pair.after for pair in found.pairs if pair.after]]
    return render(
        "diff.html",
        found=found,
        policy=policy_of_a_file() if alone else "",
        where=_where(found),
        groups=_groups(found.pairs),
        words=_WORDS,
        totals=[_total(run, steps) for run, steps in zip((found.before, found.after), sides, strict=True)],
    )


def _groups(pairs: Sequence[Pair]) -> list[tuple[str, Sequence[Pair]]]:
    """Return the pairs in order, several equal ones in a row together below words that say how many they are."""
    found: list[tuple[str, Sequence[Pair]]] = []
    for is_same, some in groupby(pairs, key=lambda pair: pair.how is How.SAME):
        row = list(some)
        found.append((f"{len(row):,} steps are the same" if is_same and len(row) >= _FOLDED_FROM else "", row))
    return found


def _where(found: Comparison) -> str:
    """Return where the runs first differ."""
    first = found.first
    if found.input:
        return "They first differ in the input."
    if first is not None:
        side = first.before or first.after
        return "" if side is None else f"They first differ at step {side.step}: {first.kind.value} {side.name}."
    return "They differ in the outcome only." if found.outcome else ""


def _total(run: str, steps: Sequence[Side]) -> dict[str, object]:
    tokens = [step.tokens for step in steps if step.tokens]
    costs = [step.cost_usd for step in steps if step.cost_usd is not None]
    return {
        "run": run,
        "steps": len(steps),
        "tokens": (sum(into for into, _ in tokens), sum(out for _, out in tokens)) if tokens else None,
        "cost": sum(costs) if costs else None,
        "ms": sum(step.ms for step in steps),
    }
