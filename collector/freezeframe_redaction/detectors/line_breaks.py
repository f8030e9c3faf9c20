"""Values that a line break cuts in two: candidate breaks, with the ends of both lines joined to one line.

A break is examined only if both sides look like parts of a value. Rows of a list, a table or a log look alike:
no break between them cuts a number. A name is cut within a sentence only.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from freezeframe_redaction.detectors import cut_tokens, national, phone, runs
from freezeframe_redaction.detectors.addresses import CLASS as ADDRESS
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.plans import is_assigned
from freezeframe_redaction.surrogates.shapes import digits_of

NAME: Final = "name: over a line break"
"""The detector of names here, which the learned evidence has already judged."""
_RULES: Final = Rules("line_breaks")
_FORMS = _RULES.forms
_ESCAPED: Final = "\\n"
_REACH: Final = 96
"""Characters of each line that are read."""
_NUMBER: Final = "0123456789 .()/-+ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MIN_DIGITS, _MAX_DIGITS = 9, 34
"""Digits of both parts of a number."""
_MIN_PROSE_WORDS: Final = 3
"""Words before a name that a break cuts."""
_NUMBERS: Final = frozenset(["CARD", national.CLASS, "US_SSN", phone.CLASS])
_YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}\b")
_ALIKE: Final = (re.compile("[0-9]+"), re.compile(r"[^\W\d_]+"))


class Piece(NamedTuple):
    """The ends of two lines as one line."""

    left: str
    gap: str
    right: str
    joint: tuple[int, int]
    """The break in the original text, with indentation and quotation marks."""
    between: str = ""
    """The text there, if it may cut a token."""

    @property
    def text(self) -> str:
        """Return it as one line."""
        return self.left + self.gap + self.right

    def placed(self, found: Candidate) -> list[Candidate]:
        """Return the findings of the piece that span the break, as places in the original text."""
        first, last = self.joint
        start = found.start + first - len(self.left)
        end = found.end + last - len(self.left) - len(self.gap)
        if found.class_ == names.CLASS:  # its words are replaced one by one
            return [found._replace(start=start, end=first, shown=None), found._replace(start=last, end=end, shown=None)]
        return [found._replace(start=start, end=end, shown=None, joint=self.joint)]


def near(found: Sequence[Candidate], joint: tuple[int, int]) -> Sequence[Candidate]:
    """Return the findings around a break, as far as lines are read; `found` are those of the leaf, in order."""
    return found[bisect_left(found, (joint[0] - _REACH,)) : bisect_left(found, (joint[1] + 1,))]


def pieces_of(text: str, bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Piece]]:
    """Yield the breaks that may cut a value in the leaves ``text[low:high]``, each with the number of its leaf."""
    for pattern in (_FORMS.between_lines, _FORMS.escaped_break) if _ESCAPED in text else (_FORMS.between_lines,):
        index = 0
        for match in pattern.finditer(text):
            start, end = match.span()
            while start >= bounds[index][1]:
                index += 1
            low, high = bounds[index]
            left = _end_of_line(text[max(low, start - _REACH) : start]).rstrip(" \r")
            right = _beginning_of_line(text[end : min(high, end + _REACH)])
            if (
                left
                and right
                and (_may_be_numbers(left, right) or _may_be_a_name(left, right) or _may_be_a_street(left, right))
            ):
                begin = text.rindex(left[-1], low, start) + 1
                yield index, Piece(left, _gap_behind(left), right, (begin, end))
    for index, joint, left, right in cut_tokens.breaks(text, bounds):
        yield index, Piece(left, "", right, joint, text[slice(*joint)])


def _end_of_line(text: str) -> str:
    text = text[text.rfind("\n") + 1 :]
    return text.rpartition(_ESCAPED)[2]


def _beginning_of_line(text: str) -> str:
    return text.partition("\n")[0].partition(_ESCAPED)[0]


def _gap_behind(left: str) -> str:
    """Return the separator of two parts on one line; empty after a character that joins digits."""
    return "" if left[-1] in "-/(" or (left[-1] == "." and left[-2:-1].isdigit()) else " "


def joined(text: str, found: Candidate) -> tuple[str, Callable[[str], str]]:
    """Return a value without its break, and a function that puts the break into its surrogate.

    It is at the same place if possible.
    """
    assert found.joint is not None
    left, right = text[found.start : found.joint[0]], text[found.joint[1] : found.end]
    gap, between = "" if found.class_ in cut_tokens.CLASSES else _gap_behind(left), text[slice(*found.joint)]
    value = left + gap + right

    def broken(made: str) -> str:
        cut = len(left) if len(made) == len(value) else made.rfind(" ") if gap else min(len(left), len(made) - 1)
        return made[:cut] + between + made[cut:].removeprefix(" ")

    return value, broken


def _may_be_numbers(left: str, right: str) -> bool:
    if not (left[-1] in ")-./" or left[-1].isdigit() or left[-1].isupper()):
        return False
    parts = left[len(left.rstrip(_NUMBER)) :], right[: len(right) - len(right.lstrip(_NUMBER))]
    digits = [sum(map(str.isdigit, part)) for part in parts]
    return min(digits) > 1 and _MIN_DIGITS <= sum(digits) <= _MAX_DIGITS and not _look_alike(left, right)


def _may_be_a_name(left: str, right: str) -> bool:
    if not (left[-1].islower() and right[0].isupper() and right[1:2].islower()):
        return False
    first, last = left[left.rfind(" ") + 1 :].lstrip("(\"'"), names.WORD.match(right)
    return (
        names.is_given_name(first)
        and last is not None
        and names.may_be_name(last.group())
        and right[last.end() : last.end() + 1] not in (":", "=", "|")
        and (len(left.split()) > _MIN_PROSE_WORDS or _FORMS.address_of.match(right, last.end()) is not None)
    )


def _may_be_a_street(left: str, right: str) -> bool:
    if right[0].isdigit():
        return _YEAR.match(right) is None and _FORMS.strasse.search(left) is not None
    if _FORMS.street.match(right) is not None and _FORMS.house.search(left) is not None:
        return True
    return left[-1].islower() and _FORMS.rue.search(left) is not None


def holds(piece: Piece, found: Candidate, others: Sequence[Candidate]) -> bool:
    """Return whether a finding in the piece is a value that the break cuts; `others` are the findings around it."""
    left, right = piece.left, piece.right
    if not (found.start < len(left) and len(left) + len(piece.gap) < found.end):
        return False
    if piece.between and found.class_ != CLAIM:
        is_next = any(one.class_ in cut_tokens.CLASSES and one.start == piece.joint[1] for one in others)
        return found.class_ in cut_tokens.CLASSES and cut_tokens.holds(
            piece.text, len(left), piece.between, found, is_next=is_next
        )
    if found.class_ in ("IBAN", CLAIM):
        return True
    first, last = piece.joint
    if found.class_ == ADDRESS:
        return _may_be_a_street(left, right) and not any(
            one.class_ == ADDRESS and one.start < first and last < one.end for one in others
        )
    if found.class_ == names.CLASS:  # what is a whole name, or an address, on one of the lines is whole
        near = [one for one in others if one.class_ in (ADDRESS, names.CLASS) and one.start <= last and first <= one.end]
        return _may_be_a_name(left, right) and not any(
            one.end - one.start > max(len(left) - left.rfind(" "), len(right.split(" ")[0])) for one in near
        )
    return found.class_ in _NUMBERS and _is_cut_number(piece, found, others)


def _is_cut_number(piece: Piece, found: Candidate, others: Sequence[Candidate]) -> bool:
    text = piece.text
    if text[: found.start].rstrip(" ")[-1:].isdigit() or text[found.end :].lstrip(" ")[:1].isdigit():
        return False  # a row of figures
    run = runs.run_at(text, 0, len(text), found.start, found.end)
    if found.class_ == "CARD":
        return context.CARD.search(run.before) is not None or (not run.bare and any(map(str.isalpha, piece.left)))
    if found.class_ != phone.CLASS:
        return True
    if not (run.international or context.PHONE.search(run.before)):
        return False
    is_whole = is_assigned(digits_of(text[found.start : len(piece.left)]))
    return not any(one.class_ == phone.CLASS and one.end == piece.joint[0] and is_whole for one in others)


def _look_alike(left: str, right: str) -> bool:
    for pattern in _ALIKE:
        left, right = pattern.sub("0", left), pattern.sub("0", right)
    return left.strip() == right.strip()
