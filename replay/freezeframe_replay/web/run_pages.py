"""One run as HTML text: its head, its transcript, its timeline, its replay kit, on a page each or all on one. Pure."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode

from freezeframe_replay.report.characters import first_of
from freezeframe_replay.report.failure import find_failure
from freezeframe_replay.report.messages import MessagePart
from freezeframe_replay.report.outline import Node, Outline
from freezeframe_replay.report.render import ID_DIGITS, cost_sum, counted, duration, how_far, ledger_lines, took
from freezeframe_replay.report.transcript import Transcript, TranscriptCall, Turn, first_chunk_ms, make_transcript
from freezeframe_replay.sources.costs import Cost, sum_of
from freezeframe_replay.sources.scores import RunScore
from freezeframe_replay.web.markdown import has_marks, markdown
from freezeframe_replay.web.markup import Links, Tint, anchor_of, place_of, policy_of_a_file, render, session_link
from freezeframe_replay.web.replay import Noted
from freezeframe_replay.web.step_pages import steps_of_a_file
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.lane_names import ROOT_LANE
from freezeframe_schemas.run import Run

_INSTRUMENT: Final = "freezeframe.instrument()  # before the client is made"
_AT_START: Final = "freezeframe.instrument()  # at the start of the program"
_ENTRY: Final = "@freezeframe.run  # or: freezeframe run -- CMD"
_COMMIT: Final = "GIT_COMMIT=$(git rev-parse HEAD)  # or record inside a git checkout"

ADDS: Final = {
    **dict.fromkeys(("tool_request", "tool_response"), "@freezeframe.tool"),
    **dict.fromkeys(("retrieval_request", "retrieval_response"), "@freezeframe.retriever"),
    **dict.fromkeys(("model_request", "model_response", "model_chunks", "model_completion"), _INSTRUMENT),
    **dict.fromkeys(("model_requested", "provider", "endpoint"), _INSTRUMENT),
    **dict.fromkeys(("entry_point", "entry_input"), _ENTRY),
    **dict.fromkeys(("commit", "commit_dirty"), _COMMIT),
    **dict.fromkeys(("python_version", "package_versions", "time_zone", "random_state"), _AT_START),
    **dict.fromkeys(("environment", "flags"), _ENTRY),
    **dict.fromkeys(
        ("tool_span_request", "tool_span_response", "retrieval_span_request", "retrieval_span_response"),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
    ),
}
"""Name of the field -> code that adds it."""


TABS: Final = {"transcript": "Transcript", "timeline": "Timeline", "kit": "Replay kit", "raw": "Raw"}
_LIMITS: Final = {"text": 4000, "instructions": 4000, "arguments": 800, "result": 1500, "document": 600, "documents": 20}
"""Characters of a text, and documents of a retriever, that the transcript shows; the step's own page has all."""
_MAX_OPEN: Final = 40
"""Items of a part of the transcript that are all shown; in a longer one, ranges are folded."""
_AROUND: Final = 2
"""Items that stay open before and after each end, failure, change, and question."""
_FOLDED: Final = 25
"""Items of a folded range."""
_NAMED: Final = 3
"""Names that a folded range shows."""
_PART_WEIGHT: Final = 200_000
"""Characters of a part of the transcript, about, so that it stays below 100 kB compressed. Markup counts as `_MARKUP`."""
_MARKUP: Final = 300
_PARTS_ALONE: Final = 40
"""Parts of the transcript in a page that holds all of a run."""
_RAW_SPANS: Final = 50
"""Spans of a part of the raw view."""
_RAW_TEXT: Final = 1000
"""Characters of a value there; the step's own page has all."""
_UNWRAPPED: Final = 10_000
"""Columns of a text that the page wraps itself."""


