"""Words found in a long body: where they are, the text around them, and the body with them marked. Pure."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from markupsafe import Markup

from freezeframe_replay.report.render import printable
from freezeframe_replay.web.markup import block

_LISTED: Final = 100
_AROUND: Final = 60
"""Characters before and after a hit in the list."""
Hits = Sequence[tuple[int, int]]
"""Where each hit begins and ends."""


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
    """Return the first hits that end after `begin`: number from 1, where each begins, and a line with it marked."""
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
