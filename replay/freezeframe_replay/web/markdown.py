"""Markdown of a model's answer as HTML: what answers use of it, in one pass, and nothing that loads, runs or leads away unseen.

HTML in the text stays text. An image is its description and address; a link shows where it leads, and a browser that follows it
tells no page where it came from. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from markupsafe import Markup

Shown = Callable[[str], str]
"""Returns the page's form of a text."""
_SIGNS: Final = re.compile(r"[*`#|_]|\]\(|^ {0,6}(?:[-+>]|\d{1,9}[.)]) |^ {0,3}(?:---|~~~)", re.MULTILINE)
_FENCE: Final = re.compile(r" {0,8}(```+|~~~+)\s*([\w+#.-]*)[^`]*$")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*$")
_ITEM: Final = re.compile(r"( *)([-*+]|\d{1,9}[.)])\s+(.*)$")
_RULE: Final = re.compile(r" {0,3}([-*_])(?: *\1){2,} *$")
_QUOTE: Final = re.compile(r" {0,3}> ?")
_DELIMITER: Final = re.compile(r" *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$")
_INLINE: Final = re.compile(
    r"(?P<code>`{1,5})(?P<of_code>[^`]+)(?P=code)"
    r"|(?P<image>!?)\[(?P<label>[^\[\]\n]*)\]\((?P<address>https?://[^\s()<>\"]+)(?: \"[^\"\n]*\")?\)"
    r"|\*\*(?=\S)(?P<of_strong>[^\n]{1,500}?)(?<=\S)\*\*"
    r"|(?<![\w*_])(?P<em>[*_])(?=[^\s*_])(?P<of_em>[^\n*_]{1,500})(?<=\S)(?P=em)(?![\w*_])"
    r"|~~(?P<of_gone>[^\n~]{1,500})~~"
)
_MAX_DEPTH: Final = 6
"""Levels of lists, quotes and marks; what is deeper is text."""


def markdown(text: str, shown: Shown) -> Markup:
    """Return a text as HTML; unchanged but escaped if it has no sign of Markdown."""
    if not has_marks(text):
        return Markup("{}").format(shown(text))
    return Markup('<div class="markdown">{}</div>').format(_blocks(text.replace("\r\n", "\n").split("\n"), shown, 0))


def has_marks(text: str) -> bool:
    return _SIGNS.search(text) is not None


def _blocks(lines: Sequence[str], shown: Shown, depth: int) -> Markup:
    return Markup("").join(_each(lines, shown, depth))


def _each(lines: Sequence[str], shown: Shown, depth: int) -> Iterator[Markup]:
    at = 0
    while at < len(lines):
        line, begin = lines[at], at
        at += 1
        if not line.strip():
            continue
        if fence := _FENCE.match(line):
            while at < len(lines) and not lines[at].strip().startswith(fence[1]):
                at += 1
            indent = len(line) - len(line.lstrip())
            code = "\n".join(row[min(indent, len(row) - len(row.lstrip())) :] for row in lines[begin + 1 : at])
            at += 1
            yield Markup("<pre>{}</pre>").format(shown(code))
        elif heading := _HEADING.match(line):
            yield Markup('<p class="heading">{}</p>').format(_inline(heading[2], shown))
        elif _RULE.match(line):
            yield Markup("<hr>")
        elif _QUOTE.match(line) and depth < _MAX_DEPTH:
            while at < len(lines) and _QUOTE.match(lines[at]):
                at += 1
            quoted = [_QUOTE.sub("", row, count=1) for row in lines[begin:at]]
            yield Markup("<blockquote>{}</blockquote>").format(_blocks(quoted, shown, depth + 1))
        elif _ITEM.match(line) and depth < _MAX_DEPTH:
            while at < len(lines) and _goes_on(lines, at, _indent(line)):
                at += 1
            yield _list(lines[begin:at], shown, depth)
        elif "|" in line and at < len(lines) and _DELIMITER.match(lines[at]):
            while at < len(lines) and "|" in lines[at]:
                at += 1
            yield _table(lines[begin:at], shown)
        else:
            while at < len(lines) and not _begins_block(lines, at):
                at += 1
            yield Markup("<p>{}</p>").format(_inline("\n".join(lines[begin:at]).strip(), shown))


