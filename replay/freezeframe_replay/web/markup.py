"""Templates to HTML: the only place that builds pages and prepares a recording's texts for them. Pure.

Every value is escaped by the templates themselves. No page has a style attribute, or an address on another machine other than a
link in a model's answer (`markdown`). The
only script is our own, which adds to a page of the service; a standalone page has none.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from itertools import takewhile
from operator import eq
from typing import Any, Final, cast
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from freezeframe_replay.report.characters import first_of
from freezeframe_replay.report.outline import Node
from freezeframe_replay.report.render import ID_DIGITS, cost, cost_sum, counted, duration, moment, printable
from freezeframe_replay.sources.costs import Cost
from freezeframe_schemas import genai
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord

STEERING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"  # \t and \n are layout
)
"""Characters that would control a page's layout or direction, or are not characters."""
_MARKED_UP: Final = re.compile(r"(`[^`\n]+`|\b[0-9a-f]{32}\b)")
"""Commands and ids of runs in a message."""
SYSTEM: Final = "system"
_WORD: Final = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")
_MAX_WORDS: Final = 1000
_LONG: Final = 240
_EQUAL: Final = 120
_DIFFERING: Final = 1000
"""Characters shown of a stretch of long texts: of a shared one, and of others."""
_COUNTED_S: Final = 60 * 86400
_MIN_SIMILARITY: Final = 0.3
"""Similarity of two texts, from 0 to 1, below which marking single words is useless."""
THEMES: Final = ("light", "dark", SYSTEM)
"""The colours of a page; ``system`` follows the machine's setting."""
THEME: Final = ContextVar("theme", default=SYSTEM)
"""Those of the request that is being answered."""

KEYS: Final = {
    "/": "search",
    "j k": "next or previous run, step, span",
    "Enter": "open it; a step beside its transcript",
    "e": "next that failed",
    "[ ]": "previous or next tab",
    "r": "replay the run offline",
    "s": "step through a replay, with variables",
    "f": "change the answer of a step, or the run's input",
    "Ctrl+Enter": "replay what was changed",
    "x": "download the fixture, of a replay with a test",
    "c": "mark a run of the list; the second opens the comparison",
    "v": "choose a run of the list for a set",
    "a": "name the set that the chosen runs are added to",
    "m": "answers as Markdown, or as they came",
    "n p": "next or previous page, step, or call of a replay",
    "u": "up, from a step or a replay to its run",
    "y": "copy the link to this place",
    "Esc": "leave a field, close the step",
    "?": "these keys",
}
"""Keys of the pages' script, with their actions."""


@cache
def style() -> str:
    """Return the style sheet that every page contains."""
    return files("freezeframe_replay.web").joinpath("style.css").read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return the script that every page of the service contains."""
    return files("freezeframe_replay.web").joinpath("page.js").read_text(encoding="utf-8")


@cache
def content_security_policy() -> str:
    """Return the policy of a page: no frame, its own style sheet and script by their hashes, requests to its own service."""
    return f"{policy_of_a_file()}; script-src '{_hash(script())}'; connect-src 'self'; frame-ancestors 'none'"


@cache
def policy_of_a_file() -> str:
    """Return the policy of a standalone page: no script, and the images in it; `frame-ancestors` needs a header."""
    return f"default-src 'none'; img-src data:; style-src '{_hash(style())}'; base-uri 'none'; form-action 'self'"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def render(template: str, **values: object) -> str:
    """Return the page made from a template, in the colours of `THEME`."""
    return _environment().get_template(template).render(values, theme=THEME.get(), themes=THEMES, keys=KEYS)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("freezeframe_replay.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "line": printable,
        "block": block,
        "start": _start,
        "session": session_link,
        "short_id": _short_id,
        "duration": duration,
        "cost": cost,
        "cost_sum": _cost_sum,
        "count": _count,
        "tokens": _tokens,
        "plural": counted,
        "clock": _clock,
        "utc": _utc,
        "linked": _linked,
        "marked": _marked,
        "apart": words_apart,
        "unquoted": _unquoted,
    }
    # Jinja2 infers the types of these from its own filters
    cast("dict[str, object]", made.filters).update(filters)
    own: dict[str, object] = {"style": lambda: Markup(style()), "script": lambda: Markup(script())}  # noqa: S704 - our own files
    cast("dict[str, object]", made.globals).update(own)
    return made


def _harmless(value: object) -> object:
    """Return any value that a template writes without control characters, whether or not it has a filter."""
    return block(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def block(text: str, limit: int | None = None) -> str:
    """Return a text of several lines without control characters, cut after `limit` characters."""
    kept = text if limit is None or len(text) <= limit else first_of(text, limit).rstrip() + " …"
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), kept.replace("\r\n", "\n"))


def _start(text: str, most: int) -> str:
    return text if len(text) <= most else first_of(text, most).rstrip() + "…"


def _short_id(text: str) -> str:
    return text[:ID_DIGITS]


def _count(number: int) -> str:
    return f"{number:,}"


def _tokens(pair: tuple[int, int] | None) -> str:
    return "" if pair is None else f"{pair[0]:,} → {pair[1]:,}"


def _cost_sum(paid: Cost) -> str:
    return cost_sum(paid.usd, calls=paid.calls, unknown=paid.unknown)


def _utc(time: dt.datetime) -> str:
    return f"{moment(time).removesuffix('Z')} UTC"


def _clock(time: dt.datetime, now: dt.datetime | None = None) -> Markup:
    """Return a time as an element: in UTC, or how long before `now` it was. The script writes it in the reader's time zone."""
    utc = time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
    named = _utc(utc)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds"), named, named if now is None else _ago(utc, now)
    )


