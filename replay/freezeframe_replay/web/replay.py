"""One page: what a replay found, where it left the recording, and what to type next. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from freezeframe_replay.report.outline import outcome_text
from freezeframe_replay.report.render import report_text, unquoted
from freezeframe_replay.web.pages import page, shown
from freezeframe_schemas.divergence import Divergence, Made, Report
from freezeframe_schemas.verdict import Verdict, headline, verdict

_MARKS: Final = {"exact": "good", "relaxed": "good", "live": "dim"}
_MEANS: Final = {
    "exact": "as recorded",
    "relaxed": "as recorded, asked at another place",
    "live": "made for real",
    "missed": "not in the recording",
    "stopped": "stopped here",
}


def replay_page(report: Report, folder: Path) -> str:
    """Return the page of one replay; `folder` is where the code ran."""
    found = verdict(report)
    run = escape(report.run_id)
    mark = "good" if found is Verdict.IDENTICAL else "bad"
    parts = [
        f'<h1>replay of run <code>{run}</code> <span class="{mark}">{found.value}</span></h1>',
        f'<nav><a href="/runs/{quote(report.run_id)}">the run</a> · <a href="/">all runs</a></nav>',
        f"<p>{shown(headline(report))}</p>",
        f"<p>The code in <code>{shown(str(folder))}</code>, answered from the recording: no network, no tool.</p>",
    ]
    parts += [_divergence(item, first=item is report.first) for item in report.divergences]
    parts.append(f"<h2>Calls</h2><table><tr><th>step<th>call<th>answered</tr>{''.join(map(_made, report.made))}</table>")
    outcome = "" if report.outcome is None else outcome_text(report.outcome)
    # if our own exception ended the program, the divergence above has said so
    if outcome and not outcome.startswith("raised ReplayMiss"):
        parts.append(f"<h2>Outcome</h2><pre>{escape(outcome)}</pre>")
    parts += _warnings(report.warnings)
    parts.append(f"<h2>As text</h2><pre>{escape(report_text(report))}</pre>")
    return page(f"replay {report.run_id[:8]}", "".join(parts))


def _divergence(item: Divergence, *, first: bool) -> str:
    place = "" if item.step is None else f" at step {item.step}"
    name = f"{item.call_kind} {item.name}".strip()
    title = f"{item.kind.value}{place}: {name}"
    rows: list[tuple[str, str]] = []
    if item.recorded is not None or item.live is not None:
        change = f"<del>{shown(item.recorded or '')}</del><br><ins>{shown(item.live or '')}</ins>"
        rows.append((f"<code>{shown(item.path)}</code>", change))
    for label, text in (
        ("differed", ", ".join(item.differed)),
        ("agreed", ", ".join(item.agreed)),
        ("would have returned", unquoted(item.would_have_returned or "")),
        ("note", item.note),
    ):
        if text:
            rows.append((label, shown(text)))
    facts = "".join(f"<dt>{label}</dt><dd>{text}</dd>" for label, text in rows)
    heading = "h2" if first else "h3"
    return f'<{heading} class="bad">{shown(title)}</{heading}><dl class="changes">{facts}</dl>'


def _made(call: Made) -> str:
    step = "" if call.step is None else str(call.step)
    mark = _MARKS.get(call.how, "bad")
    return (
        f'<tr><td class="number">{step}<td class="name">{shown(call.call_kind)} {shown(call.name)} '
        f'<span class="dim">{shown((call.arguments or "")[:160])}</span>'
        f'<td class="{mark}">{escape(_MEANS.get(call.how, call.how))}</tr>'
    )


def _warnings(texts: Iterable[str]) -> list[str]:
    items = "".join(f"<li>{shown(text)}</li>" for text in texts)
    return [f"<h2>Warnings</h2><ul>{items}</ul>"] if items else []
