"""One run as HTML text: its head, its transcript, its timeline, its replay kit, and a page for each step. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from freezeframe_replay.report.failure import find_failure
from freezeframe_replay.report.messages import Said
from freezeframe_replay.report.outline import Node, Outline
from freezeframe_replay.report.render import duration, how_far, ledger_lines, took, when
from freezeframe_replay.report.transcript import Call, Transcript, Turn, make_transcript
from freezeframe_replay.web.markup import render
from freezeframe_schemas import genai
from freezeframe_schemas.body_text import read_text
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Exchange, Request, Response
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire import decode_body

TABS: Final = {"transcript": "Transcript", "timeline": "Timeline", "kit": "Replay kit"}
_LIMITS: Final = {"text": 4000, "instructions": 4000, "arguments": 800, "result": 1500, "document": 600, "documents": 20}
"""Characters of a text, and documents of a retriever, that the transcript shows; the step's own page has all."""
_PART_WEIGHT: Final = 200_000
"""Characters of a part of the transcript, about, so that it stays below 100 kB compressed. Markup counts as `_MARKUP`."""
_MARKUP: Final = 300
_ROWS: Final = 2_000
"""Rows of a part of the timeline."""
_DEEPEST: Final = 8
"""Levels of the tree that are indented; deeper ones are shown at this one."""
_PAGE_BYTES: Final = 64 * 1024
_CHUNKS_SHOWN: Final = 200
_WIDTH: Final = 1000
"""What the timeline's bars are drawn in."""
_UNWRAPPED: Final = 10_000
"""Columns of a text that the page wraps itself."""
_KNOWN: Final = frozenset({genai.REQUEST_BODY, genai.RESPONSE_BODY, genai.REQUEST_HEADERS, genai.RESPONSE_HEADERS})


def run_page(run: Run, outline: Outline, *, tab: str = "transcript", part: int = 1, token: str = "") -> str:
    """Return the page of one run. Its form for a replay sends `token` back."""
    failure = find_failure(run, outline)
    failed = len(failure.steps) if failure is not None else 0
    links = _Links(run)
    transcript = make_transcript(run, outline) if tab == "transcript" else None
    parts = [] if transcript is None else _parts(transcript)
    # where a step's anchor is, whichever part of the transcript is open
    parts_of = {node.span_id: number for number, items in enumerate(parts, 1) for node in _nodes_of(items)}

    def link_to(node: Node) -> str:
        return links.near(node, parts_of, part)

    head: dict[str, Any] = {
        "outline": outline,
        "failure": failure,
        "strip": _strip(run, outline, failed),
        "facts": _facts(outline),
        "environment": outline.environment,
        "token": token,
        "tabs": TABS,
        "tab": tab,
        "place": place_of,
        "anchor": anchor_of,
        "step_link": links.step,
        "link_to": link_to,
    }
    if transcript is not None:
        index = min(max(part, 1), len(parts)) - 1
        return render(
            "transcript.html",
            **head,
            items=parts[index],
            parts=[_name_of(items) for items in parts],
            part=index,
            conversations=transcript.conversations,
            limits=_LIMITS,
        )
    if tab == "timeline":
        return render("timeline.html", **head, **_timeline(run, outline, links, part))
    ledger = [line.strip() for line in ledger_lines(outline, _UNWRAPPED)] if outline.ledger else []
    return render(
        "kit.html", **head, ledger=ledger, kit=sorted(outline.kit, key=lambda row: (row.level, row.present == row.expected))
    )


@dataclass(frozen=True, slots=True)
class _Links:
    run: Run

    def step(self, node: Node) -> str:
        """Return the address of a step's own page."""
        return f"/runs/{quote(self.run.trace_id)}/steps/{node.span_id if node.step is None else node.step}"

    def near(self, node: Node, parts: Mapping[str, int], part: int) -> str:
        """Return where the transcript shows a step, of which `part` is open; the step's own page if it shows it nowhere."""
        at = parts.get(node.span_id)
        if at is None:
            return self.step(node)
        return f"#{anchor_of(node)}" if at == part else f"?from={at}#{anchor_of(node)}"


def place_of(node: Node) -> str:
    """Return a step in words: ``step 7, tool track``."""
    return f"{node.kind} {node.name}" if node.step is None else f"step {node.step}, {node.kind} {node.name}"


def anchor_of(node: Node) -> str:
    """Return the id of a step's element."""
    return f"x{node.span_id}" if node.step is None else f"s{node.step}"


