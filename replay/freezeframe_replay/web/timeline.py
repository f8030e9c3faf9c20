"""The tree of a run's spans next to a waterfall: when each began, gave its first chunk, and ended; lanes above it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from freezeframe_replay.report.outline import Node, Outline
from freezeframe_replay.report.render import duration
from freezeframe_replay.report.reported import first_chunk_ms
from freezeframe_replay.web.links import Links, anchor_of
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.run import Run

ROWS: Final = 2_000
"""Rows of a part of the timeline."""
_BARS: Final = 1_000
_MIN_BARS: Final = 20
_MAX_DEPTH: Final = 8
"""Levels of the tree that are indented; deeper ones are shown at this one."""
_MAX_AGENTS: Final = 4
"""Agents that a lane names, in the order of their first calls."""
_WIDTH: Final = 1000
"""What the bars are drawn in."""
_TICKS: Final = (0, 0.25, 0.5, 0.75, 1)
FAILED: Final = "failed"
"""Asks for what failed, whatever its kind."""


class Scale:
    """Times of a run as places in the drawing."""

    def __init__(self, run: Run) -> None:
        self._spans = {span.span_id: span for span in run.spans}
        self._exchanges = {exchange.span_id: exchange for exchange in run.exchanges}
        self._start = min(span.start_time_unix_nano for span in run.spans)
        self.length_ns = max(max(span.end_time_unix_nano for span in run.spans) - self._start, 1)

    def bar(self, node: Node) -> dict[str, Any]:
        """Return where a node's bar is, and where in it the first chunk came."""
        began = self._at(self._spans[node.span_id].start_time_unix_nano - self._start)
        at = min(began, _WIDTH - 2)
        width = min(max(node.ms * 1e6 / self.length_ns * _WIDTH, 2), _WIDTH - at)
        first_ms = first_chunk_ms(self._exchanges.get(node.span_id))
        waited = 0.0 if first_ms is None else min(self._at(int(first_ms * 1e6)), width)
        return {
            "x": f"{at:.0f}",
            "width": f"{width:.0f}",
            "waited": f"{waited:.0f}" if waited >= 1 else "",
            "first": "" if first_ms is None else duration(first_ms),
            "mark": "bad" if node.failed else node.kind,
        }

    def between(self, before: Node, after: Node) -> dict[str, str] | None:
        """Return the line from the end of one attempt to the begin of the next; None if there is nothing between."""
        end = self._at(self._spans[before.span_id].end_time_unix_nano - self._start)
        begin = self._at(self._spans[after.span_id].start_time_unix_nano - self._start)
        return {"x": f"{end:.0f}", "width": f"{max(begin - end, 1):.0f}"} if begin >= end else None

    def _at(self, ns: int) -> float:
        return ns / self.length_ns * _WIDTH


def timeline(run: Run, outline: Outline, links: Links, part: int, *, only: str = "") -> dict[str, Any]:
    """Return what the template shows of a part of the timeline; `only` names a kind of span, or `FAILED`."""
    scale = Scale(run)
    chosen = [node for node in outline.nodes if not only or (node.failed if only == FAILED else node.kind == only)]
    parts = max(-(-len(chosen) // ROWS), 1)
    part = min(max(part, 1), parts)
    attempts = _attempts(run, outline.nodes)
    above = _above_failed(outline.nodes)
    return {
        "lanes": _lanes(outline.nodes, scale, links),
        "rows": [
            {
                "node": node,
                "depth": min(node.depth, _MAX_DEPTH),
                "anchor": "" if links.alone else anchor_of(node),  # on one page, the transcript has it
                "bar": scale.bar(node),
                "link": links.step(node),
                "above_failed": node.span_id in above,
                "attempt": attempts[node.span_id][0] if node.span_id in attempts else 0,
                "joined": scale.between(attempts[node.span_id][1], node) if node.span_id in attempts else None,
            }
            for node in chosen[(part - 1) * ROWS : part * ROWS]
        ],
        "total": duration(scale.length_ns / 1e6),
        "ticks": [duration(scale.length_ns / 1e6 * tick) for tick in _TICKS],
        "filters": [] if links.alone else _filters(outline.nodes, only),
        "only": only,
        "parts": parts,
        "part": part,
    }


def _lanes(nodes: Sequence[Node], scale: Scale, links: Links) -> list[dict[str, Any]]:
    """Return the lanes with the bars of their first steps, about `_BARS` in all."""
    steps: dict[str, list[Node]] = {}
    for node in nodes:
        if node.step is not None:
            steps.setdefault(node.lane, []).append(node)
    most = max(_BARS // max(len(steps), 1), _MIN_BARS)

    def bar(node: Node) -> dict[str, Any]:
        return {**scale.bar(node), "link": links.step(node), "title": f"step {node.step}, {node.name}, {duration(node.ms)}"}

    return [
        {
            "name": name,
            "agents": list(dict.fromkeys(node.agent for node in found if node.agent))[:_MAX_AGENTS],
            "bars": [bar(node) for node in found[:most]],
            "left_out": max(len(found) - most, 0),
        }
        for name, found in sorted(steps.items())
    ]


def _filters(nodes: Sequence[Node], only: str) -> list[dict[str, Any]]:
    """Return a link for each kind, with its count."""
    counts = Counter(node.kind for node in nodes)
    failed = sum(node.failed for node in nodes)
    kinds = [("", "all", len(nodes)), *((kind, kind, count) for kind, count in counts.most_common())]
    if failed:
        kinds.append((FAILED, FAILED, failed))
    return [
        {"name": name, "count": count, "chosen": key == only, "link": f"?{urlencode({'tab': 'timeline', **_only(key)})}"}
        for key, name, count in kinds
    ]


def _only(key: str) -> dict[str, str]:
    return {"only": key} if key else {}


def _above_failed(nodes: Sequence[Node]) -> set[str]:
    """Return the spans that did not fail themselves, above one that did. Nodes come in the order of the tree."""
    found: set[str] = set()
    path: list[Node] = []
    for node in nodes:
        del path[next((index for index, outer in enumerate(path) if outer.depth >= node.depth), len(path)) :]
        if node.failed:
            found |= {outer.span_id for outer in path if not outer.failed}
        path.append(node)
    return found


def _attempts(run: Run, nodes: Sequence[Node]) -> Mapping[str, tuple[int, Node]]:
    """Return each call that was sent again -> which attempt it is, from 2, and the attempt before it."""
    exchanges = {exchange.span_id: exchange for exchange in run.exchanges}
    spans = {span.span_id: span for span in run.spans}
    found: dict[str, tuple[int, Node]] = {}
    last: dict[tuple[str, str], tuple[Node, Exchange]] = {}
    for node in sorted((node for node in nodes if node.step is not None), key=lambda node: node.step or 0):
        exchange = exchanges[node.span_id]
        place = (node.lane, exchange.request.url or "")
        sent_again = spans[node.span_id].attributes.get(genai.HTTP_REQUEST_RESEND_COUNT)
        before = last.get(place)
        if isinstance(sent_again, int) and sent_again > 0 and before is not None:
            found[node.span_id] = (sent_again + 1, before[0])
        last[place] = (node, exchange)
    return found