def run_page(
    run: Run,
    outline: Outline,
    *,
    tab: str = "transcript",
    part: int = 1,
    only: str = "",
    as_text: bool = False,
    token: str = "",
    replays: Sequence[Noted] = (),
    scores: Sequence[RunScore] = (),
    transcript: Transcript | None = None,
    costs: Mapping[str, float | None] = {},
    version: str = "",
) -> str:
    """Return the page of one run. Its form for a replay sends `token` back. The transcript is made if it is not given.

    `only`: the kind of spans that the timeline shows, all if it is empty. `as_text`: whether Markdown stays as it came.
    `costs`: span id of a call of a model -> US dollars, None if not known.
    `version`: the value by which the script checks an unfinished run for news; empty if it has ended.
    """
    links = Links(run, kept="&as=text" if as_text else "")
    transcript = transcript or make_transcript(run, outline) if tab == "transcript" else None
    parts = [] if transcript is None else _parts(transcript)
    # where a step's anchor is, whichever part of the transcript is open
    parts_of = {node.span_id: number for number, items in enumerate(parts, 1) for node in _nodes_of(items)}

    def link_to(node: Node) -> str:
        return links.near(node, parts_of, part)

    head: dict[str, Any] = {
        **_head(run, outline, links, costs),
        "token": token,
        "version": version,
        "replays": replays,
        "now": dt.datetime.now(dt.UTC),
        **_scores(scores, outline),
        "tabs": TABS,
        "tab": tab,
        "link_to": link_to,
        "named": outline.run_id[:ID_DIGITS],
        "session_link": session_link(outline.who["session"]) if "session" in outline.who else "",
    }
    if transcript is not None:
        index = min(max(part, 1), len(parts)) - 1
        opened = _opened_part(run, parts, index, as_text=as_text)
        rendered = None if as_text else _rendered(head["tinted"])
        shown = {"conversations": transcript.conversations, "kept": links.kept, "rendered": rendered}
        return render("transcript.html", **head, **opened, **shown)
    if tab == "timeline":
        return render("timeline.html", **head, **timeline(run, outline, links, part, only=only))
    if tab == "raw":
        return render("raw.html", **head, **_raw(run, outline, links, part))
    return render("kit.html", **head, **_kit(outline))


def _scores(scores: Sequence[RunScore], outline: Outline) -> dict[str, Any]:
    """Return the run's own label, the other scores with their steps, and what returns those of a step."""

    def on_step(node: Node) -> list[RunScore]:
        return [score for score in scores if score.is_on(node.step, node.span_id)]

    def step_of(score: RunScore) -> Node | None:
        return next((node for node in outline.nodes if score.is_on(node.step, node.span_id)), None)

    label = next((score for score in scores if score.is_label and score.step is None), None)
    others = [(score, step_of(score)) for score in scores if score is not label]
    return {"label": label, "judged": others, "scores_on": on_step}


def _opened_part(run: Run, parts: Sequence[Sequence[Turn | TranscriptCall]], index: int, *, as_text: bool) -> dict[str, Any]:
    rows = _rows(parts[index])
    return {
        "rows": rows,
        "parts": [_name_of(items) for items in parts],
        "part": index,
        "beside": _margin(run, rows),
        "limits": _LIMITS,
        "turn_link": _turn_link(parts[index], index + 1, as_text=as_text),
    }


def page_of_a_file(run: Run, outline: Outline, *, named: str) -> str:
    """Return all of a run as one page that needs no service and loads nothing; `named` is the run's name in commands."""
    links = Links(run, alone=True)
    transcript = make_transcript(run, outline)
    items = [item for part in _parts(transcript)[:_PARTS_ALONE] for item in part]
    shown = dict.fromkeys((node.span_id for node in _nodes_of(items)), 1)
    steps, left_out = steps_of_a_file(run, outline, links)

    def link_to(node: Node) -> str:
        return links.near(node, shown, 1)

    return render(
        "run_alone.html",
        **_head(run, outline, links, {}),
        **_scores((), outline),
        version="",
        **_kit(outline),
        policy=policy_of_a_file(),
        tabs={**{name: text for name, text in TABS.items() if name != "raw"}, "steps": "Steps"},
        tab="transcript",
        link_to=link_to,
        named=named,
        rows=_rows(items),
        items_left_out=len(transcript.items) - len(items),
        parts=(),
        beside=(),
        conversations=transcript.conversations,
        limits=_LIMITS,
        kept="",
        rendered=_rendered(Tint(run.spans)),
        turn_link="",
        timeline=timeline(run, outline, links, 1) | {"parts": 1},
        rows_left_out=max(len(outline.nodes) - ROWS, 0),
        steps=steps,
        steps_left_out=left_out,
    )


def _rendered(tinted: Tint) -> Callable[[str, int], str]:
    """Return what renders the Markdown of an answer, up to the given number of characters."""
    return lambda text, limit: markdown(text if len(text) <= limit else first_of(text, limit).rstrip() + " …", tinted)