def _strip(run: Run, outline: Outline, failed: int) -> dict[str, str]:
    tokens = [node.tokens for node in outline.nodes if node.tokens and (node.step is not None or not run.exchanges)]
    level = "" if outline.level is None else f"L{outline.level}, {outline.level_means}"
    rows = {
        "time": took(outline).removeprefix("took "),
        "steps": f"{outline.steps:,}" if outline.steps else "",
        "failed steps": f"{failed:,}" if failed else "",
        "tokens": f"{sum(into for into, _ in tokens):,} → {sum(out for _, out in tokens):,}" if tokens else "",
        "can be re-enacted to" if not outline.cold else "level": level,
    }
    return {name: text for name, text in rows.items() if text}


def _facts(outline: Outline) -> dict[str, str]:
    rows = {
        "started": when(outline.start_time_unix_nano),
        "reached": how_far(outline),
        "entry": f"{outline.entry_target or outline.name}{f' ({outline.entry_kind})' if outline.entry_kind else ''}",
        "input": outline.called_with or "not recorded",
        "outcome": outline.outcome,
        **outline.who,
    }
    return {name: text for name, text in rows.items() if text}


# -- the transcript in parts --------------------------------------------------------------------------------------------


def _parts(transcript: Transcript) -> list[list[Turn | Call]]:
    """Return the items in parts of about equal weight, at least one of them."""
    parts: list[list[Turn | Call]] = [[]]
    weight = 0
    for item in transcript.items:
        heavy = sum(_weights(item))
        if parts[-1] and weight + heavy > _PART_WEIGHT:
            parts.append([])
            weight = 0
        parts[-1].append(item)
        weight += heavy
    return parts


def _weights(item: Turn | Call | Said) -> Iterator[int]:
    yield _MARKUP
    if isinstance(item, Said):
        yield min(len(item.text), _LIMITS["text"])
    elif isinstance(item, Call):
        yield min(len(item.arguments), _LIMITS["arguments"])
        if item.documents:
            yield from (min(len(found.text), _LIMITS["document"]) for found in item.documents[: _LIMITS["documents"]])
        yield from (min(len(text), _LIMITS["result"]) for text in (item.result, item.told, item.error))
    else:
        yield min(len(item.instructions), _LIMITS["instructions"])
        for part in (*item.new, *item.answer):
            yield from _weights(part)


def _nodes_of(items: Iterable[Turn | Call]) -> Iterator[Node]:
    for item in items:
        if item.node is not None:
            yield item.node
        if isinstance(item, Turn):
            yield from (part.node for part in item.answer if isinstance(part, Call) and part.node is not None)


def _name_of(items: Sequence[Turn | Call]) -> str:
    steps = [node.step for node in _nodes_of(items) if node.step is not None]
    return f"steps {min(steps)}–{max(steps)}" if steps else f"{len(items)} calls"


# -- the timeline -------------------------------------------------------------------------------------------------------


