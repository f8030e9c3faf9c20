"""Learn the evidence for names: writes ``collector/freezeframe_redaction/lexicon/name_evidence.txt``.

    FREEZEFRAME_DATA=... python tests/support/name_evidence.py [--without PROJECT ...] [--to FILE]

The examples are words that may be names, in recorded traffic of agents and in labelled texts. The labelled texts say what is a
name; elsewhere the model tier does, where it is sure (docs/decisions/0051). The weights are those of a logistic regression. The
examples come in a fixed order and everything is computed in one thread, so the same data give the same file. It takes five
minutes, most of them for the model tier, which has to be installed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from name_documents import Document, Possible, labelled, possible_names, recorded

import freezeframe_redaction
from freezeframe_redaction.detectors.people import evidence, names
from freezeframe_redaction.model_tier import prose, readings

OWN: Final = Path(__file__).parents[1] / "data" / "pii"
FILE: Final = Path(freezeframe_redaction.__file__).parent / "lexicon" / "name_evidence.txt"
MIN_SCORE: Final = -1.0
"""A name whose words have a lower mean is vetoed: chosen on projects that the weights were not learned from."""
_MAX_WINDOWS: Final = 1200
"""Windows of a project that the model reads; of those that hold a name by the rules, at most four times as many."""
_SURE: Final = 0.3
_SURELY_NOT: Final = 0.15
_WINDOW: Final = 320
_BEFORE: Final = 130
_BEHIND: Final = 50
_MIN_EXAMPLES: Final = 3
"""A feature of fewer examples has no weight."""
_MIN_WEIGHT: Final = 0.05
_STRENGTH: Final = 0.5
"""Of the examples against the penalty on large weights."""
_IDENTITY: Final = ("word=", "ends=", "begins=", "first=", "last=")
_IDENTITY_SCALE: Final = 0.35
"""Features that tell who it is are penalised more: what is learned should carry over to other names."""
_ROUNDS: Final = 3
_AGAIN: Final = 3.0
"""Additional weight of a labelled name, each time that it is lost or nearly lost."""
_NEARLY: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One word with what it is."""

    possible: Possible
    index: int
    is_name: bool
    is_labelled: bool

    @property
    def features(self) -> Sequence[str]:
        """Return what can be said of the word."""
        return self.possible.features[self.index]


class Reading(NamedTuple):
    """The model tier's reading of a word."""

    chance: float
    is_person: bool


def read_words(possible: Sequence[Possible], model: prose.ProseModel) -> tuple[dict[evidence.Span, Reading], int]:
    """Return what the model makes of the words of one leaf, and how many windows it read."""
    leaf, prefix = possible[0].leaf, possible[0].prefix
    words = sorted({word for one in possible for word in one.words})
    out: dict[evidence.Span, Reading] = {}
    windows = 0
    while words:
        begin = max(0, words[0][0] - _BEFORE)
        while begin > 0 and leaf[begin - 1].isalnum():
            begin -= 1
        end = min(len(leaf), max(begin + _WINDOW, words[0][1] + _BEHIND))
        while end < len(leaf) and leaf[end].isalnum() and end - begin < _WINDOW + 80:
            end += 1
        key = prefix if begin == 0 else ""
        offset = begin - len(key)
        text = key + leaf[begin:end]
        tokens = model.tokens(text)
        people = [(one.start, one.end) for one in readings.combine(text, tokens) if one.class_ == names.CLASS]
        windows += 1
        last = end if end == len(leaf) else end - _BEHIND
        some = [word for number, word in enumerate(words) if number == 0 or word[1] <= last]
        words = words[len(some) :]
        for start, stop in some:
            own = [one for one in tokens if one.start + offset < stop and start < one.end + offset]
            chance = max((one.chance for one in own if one.label in readings.PERSON), default=0.0)
            whole = any(low + offset <= start and stop <= high + offset + 1 for low, high in people)
            out[start, stop] = Reading(chance, whole)
    return out, windows


def _occurrences(texts: Iterable[str], leaf: str) -> list[evidence.Span]:
    return [match.span() for text in set(texts) if text for match in re.finditer(re.escape(text), leaf)]


def examples_of(possible: Sequence[Possible], read: dict[evidence.Span, Reading]) -> Iterator[Example]:
    """Yield the words of one leaf of which is known what they are."""
    document = possible[0].document
    leaf = possible[0].leaf
    is_labelled = document.people is not None
    people = _occurrences(document.people or (), leaf)
    others = None if document.others is None else _occurrences(document.others, leaf)
    for one in possible:
        for index, word in enumerate(one.words):
            is_name = _is_name(word, people, others) if is_labelled else None
            if not is_labelled or (is_name is False and document.project == "labelled"):
                # The labelled texts are documentation, whose authors have no label.
                reading = read.get(word)
                label = None if reading is None else _labelled(reading)
                is_name = None if is_labelled and label else label
            if is_name is not None:
                yield Example(possible=one, index=index, is_name=is_name, is_labelled=is_labelled)


def _is_name(word: evidence.Span, people: Sequence[evidence.Span], others: Sequence[evidence.Span] | None) -> bool | None:
    if any(low <= word[0] and word[1] <= high for low, high in people):
        return True
    if any(low < word[1] and word[0] < high for low, high in people):
        return None
    return False if others is None or any(low <= word[0] and word[1] <= high for low, high in others) else None


def is_sure(reading: Reading) -> bool:
    """Return whether the model takes the word for a part of a name."""
    return reading.is_person and reading.chance >= _SURE


def _labelled(reading: Reading) -> bool | None:
    if is_sure(reading):
        return True
    return False if not reading.is_person and reading.chance < _SURELY_NOT else None


