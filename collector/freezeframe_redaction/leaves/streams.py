"""Put the pieces of a stream together, and split what was changed again at the same places.

The pieces of one channel (one choice's content, one tool call's arguments) spell one text, which is redacted like any other.
An edit that crosses pieces is split in proportion, so a surrogate is split like its value was; pieces without an edit stay
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        edits, findings = splice.edits_of(self.node), splice.findings_of(self.node)
        if edits or findings:
            split(self.pieces, edits, _set_edits, cut=cut, first=not cut)
            split(self.pieces, findings, _set_findings, cut=False)


def _set_edits(leaf: walk.Leaf, spans: list[walk.Span]) -> None:
    leaf.edits = spans


def _set_findings(leaf: walk.Leaf, spans: list[walk.Span]) -> None:
    leaf.findings = spans


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
    streams = [assemble(pieces, keys, deadline) for pieces in channels.values()]
    for stream in streams:
        leaves.extend(walk.leaves_of(stream.node))
    return leaves, streams


def assemble(pieces: Sequence[walk.Leaf], keys: KeyContexts, deadline: Deadline = NEVER) -> Stream:
    """Return the stream of the pieces, in the order given."""
    first = pieces[0]
    text = first.text if len(pieces) == 1 else "".join(piece.text for piece in pieces)
    node = walk.plant(text, keys, deadline=deadline)
    if node.whole:
        node.leaves[0].prefix = first.prefix
    return Stream(pieces, node)


def split(
    pieces: Sequence[walk.Leaf],
    spans: Sequence[walk.Span],
    give: Callable[[walk.Leaf, list[walk.Span]], None],
    *,
    cut: bool,
    first: bool = False,
) -> None:
    """Give each piece its part of each span.

    `cut` divides the note (an edit's new text) in proportion, `first` gives it to the first piece; else each part keeps it.
    """
    held: dict[int, list[walk.Span]] = {}
    starts: list[int] = []
    position = 0
    for piece in pieces:
        starts.append(position)
        position += len(piece.text)
    index = 0
    for start, end, note in spans:
        while index + 1 < len(starts) and starts[index + 1] <= start:
            index += 1
        at = index
        length = end - start
        while at < len(starts) and starts[at] < end:
            left, right = max(start, starts[at]), min(end, starts[at] + len(pieces[at].text))
            if right > left:
                part = note[(left - start) * len(note) // length : (right - start) * len(note) // length] if cut else note
                if first and left > start:
                    part = ""
                held.setdefault(at, []).append((left - starts[at], right - starts[at], part))
            at += 1
    for at, parts in held.items():
        give(pieces[at], parts)
