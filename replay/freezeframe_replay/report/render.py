"""Runs as text for a terminal, and wording shared by all texts. Pure; no control character of a recording gets through."""

from __future__ import annotations

import datetime as dt
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from freezeframe_replay.report.characters import columns, fit_end, fit_start, joins
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.lane_names import ROOT_LANE
from freezeframe_schemas.lifecycle import RunStatus

if TYPE_CHECKING:
    from freezeframe_replay.report.outline import Node, Outline
    from freezeframe_replay.sources.scores import RunScore

WIDTH: Final = 120
"""Columns after which long texts of a recording are cut."""
WIDE: Final = 100
"""Columns from which tables show everything."""
ID_DIGITS: Final = 12
"""Digits shown of a run's id unless the whole is needed: enough to name one among millions."""
_LABEL: Final = 14
_REASON: Final = 600
"""Columns after which the reason of a score is cut."""
_CELL: Final = 72
"""Columns after which a cell of the tree is cut."""
_NAME: Final = 2
_READABLE_NAME: Final = 40
"""The column of the name in the tree, and how much of it is shown before other columns are left out."""


def printable(text: str) -> str:
    """Return the text as one line that cannot steer a terminal: line ends and control characters as ``\\n``, ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or joins(text, at) else char.encode("unicode_escape").decode()
        for at, char in enumerate(text)
    )


def short(text: str, width: int = WIDTH) -> str:
    """Return one printable line of at most `width` columns, cut in the middle so that its end stays visible."""
    line = printable(text)
    if columns(line) <= width:
        return line
    tail = width // 3
    return f"{fit_start(line, width - tail - 5)} ... {fit_end(line, tail)}"


def when(time_unix_nano: int) -> str:
    """Return a time as ``2026-11-21 15:00:00Z``."""
    return moment(dt.datetime.fromtimestamp(time_unix_nano / 1e9, dt.UTC))


def moment(time: dt.datetime) -> str:
    """Return a time as ``2026-11-21 15:00:00Z``; one without a zone is in UTC."""
    utc = time if time.tzinfo is None else time.astimezone(dt.UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%SZ")


def counted(number: int, word: str) -> str:
    """Return a number with its unit: ``1 step``, ``1,200 steps``."""
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
    """Return a cost: ``$4.10``, or three significant digits below a dollar: ``$0.0123``; nothing if unknown."""
    if usd is None:
        return ""
    if usd >= 0.1:
        return f"${usd:.2f}"
    return f"${usd:.{min(2 - math.floor(math.log10(usd)), 6)}f}".rstrip("0").rstrip(".") if usd > 0 else "$0"


def cost_sum(usd: float, *, calls: int, unknown: int) -> str:
    """Return the total cost of calls: ``$0.0123``, ``$0.0123 and 2 of 5 calls unknown``, ``unknown``."""
    if not unknown:
        return cost(usd)
    return "unknown" if unknown == calls else f"{cost(usd)} and {unknown:,} of {calls:,} calls unknown"


def table_text(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    cell_width: int = 80,
    cut: Sequence[int] = (),
    width: int | None = None,
) -> str:
    """Return rows under a header in columns.

    Args:
        header: the columns' names.
        rows: one text for each column.
        right: right-aligned columns.
        cell_width: the width at which cells are cut.
        cut: columns whose cells are cut further until the table has its width: in this order to 14, then to 8.
        width: of the table; as wide as its cells by default.
    """
    aligned = set(right)
    cells = [[short(cell, cell_width) for cell in row] for row in [header, *rows]]
    widths = [max(columns(row[column]) for row in cells) for column in range(len(header))]
    for column, least in [(column, least) for least in (14, 8) for column in cut]:
        excess = 0 if width is None else sum(widths) + 2 * (len(widths) - 1) - width
        if excess > 0:
            widths[column] = min(widths[column], max(least, widths[column] - excess))
            for row in cells:
                row[column] = short(row[column], widths[column])
    lines = [
        "  ".join(
            f"{' ' * (widths[at] - columns(cell))}{cell}" if at in aligned else f"{cell}{' ' * (widths[at] - columns(cell))}"
            for at, cell in enumerate(row)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


# -- a run --------------------------------------------------------------------------------------------------------------


def outline_text(outline: Outline, *, full: bool = False, width: int = WIDTH) -> str:
    """Return everything about a run: head, tree, kit, readiness, gaps; `width` is the terminal's."""
    failed = ["\n".join(_hanging(printable(line), width) for line in outline.failure)] if outline.failure else []
    parts = [*failed, _head(outline, width), tree_text(outline.nodes, full=full, width=width)]
    if outline.scores:
        parts.append("\n".join(["scores", *(_hanging(score_text(score), width) for score in outline.scores)]))
    if outline.level is not None:
        parts.append(_kit_text(outline, width))
    if outline.ledger:
        parts.append("\n".join(ledger_lines(outline, width)))
    if outline.gaps:
        parts.append("\n".join(["gaps", *(_hanging(printable(gap), width) for gap in outline.gaps)]))
    return "\n\n".join(parts)


def score_text(score: RunScore) -> str:
    """Return a score in one line: ``step 2: correctness 0.25 fail (llm): names another order``."""
    who = ", ".join(filter(None, [score.by, score.author]))
    verdict = short(" ".join(filter(None, [score.name, score.verdict])))
    why = f": {short(score.explanation, _REASON)}" if score.explanation else ""
    return f"{score.place}: {verdict}{f' ({short(who)})' if who else ''}{why}"


def ledger_lines(outline: Outline, width: int) -> Iterator[str]:
    """Yield the values that a reconstructed run lacks, with equal rows of several steps as one."""
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
    """Return the duration of a run, or the time of the last sign of life of one without an end."""
    if outline.status is not RunStatus.UNFINISHED:
        return f"took {duration(outline.ms)}"
    return f"last heard from {duration(outline.ms)} later"


def how_far(outline: Outline) -> str:
    """Return the progress of a run without an end; empty for any other."""
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
    counts = any(node.tokens for node in nodes)
    rows: list[tuple[str, ...]] = [
        (
            "" if node.step is None else str(node.step),
            node.kind,
            _indented(node),
            duration(node.ms),
            f"{'! ' if node.failed else ''}{node.status}{f', {node.attempt}' if node.attempt else ''}",
            _tokens(node, "unknown" if counts else ""),
            node.lane_name if node.inside is None else f"in step {node.inside}",
        )
        for node in nodes
    ]
    header, *rows = _for_narrow([header, *rows], width, lanes=any(node.lane not in ("", ROOT_LANE) for node in nodes))
    lines = table_text(header, rows, right=(0, 3), cell_width=_CELL, cut=(_NAME,), width=width).splitlines()
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
    the middle of a long status.
    """

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


def _tokens(node: Node, unknown: str) -> str:
    if node.tokens is None:
        return unknown if node.is_uncounted else ""
    return f"{node.tokens[0]:,} > {node.tokens[1]:,}"


def _indented(node: Node) -> str:
    gap = "" if node.detail.startswith("(") else "  "
    return "  " * node.depth + f"{node.name}{gap}{node.detail}".rstrip()


def _kit_text(outline: Outline, width: int) -> str:
    """Return the level reached, and the complete and missing fields of each level, one per line."""
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
