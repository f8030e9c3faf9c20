"""A JSON text as HTML that folds without a script, and reads as the indented text when all of it is copied. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from freezeframe_replay.web.markup import block

_ROOM: Final = 64 * 1024
"""Characters of JSON, without spaces, on a page. Parts that would take more are links."""
_MAX_LENGTH: Final = 4_000_000
"""Characters of a text that is read as JSON."""
_MIN_ROOM: Final = 1000
_MAX_ITEMS: Final = 500
_MAX_DEPTH: Final = 30
"""Levels of a page; each one writes what is in it once."""
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
        tinted: gives what the page shows of a text.
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
    """Return how long an item may be so that all of them fit: what short ones leave is for the long ones."""
    for at, size in enumerate(sorted(sizes)):
        if size > room / (len(sizes) - at):
            return room / (len(sizes) - at)
        room -= size
    return _ROOM


def _left_out(lead: str, text: str, path: str, link: str) -> Markup:
    preview = block(f"{text[:_PREVIEW]} …")
    return Markup('{}<a href="{}{}">{}</a> {:,} characters\n').format(lead, link, quote(path), preview, len(text))


def _unescaped(text: str, tinted: Shown) -> Markup:
    """Return JSON with the lines and quotes of its texts as they read; the backslashes are there for who copies it."""
    pieces = _ESCAPE.split(text)
    reads = [
        Markup("<s>{}</s>{}").format(piece, Markup("<br>")) if piece == "\\n" else Markup("<s>\\</s>{}").format(piece[1:])
        for piece in pieces[1::2]
    ]
    return Markup("").join(part for pair in zip(map(tinted, pieces[::2]), [*reads, ""], strict=True) for part in pair)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
