"""Outlines and reports as text for a terminal. Pure; nothing of a recording reaches the terminal as a control character."""

from __future__ import annotations

import datetime as dt
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from freezeframe_replay.engine.compare import json_or_text
from freezeframe_replay.report.outline import ROOT_LANE, Node, Outline
from freezeframe_replay.report.tagged import outcome_text
from freezeframe_schemas.divergence import Divergence, DivergenceKind, Relaxed, Report
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.verdict import Verdict, headline, title, verdict

WIDTH: Final = 120
"""Columns after which long texts of a recording are cut."""
ID_DIGITS: Final = 12
"""Digits of a run's id that are shown if it need not be whole: enough to name one among millions."""
_LABEL: Final = 14
_CELL: Final = 72
"""Columns after which a cell of the tree is cut."""
_NAME: Final = 2
_READABLE_NAME: Final = 40
"""The column of the name in the tree, and how much of it is shown before other columns are left out."""
_STEPS_SHOWN: Final = 40
_LATER_SHOWN: Final = 5

_NEXT: Final[Mapping[DivergenceKind, str]] = {
    DivergenceKind.REQUEST_CHANGED: "if this is the fix, lock it in with `freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.EXTRA_CALL: "lock the change in with `freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.MISSING_CALL: "if the call is gone on purpose, lock it in with `freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.OUTCOME_CHANGED: "if this is the fix, lock it in with `freezeframe fixture RUN -o DIR --pytest`",
    DivergenceKind.INPUT_CHANGED: "replay without `-- CMD` to use the recorded input, or start the program with that input",
    DivergenceKind.ORDER_CHANGED: "if the order does not matter, run the calls as tasks side by side and record again",
    DivergenceKind.FENCED: "wrap the function that does it with @freezeframe.tool and record the run again, or let it through "
    "with --allow-program or --allow-path",
    DivergenceKind.NETWORK: "wrap the function that makes the call with @freezeframe.tool and record the run again",
    DivergenceKind.STILL_WAITED: "the answer to this call was never received: record the run again",
}