def _turn_link(items: Sequence[Turn | TranscriptCall], part: int, *, as_text: bool) -> str:
    """Return the address of the same part with Markdown rendered, or as it came; empty without any."""
    answers = (answer for item in items if isinstance(item, Turn) for answer in item.answer)
    if not any(isinstance(answer, MessagePart) and has_marks(answer.text[: _LIMITS["text"]]) for answer in answers):
        return ""
    return "?" + urlencode({**({"from": part} if part > 1 else {}), **({} if as_text else {"as": "text"})})


def _head(run: Run, outline: Outline, links: Links, costs: Mapping[str, float | None]) -> dict[str, Any]:
    """Return the head of every page of a run."""
    failure = find_failure(run, outline)
    tinted = Tint(run.spans)
    return {
        "tinted": tinted,
        "outline": outline,
        "failure": failure,
        "strip": _strip(run, outline, len(failure.steps) if failure is not None else 0, sum_of(costs)),
        "costs": costs,
        "started": dt.datetime.fromtimestamp(outline.start_time_unix_nano / 1e9, dt.UTC),
        "facts": _facts(outline),
        "environment": {**outline.environment, **tinted.facts},
        "place": place_of,
        "anchor": anchor_of,
        "step_link": links.step,
        "tab_link": links.tab,
    }


def _kit(outline: Outline) -> dict[str, Any]:
    rows = sorted(outline.kit, key=lambda row: row.level)
    return {
        "ledger": [line.strip() for line in ledger_lines(outline, _UNWRAPPED)] if outline.ledger else [],
        "lacking": [row for row in rows if row.present < row.expected],
        "held": [row for row in rows if row.present >= row.expected],
        "adds": ADDS,
    }


