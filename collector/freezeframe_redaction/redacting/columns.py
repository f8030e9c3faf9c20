"""Judge the columns of tables and lists of records, each once: by its key, and by a sample of its values.

If at least half of the sample are values of one class, all values of the column that have the form of one are,
too: whether lists have them or not, and without a scan of each. Other values of the column are read like any
text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from freezeframe_redaction.detectors import phone
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.classes import test_of
from freezeframe_redaction.leaves.tables import MIN_ROWS
from freezeframe_redaction.leaves.tree import KeyColumn, Leaf
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.surrogates.invented import holds_invented

NAME: Final = "column of such values"
_MIN_VALUES: Final = 12
"""Different values of a column that is judged."""
_MAX_SAMPLE: Final = 24
_MAX_LENGTH: Final = 40
"""Characters of a name or a word; a longer value is prose."""
_IS_THING: Final = test_of("common !given")
_NAME: Final = re.compile(r"[^\W\d_a-z][^\W\d_.]*(?:[ '’-][^\W\d_.]+){0,4}")
_PHONE: Final = re.compile(r"(?!00)[+(]{0,2}[0-9][0-9 ().\-/]{5,20}[0-9]")
_EMAIL: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,62}(?<!\.)@(?!example\.)(?:[A-Za-z0-9-]+\.){1,4}(?!example\.)[A-Za-z]{2,24}")
_SURROGATE: Final = ".example."


def _person(value: str) -> str | None:
    words = names.WORD.findall(value)
    holds = (
        _NAME.fullmatch(value) is not None
        and all(names.may_be_name(word) or word in names.PARTICLES for word in words)
        and not names.is_title(words[0])
        and not names.is_brand(words)
        and not holds_invented(value)
    )
    return "key" if holds else None


def _phone(value: str) -> str | None:
    if _PHONE.fullmatch(value) is None or "555" in value:
        return None
    return phone.kind_of(value)


def _email(value: str) -> str | None:
    return "" if _SURROGATE not in value and _EMAIL.fullmatch(value) else None


_KINDS: Final[Mapping[str, Callable[[str], str | None]]] = {"PERSON": _person, "PHONE": _phone, "EMAIL": _email}
"""Class -> the kind of a value that has the form of one, or None."""


def judge(leaves: Iterable[Leaf], whole: Callable[[list[Leaf]], Iterable[str]]) -> None:
    """Judge the columns of the leaves that are not judged yet; `whole` yields the class of each leaf that is all one value."""
    held: dict[int, tuple[KeyColumn, dict[str, list[Leaf]]]] = {}
    for leaf in leaves:
        column = leaf.column
        if column is not None and not column.is_judged:
            held.setdefault(id(column), (column, {}))[1].setdefault(leaf.text, []).append(leaf)
    for column, found in held.values():
        column.is_judged = True
        if len(found) >= _MIN_VALUES:
            sample = [same[0] for same in found.values()][:: -(-len(found) // _MAX_SAMPLE)]
            for class_, count in Counter(whole(sample)).most_common(1):
                if class_ in _KINDS and 2 * count >= len(sample):
                    column.class_ = class_
        rows = sum(map(len, found.values()))
        if column.class_ != names.CLASS and rows >= MIN_ROWS and _are_things(found, rows):
            column.holds_things = True
            for leaf in chain.from_iterable(found.values()):
                leaf.is_nobodys = True


def _are_things(found: Mapping[str, Sequence[Leaf]], rows: int) -> bool:
    """Return whether the key is not of people, or is uninformative while a few values, among them ordinary words, recur."""
    if all(same[0].is_nobodys for same in found.values()):
        return True
    if 4 * len(found) > rows or any(same[0].prefix or len(text) > _MAX_LENGTH for text, same in found.items()):
        return False
    return 4 * sum(any(map(_IS_THING, names.WORD.findall(text))) for text in found) >= len(found)


def keep_things(leaves: Iterable[Leaf], is_name: Callable[[str], bool]) -> None:
    """Let no name spread into a column in which most values are no names, by themselves or by what was found elsewhere."""
    held: dict[int, list[Leaf]] = {}
    for leaf in leaves:
        if leaf.column is not None and not leaf.column.class_:
            held.setdefault(id(leaf.column), []).append(leaf)
    for found in held.values():
        spread = [leaf for leaf in found if not leaf.edits and is_name(leaf.text)] if len(found) >= MIN_ROWS else []
        if not spread:
            continue
        named = {leaf.text for leaf in found if leaf.edits or is_name(leaf.text) or holds_invented(leaf.text)}
        if 2 * len(named) < len({leaf.text for leaf in found}):
            for leaf in spread:
                leaf.is_nobodys = True


def candidate_of(column: KeyColumn | None, value: str) -> Candidate | None:
    """Return the whole value as a finding of its column's class; None if the column or the form does not match."""
    if column is None or not column.class_:
        return None
    if value not in column.kinds:
        column.kinds[value] = _KINDS[column.class_](value)
    kind = column.kinds[value]
    return None if kind is None else Candidate(0, len(value), column.class_, kind)