def _begins_block(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    starts = (_FENCE, _HEADING, _RULE, _QUOTE, _ITEM)
    is_table = "|" in line and at + 1 < len(lines) and _DELIMITER.match(lines[at + 1])
    return not line.strip() or bool(is_table) or any(start.match(line) for start in starts)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _goes_on(lines: Sequence[str], at: int, indent: int) -> bool:
    """Return whether a line belongs to a list: its next item, what is indented below one, or a blank line before these."""
    line = lines[at]
    if not line.strip():
        return at + 1 < len(lines) and bool(lines[at + 1].strip()) and _goes_on(lines, at + 1, indent)
    return _indent(line) > indent or bool(_ITEM.match(line) and _indent(line) == indent and not _RULE.match(line))


def _list(lines: Sequence[str], shown: Shown, depth: int) -> Markup:
    indent = _indent(lines[0])
    items: list[list[str]] = []
    width = 0
    for line in lines:
        found = _ITEM.match(line)
        if found and _indent(line) == indent:
            width = found.start(3)
            items.append([found[3]])
        else:
            items[-1].append(line[min(_indent(line), width) :])
    first = _ITEM.match(lines[0])
    assert first is not None
    rows = Markup("").join(Markup("<li>{}</li>").format(_item(item, shown, depth)) for item in items)
    number = first[2][:-1]
    return Markup('<ol start="{}">{}</ol>').format(number, rows) if number else Markup("<ul>{}</ul>").format(rows)


def _item(lines: Sequence[str], shown: Shown, depth: int) -> Markup:
    """Return an item: its first lines without a paragraph around them, and the blocks below."""
    at = next((at for at in range(1, len(lines)) if _begins_block(lines, at)), len(lines))
    return _inline("\n".join(lines[:at]), shown) + _blocks(lines[at:], shown, depth + 1)


def _table(lines: Sequence[str], shown: Shown) -> Markup:
    head, _, *rows = ([_inline(cell.strip(), shown) for cell in line.strip().strip("|").split("|")] for line in lines)
    titles = Markup("").join(Markup('<th scope="col">{}</th>').format(cell) for cell in head)
    cells = [Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row[: len(head)]) for row in rows]
    body = Markup("").join(Markup("<tr>{}</tr>").format(row) for row in cells)
    return Markup('<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>').format(titles, body)


def _inline(text: str, shown: Shown, depth: int = 0) -> Markup:
    pieces: list[Markup | str] = []
    at = 0
    for found in _INLINE.finditer(text) if depth < _MAX_DEPTH else ():
        pieces.append(shown(text[at : found.start()]))
        at = found.end()
        if found["code"]:
            pieces.append(Markup("<code>{}</code>").format(shown(found["of_code"])))
        elif found["address"]:
            pieces.append(_link(found["label"], found["address"], shown, depth, is_image=bool(found["image"])))
        elif found["of_gone"]:
            pieces.append(Markup("<s>{}</s>").format(_inline(found["of_gone"], shown, depth + 1)))
        else:
            tag = Markup("<strong>{}</strong>") if found["of_strong"] else Markup("<em>{}</em>")
            pieces.append(tag.format(_inline(found["of_strong"] or found["of_em"], shown, depth + 1)))
    return Markup("").join([*pieces, shown(text[at:])])


def _link(label: str, address: str, shown: Shown, depth: int, *, is_image: bool) -> Markup:
    link = Markup('<a href="{}" rel="noreferrer nofollow" title="{}">{}</a>')
    name = shown(f"image: {label or address}") if is_image else _inline(label, shown, depth + 1) or shown(address)
    return link.format(address, address, name)