def _ago(time: dt.datetime, now: dt.datetime) -> str:
    """Return the age of a time, in its largest unit; its day, if it is long ago."""
    seconds = max((now - time).total_seconds(), 0)
    if seconds > _COUNTED_S:
        return f"{time:%Y-%m-%d}"
    for unit, size in (("day", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'s' if unit == 'day' and number > 1 else ''} ago"
    return "just now"


def _linked(text: str) -> Markup:
    """Return a message with its commands as code, and ids of runs as links."""
    pieces = _MARKED_UP.split(printable(text))
    found = [
        Markup("<code>{}</code>").format(piece[1:-1])
        if piece.startswith("`")
        else Markup('<a href="/runs/{}"><code>{}</code></a>').format(piece, piece[:ID_DIGITS])
        for piece in pieces[1::2]
    ]
    return Markup("").join(part for pair in zip(map(escape, pieces[::2]), [*found, Markup("")], strict=True) for part in pair)


def words_apart(recorded: str, live: str, *, whole: bool = True) -> tuple[Markup, Markup]:
    """Return two texts in which the words that only one of them has are marked; very different ones unchanged.

    Of long texts, stretches are shortened, with " … " for omissions; if not `whole`, only the place of the
    first difference is shown.
    """
    is_cut = max(len(recorded), len(live)) > _LONG
    texts = _unquoted(recorded, live)
    if is_cut and not whole:
        start = max(_shared(*texts) - _EQUAL, 0)
        texts = [f"{'… ' if start else ''}{text[start : start + _LONG]}" for text in texts]
    one, other = (_WORD.findall(block(text)) for text in texts)
    begin = _shared(one, other)
    end = _shared(one[begin:][::-1], other[begin:][::-1])
    left, right = one[begin : len(one) - end], other[begin : len(other) - end]
    # frequent words of a long text are bad places to begin at: that would take seconds
    matcher = SequenceMatcher(None, left, right, autojunk=max(len(left), len(right)) > _MAX_WORDS)
    pieces = [
        ("equal", one[:begin], other[:begin]),
        *((how, left[a:b], right[c:d]) for how, a, b, c, d in matcher.get_opcodes()),
        ("equal", one[len(one) - end :], other[len(other) - end :]),
    ]
    alike = sum(len(words) for how, words, _ in pieces if how == "equal")
    if 2 * alike < _MIN_SIMILARITY * (len(one) + len(other)):
        pieces = [("unlike", one, other)]
    return (
        Markup("").join(_stretch(how, "".join(words), is_cut) for how, words, _ in pieces),
        Markup("").join(_stretch(how, "".join(words), is_cut) for how, _, words in pieces),
    )


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words at the beginning both have."""
    return sum(takewhile(bool, map(eq, one, other)))


def _stretch(how: str, text: str, is_cut: bool) -> Markup:
    """Return a part of a text that both have, or only one, or that is unlike all of the other."""
    most = _EQUAL if how == "equal" else _DIFFERING
    if is_cut and len(text) > most:
        text = f"{text[: most // 2]} … {text[-most // 2 :]}"
    words = text.rstrip()
    marked = words and how in ("replace", "delete", "insert")
    return Markup("<b>{}</b>{}").format(words, text[len(words) :]) if marked else escape(text)


def _unquoted(*texts: str) -> Sequence[str]:
    """Return texts without the quotes and escapes of JSON, if all are texts there."""
    try:
        values = [json.loads(text) for text in texts]
    except ValueError:
        return texts
    return values if all(isinstance(value, str) and value for value in values) else texts


def _marked(text: str, words: str) -> Markup:
    """Return one printable line with the searched words marked: the words together if they occur together, else each."""
    line, whole = printable(" ".join(text.split())), re.escape(words.strip())
    found = [whole] if re.search(whole, line, re.IGNORECASE) else [rf"\b{word}\b" for word in re.findall(r"[^\W_]+", words)]
    pieces = re.split(f"({'|'.join(found)})", line, flags=re.IGNORECASE) if words.strip() and found else [line]
    parts = [Markup("<mark>{}</mark>").format(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces)]
    return Markup("").join(parts)


# -- Where the pages of a run lead, and what a step is called in them. Pure --------------------------------------------


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses that a page of a run leads to."""

    run: Run
    alone: bool = False
    """True if all is on one page."""
    kept: str = ""
    """The end of the addresses of a transcript's parts: ``&as=text``."""

    def tab(self, name: str) -> str:
        """Return the address of a view of the run."""
        return f"#{name}" if self.alone else f"?tab={name}"

    def step(self, node: Node) -> str:
        """Return the address of a step's own page, or of its place in a page that holds all."""
        if self.alone:
            return f"#raw-{anchor_of(node)}"
        return f"/runs/{quote(self.run.trace_id)}/steps/{node.span_id if node.step is None else node.step}"

    def near(self, node: Node, parts: Mapping[str, int], part: int) -> str:
        """Return the address of a step in the transcript, with `part` open; the step's own page if the transcript lacks it."""
        at = parts.get(node.span_id)
        if at is None:
            return self.step(node)
        return f"#{anchor_of(node)}" if at == part else f"?from={at}{self.kept}#{anchor_of(node)}"


def session_link(session: str) -> str:
    """Return the address of a session's page."""
    return f"/sessions/{quote(session, safe='')}"


def place_of(node: Node) -> str:
    """Return a step in words: ``step 7, tool track``."""
    return f"{node.kind} {node.name}" if node.step is None else f"step {node.step}, {node.kind} {node.name}"


def anchor_of(node: Node) -> str:
    """Return the id of a step's element."""
    return f"x{node.span_id}" if node.step is None else f"s{node.step}"


# -- The surrogates in the texts of a run, marked with their class. Pure -----------------------------------------------


_RUN: Final = re.compile(r"[^\W_]+")
"""Letters and digits. A surrogate is searched at words equal to its first run, so each text is read once for all of them."""


class Tint:
    """Marks the surrogates listed by a run's spans, unless they are part of a longer word."""

    def __init__(self, spans: Iterable[SpanRecord]) -> None:
        self._classes: dict[str, str] = {}
        """The marked part of a surrogate, from its first letter or digit on -> its class."""
        self._by_run: dict[str, list[str]] = defaultdict(list)
        found: dict[str, Any] = {}
        for listed in {span.text(genai.REDACTION_SURROGATES) or "" for span in spans}:
            found |= _read(listed)
        for text, class_ in found.items():
            if (run := _RUN.search(text)) and text[run.start() :] not in self._classes:
                self._classes[text[run.start() :]] = str(class_)
                self._by_run[run[0]].append(text[run.start() :])
        for texts in self._by_run.values():
            texts.sort(key=len, reverse=True)

    @property
    def facts(self) -> dict[str, str]:
        """Return the number of different surrogates of each class, as a row of the run's environment."""
        counts = sorted(Counter(self._classes.values()).items())
        return {"surrogates": ", ".join(f"{number:,} {class_}" for class_, number in counts)} if counts else {}

    def __call__(self, text: str, limit: int | None = None) -> str:
        """Like `block`, with surrogates marked."""
        shown = block(text, limit)
        pieces: list[str] = []
        past = 0
        for run in _RUN.finditer(shown) if self._by_run else ():
            start = run.start()
            for known in self._by_run.get(run[0], ()) if start >= past else ():
                end = start + len(known)
                if shown.startswith(known, start) and not shown[end : end + 1].isalnum():
                    class_ = self._classes[known]
                    pieces += shown[past:start], Markup('<i title="surrogate: {}">{}</i>').format(class_, known)
                    past = end
                    break
        return Markup("").join([*pieces, shown[past:]]) if pieces else shown


def _read(listed: str) -> Mapping[str, Any]:
    """Return a span's list; an empty one if another sender wrote something else there."""
    try:
        found: Any = json.loads(listed)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