def gather(documents: Iterable[Document], say: Callable[[str], None]) -> list[Example]:
    """Return the examples: leaves with a name by the rules first, then others, a bounded number of each project."""
    model = prose.load_model()
    leaves = list(possible_names(documents))
    random.Random(5).shuffle(leaves)
    leaves.sort(key=lambda possible: not any(one.detector for one in possible))
    seen: set[tuple[str, str, str]] = set()
    windows: Counter[str] = Counter()
    out: list[Example] = []
    for possible in leaves:
        project, accepted = possible[0].project, any(one.detector for one in possible)
        if windows[project] > _MAX_WINDOWS * (4 if accepted else 1):
            continue
        fresh: list[Possible] = []
        for one in possible:
            if one.context not in seen:
                seen.add(one.context)
                fresh.append(one)
        if not fresh:
            continue
        read: dict[evidence.Span, Reading] = {}
        if fresh[0].document.people is None or project == "labelled":
            read, count = read_words(fresh, model)
            windows[project] += count
        out.extend(examples_of(fresh, read))
    for project, count in sorted(Counter(one.possible.project for one in out).items()):
        say(f"{count:7d} words of {project}, {windows[project]} windows read")
    return out


def learn(examples: Sequence[Example], say: Callable[[str], None]) -> evidence.Evidence:
    """Return the weights; labelled names that they would veto weigh more in the next round."""
    weights = np.array([1.0 if one.is_labelled else 2.0 for one in examples])
    groups: dict[int, list[int]] = {}
    for number, one in enumerate(examples):
        if one.is_labelled and one.possible.detector in evidence.JUDGED:
            groups.setdefault(id(one.possible), []).append(number)
    made = _fit(examples, weights)
    for _ in range(_ROUNDS):
        lost = 0
        for numbers in groups.values():
            scores = [made.bias + sum(made.weights.get(one, 0.0) for one in examples[at].features) for at in numbers]
            score = sum(scores) / len(scores)
            if any(examples[at].is_name for at in numbers) and score < MIN_SCORE + _NEARLY:
                lost += score < MIN_SCORE
                weights[numbers] *= 1 + _AGAIN
        say(f"{len(made.weights)} weights; {lost} labelled names vetoed")
        made = _fit(examples, weights)
    return made


def _fit(examples: Sequence[Example], weights: np.ndarray[Any, Any]) -> evidence.Evidence:
    """Return the logistic regression of the examples, with a penalty on the square of the weights."""
    counts = Counter(feature for one in examples for feature in set(one.features))
    known = [feature for feature, count in sorted(counts.items()) if count >= _MIN_EXAMPLES and feature.isprintable()]
    places = {feature: place for place, feature in enumerate(known)}
    scale = np.array([_IDENTITY_SCALE if feature.startswith(_IDENTITY) else 1.0 for feature in known])
    pairs = [
        (row, places[feature]) for row, one in enumerate(examples) for feature in sorted(set(one.features)) if feature in places
    ]
    rows, columns = np.array(pairs).T
    values = scale[columns]
    truth = np.array([float(one.is_name) for one in examples])
    count, width = len(examples), len(known)

    def loss(point: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        scores = np.bincount(rows, values * point[columns], count) + point[width]
        wrong = _STRENGTH * weights * (1 / (1 + np.exp(-scores)) - truth)
        slope = np.append(np.bincount(columns, values * wrong[rows], width) + point[:width], wrong.sum())
        height = _STRENGTH * (weights * (np.logaddexp(0, scores) - truth * scores)).sum() + point[:width] @ point[:width] / 2
        return float(height), slope

    point = _lowest(loss, np.zeros(width + 1))
    found = {feature: float(weight) for feature, weight in zip(known, point[:width] * scale, strict=True)}
    held = {feature: weight for feature, weight in found.items() if abs(weight) >= _MIN_WEIGHT}
    return evidence.Evidence(bias=float(point[width]), least=MIN_SCORE, weights=held)


def _lowest(
    loss: Callable[[np.ndarray[Any, Any]], tuple[float, np.ndarray[Any, Any]]], point: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return where the loss is lowest (L-BFGS, with eight steps remembered)."""
    height, slope = loss(point)
    steps: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    for _ in range(150):
        way = slope.copy()
        shares: list[float] = []
        for step, change in reversed(steps):
            share = float((step @ way) / (change @ step))
            shares.append(share)
            way -= share * change
        way *= (steps[-1][0] @ steps[-1][1]) / (steps[-1][1] @ steps[-1][1]) if steps else 1 / max(1.0, np.linalg.norm(slope))
        for (step, change), share in zip(steps, reversed(shares), strict=True):
            way += (share - (change @ way) / (change @ step)) * step
        size = 1.0
        following, lower, after = point - way, *loss(point - way)
        while lower > height - 1e-4 * size * (slope @ way) and size > 1e-6:
            size /= 2
            following, lower, after = point - size * way, *loss(point - size * way)
        if (following - point) @ (after - slope) > 1e-10:
            steps = [*steps[-7:], (following - point, after - slope)]
        done = abs(height - lower) < 1e-5 * abs(lower)
        point, height, slope = following, lower, after
        if done:
            break
    return point


def main() -> None:
    """Learn and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", nargs="*", default=[], metavar="PROJECT", help="projects to leave out")
    parser.add_argument("--to", type=Path, default=FILE, help="file to write (default: the one that is shipped)")
    arguments = parser.parse_args()
    data = Path(os.environ["FREEZEFRAME_DATA"])
    documents = (one for one in recorded(data) if one.project not in arguments.without)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    made = learn([*gather(documents, say), *gather(labelled(data, OWN), say)], say)
    arguments.to.write_text(made.dump(), "utf-8", newline="\n")
    say(f"{arguments.to}: {len(made.weights)} weights, {arguments.to.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
