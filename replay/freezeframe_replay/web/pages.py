"""Two pages, the list of runs and one run, as HTML text. Pure; nothing of a recording reaches the page unescaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from freezeframe_replay.report.outline import Node, Outline, input_text
from freezeframe_replay.report.render import duration, how_far, moment, printable, took, when
from freezeframe_schemas.lifecycle import RunStatus

if TYPE_CHECKING:
    from freezeframe_replay.sources.store import RunRow

_DEEPEST: Final = 8
"""Levels of the tree that are indented; deeper ones are shown at this one."""
_BODY_LIMIT: Final = 200_000
"""Characters of a body that the page shows."""


@cache
def style() -> str:
    """Return the style sheet that every page contains."""
    return files("freezeframe_replay.web").joinpath("style.css").read_text(encoding="utf-8")


@cache
def content_security_policy() -> str:
    """Return the policy: no script, no request, no frame; the one style sheet by its hash."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


def runs_page(runs: Sequence[RunRow], filters: Mapping[str, str]) -> str:
    """Return the list of runs, below the form that filters it."""
    head = (
        "<tr><th>started<th>run<th>entry<th>input<th>result<th class=number>steps<th class=number>tokens"
        "<th class=number>time<th>status</tr>"
    )
    body = "".join(_run_row(run) for run in runs)
    asked = any(filters.get(name) for name in _FILTERS)
    empty = (
        "<p>No matching runs.</p>"
        if asked
        else "<p>No runs yet. Record one: <code>freezeframe run -- python your_agent.py</code></p>"
    )
    table = f"<table>{head}{body}</table>" if runs else empty
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}, newest first"
    return page("runs", f"<h1>freezeframe</h1>{_filter_form(filters)}<nav>{count}</nav>{table}")


_FILTERS: Final = ("words", "service", "user", "since", "failed")


def _filter_form(filters: Mapping[str, str]) -> str:
    fields = "".join(
        f'<label>{name} <input name="{name}" value="{escape(filters.get(name, ""))}" placeholder="{hint}"></label>'
        for name, hint in (("words", "id, input, outcome, error"), ("service", ""), ("user", ""), ("since", "15m, 1h, 7d"))
    )
    checked = " checked" if filters.get("failed") in ("1", "true") else ""
    return (
        f'<form action="/" method="get">{fields}<label><input type="checkbox" name="failed" value="1"{checked}> not ok</label>'
        f'<button>show</button> <a href="/">all</a></form>'
    )


def closed_page(here: str) -> str:
    """Return the page for a browser that did not use a link of this service; `here` is the address that it requested."""
    return page(
        "closed",
        "<h1>Open this page with its link</h1><p><code>freezeframe status</code> prints a link that opens these pages in a"
        " browser. It works once; after that, they stay open in that browser. If you have been here before,"
        f' <a href="{escape(here)}">continue</a>.</p>',
    )


def run_page(outline: Outline, *, token: str = "") -> str:
    """Return the page of one run, built from a whole outline. Its form for a replay sends `token` back."""
    run = escape(outline.run_id)
    nav = (
        f'<nav><a href="/">all runs</a> · <a href="/api/runs/{quote(outline.run_id)}">as JSON</a> · '
        f'<a href="/api/runs/{quote(outline.run_id)}/fixture">as a fixture (tar.gz)</a></nav>'
    )
    state = _status(outline.status)
    parts = [
        f"<h1>run <code>{run}</code> {state}</h1>",
        nav,
        _facts(outline),
        _actions(outline, token),
        "<h2>Steps</h2>",
        _tree(outline.nodes),
        "<h2>Replay kit</h2>",
        _kit(outline),
    ]
    if outline.gaps:
        parts.append(f"<h2>Gaps</h2><ul>{''.join(f'<li>{shown(gap)}</li>' for gap in outline.gaps)}</ul>")
    parts.append(
        f"<h2>Next</h2><pre>freezeframe replay {run}\nfreezeframe fixture {run} -o tests/regressions/{run[:8]} --pytest</pre>"
    )
    return page(outline.run_id[:8], "".join(parts))


def _actions(outline: Outline, token: str) -> str:
    """Return the forms below the facts: replay this run, compare it with another one."""
    run = quote(outline.run_id)
    replay = (
        f'<form action="/runs/{run}/replay" method="post"><input type="hidden" name="token" value="{escape(token)}">'
        '<button>replay offline</button> <span class="dim">runs the code next to the data directory, answered from the '
        "recording"
        "</span></form>"
    )
    cold = '<p class="dim">A cold case: it cannot be re-enacted by itself, see the replay kit below.</p>'
    compare = (
        f'<form action="/diff" method="get"><input type="hidden" name="before" value="{escape(outline.run_id)}">'
        '<input name="after" placeholder="id of another run, or last" size="34"><button>compare</button></form>'
    )
    return f"{cold if outline.cold else replay}{compare}"


