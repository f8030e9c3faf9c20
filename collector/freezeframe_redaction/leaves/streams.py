"""Put the pieces of a stream together, and split what was changed again at the same places.

The pieces of one channel (one choice's content, one tool call's arguments) spell one text, which is redacted like any other.
An edit that crosses pieces is split in proportion, so a surrogate is split like its value was; pieces without an edit stay
unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.leaves import splice, walk
from freezeframe_redaction.leaves.key_context import KeyContexts


@dataclass(frozen=True, slots=True)
class Stream:
    """The pieces of one channel and the tree of the text that they spell."""

    pieces: Sequence[walk.Leaf]
    node: walk.Tree

    def distribute(self, *, cut: bool = True) -> None:
        """Pass the edits and findings of the whole text on to the pieces.

        `cut` divides new text in proportion; without it the first piece gets all of it.
        """
        share = _in_proportion if cut else _to_the_first
        for leaf, edits in _split(self.pieces, splice.edits_of(self.node), share):
            leaf.edits = edits
        for leaf, findings in _split(self.pieces, splice.findings_of(self.node), lambda note, left, right, length: note):
            leaf.findings = findings


def gather(nodes: Sequence[walk.Tree], keys: KeyContexts, deadline: Deadline = NEVER) -> tuple[list[walk.Leaf], list[Stream]]:
    """Return the leaves to scan below the nodes: single ones, and those of the texts that streams spell."""
    leaves: list[walk.Leaf] = []
    channels: dict[walk.Channel, list[walk.Leaf]] = {}
    for node in nodes:
        for leaf in walk.leaves_of(node):
            if leaf.channel is None:
                leaves.append(leaf)
            else:
                channels.setdefault(leaf.channel, []).append(leaf)
    streams = [_assemble(pieces, keys, deadline) for pieces in channels.values()]
    for stream in streams:
        leaves.extend(walk.leaves_of(stream.node))
    return leaves, streams


def _assemble(pieces: Sequence[walk.Leaf], keys: KeyContexts, deadline: Deadline) -> Stream:
    """Return the stream of the pieces, in the order given."""
    first = pieces[0]
    text = first.text if len(pieces) == 1 else "".join(piece.text for piece in pieces)
    node = walk.plant(text, keys, deadline=deadline)
    if node.whole:
        node.leaves[0].prefix = first.prefix
    return Stream(pieces, node)


_Share = Callable[[str, int, int, int], str]
"""``share(note, left, right, length)``: what of a span's note a piece gets that holds ``left`` to ``right`` of its length."""


def _in_proportion(note: str, left: int, right: int, length: int) -> str:
    return note[left * len(note) // length : right * len(note) // length]


def _to_the_first(note: str, left: int, right: int, length: int) -> str:
    return "" if left else note


def _split(
    pieces: Sequence[walk.Leaf], spans: Sequence[walk.Span], share: _Share
) -> Iterator[tuple[walk.Leaf, list[walk.Span]]]:
    """Yield each piece that has a part of the spans, with its parts."""
    ends = list(accumulate(len(piece.text) for piece in pieces))
    held: dict[int, list[walk.Span]] = {}
    for start, end, note in spans:
        for at in range(bisect_right(ends, start), len(ends)):
            begin = ends[at] - len(pieces[at].text)
            if begin >= end:
                break
            left, right = max(start, begin), min(end, ends[at])
            if right > left:
                part = share(note, left - start, right - start, end - start)
                held.setdefault(at, []).append((left - begin, right - begin, part))
    return ((pieces[at], parts) for at, parts in held.items())
