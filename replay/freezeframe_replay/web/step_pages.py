"""The steps of a run as HTML text: a page for each, or all of them in one standalone page. Pure."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from freezeframe_replay.report.outline import Node, Outline
from freezeframe_replay.report.render import cost, duration, printable
from freezeframe_replay.sources.scores import RunScore
from freezeframe_replay.web.markup import Links, Tint, block, place_of, render
from freezeframe_schemas import genai
from freezeframe_schemas.body_text import read_text
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Exchange, Request, Response
from freezeframe_schemas.lane_names import ROOT_LANE
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire import decode_body

_LISTED: Final = 100
_AROUND: Final = 60
"""Characters before and after a hit in the list."""
Hits = Sequence[tuple[int, int]]
"""Start and end of each hit."""


def find_words(text: str, words: str) -> Hits:
    """Return the places of words that follow each other, in any case, and also as JSON writes them: ``\\u00fc`` for ``ü``."""
    pattern = r"(?:\s|\\[nrt])+".join("".join(map(_letter, word)) for word in _lower(words).split())
    # a pattern that ignores case takes ten times as long
    return [found.span() for found in re.finditer(pattern, _lower(text))] if pattern else ()


def _lower(text: str) -> str:
    """Return the text in lower case, at the same length."""
    return text.replace("\u0130", "i").lower()


def _letter(letter: str) -> str:
    forms = {letter, *(json.dumps(form)[1:-1].lower() for form in (letter, letter.upper()))}
    return f"(?:{'|'.join(map(re.escape, sorted(forms)))})" if len(forms) > 1 else re.escape(letter)


def listed(text: str, hits: Hits, begin: int) -> list[tuple[int, int, Markup]]:
    """Return the first hits that end after `begin`: number from 1, start, and a line with it marked."""
    first = _first(hits, begin)
    return [(number, at[0], _line(text, *at)) for number, at in enumerate(hits[first : first + _LISTED], first + 1)]


def marked_text(text: str, hits: Hits, begin: int, end: int, key: str) -> Markup:
    """Return the text from `begin` to `end` with hits marked; those that `listed` names have ids to link to."""
    pieces: list[Markup] = []
    at, first = begin, _first(hits, begin)
    for number, (start, stop) in enumerate(hits[first:], first + 1):
        if start >= end:
            break
        name = Markup(' id="{}-hit-{}"').format(key, number) if number <= first + _LISTED else ""
        start, stop = max(start, begin), min(stop, end)
        pieces.append(Markup("{}<mark{}>{}</mark>").format(block(text[at:start]), name, block(text[start:stop])))
        at = stop
    return Markup("").join([*pieces, block(text[at:end])])


def _first(hits: Hits, begin: int) -> int:
    return bisect_right(hits, begin, key=itemgetter(1))


def _line(text: str, start: int, stop: int) -> Markup:
    before, hit, after = (
        printable(re.sub(r"\s+", " ", part))
        for part in (text[max(start - _AROUND, 0) : start], text[start:stop], text[stop : stop + _AROUND])
    )
    return Markup("{}<mark>{}</mark>{}").format(before, hit, after)


_PAGE_BYTES: Final = 64 * 1024
_CHUNKS_SHOWN: Final = 200
_ALONE_CHARACTERS: Final = 8_000_000
"""Characters of steps, about, in a page that holds all of them."""
_MARKUP: Final = 300
"""Characters counted for a step or a chunk in addition to its text."""
_KNOWN: Final = frozenset({genai.REQUEST_BODY, genai.RESPONSE_BODY, genai.REQUEST_HEADERS, genai.RESPONSE_HEADERS})


def find_step(outline: Outline, name: str) -> Node | None:
    """Return the step with this number, or the span with this id."""
    return next((node for node in outline.nodes if name in (str(node.step), node.span_id)), None)


def step_page(
    run: Run,
    outline: Outline,
    node: Node,
    shown: Mapping[str, str],
    *,
    costs: Mapping[str, float | None] = {},
    scores: Sequence[RunScore] = (),
    token: str = "",
) -> str:
    """Return the page of one step; `scores` are those of the run.

    `shown`: the page, or the part, of a long body: ``{"response": "2"}``, ``{"request": "1/messages/3"}``;
    words to find in the bodies: ``{"find": "late"}``.
    `costs`: span id of a call of a model -> US dollars, None if not known.
    """
    links = Links(run)
    span = next(span for span in run.spans if span.span_id == node.span_id)
    exchange = next((item for item in run.exchanges if item.span_id == node.span_id), None)
    steps = [item for item in outline.nodes if item.step is not None] if exchange is not None else list(outline.nodes)
    steps.sort(key=lambda item: item.step or 0)
    at = steps.index(node)
    tinted = Tint(run.spans)
    on_it = [score for score in scores if score.is_on(node.step, node.span_id)]
    parts = _step(run, node, span, exchange, shown, links, tinted)
    if node.span_id in costs:
        parts["facts"]["cost"] = cost(costs[node.span_id]) or "unknown"
    return render(
        "step.html",
        **parts,
        tinted=tinted,
        run_id=run.trace_id,
        label=next((score for score in on_it if score.is_label), None),
        judged=[(score, None) for score in on_it if not score.is_label],
        token=token,
        fork_link=f"/runs/{quote(run.trace_id)}/fork?step={node.step}" if node.step is not None and node.inside is None else "",
        run_name=outline.name or "run",
        run_link=f"/runs/{quote(run.trace_id)}",
        previous=links.step(steps[at - 1]) if at else "",
        next=links.step(steps[at + 1]) if at + 1 < len(steps) else "",
    )


def steps_of_a_file(run: Run, outline: Outline, links: Links) -> tuple[list[dict[str, Any]], int]:
    """Return the steps for a page with all of them, in the order of the run, and the number of omitted ones."""
    spans = {span.span_id: span for span in run.spans}
    tinted = Tint(run.spans)
    exchanges = {exchange.span_id: exchange for exchange in run.exchanges}
    nodes = sorted(outline.nodes, key=lambda node: (node.step is None, node.step or 0))
    shown: list[dict[str, Any]] = []
    left = _ALONE_CHARACTERS
    for node in nodes:
        made = _step(run, node, spans[node.span_id], exchanges.get(node.span_id), {}, links, tinted)
        left -= _weight(made)
        if left < 0:
            break
        shown.append({**made, "id": links.step(node).removeprefix("#")})
    return shown, len(nodes) - len(shown)


def _step(
    run: Run, node: Node, span: SpanRecord, exchange: Exchange | None, shown: Mapping[str, str], links: Links, tinted: Tint
) -> dict[str, Any]:
    return {
        "place": place_of(node),
        "node": node,
        "facts": _step_facts(run, node, span, exchange),
        "bodies": [] if exchange is None else list(_bodies(exchange, shown, links.step(node), tinted, alone=links.alone)),
        "attributes": _attributes(span, whole=exchange is None),
    }


def _weight(step: Mapping[str, Any]) -> int:
    """Return the approximate characters of a step on the page."""
    chunks = sum(len(body["chunks"]) for body in step["bodies"])
    texts = sum(len(body["text"]) for body in step["bodies"]) + sum(
        min(len(text), 2000) for text in step["attributes"].values()
    )
    return texts + _MARKUP * (1 + chunks)


def _step_facts(run: Run, node: Node, span: SpanRecord, exchange: Exchange | None) -> dict[str, str]:
    after = (span.start_time_unix_nano - run.entry.start_time_unix_nano) / 1e6
    asked, answered = span.text(genai.REQUEST_MODEL) or "", span.text(genai.RESPONSE_MODEL) or ""
    rows = {
        "model": asked if answered in ("", asked) else f"{asked} → {answered}",
        "request": f"{exchange.request.method} {exchange.request.url}"
        if exchange is not None and exchange.request.method
        else "",
        "time": f"{duration(node.ms)}, {duration(max(after, 0))} after the run began",
        "tokens": f"{node.tokens[0]:,} → {node.tokens[1]:,}" if node.tokens else "unknown" if node.is_uncounted else "",
        "ended": exchange.response.completion.value.replace("_", " ") if exchange is not None else "",
        "attempt": "" if node.attempt is None else f"{node.attempt.number} of {node.attempt.of}",
        "lane": node.lane_name if node.lane_name != ROOT_LANE else "",
        "recorded at": exchange.seam if exchange is not None else "",
        "error": "" if exchange is None or not exchange.error else _indented(exchange.error),
        "status message": span.status_message,
    }
    return {name: text for name, text in rows.items() if text}


def _bodies(exchange: Exchange, shown: Mapping[str, str], link: str, tinted: Tint, *, alone: bool) -> Iterator[dict[str, Any]]:
    for key, part in (("request", exchange.request), ("response", exchange.response)):
        text, note = body_text(part)
        find = shown.get("find", "")
        hits = find_words(text, find)
        number, slash, rest = shown.get(key, str(1 + hits[0][0] // _PAGE_BYTES if hits else 1)).partition("/")
        is_long = len(text) > _PAGE_BYTES and not alone
        value = None if alone or hits else read_json(text, slash + rest)
        path = "" if value is None else slash + rest
        tree = json_tree(value, f"?{key}=1", path, tinted) if number == "1" else None
        if tree is not None:
            note = "indented here, its texts unescaped"
        elif path:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        count = max(-(-len(text) // _PAGE_BYTES), 1) if tree is None else 1
        page = min(max(int(number), 1), count)
        begin, end = (page - 1) * _PAGE_BYTES, page * _PAGE_BYTES
        chunks = part.chunks if isinstance(part, Response) and len(part.chunks) > 1 else ()
        yield {
            "key": key,
            "id": f"{link.removeprefix('#')}-{key}" if alone else key,
            "name": key.capitalize(),
            "size": len(part.body),
            "note": f"{note or 'as it came'}, the first {_PAGE_BYTES:,} characters" if alone and count > 1 else note,
            "raw": "" if alone else f"{link}/{key}",
            "omitted": part.omitted,
            "text": marked_text(text, hits, begin, end, key) if hits else text[begin:end],
            "is_long": is_long,
            "find": find,
            "hits": len(hits),
            "listed": [(number, 1 + at // _PAGE_BYTES, line) for number, at, line in listed(text, hits, begin)],
            "tree": tree,
            "path": path,
            "page": page,
            "pages": 1 if alone else count,
            "headers": part.headers,
            "chunk_count": len(chunks),
            "chunks": [
                {"ms": chunk.offset_ns / 1e6, "size": len(chunk.data), "text": chunk.data[:300].decode(errors="replace")}
                for chunk in chunks[:_CHUNKS_SHOWN]
            ],
        }


def body_text(part: Request | Response) -> tuple[str, str]:
    """Return a body in readable form, and a description of the conversion."""
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
    """Return the span's attributes as text, without those that the page shows as bodies."""
    kept = {name: value for name, value in span.attributes.items() if whole or name not in _KNOWN}
    texts = {name: value if isinstance(value, str) else json.dumps(value, default=str) for name, value in sorted(kept.items())}
    return {name: text for name, text in texts.items() if text}