def error_page(message: str, do: str | None) -> str:
    """Return the page shown instead of one that could not be built."""
    advice = f"<p>{shown(do)}</p>" if do else ""
    return page("error", f'<h1>freezeframe</h1><nav><a href="/">all runs</a></nav><p class="bad">{shown(message)}</p>{advice}')


def page(title: str, body: str, *, head: str = "") -> str:
    """Return a whole page around a body; `head` is additional markup for its head."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{head}<title>freezeframe: {escape(title)}</title><style>{style()}</style></head><body>{body}</body></html>"
    )


def shown(text: str) -> str:
    """Return a text of a recording in the form that a page may hold: one printable line, escaped."""
    return escape(printable(text))


def _run_row(run: RunRow) -> str:
    return (
        f'<tr><td class="time">{moment(run.start_time)}'
        f'<td><a href="/runs/{quote(run.trace_id)}"><code>{escape(run.trace_id[:8])}</code></a>'
        f'<td class="entry">{shown(run.name)}<td class="name">{shown(input_text(run.input)[:160])}'
        f'<td class="name">{_result(run)}'
        f'<td class="number">{run.exchanges}<td class="number">{_tokens(run)}'
        f'<td class="number">{duration(run.ms)}<td>{_status(RunStatus(run.status))}</tr>'
    )


def _status(status: RunStatus) -> str:
    return f'<span class="{"good" if status is RunStatus.OK else "bad"}">{status.word}</span>'


def _tokens(run: RunRow) -> str:
    return f"{run.input_tokens:,} &gt; {run.output_tokens:,}" if run.input_tokens or run.output_tokens else ""


def _result(run: RunRow) -> str:
    text, mark = (run.first_error, "bad") if run.status != RunStatus.OK and run.first_error else (run.output, "dim")
    return f'<span class="{mark}">{shown(text[:160])}</span>'


def _facts(outline: Outline) -> str:
    rows = {
        "started": f"{when(outline.start_time_unix_nano)}, {took(outline)}",
        **({"reached": reached} if (reached := how_far(outline)) else {}),
        "entry": f"{outline.entry_target or outline.name} {f'({outline.entry_kind})' if outline.entry_kind else ''}",
        "input": outline.called_with or "not recorded",
        "outcome": outline.outcome,
        **outline.who,
        **outline.environment,
    }
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{shown(text)}</dd>' for name, text in rows.items())}</dl>"


def _tree(nodes: Iterable[Node]) -> str:
    head = "<tr><th>step<th>kind<th>name<th>time<th>status<th>tokens<th>lane</tr>"
    return f"<table>{head}{''.join(map(_node_row, nodes))}</table>"


def _node_row(node: Node) -> str:
    name = f'{shown(node.name)} <span class="dim">{shown(node.detail[:160])}</span>'
    if node.request is not None or node.response is not None:
        is_open = " open" if node.failed else ""
        bodies = _body("request", node.request) + _body("response", node.response)
        name = f"<details{is_open}><summary>{name}</summary>{bodies}</details>"
    tokens = "" if node.tokens is None else f"{node.tokens[0]:,} &gt; {node.tokens[1]:,}"
    return (
        f'<tr><td class="number">{"" if node.step is None else node.step}<td>{escape(node.kind)}'
        f'<td class="name"><div class="d{min(node.depth, _DEEPEST)}">{name}</div><td class="number">{duration(node.ms)}'
        f'<td class="{"bad" if node.failed else "good"}">{shown(node.status)}<td class="number">{tokens}'
        f"<td>{shown(node.lane if node.inside is None else f'in step {node.inside}')}</tr>"
    )


def _body(what: str, text: str | None) -> str:
    if not text:
        return f'<div class="dim">{what}: empty</div>'
    text = _indented(text)
    cut = "" if len(text) <= _BODY_LIMIT else f'<div class="dim">the first {_BODY_LIMIT:,} of {len(text):,} characters</div>'
    return f'<div class="dim">{what}</div><pre>{escape(text[:_BODY_LIMIT])}</pre>{cut}'


def _indented(text: str) -> str:
    """Return a JSON body in readable form, any other one unchanged."""
    if text[:1] not in ("{", "[") or len(text) > _BODY_LIMIT:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def _kit(outline: Outline) -> str:
    by_level: dict[int, list[str]] = defaultdict(list)
    for row in outline.kit:
        whole = row.present == row.expected
        count = "" if whole else f" {row.present} of {row.expected}"
        by_level[row.level].append(
            f'<li class="{"good" if whole else "bad"}" title="{escape(row.means)}">{escape(row.name)}{count}</li>'
        )
    reached = f"<p>Reaches L{outline.level} ({escape(outline.level_means)}){': a cold case' if outline.cold else ''}.</p>"
    levels = "".join(
        f'<dt>L{level}</dt><dd><ul class="kit">{"".join(items)}</ul></dd>' for level, items in sorted(by_level.items())
    )
    return f"{reached}<dl>{levels}</dl>"
