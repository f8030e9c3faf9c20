"""A second opinion on names by learned evidence: a veto over the rules, and the only judge of given names that no rule accepts.

Each word of a name has features: the lists that have it, its letters, the words and signs around it, its key.
Each feature has a
weight; if the mean over the words of a name is below `Evidence.least`, it is rejected. The weights are data
(``lexicon/name_evidence.txt``),
made by ``tests/support/name_evidence.py``; docs/internals/measured.md has their quality. A feature must not
change when the text around the name is redacted, or a second pass could decide differently. So a number, a
value of another class and a capitalised word that may be a name each look the same as their surrogate.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from typing import Final

from freezeframe_redaction.detectors.lexicon import COMMON, COUNTRIES, GIVEN, NAMED_AFTER, SURNAMES
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.surrogates.invented import is_invented

_WORD: Final = re.compile(r"[^\W_]+")
_NAME_WORD: Final = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{names.MARKS}]|['’](?=[^\W\d_]))*")
_LINE_END: Final = re.compile(r"\r?\n|\r")
_AROUND: Final = 160
"""Characters in which the two words on each side are searched."""
_ANY_VALUE: Final = "#"
"""A number, or a word of a value of another class."""
_ANY_NAME: Final = "Name"
"""A capitalised word that may be a name."""
_NOTHING: Final = "-"
_LISTS: Final = (
    ("G", GIVEN),
    ("S", SURNAMES),
    ("C", COMMON),
    ("T", names.TECHNICAL),
    ("O", names.OFFICES | names.NAMED_AFTER_NOUNS),
    ("N", names.NOT_NAMES | names.NEVER_FIRST),
    ("P", names.PARTICLES),
    ("L", COUNTRIES),
)
_NO_NAMES: Final = (names.TECHNICAL | names.OFFICES | names.NAMED_AFTER_NOUNS | COUNTRIES) - GIVEN - SURNAMES | COMMON
"""Words that, in capitals, do not count as a name found elsewhere in the span."""

_OPENING: Final = (".", "!", "?", ":", "\\n", '"', "(", "*", ">", "|", "-", "[")
"""Punctuation before the beginning of a sentence or a part of one."""
_FORMAT: Final = "freezeframe name evidence, version 1"
_HUNDREDTHS: Final = 100
_BEYOND_LATIN: Final = "\u0250"
PROPOSED: Final = "name: given name by evidence"
"""Detector of proposals, which no rule accepts and only the evidence can."""
MIN_PROPOSAL_SCORE: Final = -0.5
"""Minimum score of a proposal; chosen on projects that the weights were not learned from."""
MIN_EDGE_SCORE: Final = -2.0
"""A first or last word of at least three with a lower score does not belong to the name: ``Andrea Jung Biography``."""
_MAX_JOINING_LETTERS: Final = 3
"""Letters of a word that may join two of a surname: ``Siobhán Ní Dhomhnaill``."""
JUDGED: Final = frozenset(["name: given name and surname", "name: announced", "name: given name alone", PROPOSED])
"""Detectors that are wrong often enough to need a second opinion, without those of keys and labels."""
_CERTAIN: Final = frozenset(["said", "titled", "greeted", "signature", "mention"])
"""Kinds of name that need none: ``my name is Ada``, ``Hi Ada,``."""

Span = tuple[int, int]
Item = tuple[Candidate, str]
"""A candidate and its detector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameJudgement:
    """The evidence's judgement of one name. Features contain words of the text: show them only to its owner."""

    item: Item
    named: Candidate
    """The name without the words at its edges that do not belong to it."""
    score: float
    """The bias and all features: the mean over the words."""
    bias: float
    least: float
    """A name with a lower score is vetoed."""
    features: Mapping[str, float]
    """Feature -> its part of the score; those without a weight are left out."""

    @property
    def is_name(self) -> bool:
        """True if the name is accepted."""
        return self.score >= self.least


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Learned weights."""

    bias: float
    least: float
    weights: Mapping[str, float]

    def judge(self, around: Surroundings, key: str, item: Item) -> NameJudgement | None:
        """Return the evidence for and against a name; None if the evidence does not judge it."""
        candidate, detector = item
        name = around.text[candidate.start : candidate.end]
        words = words_of(around.text, candidate.start, candidate.end) if is_judged(detector, candidate.kind, name) else ()
        if not words:
            return None
        found = [features(around, key, words, index) for index in range(len(words))]
        score, parts = self.score(found)
        first, last = self._edges(around.text, words, found) if len(words) > 2 else (0, len(words))
        named = candidate
        if last - first < len(words):
            start = words[first][0] if first else candidate.start
            end = words[last - 1][1] if last < len(words) else candidate.end
            named = candidate._replace(start=start, end=end, shown=None)
        return NameJudgement(item=item, named=named, score=score, bias=self.bias, least=self.least_of(detector), features=parts)

    def _edges(self, text: str, words: Sequence[Span], found: Sequence[Sequence[str]]) -> Span:
        """Return the words of the name, at least two: those at its edges must be names by their own score."""
        first, last = 0, len(words)
        while last - first > 2 and self._is_apart(text, words[last - 2 : last], found[last - 1]):
            last -= 1
        while last - first > 2 and self._is_apart(text, words[first : first + 2], found[first]):
            first += 1
        return first, last

    def _is_apart(self, text: str, two: Sequence[Span], word: Sequence[str]) -> bool:
        """Return whether one of two adjacent words, given their features, does not belong to the name of the other."""
        (start, end), (behind, _) = two
        return end - start > _MAX_JOINING_LETTERS and text[end:behind].isspace() and self.score([word])[0] < MIN_EDGE_SCORE

    def least_of(self, detector: str) -> float:
        """Return the least score of a name that the detector found."""
        return MIN_PROPOSAL_SCORE if detector == PROPOSED else self.least

    def score(self, words: Sequence[Sequence[str]]) -> tuple[float, Mapping[str, float]]:
        """Return the mean over words, each given by its features, and the part of each feature that has a weight."""
        parts: dict[str, float] = {}
        weights, count = self.weights, len(words)
        for found in words:
            for feature in found:
                if feature in weights:
                    parts[feature] = parts.get(feature, 0.0) + weights[feature] / count
        return self.bias + sum(parts.values()), parts

    def dump(self) -> str:
        """Return the text that `parse` reads."""
        lines = [
            f"{feature}\t{round(weight * _HUNDREDTHS)}"
            for feature, weight in sorted(self.weights.items())
            if feature.isprintable()
        ]
        held = "\n".join([f"bias\t{round(self.bias * _HUNDREDTHS)}", f"least\t{round(self.least * _HUNDREDTHS)}", *lines, ""])
        return f"{_FORMAT}\n{_digest(held)}\n{held}"


def is_judged(detector: str, kind: str, name: str) -> bool:
    """Return whether a name of the detector needs a second opinion, and the evidence can give one."""
    return detector in JUDGED and kind not in _CERTAIN and max(name) < _BEYOND_LATIN


def parse(text: str) -> Evidence:
    """Return the weights of a file.

    Shape: format and version, digest of what follows, then ``feature<tab>weight in hundredths``, the first two for the bias and
    the least score.

    Raises:
        ValueError: another version, or the digest does not match.
    """
    version, digest, held = text.split("\n", 2)
    if version != _FORMAT:
        raise ValueError(f"name evidence: expected {_FORMAT!r}, found {version!r}")
    if digest != _digest(held):
        raise ValueError(f"name evidence: the digest {digest!r} does not match the weights; make the file again")
    pairs = (line.split("\t") for line in held.split("\n") if line)
    bias, least, *weights = ((feature, int(weight) / _HUNDREDTHS) for feature, weight in pairs)
    return Evidence(bias=bias[1], least=least[1], weights=dict(weights))


def _digest(held: str) -> str:
    return blake2b(held.encode(), digest_size=16).hexdigest()


@cache
def load_evidence() -> Evidence:
    """Return the weights of this package."""
    return parse((files("freezeframe_redaction") / "lexicon" / "name_evidence.txt").read_text("utf-8"))


@lru_cache(maxsize=50_000)
def _lists(word: str) -> str:
    """Return the lists that contain the word, a letter each."""
    lowered = word.lower()
    found = "".join(letter for letter, words in _LISTS if lowered in words)
    if names.is_title(word):
        found += "M"
    if "S" not in found and len(lowered) > 5 and names.SURNAME_ENDING.search(lowered):
        found += "e"
    return found or _NOTHING


@lru_cache(maxsize=50_000)
def _shape(word: str) -> str:
    if len(word) == 1:
        shape = "X"
    elif word.isupper():
        shape = "XX" if len(word) < 4 else "XXX"
    elif word[0].isupper() and word[1:].islower():
        shape = "Xx"
    elif word.islower():
        shape = "x"
    else:
        shape = "McX" if word.startswith(("Mc", "Mac", "De", "La", "Le", "Van", "O'", "D'", "Fitz")) else "xX"
    if word.isascii():
        return shape
    return shape + ("n" if max(word) < _BEYOND_LATIN else "f")


def words_of(text: str, start: int, end: int) -> list[Span]:
    """Return the significant words of a name: neither initials nor particles."""
    found: list[Span] = []
    for match in _NAME_WORD.finditer(text, start, end):
        first, last = match.span()
        if last - first > 3 and text[last - 2 : last] in ("'s", "’s", "'S"):
            last -= 2
        if last - first > 1 and text[first:last] not in names.PARTICLES:
            found.append((first, last))
    return found


class Surroundings:
    """The words around a name; a second pass sees the same ones."""

    def __init__(self, text: str, low: int, high: int, found: Sequence[tuple[int, int, bool]]) -> None:
        """`found` are the findings in ``text[low:high]``, surrogates included, in order; the flag marks names."""
        self.text, self.low, self.high = text, low, high
        self._found = found
        self._starts = [start for start, _, _ in found]

    def before(self, start: int) -> Iterator[tuple[str, str]]:
        """Yield the two words before `start`, the nearest first, each with the text in between."""
        floor = max(self.low, start - _AROUND)
        found = [match.span() for match in _WORD.finditer(self.text, floor, start)][-2:]
        for begin, end in reversed(found):
            yield self._seen(begin, end), self.text[end:start]
            start = begin
        if len(found) < 2:
            yield _NOTHING, self.text[floor:start]

    def behind(self, end: int) -> Iterator[tuple[str, str]]:
        """Yield the two words after `end`, each with the text in between."""
        for count, match in enumerate(_WORD.finditer(self.text, end, min(self.high, end + _AROUND))):
            if count == 2:
                return
            yield self._seen(*match.span()), self.text[end : match.start()]
            end = match.end()
        yield _NOTHING, self.text[end : min(self.high, end + 4)]

    def _seen(self, start: int, end: int) -> str:
        word = self.text[start:end]
        place = bisect_left(self._starts, end) - 1
        if place >= 0 and self._found[place][1] > start:
            return _ANY_NAME if self._found[place][2] else _ANY_VALUE
        if not word.isalpha():
            return _ANY_VALUE
        lowered = word.lower()
        if not word[0].isupper():
            return _ANY_NAME if "q" in lowered and is_invented(word) else lowered
        return f"^{lowered}" if lowered in _NO_NAMES else _ANY_NAME


def features(around: Surroundings, key: str, words: Sequence[Span], index: int) -> list[str]:
    """Return the features of one word of a name that consists of `words`, found under the key."""
    text = around.text
    start, end = words[index]
    word = text[start:end]
    low, lists = word.lower(), _lists(word)
    last = len(words) - 1
    before2 = behind2 = "+"
    if index:
        previous, gap = text[slice(*words[index - 1])], text[words[index - 1][1] : start]
        before, before_lists = previous.lower(), _lists(previous) + "+"
    else:
        near, *far = around.before(start)
        (before, gap), before2 = near, far[0][0] if far else _NOTHING
        before_lists = _lists_of(before)
    if index < last:
        following, gap2 = text[slice(*words[index + 1])], text[end : words[index + 1][0]]
        behind, behind_lists = following.lower(), _lists(following) + "+"
    else:
        near, *far = around.behind(end)
        (behind, gap2), behind2 = near, far[0][0] if far else _NOTHING
        behind_lists = _lists_of(behind)
    gap, gap2 = _gap(gap[-3:]), _gap(gap2[:3])
    found = [
        f"lists={lists}",
        f"lists,shape={lists},{_shape(word)}",
        f"length={min(len(word), 12)}",
        f"before,lists={before_lists},{lists}",
        f"lists,behind={lists},{behind_lists}",
        f"before,lists,behind={before_lists},{lists},{behind_lists}",
        f"gap before={gap}",
        f"gap behind={gap2}",
        f"gap before,lists={gap},{lists}",
        f"gap behind,lists={gap2},{lists}",
        f"word before={before}",
        f"word behind={behind}",
        f"word before,lists={before},{lists}",
        f"word behind,lists={behind},{lists}",
        f"word={low}",
        *(f"ends={low[-many:]}" for many in (4, 3, 2)),
        f"begins={low[:3]}",
        f"place={min(index, 3)} of {min(last + 1, 5)}",
        f"name={'/'.join(_lists(text[slice(*one)])[:2] for one in words[max(0, index - 2) : index + 3])},{min(index, 2)}",
    ]
    if index:
        found.append(f"first={text[slice(*words[0])].lower()}")
        if f"{before} {low}" in NAMED_AFTER:
            found.append("named after")
    else:
        opens = before == _NOTHING or any(sign in gap for sign in _OPENING)
        found += [f"two before={before2} {before}", f"second before={before2}", f"opens,lists={opens},{lists}"]
    if index < last:
        found.append(f"last={text[slice(*words[-1])].lower()}")
        if f"{low} {behind}" in NAMED_AFTER:
            found.append("named after")
    else:
        found += [f"two behind={behind} {behind2}", f"second behind={behind2}"]
    if ":" in gap or "=" in gap:
        found += [f"label={before}", f"label,lists={before},{lists[:2]}"]
    return [*found, *_of_the_name(around, key, words, lists)]


def _of_the_name(around: Surroundings, key: str, words: Sequence[Span], lists: str) -> Iterator[str]:
    if key:
        yield from (f"key={key}", f"key,lists={key},{lists[:2]}", f"key ends={re.split(r'[ _.-]', key)[-1]}")
    if words[0][0] == around.low and words[-1][1] == around.high:
        yield f"alone={len(words)}"


def key_of(prefix: str) -> str:
    """Return the key that a leaf's prefix spells."""
    return prefix.removesuffix(": ").lower()


def _lists_of(seen: str) -> str:
    """Return the lists of a word around a name."""
    if seen in (_NOTHING, _ANY_NAME, _ANY_VALUE):
        return seen
    return _lists(seen[1:]) + "^" if seen[0] == "^" else _lists(seen)


def _gap(between: str) -> str:
    if between in ("", " "):
        return between
    return _LINE_END.sub("\\\\n", between).replace("\t", "\\t").replace("\x1f", "")
