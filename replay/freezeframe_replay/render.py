"""Outlines and reports as text for a terminal. Pure; nothing of a recording reaches the terminal as a control character."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from freezeframe_replay.outline import ROOT_LANE, Node, Outline, outcome_text
from freezeframe_replay.verdict import Verdict, verdict
from freezeframe_schemas.divergence import Divergence, DivergenceKind, Report

WIDTH: Final = 120
"""Columns after which long texts of a recording are cut."""
_LABEL: Final = 14
_STEPS_SHOWN: Final = 40
_LATER_SHOWN: Final = 5

_WORDS: Final[Mapping[DivergenceKind, str]] = {
    DivergenceKind.REQUEST_CHANGED: "diverged",
    DivergenceKind.EXTRA_CALL: "a call that the recording does not hold",
    DivergenceKind.MISSING_CALL: "a recorded step was never asked for",
    DivergenceKind.OUTCOME_CHANGED: "every step alike, another outcome",
    DivergenceKind.INPUT_CHANGED: "entered with other input",
    DivergenceKind.NETWORK: "tried to reach the network",
    DivergenceKind.ORDER_CHANGED: "recorded steps asked for in another order",
}

_NEXT: Final[Mapping[DivergenceKind, str]] = {
    DivergenceKind.REQUEST_CHANGED: "if this is the fix, lock it in with `freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.EXTRA_CALL: "a new call has no recording: run the agent live to record it, or lock the change in with "
    "`freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.MISSING_CALL: "if the call is gone on purpose, lock it in with `freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.OUTCOME_CHANGED: "if this is the fix, lock it in with `freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.INPUT_CHANGED: "replay without `-- CMD` to use the recorded input, or give the program that input",
    DivergenceKind.ORDER_CHANGED: "if the order does not matter, run the calls as tasks side by side and record again",
    DivergenceKind.NETWORK: "wrap the function that makes the call with @freezeframe.tool and record the run again",
}


def printable(text: str) -> str:
    """Return the text as one line that cannot steer a terminal: line ends and control characters as ``\\n``, ``\\x1b``."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def short(text: str, width: int = WIDTH) -> str:
    """Return one printable line of at most `width` characters, cut in the middle so that its end stays visible."""
    line = printable(text)
    if len(line) <= width:
        return line
    tail = width // 3
    return f"{line[: width - tail - 5]} ... {line[-tail:]}"


def when(time_unix_nano: int) -> str:
    """Return a time as ``2026-11-21 15:00:00Z``."""
    return moment(dt.datetime.fromtimestamp(time_unix_nano / 1e9, dt.UTC))


