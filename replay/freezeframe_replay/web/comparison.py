"""One page: two runs side by side. It loads nothing, and nothing of a recording reaches it unescaped. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from freezeframe_replay.engine.compare import Difference
from freezeframe_replay.report.align import Comparison, How, Side, StepPair
from freezeframe_replay.web.markup import policy_of_a_file, render

Row = tuple[StepPair, Sequence[Difference], Sequence[Difference], bool]
_ROOM: Final = 400_000
"""Characters of whole texts on a page; further down, only their differences are shown."""
_FOLDED_FROM: Final = 4
_WORDS: Final = {How.SAME: "same", How.CHANGED: "changed", How.ADDED: "only in the second", How.REMOVED: "only in the first"}


def comparison_page(found: Comparison, *, alone: bool = False) -> str:
    """Return the page.

    Args:
        found: the two runs.
        alone: for a file to keep or send: without links, and with its policy in it.
    """
    sides = [[pair.before for pair in found.pairs if pair.before], [pair.after for pair in found.pairs if pair.after]]
    return render(
        "diff.html",
        found=found,
        policy=policy_of_a_file() if alone else "",
        where=_where(found),
        groups=_groups(found.pairs),
        words=_WORDS,
        learned_from=found.learned_from,
        varies=any(pair.varying for pair in found.pairs),
        totals=[_total(run, steps) for run, steps in zip((found.before, found.after), sides, strict=True)],
    )


def _groups(pairs: Sequence[StepPair]) -> list[tuple[str, Sequence[Row]]]:
    """Return the pairs in order, consecutive equal ones together under a line with their number."""
    found: list[tuple[str, Sequence[Row]]] = []
    for says_otherwise, some in groupby(_rows(pairs), key=lambda row: row[0].says_otherwise):
        row = list(some)
        words = "say the same" if any(pair.varying for pair, *_ in row) else "are the same"
        found.append((f"{len(row):,} steps {words}" if not says_otherwise and len(row) >= _FOLDED_FROM else "", row))
    return found


def _rows(pairs: Sequence[StepPair]) -> Iterator[Row]:
    """Yield each pair with the new and the repeated part of its request, and whether the page has room for its whole texts.

    A conversation is sent each time.

    """
    shown = set[Difference]()
    room = _ROOM
    for pair in pairs:
        new = [item for item in pair.request if item not in shown]
        room -= sum(len(item.recorded) + len(item.live) for item in (*new, *pair.response))
        yield pair, new, [item for item in pair.request if item in shown], room > 0
        shown.update(pair.request)


def _where(found: Comparison) -> str:
    """Return the place where the runs first differ."""
    first = next((pair for pair in found.pairs if pair.says_otherwise), None)
    if found.input:
        return "They first differ in the input."
    if first is not None:
        side = first.before or first.after
        return "" if side is None else f"They first differ at step {side.step}: {first.kind.value} {side.name}."
    varies = found.first is not None
    if found.outcome:
        return f"They differ in the outcome only{', and in what varies by itself' if varies else ''}."
    return "They differ only in what varies by itself." if varies else ""


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