_RELAXED: Final[Mapping[str, str]] = {
    Relaxed.PLACE: "asked at a different place",
    Relaxed.CLOCK: "at another time",
    Relaxed.NAMES: "except for names",
    Relaxed.OBJECTS: "objects compared by class only",
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


def counted(number: int, word: str) -> str:
    """Return a number with what it counts: ``1 step``, ``1,200 steps``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def duration(ms: float) -> str:
    """Return a duration with its unit: ``0.4 ms``, ``812 ms``, ``3.21 s``, ``2 min 5 s``, ``3 h 20 min``."""
    if ms >= 3_600_000:
        return f"{ms // 3_600_000:.0f} h {ms % 3_600_000 // 60_000:.0f} min"
    if ms >= 120_000:
        return f"{ms // 60_000:.0f} min {ms % 60_000 // 1000:.0f} s"
    if ms >= 1000:
        return f"{ms / 1000:.2f} s"
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def size_text(size: float) -> str:
    """Return a number of bytes in its largest unit: ``812 bytes``, ``1.2 MB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def cost(usd: float | None) -> str:
    """Return a cost: ``$4.10``, and of less three digits that count: ``$0.0123``; nothing if it is not known."""
    if usd is None:
        return ""
    if usd >= 0.1:
        return f"${usd:.2f}"
    return f"${usd:.{min(2 - math.floor(math.log10(usd)), 6)}f}".rstrip("0").rstrip(".") if usd > 0 else "$0"


def cost_sum(usd: float, *, calls: int, unknown: int) -> str:
    """Return what calls cost together: ``$0.0123``, ``$0.0123 and 2 of 5 calls unknown``, ``unknown``."""
    if not unknown:
        return cost(usd)
    return "unknown" if unknown == calls else f"{cost(usd)} and {unknown:,} of {calls:,} calls unknown"


def table_text(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    cell_width: int = 80,
    fit: tuple[int, int] | None = None,
) -> str:
    """Return rows under a header in columns.

    Args:
        header: the columns' names.
        rows: one text for each column.
        right: right-aligned columns.
        cell_width: the width at which cells are cut.
        fit: a column, and the width that the table gets by cutting this column's cells further (not below 20).
    """
    aligned = set(right)
    cells = [[short(cell, cell_width) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    if fit is not None:
        column, total = fit
        excess = sum(widths) + 2 * (len(widths) - 1) - total
        if excess > 0:
            widths[column] = min(widths[column], max(20, widths[column] - excess))
            for row in cells:
                row[column] = short(row[column], widths[column])
    lines = [
        "  ".join(
            cell.rjust(widths[column]) if column in aligned else cell.ljust(widths[column]) for column, cell in enumerate(row)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


# -- a run --------------------------------------------------------------------------------------------------------------


def outline_text(outline: Outline, *, full: bool = False, width: int = WIDTH) -> str:
    """Return everything about a run: head, tree, kit, readiness, gaps; `width` is the terminal's."""
    parts = [_head(outline, width), tree_text(outline.nodes, full=full, width=width)]
    if outline.level is not None:
        parts.append(_kit_text(outline, width))
    if outline.ledger:
        parts.append("\n".join(ledger_lines(outline, width)))
    if outline.gaps:
        parts.append("\n".join(["gaps", *(_hanging(printable(gap), width) for gap in outline.gaps)]))
    return "\n\n".join(parts)


def ledger_lines(outline: Outline, width: int) -> Iterator[str]:
    """Yield what a reconstructed run does not hold, rows that say the same of several steps as one."""
    yield "reconstructed from the spans of another instrumentation; what they lack, and where it comes from"
    steps: dict[tuple[str, str], list[str]] = {}
    for loss in outline.ledger:
        steps.setdefault((loss.field, loss.source), []).extend([] if loss.step is None else [str(loss.step)])
    for (name, source), numbers in steps.items():
        where = f"step {', '.join(numbers)}: " if numbers else ""
        yield _hanging(printable(f"{where}{name}: {source}"), width)


def _head(outline: Outline, width: int) -> str:
    kind = f"  ({outline.entry_kind})" if outline.entry_kind else ""
    rows = {
        "run": f"{outline.run_id}  {outline.status.word}",
        "started": f"{when(outline.start_time_unix_nano)}, {took(outline)}",
        "entry": f"{outline.entry_target or outline.name or 'none'}{kind}",
        "input": outline.called_with or "not recorded",
        "reached": how_far(outline),
        "outcome": outline.outcome,
        "who": "  ".join(f"{name} {text}" for name, text in outline.who.items()),
        **outline.environment,
    }
    return "\n".join(f"{name:<{_LABEL}}{short(text, width - _LABEL)}" for name, text in rows.items() if text)


def took(outline: Outline) -> str:
    """Return how long a run took, or when one without an end gave its last sign of life."""
    if outline.status is not RunStatus.UNFINISHED:
        return f"took {duration(outline.ms)}"
    return f"last heard from {duration(outline.ms)} later"


def how_far(outline: Outline) -> str:
    """Return how far a run without an end got; empty for any other."""
    if outline.status is not RunStatus.UNFINISHED:
        return ""
    steps = [node for node in outline.nodes if node.step is not None]
    if not steps:
        return "no step was recorded; a killed process loses the steps of its last moments"
    last = max(steps, key=lambda node: node.step or 0)
    count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    name = last.detail if last.kind == Kind.MODEL and last.detail else last.name
    return f"{count}, the last: step {last.step} ({last.kind} {name})"


def tree_text(nodes: Sequence[Node], *, full: bool = False, width: int = WIDTH) -> str:
    """Return the tree: step number, kind, name, time, status, tokens, lane; less of it on a narrow terminal."""
    header = ("step", "kind", "name", "time", "status", "tokens", "lane")
    rows: list[tuple[str, ...]] = [
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
    header, *rows = _for_narrow([header, *rows], width, lanes=any(node.lane not in ("", ROOT_LANE) for node in nodes))
    lines = table_text(header, rows, right=(0, 3), cell_width=_CELL, fit=(_NAME, width)).splitlines()
    if not full:
        return "\n".join(lines)
    shown = lines[:1]
    for node, line in zip(nodes, lines[1:], strict=True):
        shown.append(line)
        shown += [f"        > {printable(part)}" for part in (node.request or "").splitlines()]
        shown += [f"        < {printable(part)}" for part in (node.response or "").splitlines()]
    return "\n".join(shown)


def _for_narrow(rows: list[tuple[str, ...]], width: int, *, lanes: bool) -> list[tuple[str, ...]]:
    """Return header and rows. If names would become unreadable, leave out lanes (if there is only one), tokens, and
    the middle of a long status."""

    def fits() -> bool:
        widths = [min(max(map(len, column)), _CELL) for column in zip(*rows, strict=True)]
        widths[_NAME] = min(widths[_NAME], _READABLE_NAME)
        return sum(widths) + 2 * (len(widths) - 1) <= width

    if not fits() and not lanes:
        rows = [row[:-1] for row in rows]
    if not fits() or not any(row[5] for row in rows[1:]):
        rows = [(*row[:5], *row[6:]) for row in rows]
    if not fits():
        rows = [(*row[:4], short(row[4], 16), *row[5:]) for row in rows]
    return rows


def _indented(node: Node) -> str:
    gap = "" if node.detail.startswith("(") else "  "
    return "  " * node.depth + f"{node.name}{gap}{node.detail}".rstrip()


def _kit_text(outline: Outline, width: int) -> str:
    """Return the level reached, and what is complete and what is not for each level, one per line."""
    carried: dict[int, list[str]] = defaultdict(list)
    for row in outline.kit:
        carried[row.level] += [row.name] if row.present == row.expected else []
    cold = ": a cold case, it cannot be re-enacted by itself" if outline.cold else ""
    lines = [_labelled("ready", f"L{outline.level}, {outline.level_means}{cold}", width)]
    lines += [
        _labelled(f"  carries L{level}", ", ".join(names) or "nothing", width) for level, names in sorted(carried.items())
    ]
    lines += [
        _labelled(f"  lacks L{row.level}", f"{row.name} ({row.means}), {row.present} of {row.expected} spans have it", width)
        for row in sorted(outline.kit, key=lambda row: row.level)
        if row.present < row.expected
    ]
    return "\n".join(lines)


def _hanging(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _labelled(label: str, text: str, width: int) -> str:
    """Return the text next to its label, with its lines aligned."""
    return textwrap.fill(text, width, initial_indent=f"{label:<{_LABEL}}", subsequent_indent=" " * _LABEL)


# -- a report -----------------------------------------------------------------------------------------------------------


def report_text(report: Report, *, quiet: bool = False, width: int = WIDTH, again: str = "") -> str:
    """Return what a replay found: its headline, and unless `quiet` every step that was served or the divergences.

    `again` names the run in suggested commands; by default it is the start of its id.
    """
    return printable(headline(report)) if quiet else "\n".join(_report(report, width, again or report.run_id[:ID_DIGITS]))


def _report(report: Report, width: int, again: str) -> Iterable[str]:
    yield printable(headline(report))  # whole, however narrow the terminal: it is the answer
    if not report.divergences:
        yield from _steps(report, width)
    else:
        first, *later = report.divergences
        yield from _divergence(first, width)
        yield from (short(f"  then {item.kind.value} {title(item)}", width) for item in later[:_LATER_SHOWN])
        if len(later) > _LATER_SHOWN:
            yield f"  and {len(later) - _LATER_SHOWN} more (--json shows all)"
    yield from _live(report, width)
    yield from _outcome(report, width)
    if report.exit_status and report.divergences:
        yield f"  the program exited with status {report.exit_status}"
    for pair in report.ambiguous:
        yield from _wrapped("  ambiguous: ", f"steps {pair.steps[0]} and {pair.steps[1]}: {pair.why}", width)
    for warning in report.warnings:
        yield from _wrapped("  warning: ", printable(warning), width)
    yield from _next(report, width, again)


def _divergence(divergence: Divergence, width: int) -> Iterable[str]:
    if divergence.recorded is not None or divergence.live is not None:
        yield short(f"  {divergence.path}", width)
        yield short(f"  - {divergence.recorded or ''}", width)
        yield short(f"  + {divergence.live or ''}", width)
    for label, names in (("differed", divergence.differed), ("agreed", divergence.agreed)):
        if names:
            yield from _wrapped(f"  {label}: ", printable(", ".join(names)), width)
    if divergence.would_have_returned:
        yield short(f"  would have returned: {unquoted(divergence.would_have_returned)}", width)
    if divergence.note:
        yield from _wrapped("  note: ", printable(divergence.note), width)


def unquoted(text: str) -> str:
    """Return a JSON string decoded, so that a body is not shown with its quotes escaped; other text unchanged."""
    value = json_or_text(text)
    return value if isinstance(value, str) else text


def _steps(report: Report, width: int) -> Iterable[str]:
    for item in report.served[:_STEPS_SHOWN]:
        name = report.names.get(str(item.step), "")
        moved = f"  ({', '.join(map(_relaxed, item.relaxed))})" if item.relaxed else ""
        yield short(f"  {item.step:>4}  {name}{moved}".rstrip(), width)
    if len(report.served) > _STEPS_SHOWN:
        yield f"  and {len(report.served) - _STEPS_SHOWN} more"


def _relaxed(name: str) -> str:
    return _RELAXED.get(name, f"{name} ignored")


def _live(report: Report, width: int) -> Iterable[str]:
    for call in report.live:
        place = "" if call.step is None else f" in place of step {call.step}"
        yield short(f"  live: {call.call_kind} {call.name}{place}", width)


def _outcome(report: Report, width: int) -> Iterable[str]:
    text = "" if report.outcome is None else outcome_text(report.outcome)
    # if our own exception ended the program, the divergence above has said so
    if text and not text.startswith("raised ReplayMiss"):
        yield short(f"  outcome: {text}", width)


def _answer(call_kind: str) -> str:
    """Return how a new call gets an answer; databases and files are never asked live."""
    peculiar: dict[str, str] = {Kind.TOOL: "--allow-tool NAME", Kind.DATABASE: "", Kind.FILE: ""}
    option = peculiar.get(call_kind, f"--live {call_kind}")
    make = f"make it for real and keep it with `freezeframe replay RUN {option} -o DIR`, or "
    return f"a new call has no recording: {make if option else ''}"


def _next(report: Report, width: int, again: str) -> Iterable[str]:
    first, asked_nothing = report.first, not report.made and report.outcome is None
    if not report.entered or (first is not None and first.kind is DivergenceKind.MISSING_CALL and asked_nothing):
        advice = "see what the program prints: freezeframe replay RUN --show-output; or name the program to start: "
        advice += "freezeframe replay RUN -- CMD"
    elif first is not None:
        if report.live:
            return
        advice = _answer(first.call_kind) + _NEXT[first.kind] if first.kind is DivergenceKind.EXTRA_CALL else _NEXT[first.kind]
    elif report.requires_values and report.uncompared:
        advice = "use --data to name the data directory that holds the recording's key"
    elif verdict(report) is Verdict.INCOMPARABLE and report.stopped is None:
        advice = "see what the run holds: freezeframe show RUN; record its calls with freezeframe.instrument()"
    else:
        return
    yield from _wrapped("  next: ", advice.replace("RUN", again), width)
    if first is not None and first.kind is DivergenceKind.REQUEST_CHANGED and first.differed and not report.reconstructed:
        yield short(f"        if it varies by itself: --ignore {first.differed[0]}", width)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False)