def moment(time: dt.datetime) -> str:
    """Return a time as ``2026-11-21 15:00:00Z``; one without a zone is in UTC."""
    utc = time if time.tzinfo is None else time.astimezone(dt.UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%SZ")


def duration(ms: float) -> str:
    """Return a duration with its unit: ``0.4 ms``, ``812 ms``, ``3.21 s``."""
    if ms >= 1000:
        return f"{ms / 1000:.2f} s"
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def table_text(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), width: int = 80) -> str:
    """Return rows under a header in columns; those in `right` stand right-aligned. Cells are cut at `width`."""
    aligned = set(right)
    cells = [[short(cell, width) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(widths[column]) if column in aligned else cell.ljust(widths[column]) for column, cell in enumerate(row)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


# -- a run --------------------------------------------------------------------------------------------------------------


def outline_text(outline: Outline, *, full: bool = False) -> str:
    """Return everything about a run: head, tree, kit, readiness, gaps."""
    parts = [_head(outline), tree_text(outline.nodes, full=full)]
    if outline.level is not None:
        parts.append(_kit_text(outline))
    if outline.gaps:
        parts.append("\n".join(["gaps", *(f"  {short(gap)}" for gap in outline.gaps)]))
    return "\n\n".join(parts)


def _head(outline: Outline) -> str:
    state = "failed" if outline.failed else "ok"
    kind = f"  ({outline.entry_kind})" if outline.entry_kind else ""
    rows = {
        "run": f"{outline.run_id}  {state}  {duration(outline.ms)}  {when(outline.start_time_unix_nano)}",
        "entry": f"{outline.entry_target or outline.name or 'none'}{kind}",
        "input": outline.called_with or "not recorded",
        "outcome": outline.outcome,
        "who": "  ".join(f"{name} {text}" for name, text in outline.who.items()),
        **outline.environment,
    }
    return "\n".join(f"{name:<{_LABEL}}{short(text)}" for name, text in rows.items() if text)


def tree_text(nodes: Sequence[Node], *, full: bool = False) -> str:
    """Return the tree: step number, kind, name, time, status, tokens, lane."""
    header = ("step", "kind", "name", "time", "status", "tokens", "lane")
    rows = [
        (
            "" if node.step is None else str(node.step),
            node.kind,
            _indented(node),
            duration(node.ms),
            ("! " if node.failed else "") + node.status,
            "" if node.tokens is None else f"{node.tokens[0]:,} > {node.tokens[1]:,}",
            node.lane if node.inside is None else f"in step {node.inside}",
        )
        for node in nodes
    ]
    lines = table_text(header, rows, right=(0, 3), width=72).splitlines()
    if not full:
        return "\n".join(lines)
    shown = lines[:1]
    for node, line in zip(nodes, lines[1:], strict=True):
        shown.append(line)
        shown += [f"        > {printable(part)}" for part in (node.request or "").splitlines()]
        shown += [f"        < {printable(part)}" for part in (node.response or "").splitlines()]
    return "\n".join(shown)


def _indented(node: Node) -> str:
    gap = "" if node.detail.startswith("(") else "  "
    return "  " * node.depth + f"{node.name}{gap}{node.detail}".rstrip()


def _kit_text(outline: Outline) -> str:
    """Return the level that is reached, what is carried whole for each level, and what is not, one a line."""
    carried: dict[int, list[str]] = defaultdict(list)
    for row in outline.kit:
        carried[row.level] += [row.name] if row.present == row.expected else []
    cold = ": a cold case, it cannot be re-enacted" if outline.cold else ""
    lines = [f"{'ready':<{_LABEL}}L{outline.level}, {outline.level_means}{cold}"]
    lines += [f"{f'  carries L{level}':<{_LABEL}}{', '.join(names) or 'nothing'}" for level, names in sorted(carried.items())]
    lines += [
        f"{f'  lacks L{row.level}':<{_LABEL}}{row.name} ({row.means}), {row.present} of {row.expected} spans have it"
        for row in sorted(outline.kit, key=lambda row: row.level)
        if row.present < row.expected
    ]
    return "\n".join(lines)


# -- a report -----------------------------------------------------------------------------------------------------------


def report_text(report: Report, *, quiet: bool = False) -> str:
    """Return what a replay found: one line where it is identical or `quiet`, else the first divergence and those after it."""
    found = verdict(report)
    served = len(report.served)
    if found is Verdict.IDENTICAL:
        line = f"identical: {served} of {report.steps} steps identical, run {report.run_id}"
        return line if quiet else "\n".join([line, *_steps(report), *_outcome(report), *_warnings(report)])
    if found is Verdict.INCOMPARABLE:
        line = f"incomparable: the program never reached the recorded entry point, run {report.run_id}"
        advice = "  next: see the warning, or name the program that enters it: freezeframe replay RUN -- CMD"
        return line if quiet else "\n".join([line, *_warnings(report), advice])
    first, *later = report.divergences
    line = f"{first.kind.value} {_title(first)}: {served} of {report.steps} steps replayed, run {report.run_id}"
    if quiet:
        return line
    return "\n".join([line, *_divergence(first), *_later(later), *_outcome(report), *_warnings(report), *_next(first, report)])


def _title(divergence: Divergence) -> str:
    place = "" if divergence.step is None else f" at step {divergence.step}"
    about = [part for part in (divergence.call_kind, divergence.name) if part]
    if divergence.step is not None or divergence.call_kind:
        about.append(f"lane {divergence.lane or ROOT_LANE}")
    return short(_WORDS[divergence.kind] + place + (f" ({', '.join(about)})" if about else ""))


def _divergence(divergence: Divergence) -> list[str]:
    lines: list[str] = []
    if divergence.recorded is not None or divergence.live is not None:
        lines.append(f"  {short(divergence.path)}")
        lines.append(f"  - {short(divergence.recorded or '')}")
        lines.append(f"  + {short(divergence.live or '')}")
    if divergence.differed:
        lines.append(f"  differed: {short(', '.join(divergence.differed))}")
    if divergence.agreed:
        lines.append(f"  agreed: {short(', '.join(divergence.agreed))}")
    if divergence.would_have_returned:
        lines.append(f"  would have returned: {short(_unquoted(divergence.would_have_returned))}")
    if divergence.note:
        lines.append(f"  note: {short(divergence.note)}")
    return lines


def _unquoted(text: str) -> str:
    """Return what a JSON string says, so that a body is not shown with its quotes escaped; other text as it is."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def _later(later: Sequence[Divergence]) -> list[str]:
    lines = [f"  then {item.kind.value} {_title(item)}" for item in later[:_LATER_SHOWN]]
    if len(later) > _LATER_SHOWN:
        lines.append(f"  and {len(later) - _LATER_SHOWN} more (--json shows all)")
    return lines


def _steps(report: Report) -> list[str]:
    lines: list[str] = []
    for item in report.served[:_STEPS_SHOWN]:
        name = report.names.get(str(item.step), "")
        moved = "" if item.how == "exact" else f"  ({item.how}: asked at another place in the run)"
        lines.append(f"  {item.step:>4}  {short(name, 80)}{moved}".rstrip())
    if len(report.served) > _STEPS_SHOWN:
        lines.append(f"  and {len(report.served) - _STEPS_SHOWN} more")
    return lines


def _outcome(report: Report) -> list[str]:
    if report.outcome is None:
        return []
    text = outcome_text(report.outcome)
    # our own exception ended the program: the divergence above has said so
    return [] if text.startswith("raised ReplayMiss") else [f"  outcome: {short(text)}"]


def _warnings(report: Report) -> list[str]:
    return [f"  warning: {short(item, 3 * WIDTH)}" for item in report.warnings]


def _next(first: Divergence, report: Report) -> list[str]:
    lines = [f"  next: {_NEXT[first.kind].replace('RUN', report.run_id)}"]
    if first.kind is DivergenceKind.REQUEST_CHANGED and first.differed:
        lines.append(f"        if it varies by itself: --ignore {first.differed[0]}")
    return lines
