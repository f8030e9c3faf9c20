"""Join the pieces of a stream, and split the changed text again at the same places.

The pieces of one channel (one choice's content, one tool call's arguments) spell one text, which is redacted like any other.
The items of a generator may be pieces of one text, or values: each is read alone, and then the text that they spell.
An edit that crosses pieces is split in proportion, so a surrogate is split like its value was; pieces without an edit stay
unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.leaves import splice, tree, walk
from freezeframe_redaction.leaves.key_context import KeyContexts


@dataclass(frozen=True, slots=True)
class Stream:
    """The pieces of one channel and the tree of the text that they spell."""

    pieces: Sequence[tree.Leaf]
    node: tree.Tree

    def distribute(self, *, cut: bool = True) -> None:
        """Pass the edits and findings of the whole text on to the pieces.

        `cut` divides new text in proportion; without it the first piece gets all of it.
        """
        share = _in_proportion if cut else _to_the_first
        for leaf, edits in _split(self.pieces, splice.edits_of(self.node), share):
            leaf.edits = edits
        for leaf, findings in _split(self.pieces, splice.findings_of(self.node), _in_each):
            leaf.findings = findings

    def cross(self, known: Sequence[tuple[int, int]] = (), *, cut: bool = True) -> bool:
        """Pass findings that cross a border on to the pieces, in place of findings there in a single piece.

        `known` are surrogates that the pieces spell, which stay. Return whether any finding was passed on.
        """
        edits = self.crossing(splice.edits_of(self.node))
        stay = self.crossing([(start, end, "") for start, end in known])
        for leaf, parts in _split(self.pieces, stay, _to_the_first):
            leaf.edits, leaf.findings = _instead(leaf.edits, parts, []), _instead(leaf.findings, parts, [])
        for leaf, parts in _split(self.pieces, edits, _in_proportion if cut else _to_the_first):
            leaf.edits = _instead(leaf.edits, parts, parts)
        for leaf, parts in _split(self.pieces, self.crossing(splice.findings_of(self.node)), _in_each):
            leaf.findings = _instead(leaf.findings, parts, parts)
        return bool(edits)

    def crossing(self, spans: Sequence[tree.Span]) -> list[tree.Span]:
        """Return those of the spans that cross a border between pieces."""
        borders = list(accumulate(len(piece.text) for piece in self.pieces))
        return [span for span in spans if bisect_right(borders, span[0]) < bisect_right(borders, span[1] - 1)]


def _instead(spans: Sequence[tree.Span], places: Sequence[tree.Span], new: Sequence[tree.Span]) -> list[tree.Span]:
    """Return the spans with new ones instead of those that overlap the places."""
    kept = [one for one in spans if all(one[1] <= start or one[0] >= end for start, end, _ in places)]
    return sorted([*kept, *new])


_JOINS: Final = frozenset("._-+@%/:=")
"""Characters inside values: a piece that ends or begins with one is not a whole value."""


def spelled(leaves: Iterable[tree.Leaf], known: Callable[[str], Sequence[tuple[int, int]]] = lambda text: ()) -> list[Stream]:
    """Return the texts that pieces of a generator may spell; each leaf has its own findings.

    A piece that is a whole value is not joined to others: ``"Maria", "maria@corp.io"`` is a list. A surrogate
    that `known` finds counts as a whole value.
    """
    groups: dict[tree.Channel, list[tree.Leaf]] = {}
    for leaf in leaves:
        if leaf.piece_of is not None:
            groups.setdefault(leaf.piece_of, []).append(leaf)
    runs: list[list[tree.Leaf]] = []
    for pieces in groups.values():
        if len(pieces) > 1:
            whole = _whole(pieces)
            whole.cross(known(whole.node.raw))
        runs.append(pieces[:1])
        for before, piece in pairwise(pieces):
            if (_is_value(before, known) or _is_value(piece, known)) and _JOINS.isdisjoint((before.text[-1], piece.text[0])):
                runs.append([])
            runs[-1].append(piece)
    return [_whole(run) for run in runs if len(run) > 1]


def _is_value(leaf: tree.Leaf, known: Callable[[str], Sequence[tuple[int, int]]]) -> bool:
    """Return whether values fill the piece. One at each end is not enough: ``"keller@corp.io or Mar"`` is a part of a text."""
    between = 0
    for start, end in sorted([*known(leaf.text), *((start, end) for start, end, _ in leaf.edits)]):
        if any(map(str.isalnum, leaf.text[between:start])) or (start and not between):
            return False
        between = max(between, end)
    return between == len(leaf.text)


def _whole(pieces: Sequence[tree.Leaf]) -> Stream:
    text = "".join(piece.text for piece in pieces)
    return Stream(pieces, tree.Tree(text, [tree.Leaf(text, pieces[0].prefix, 0)], whole=True))


def gather(nodes: Sequence[tree.Tree], keys: KeyContexts, deadline: Deadline = NEVER) -> tuple[list[tree.Leaf], list[Stream]]:
    """Return the leaves to scan below the nodes: single ones, and those of the texts that streams spell."""
    leaves: list[tree.Leaf] = []
    channels: dict[tree.Channel, list[tree.Leaf]] = {}
    for node in nodes:
        for leaf in tree.leaves_of(node):
            if leaf.channel is None:
                leaves.append(leaf)
            else:
                channels.setdefault(leaf.channel, []).append(leaf)
    streams = [_assemble(pieces, keys, deadline) for pieces in channels.values()]
    for stream in streams:
        leaves.extend(tree.leaves_of(stream.node))
    return list(dict.fromkeys(leaves)), streams  # trees may share leaves


def _assemble(pieces: Sequence[tree.Leaf], keys: KeyContexts, deadline: Deadline) -> Stream:
    """Return the stream of the pieces, in the order given."""
    first = pieces[0]
    text = first.text if len(pieces) == 1 else "".join(piece.text for piece in pieces)
    node = walk.parse_tree(text, keys, deadline=deadline)
    if node.whole:
        node.leaves[0].prefix = first.prefix
    return Stream(pieces, node)


_Share = Callable[[str, int, int, int], str]
"""``share(note, left, right, length)``: the part of a span's note for a piece from ``left`` to ``right`` of its length."""


def _in_proportion(note: str, left: int, right: int, length: int) -> str:
    return note[left * len(note) // length : right * len(note) // length]


def _in_each(note: str, left: int, right: int, length: int) -> str:
    return note


def _to_the_first(note: str, left: int, right: int, length: int) -> str:
    return "" if left else note


def _split(
    pieces: Sequence[tree.Leaf], spans: Sequence[tree.Span], share: _Share
) -> Iterator[tuple[tree.Leaf, list[tree.Span]]]:
    """Yield each piece that has a part of the spans, with its parts."""
    ends = list(accumulate(len(piece.text) for piece in pieces))
    held: dict[int, list[tree.Span]] = {}
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
