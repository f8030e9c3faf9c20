"""One page: two runs side by side. It loads nothing, and nothing of a recording reaches it unescaped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from freezeframe_replay.engine.compare import Difference
from freezeframe_replay.report.align import Comparison, How, Pair, Side
from freezeframe_replay.report.render import ID_DIGITS, cost, duration
from freezeframe_replay.web.pages import content_security_policy, page, shown

_WORDS: Final = {How.SAME: "same", How.CHANGED: "changed", How.ADDED: "only in the second", How.REMOVED: "only in the first"}


def comparison_body(found: Comparison) -> str:
    """Return the page's content."""
    return "".join(
        [_head(found), _totals(found), _outside("Input", found.input), _pairs(found), _outside("Outcome", found.outcome)]
    )


def comparison_page(found: Comparison) -> str:
    """Return a self-contained page: a file that can be kept or sent."""
    # frame-ancestors works only in a header, and a browser complains about it in a page
    policy = content_security_policy().replace("; frame-ancestors 'none'", "")
    head = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    return page(f"{found.before[:8]} and {found.after[:8]}", comparison_body(found), head=head)


def _head(found: Comparison) -> str:
    state = '<span class="good">alike</span>' if found.alike else '<span class="bad">different</span>'
    if not found.compared:
        state = '<span class="bad">incomparable</span>: neither run recorded calls, input or outcome'
    elif found.alike and found.not_compared:
        state += f", except {escape(' and '.join(found.not_compared))}"
    first = found.first
    where = ""
    if found.input:
        where = "first in the input"
    elif first is not None:
        side = first.before or first.after
        where = f"first at step {side.step}: {first.kind.value} {side.name}" if side is not None else ""
    elif found.outcome:
        where = "in the outcome only"
    return (
        f"<h1>runs <code>{escape(found.before[:ID_DIGITS])}</code> and <code>{escape(found.after[:ID_DIGITS])}</code>"
        f" {state}</h1>"
        f"<nav>{shown(where)}</nav>"
    )


def _totals(found: Comparison) -> str:
    sides = [[pair.before for pair in found.pairs if pair.before], [pair.after for pair in found.pairs if pair.after]]
    rows = "".join(
        f"<tr><td><code>{escape(run[:ID_DIGITS])}</code><td class=number>{len(steps)}<td class=number>{_tokens(steps)}"
        f"<td class=number>{cost(_sum_cost(steps)) or '–'}<td class=number>{duration(sum(step.ms for step in steps))}</tr>"
        for run, steps in zip((found.before, found.after), sides, strict=True)
    )
    head = "".join(f"<th class=number>{name}" for name in ("steps", "tokens", "cost, list price", "time in steps"))
    return f"<table><tr><th>run{head}</tr>{rows}</table>"


def _sum_cost(steps: Sequence[Side]) -> float | None:
    known = [step.cost_usd for step in steps if step.cost_usd is not None]
    return sum(known) if known else None


def _tokens(steps: Sequence[Side]) -> str:
    known = [step.tokens for step in steps if step.tokens]
    return f"{sum(into for into, _ in known):,} &gt; {sum(out for _, out in known):,}" if known else "–"


def _pairs(found: Comparison) -> str:
    head = (
        "<tr><th class=number>step<th>call<th><th>model<th class=number>tokens<th class=number>cost<th class=number>time</tr>"
    )
    return f"<h2>Steps</h2><table>{head}{''.join(map(_pair, found.pairs))}</table>"


def _pair(pair: Pair) -> str:
    sides = [side for side in (pair.before, pair.after) if side is not None]
    name = f"{escape(pair.kind.value)} {shown(sides[0].name)}"
    changes = _part("asked", pair.request) + _part("answered", pair.response)
    if changes:
        name = f"<details open><summary>{name}</summary>{changes}</details>"
    numbers = _both(str(side.step) for side in sides)
    mark = "dim" if pair.how is How.SAME else "bad"
    return (
        f'<tr><td class=number>{numbers}<td class=name>{name}<td class="{mark}">{_WORDS[pair.how]}'
        f"<td>{_both(side.model or '' for side in sides)}"
        f"<td class=number>{_both(_tokens([side]) if side.tokens else '' for side in sides)}"
        f"<td class=number>{_both(cost(side.cost_usd) for side in sides)}"
        f"<td class=number>{_both(duration(side.ms) for side in sides)}</tr>"
    )


def _both(texts: Iterable[str]) -> str:
    """Return the value of both runs, once if it is the same."""
    known = [text for text in dict.fromkeys(texts) if text]
    return " → ".join(text if "&gt;" in text else shown(text) for text in known)


def _outside(title: str, changes: Sequence[Difference]) -> str:
    return f"<h2>{title}</h2>{_part('', changes)}" if changes else ""


def _part(title: str, changes: Sequence[Difference]) -> str:
    if not changes:
        return ""
    rows = "".join(
        f"<dt><code>{shown(change.path)}</code></dt>"
        f"<dd><del>{shown(change.recorded)}</del><br><ins>{shown(change.live)}</ins></dd>"
        for change in changes
    )
    return f'<div class="dim">{title}</div><dl class="changes">{rows}</dl>'
