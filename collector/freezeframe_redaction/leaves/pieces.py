"""Tell whether texts are the pieces of one text, as a model streams it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

DELTA_KEYS: Final = frozenset(
    "delta content text arguments partial_json thinking reasoning reasoning_content refusal transcript completion response"
    " input generated_text outputText summary_text yields".split()
)
"""Keys under which providers send text piece by piece, and the one under which we keep what a generator yielded."""
_SHORT_PIECE: Final = 12
"""Mean length of the pieces of a model's stream, at most: each is a token or a few."""


def spell_one_text(items: list[Any]) -> bool:
    """Return whether yielded texts are pieces of one, as a model streams them, and not separate values: they carry its spaces.

    Lines do so, too, and short pieces with a line break; one line among longer texts is a value like them.
    """
    texts = [item for item in items if type(item) is str and item]
    for item in items:
        if type(item) is dict:
            texts += [text for name, text in item.items() if name in DELTA_KEYS and type(text) is str and text]
    seams = [one[-1] + next_[0] for one, next_ in pairwise(texts)]
    if any(" " in seam or "\t" in seam for seam in seams):
        return True
    spaced = sum(seam[0].isspace() or seam[1].isspace() for seam in seams)
    return spaced == len(seams) > 0 or (spaced > 0 and sum(map(len, texts)) <= _SHORT_PIECE * len(texts))