# -- The tree of a JSON document ---------------------------------------------------------------------------------------
# A JSON text as HTML that folds without a script, and reads as the indented text when all of it is copied. Pure.


_ROOM: Final = 64 * 1024
"""Characters of JSON, without spaces, on a page. Parts that would take more are links."""
_MAX_LENGTH: Final = 4_000_000
"""Characters of a text that is read as JSON."""
_MIN_ROOM: Final = 1000
_MAX_ITEMS: Final = 500
_MAX_DEPTH: Final = 30
"""Maximum levels of a page; each level writes its content once."""
_ONE_LINE: Final = 60
_SHORT: Final = 1000
"""Characters of a value that is shown unfolded."""
_OPEN: Final = 2
"""Levels that are unfolded in a longer one."""
_PREVIEW: Final = 100
Shown = Callable[[str], str]
_ESCAPE: Final = re.compile(r'(\\[n"\\])')


def read_json(text: str, path: str = "") -> Any:
    """Return the value of a JSON text, or its part at a path such as ``/messages/3``, or None."""
    if text[:1] not in ("{", "[") or len(text) > _MAX_LENGTH:
        return None
    try:
        value = json.loads(text)
        for name in path.split("/")[1:]:
            value = value[int(name) if isinstance(value, list) else name.replace("~1", "/").replace("~0", "~")]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return value