def _raw(run: Run, outline: Outline, links: Links, part: int) -> dict[str, Any]:
    """Return the spans of a part of the run as they are stored, each attribute cut after `_LIMITS`."""
    nodes = {node.span_id: node for node in outline.nodes}
    parts = max(-(-len(run.spans) // _RAW_SPANS), 1)
    part = min(max(part, 1), parts)
    shown = run.spans[(part - 1) * _RAW_SPANS : part * _RAW_SPANS]
    return {
        "spans": [
            {
                "node": nodes.get(span.span_id),
                "link": links.step(nodes[span.span_id]) if span.span_id in nodes else "",
                "name": span.name,
                "size": sum(len(value) for value in span.attributes.values() if isinstance(value, str | bytes)),
                "text": json.dumps(_cut(asdict(span)), ensure_ascii=False, indent=1, default=str),
            }
            for span in shown
        ],
        "first": (part - 1) * _RAW_SPANS + 1,
        "all": len(run.spans),
        "parts": parts,
        "part": part,
    }


def _cut(value: Any) -> Any:
    """Return a value with its long texts cut, and without empty parts."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return value if len(value) <= _RAW_TEXT else f"{value[:_RAW_TEXT]} … {len(value):,} characters"
    if isinstance(value, Mapping):
        return {str(name): _cut(item) for name, item in value.items() if item not in (None, "", {}, (), [])}
    return [_cut(item) for item in value] if isinstance(value, list | tuple) else value


def _strip(run: Run, outline: Outline, failed: int, paid: Cost | None) -> dict[str, str]:
    tokens = [node.tokens for node in outline.nodes if node.tokens and (node.step is not None or not run.exchanges)]
    rows = {
        "time": took(outline).removeprefix("took "),
        "steps": f"{outline.steps:,}" if outline.steps else "",
        "failed steps": f"{failed:,}" if failed else "",
        "tokens": _token_sum(tokens, sum(node.is_uncounted for node in outline.nodes)),
        "cost": "" if paid is None else cost_sum(paid.usd, calls=paid.calls, unknown=paid.unknown),
        "level": "" if outline.level is None else f"L{outline.level}",
    }
    return {name: text for name, text in rows.items() if text}


def _token_sum(tokens: Sequence[tuple[int, int]], unknown: int) -> str:
    """Return the tokens of calls, and of how many calls they are not known."""
    if not tokens:
        return "unknown" if unknown else ""
    but = f", and of {counted(unknown, 'call')} unknown" if unknown else ""
    return f"{sum(into for into, _ in tokens):,} → {sum(out for _, out in tokens):,}{but}"


def _facts(outline: Outline) -> dict[str, str]:
    rows = {
        "reached": how_far(outline),
        "entry": f"{outline.entry_target or outline.name}{f' ({outline.entry_kind})' if outline.entry_kind else ''}",
        "input": outline.called_with or "not recorded",
        "outcome": _spoken(outline.outcome),
        **outline.who,
        "level": "" if outline.level is None else f"L{outline.level}, {outline.level_means}",
    }
    return {name: text for name, text in rows.items() if text}


def _spoken(outcome: str) -> str:
    """Return an outcome as plain text if it has several lines or quotes."""
    verb, _, literal = outcome.partition(" ")
    try:
        value = json.loads(literal) if literal.startswith('"') and "\\" in literal else None
    except ValueError:  # followed by more
        value = None
    return f"{verb}\n{value}" if isinstance(value, str) else outcome


# -- the transcript in parts --------------------------------------------------------------------------------------------


def _parts(transcript: Transcript) -> list[list[Turn | TranscriptCall]]:
    """Return the items in parts of about equal weight, at least one of them."""
    parts: list[list[Turn | TranscriptCall]] = [[]]
    weight = 0
    for item in transcript.items:
        heavy = sum(_weights(item))
        if parts[-1] and weight + heavy > _PART_WEIGHT:
            parts.append([])
            weight = 0
        parts[-1].append(item)
        weight += heavy
    return parts


def _weights(item: Turn | TranscriptCall | MessagePart) -> Iterator[int]:
    yield _MARKUP
    if isinstance(item, MessagePart):
        yield min(len(item.text), _LIMITS["text"]) + len(item.image)
    elif isinstance(item, TranscriptCall):
        yield min(len(item.arguments), _LIMITS["arguments"])
        if item.documents:
            yield from (min(len(found.text), _LIMITS["document"]) for found in item.documents[: _LIMITS["documents"]])
        yield from (min(len(text), _LIMITS["result"]) for text in (item.result, item.received, item.error))
    else:
        yield min(len(item.instructions), _LIMITS["instructions"])
        for part in (*item.new, *item.answer):
            yield from _weights(part)


def _nodes_of(items: Iterable[Turn | TranscriptCall]) -> Iterator[Node]:
    for item in items:
        if item.node is not None:
            yield item.node
        if isinstance(item, Turn):
            yield from (part.node for part in item.answer if isinstance(part, TranscriptCall) and part.node is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptRow:
    """An item of the transcript, or several that are folded into one line."""

    items: Sequence[Turn | TranscriptCall]
    first: Node | None = None
    """The first step of folded ones, and the last."""
    last: Node | None = None
    from_to: str = ""
    """Their numbers, ``7–56``, or their count if they have none."""
    names: Sequence[tuple[str, int]] = ()
    """Name of a call -> number of its folded ones."""


def _rows(items: Sequence[Turn | TranscriptCall]) -> list[TranscriptRow]:
    """Return the items of a long part with what went on as before folded; those at both ends and around failures stay open."""
    if len(items) <= _MAX_OPEN:
        return [TranscriptRow(items=[item]) for item in items]
    near = range(-_AROUND, _AROUND + 1)
    marked = [0, len(items) - 1, *(at for at, item in enumerate(items) if _stands_out(item))]
    is_open = {at + by for at in marked for by in near}
    rows: list[TranscriptRow] = []
    for shown, run_of in groupby(enumerate(items), key=lambda pair: pair[0] in is_open):
        found = [item for _, item in run_of]
        pieces = [found[at : at + _FOLDED] for at in range(0, len(found), _FOLDED)]
        rows += (
            [TranscriptRow(items=[item]) for item in found] if shown else [row for piece in pieces for row in _folded(piece)]
        )
    return rows


def _folded(items: Sequence[Turn | TranscriptCall]) -> list[TranscriptRow]:
    nodes = sorted(_nodes_of(items), key=lambda node: node.step or 0)
    if len(items) == 1 or not nodes:
        return [TranscriptRow(items=[item]) for item in items]
    names = Counter(node.detail if node.kind == Kind.MODEL and node.detail else node.name for node in nodes)
    from_to = f"{nodes[0].step:,}–{nodes[-1].step:,}" if nodes[0].step and nodes[-1].step else counted(len(nodes), "call")
    return [TranscriptRow(items=items, first=nodes[0], last=nodes[-1], from_to=from_to, names=names.most_common(_NAMED))]


def _stands_out(item: Turn | TranscriptCall) -> bool:
    """Return whether something failed, changed, or was asked by a person."""
    calls = [item] if isinstance(item, TranscriptCall) else [part for part in item.answer if isinstance(part, TranscriptCall)]
    if any(call.error for call in calls) or any(node.failed for node in _nodes_of([item])):
        return True
    return isinstance(item, Turn) and bool(
        item.error or item.cut or item.changes or any(part.role == "user" for part in item.new)
    )


def _margin(run: Run, rows: Sequence[TranscriptRow]) -> list[dict[str, Any]]:
    """Return the steps of a part with their times in the run, which are shown next to it."""
    if not any(True for row in rows for _ in _nodes_of(row.items)):
        return []
    found: list[dict[str, Any]] = []
    scale = Scale(run)
    for row in rows:
        if row.first is not None and row.last is not None:
            found.append({"node": row.first, "folded": row.from_to, "bar": scale.from_to(row.first, row.last)})
        else:
            nodes = sorted(_nodes_of(row.items), key=lambda node: node.step or 0)
            found += [{"node": node, "folded": "", "bar": scale.bar(node)} for node in nodes]
    return found


def _name_of(items: Sequence[Turn | TranscriptCall]) -> str:
    steps = [node.step for node in _nodes_of(items) if node.step is not None]
    return f"{min(steps):,}–{max(steps):,}" if steps else f"{len(items)} calls"


# -- The tree of a run's spans next to a waterfall ---------------------------------------------------------------------
# When each began, gave its first chunk, and ended; lanes above it. Pure.


ROWS: Final = 2_000
"""Rows of a part of the timeline."""
_BARS: Final = 1_000
_MIN_BARS: Final = 20
_MAX_DEPTH: Final = 8
"""Levels of the tree that are indented; deeper ones are shown at this one."""
_MAX_AGENTS: Final = 4
"""Agents that a lane names, in the order of their first calls."""
_WIDTH: Final = 1000
"""Width of the drawing of bars."""
_TICKS: Final = (0, 0.25, 0.5, 0.75, 1)
FAILED: Final = "failed"
"""Filter for failed spans of any kind."""


class Scale:
    """Times of a run as places in the drawing."""

    def __init__(self, run: Run) -> None:
        self._spans = {span.span_id: span for span in run.spans}
        self._exchanges = {exchange.span_id: exchange for exchange in run.exchanges}
        self._start = min(span.start_time_unix_nano for span in run.spans)
        ends = [span.end_time_unix_nano for span in run.spans if span.name != genai.EVALUATION_EVENT]  # may be days later
        self.length_ns = max(max(ends, default=0) - self._start, 1)

    def bar(self, node: Node) -> dict[str, Any]:
        """Return the place of a node's bar, and of the first chunk in it."""
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

    def from_to(self, first: Node, last: Node) -> dict[str, str]:
        """Return the place of all from one node to another."""
        begin = self._at(self._spans[first.span_id].start_time_unix_nano - self._start)
        end = self._at(self._spans[last.span_id].end_time_unix_nano - self._start)
        return {"x": f"{min(begin, _WIDTH - 2):.0f}", "width": f"{max(end - begin, 2):.0f}"}

    def between(self, before: Node, after: Node) -> dict[str, str] | None:
        """Return the line from the end of one attempt to the beginning of the next; None without a gap."""
        end = self._at(self._spans[before.span_id].end_time_unix_nano - self._start)
        begin = self._at(self._spans[after.span_id].start_time_unix_nano - self._start)
        return {"x": f"{end:.0f}", "width": f"{max(begin - end, 1):.0f}"} if begin >= end else None

    def _at(self, ns: int) -> float:
        return ns / self.length_ns * _WIDTH


def timeline(run: Run, outline: Outline, links: Links, part: int, *, only: str = "") -> dict[str, Any]:
    """Return the template's data for a part of the timeline; `only` names a kind of span, or `FAILED`."""
    scale = Scale(run)
    chosen = [node for node in outline.nodes if not only or (node.failed if only == FAILED else node.kind == only)]
    parts = max(-(-len(chosen) // ROWS), 1)
    part = min(max(part, 1), parts)
    nodes = {node.span_id: node for node in outline.nodes}
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
                "joined": scale.between(nodes[node.attempt.before], node) if node.attempt and node.attempt.before else None,
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
            steps.setdefault(node.lane_name, []).append(node)
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
        for name, found in sorted(steps.items(), key=lambda item: (item[0] != ROOT_LANE, _natural(item[0])))
    ]


def _natural(name: str) -> list[tuple[str, int]]:
    """Return what sorts names with numbers: 10 after 9."""
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D+)(\d*)", name)]


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