def _timeline(run: Run, outline: Outline, links: _Links, part: int) -> dict[str, Any]:
    spans = {span.span_id: span for span in run.spans}
    start = min(span.start_time_unix_nano for span in run.spans)
    length = max(max(span.end_time_unix_nano for span in run.spans) - start, 1)

    def bar(node: Node) -> dict[str, object]:
        offset = (spans[node.span_id].start_time_unix_nano - start) / length * _WIDTH
        width = max(node.ms * 1e6 / length * _WIDTH, 2)
        at = min(offset, _WIDTH - 2)
        return {"x": f"{at:.0f}", "width": f"{min(width, _WIDTH - at):.0f}", "mark": "bad" if node.failed else node.kind}

    lanes: dict[str, list[dict[str, object]]] = {}
    for node in outline.nodes:
        if node.step is not None:
            lanes.setdefault(node.lane, []).append(bar(node))
    parts = -(-len(outline.nodes) // _ROWS)
    part = min(max(part, 1), max(parts, 1))
    shown = outline.nodes[(part - 1) * _ROWS : part * _ROWS]
    return {
        "lanes": [{"name": name, "bars": bars[:_ROWS]} for name, bars in sorted(lanes.items())],
        "rows": [
            {
                "node": node,
                "depth": min(node.depth, _DEEPEST),
                "anchor": anchor_of(node),
                "bar": bar(node),
                "link": links.step(node),
            }
            for node in shown
        ],
        "total": duration(length / 1e6),
        "parts": parts,
        "part": part,
    }


# -- a step -------------------------------------------------------------------------------------------------------------


def find_step(outline: Outline, name: str) -> Node | None:
    """Return the step with this number, or the span with this id."""
    return next((node for node in outline.nodes if name in (str(node.step), node.span_id)), None)


def step_page(run: Run, outline: Outline, node: Node, pages: Mapping[str, int]) -> str:
    """Return the page of one step; `pages` says which page of a long body is shown, ``{"response": 2}``."""
    links = _Links(run)
    span = next(span for span in run.spans if span.span_id == node.span_id)
    exchange = next((item for item in run.exchanges if item.span_id == node.span_id), None)
    steps = [item for item in outline.nodes if item.step is not None] if exchange is not None else list(outline.nodes)
    steps.sort(key=lambda item: item.step or 0)
    at = steps.index(node)
    bodies = [] if exchange is None else list(_bodies(exchange, pages, f"{links.step(node)}/"))
    return render(
        "step.html",
        place=place_of(node),
        node=node,
        run_id=run.trace_id,
        run_name=outline.name or "run",
        run_link=f"/runs/{quote(run.trace_id)}",
        previous=links.step(steps[at - 1]) if at else "",
        next=links.step(steps[at + 1]) if at + 1 < len(steps) else "",
        facts=_step_facts(run, node, span, exchange),
        bodies=bodies,
        attributes=_attributes(span, whole=exchange is None),
    )


def _step_facts(run: Run, node: Node, span: SpanRecord, exchange: Exchange | None) -> dict[str, str]:
    after = (span.start_time_unix_nano - run.entry.start_time_unix_nano) / 1e6
    asked, answered = span.text(genai.REQUEST_MODEL) or "", span.text(genai.RESPONSE_MODEL) or ""
    rows = {
        "model": asked if answered in ("", asked) else f"{asked} → {answered}",
        "request": f"{exchange.request.method} {exchange.request.url}"
        if exchange is not None and exchange.request.method
        else "",
        "time": f"{duration(node.ms)}, {duration(max(after, 0))} after the run began",
        "tokens": f"{node.tokens[0]:,} → {node.tokens[1]:,}" if node.tokens else "",
        "ended": exchange.response.completion.value.replace("_", " ") if exchange is not None else "",
        "lane": node.lane if node.lane != "root" else "",
        "recorded at": exchange.seam if exchange is not None else "",
        "error": "" if exchange is None or not exchange.error else _indented(exchange.error),
        "status message": span.status_message,
    }
    return {name: text for name, text in rows.items() if text}


def _bodies(exchange: Exchange, pages: Mapping[str, int], link: str) -> Iterator[dict[str, Any]]:
    for key, part in (("request", exchange.request), ("response", exchange.response)):
        text, note = _body_text(part)
        count = max(-(-len(text) // _PAGE_BYTES), 1)
        page = min(max(pages.get(key, 1), 1), count)
        chunks = part.chunks if isinstance(part, Response) and len(part.chunks) > 1 else ()
        yield {
            "key": key,
            "name": key.capitalize(),
            "size": len(part.body),
            "note": note,
            "raw": link + key,
            "omitted": part.omitted,
            "text": text[(page - 1) * _PAGE_BYTES : page * _PAGE_BYTES],
            "page": page,
            "pages": count,
            "headers": part.headers,
            "chunk_count": len(chunks),
            "chunks": [
                {"ms": chunk.offset_ns / 1e6, "size": len(chunk.data), "text": chunk.data[:300].decode(errors="replace")}
                for chunk in chunks[:_CHUNKS_SHOWN]
            ],
        }


def _body_text(part: Request | Response) -> tuple[str, str]:
    """Return a body as it reads, and what was done to make it readable."""
    headers = {name.lower(): value for name, value in part.headers}
    try:
        plain = decode_body(part.body, part.headers)
    except WireError:
        return "", "in an encoding that cannot be read here"
    text, codec = read_text(plain, headers.get("content-type", ""))
    if codec == "latin-1":
        text = plain.decode(errors="replace")  # cut in the middle of a character, or not text at all
        if text.count("\ufffd") > 1 + len(text) // 100:
            return "", "not text"
    shown = _indented(text)
    return shown, "indented here" if shown is not text else ""


def _indented(text: str) -> str:
    """Return JSON in readable form if it is short enough for one page, any other text unchanged."""
    if text[:1] not in ("{", "[") or len(text) > _PAGE_BYTES:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def _attributes(span: SpanRecord, *, whole: bool) -> dict[str, str]:
    """Return the span's attributes as text, those left out that the page shows as bodies."""
    kept = {name: value for name, value in span.attributes.items() if whole or name not in _KNOWN}
    texts = {name: value if isinstance(value, str) else json.dumps(value, default=str) for name, value in sorted(kept.items())}
    return {name: text for name, text in texts.items() if text}
