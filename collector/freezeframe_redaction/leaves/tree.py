"""The texts and numbers of a document as leaves, with findings and their replacements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Channel = tuple[object, ...]
"""Key of a stream inside one answer: the indices and ids around a delta, and its keys."""
Span = tuple[int, int, str]
"""Start, end, and a note: the new text of an edit, or the data of a finding."""


class KeyColumn:
    """Properties shared by the values of one key in a table or a list of records."""

    __slots__ = ("class_", "headings", "holds_things", "is_judged", "key", "kinds")

    def __init__(self, key: str, headings: Sequence[str]) -> None:
        self.key = key
        self.headings = headings
        """The headings of the whole table."""
        self.is_judged = False
        self.class_ = ""
        """The class of all of its values, once judged; empty if each is read alone."""
        self.holds_things = False
        """It does not name people, although a person may have such a name."""
        self.kinds: dict[str, str | None] = {}
        """Value -> its kind, None if it does not have the form of one."""


class Columns(dict[tuple[str, str], KeyColumn]):
    """The columns of one table, by key and the key around it."""

    def __init__(self, headings: Sequence[str]) -> None:
        super().__init__()
        self._headings = headings

    def __missing__(self, place: tuple[str, str]) -> KeyColumn:
        made = self[place] = KeyColumn(place[0], self._headings)
        return made


class Leaf:
    """One string or long number of a document."""

    # Most leaves have nothing but a text, and a class's defaults cost no assignment.
    is_nobodys: bool = False
    """Its key shows that it is not a person's name."""
    child: Tree | None = None
    column: KeyColumn | None = None
    """Its column in a table of many rows."""
    channel: Channel | None = None
    """The stream of deltas to which the text belongs, if any."""
    piece_of: Channel | None = None
    """The text to which a generator's item may belong; it may also be a separate value."""
    edits: Sequence[Span] = ()
    """Replacements in the text, in order, without overlap."""
    findings: Sequence[Span] = ()
    """Findings in the text; the note is the redactor's."""
    forms: Sequence[tuple[str, str]] = ()
    """Replacements of forms of the run's values in it, each with its class."""

    def __init__(self, text: str, prefix: str, ordinal: int, is_number: bool = False) -> None:
        self.text = text
        self.prefix = prefix
        """Its key as context, ``"phone: "``, or nothing."""
        self.ordinal = ordinal
        """Its position among all strings and numbers of its document; the first one, if it is shared."""
        self.is_number = is_number


SharedLeaves = dict[str, Leaf]
"""Text -> its leaf, for texts without context: the lines of a stream repeat the same ids and names of models."""


class Tree:
    """A text and its leaves, in the order of the text."""

    __slots__ = ("leaves", "ordinals", "raw", "starts", "whole")

    def __init__(
        self,
        raw: str,
        leaves: list[Leaf],
        *,
        whole: bool = False,
        starts: Sequence[int] = (),
        ordinals: Sequence[int] = (),
    ) -> None:
        self.raw = raw
        self.leaves = leaves
        self.ordinals = ordinals
        """The position of each leaf among all strings and numbers of the text; a shared leaf has several."""
        self.whole = whole
        """The text is not JSON: its one leaf is all of it."""
        self.starts = starts
        """The text is the lines of a stream, or a table: each leaf is a part of it, which begins here."""


def leaves_of(node: Tree) -> Iterator[Leaf]:
    """Yield the leaves that hold text or numbers, in order, through all depths."""
    for leaf in node.leaves:
        if leaf.child is None:
            yield leaf
        else:
            yield from leaves_of(leaf.child)