def json_tree(value: Any, link: str, path: str = "", tinted: Shown = block) -> Markup | None:
    """Return a value as a tree; None for a text, and for a list or an object of too many items.

    Args:
        value: an object or a list.
        link: address of a page that shows a part of it, without the part's path.
        path: of the value itself.
        tinted: returns the page's form of a text.
    """
    if not isinstance(value, dict | list) or len(value) > _MAX_ITEMS:
        return None
    text = _compact(value)
    return Markup("").join(_lines("", value, text, "", _ROOM, path, link, tinted, _MAX_DEPTH if len(text) <= _SHORT else _OPEN))


def _lines(
    lead: str, value: Any, text: str, comma: str, room: float, path: str, link: str, tinted: Shown, unfolded: int
) -> Iterator[Markup]:
    """Yield the lines of a value, which is `text`, after its key; each begins with as many spaces as `lead` does."""
    indent = " " * (len(lead) - len(lead.lstrip()) + 2)
    if not isinstance(value, dict | list):
        if len(text) > max(room, _MIN_ROOM):
            yield _left_out(lead, text, path, link)
        else:
            yield Markup("{}{}{}\n").format(lead, _unescaped(text, tinted), comma)
        return
    is_flat = not any(isinstance(item, dict | list | str) for item in value)
    if len(text) <= _ONE_LINE or (isinstance(value, list) and is_flat and len(text) <= room):
        yield Markup("{}{}{}\n").format(lead, _unescaped(text, tinted), comma)
    elif len(indent) > 2 * _MAX_DEPTH or (len(text) > room and (room < _MIN_ROOM or len(value) > _MAX_ITEMS)):
        yield _left_out(lead, text, path, link)
    else:
        yield Markup('<details{}><summary data-rest="{}">{}{}<s>\n</s></summary>').format(
            Markup(" open") if unfolded > 0 else "", block(f"{text[1:_PREVIEW]} … {text[-1]}"), lead, text[0]
        )
        items = [(*pair, _compact(pair[1])) for pair in (value.items() if isinstance(value, dict) else enumerate(value))]
        share = _share(room, [len(written) for _, _, written in items])
        for at, (name, item, written) in enumerate(items, 1):
            key = Markup("{}{}: ").format(indent, tinted(_compact(name))) if isinstance(value, dict) else indent
            part = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
            yield from _lines(key, item, written, "," if at < len(items) else "", share, part, link, tinted, unfolded - 1)
        yield Markup("{}{}{}\n</details>").format(indent[2:], text[-1], comma)


def _share(room: float, sizes: list[int]) -> float:
    """Return the maximum length of an item so that all fit: long ones get the room that short ones leave."""
    for at, size in enumerate(sorted(sizes)):
        if size > room / (len(sizes) - at):
            return room / (len(sizes) - at)
        room -= size
    return _ROOM


def _left_out(lead: str, text: str, path: str, link: str) -> Markup:
    preview = block(f"{text[:_PREVIEW]} …")
    return Markup('{}<a href="{}{}">{}</a> {:,} characters\n').format(lead, link, quote(path), preview, len(text))


def _unescaped(text: str, tinted: Shown) -> Markup:
    """Return JSON with the lines and quotes of its texts unescaped; the backslashes stay for copying."""
    pieces = _ESCAPE.split(text)
    reads = [
        Markup("<s>{}</s>{}").format(piece, Markup("<br>")) if piece == "\\n" else Markup("<s>\\</s>{}").format(piece[1:])
        for piece in pieces[1::2]
    ]
    return Markup("").join(part for pair in zip(map(tinted, pieces[::2]), [*reads, ""], strict=True) for part in pair)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
