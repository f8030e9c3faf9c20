"""Decide by the first digits of a number whether a numbering plan has it: most attempts to make a number need no more.

A plan is a pattern over digits. Its derivative by a digit is the pattern of the digits that may follow, and
counting their numbers shows none, all or some. Source: Brzozowski, "Derivatives of regular expressions", J. ACM
1964.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

_Item = frozenset[str] | tuple["Paths", int, int]
"""One of these digits, or paths repeated a number of times, from and to."""
Path = tuple[_Item, ...]
Paths = frozenset[Path]
"""The ways to go on: a language is a set of sequences."""
_PIECE: Final = re.compile(r"\\d|\[([0-9-]+)\]|[0-9]|\((?:\?:)?|[)|]")
_REPEAT: Final = re.compile(r"\?|\{([0-9]+)(?:,([0-9]+))?\}")
_ANY: Final = frozenset("0123456789")
_RANGE: Final = re.compile("([0-9])-([0-9])")


def paths_of(pattern: str) -> Paths:
    """Return the language of a pattern of digits, classes, groups and counted repeats.

    Raises:
        ValueError: the pattern has something else.
    """
    paths, end = _alternatives(pattern, 0)
    if end != len(pattern):
        raise ValueError(f"{pattern!r}: position {end}: expected digits, classes, groups or repeats")
    return paths


def _alternatives(pattern: str, at: int) -> tuple[Paths, int]:
    done: list[Path] = []
    path: list[_Item] = []
    while match := _PIECE.match(pattern, at):
        piece, at = match.group(), match.end()
        if piece == ")":
            at -= 1
            break
        if piece == "|":
            done.append(tuple(path))
            path = []
            continue
        if piece[0] == "(":
            inner, at = _alternatives(pattern, at)
            at += 1
            item: _Item = (inner, 1, 1)
        else:
            item = _ANY if piece == "\\d" else _class(match[1] or piece)
        if repeat := _REPEAT.match(pattern, at):
            at = repeat.end()
            least = int(repeat[1] or 0)
            most = int(repeat[2] or repeat[1] or 1)
            item = (frozenset([(item,)]), least, most)
        path.append(item)
    return frozenset([*done, tuple(path)]), at


def _class(text: str) -> frozenset[str]:
    listed = _RANGE.sub(lambda match: "".join(map(str, range(int(match[1]), int(match[2]) + 1))), text)
    return frozenset(listed)


def _first(path: Path) -> Iterator[Path]:
    """Yield the path as ways that each begin with a digit; the empty one if it may end here."""
    if not path or isinstance(path[0], frozenset):
        yield path
    else:
        inner, least, most = path[0]
        if not least:
            yield from _first(path[1:])
        if most:
            rest = ((inner, max(0, least - 1), most - 1), *path[1:]) if most > 1 else path[1:]
            for way in inner:
                yield from _first((*way, *rest))


@cache
def after(paths: Paths, digit: str) -> Paths:
    """Return the paths that may follow the digit."""
    return frozenset(
        way[1:] for path in paths for way in _first(path) if way and isinstance(way[0], frozenset) and digit in way[0]
    )


@cache
def count(paths: Paths, length: int) -> int:
    """Return the count of numbers of a length in the language."""
    if not paths or not length:
        return int(any(not way for path in paths for way in _first(path)))
    return sum(count(after(paths, digit), length - 1) for digit in sorted(_ANY))


def share(paths: Paths, head: str, length: int) -> float:
    """Return the share of numbers of a length with this `head` that the language has."""
    for digit in head:
        paths = after(paths, digit)
    return count(paths, length - len(head)) / 10 ** (length - len(head))


def may_begin(paths: Paths, head: str) -> bool:
    """Return whether a number that begins with `head` may begin with a number of the language."""
    for digit in head:
        if not paths or any(not way for path in paths for way in _first(path)):
            break
        paths = after(paths, digit)
    return bool(paths)
