"""Documents of agents for learning and judging names: their leaves, and the possible names in these.

The documents are the recorded data (`$FREEZEFRAME_DATA`), the labelled sets, or a folder with one folder for each project.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_redaction import load_policy
from freezeframe_redaction.detectors import people
from freezeframe_redaction.detectors.lexicon import COMMON
from freezeframe_redaction.detectors.people import evidence, names
from freezeframe_redaction.leaves import tree, walk
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.scanner import Scanner

_MAX_FILE_BYTES: Final = 5_000_000
_MAX_PROJECT_BYTES: Final = 5_000_000
_MAX_LEAF_CHARS: Final = 200_000
_MAX_MISSED: Final = 6
"""Runs of capitalised words in one leaf that the rules do not accept, and that are looked at all the same."""
_AT_ONCE: Final = 500
_TEXTS: Final = frozenset([".json", ".jsonl", ".ipynb", ".txt", ".md", ".csv", ".traj"])
_CAPITALS: Final = "A-Z\u00c0-\u00d6\u00d8-\u00de"
_PART: Final = r"[^\W\d_]*(?:['’-][^\W\d_]+)*"
_RUN: Final = re.compile(rf"(?<![\w'’-])[{_CAPITALS}]{_PART}(?:[ -](?:{names.PARTICLE} )?[{_CAPITALS}]{_PART}\.?){{0,5}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text of a project. In a labelled one, `people` is every name, or those that it says."""

    project: str
    text: str
    people: tuple[str, ...] | None = None
    others: tuple[str, ...] | None = None
    """Words that are not names; None: all that are not among `people`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """Words of a leaf that may be a name."""

    project: str
    leaf: str
    prefix: str
    words: tuple[evidence.Span, ...]
    detector: str
    """The rule that accepts it; empty if none does."""
    kind: str
    features: tuple[tuple[str, ...], ...]
    """Of each word."""
    document: Document

    @property
    def span(self) -> evidence.Span:
        """Return where the words begin and end."""
        return self.words[0][0], self.words[-1][1]

    @property
    def context(self) -> tuple[str, str, str]:
        """Return the text before, the name and the text behind, which tell it from the same name elsewhere."""
        start, end = self.span
        return self.leaf[max(0, start - 25) : start], self.leaf[start:end], self.leaf[end : end + 25]


def recorded(data: Path) -> Iterator[Document]:
    """Yield the documents of the recorded data: exchanges, runs of agents, traces."""
    with gzip.open(data / "exchanges.jsonl.gz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            for side in ("request", "response"):
                if row[side].get("text"):
                    yield Document(project=row["source"], text=row[side]["text"])
    for folder in sorted([*(data / "agent_runs").iterdir(), *(data / "traces").iterdir()]):
        yield from project(folder)


def project(folder: Path) -> Iterator[Document]:
    """Yield the documents of a project, in an order that is the same each time, until there is enough."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in (*_TEXTS, ".gz")]
    random.Random(3).shuffle(paths)
    size = 0
    for path in paths:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        size += len(raw)
        if len(raw) > _MAX_FILE_BYTES or size > _MAX_PROJECT_BYTES:
            size -= len(raw)
            continue
        for text in texts_of(path.name.removesuffix(".gz"), raw.decode("utf-8", "replace")):
            yield Document(project=folder.name, text=text)


def texts_of(name: str, text: str) -> Iterator[str]:
    """Yield the texts that a file holds."""
    try:
        notebook: Any = json.loads(text) if name.endswith(".ipynb") else {}
    except ValueError:  # some that are published are broken
        notebook = {}
    if notebook:
        for cell in notebook.get("cells", []):
            yield "".join(cell.get("source", ""))
            for output in cell.get("outputs", []):
                yield "".join(output.get("text") or output.get("data", {}).get("text/plain") or "")
    elif name.endswith(".jsonl") or (text[:1] == "{" and "\n{" in text):
        yield from text.splitlines()
    else:
        yield text


def labelled(data: Path, own: Path) -> Iterator[Document]:
    """Yield the labelled texts, the detectors' examples, and the hostile texts, which say what must go and what must stay."""
    authors = (own / "unlabelled_people.txt").read_text("utf-8").splitlines()
    with gzip.open(data / "pii" / "labelled.jsonl.gz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            named = [row["text"][start:end] for start, end, class_, _ in row["spans"] if class_ == "PERSON"]
            named += [name for name in authors if name in row["text"]]
            yield Document(project="labelled", text=row["text"], people=tuple(named))
    for name in ("presidio_generated_large", "presidio_synth_v2"):
        for row in json.loads((data / "pii" / f"{name}.json").read_text("utf-8")):
            named = tuple(span["entity_value"] for span in row["spans"] if span["entity_type"] == "PERSON")
            yield Document(project=name, text=row["full_text"], people=named)
    for example in (one for detector in people.DETECTORS for one in detector.examples):
        yield Document(project="examples", text=example.text, people=(example.value,))
    for case in map(json.loads, (own / "adversarial.jsonl").read_text("utf-8").splitlines()):
        yield Document(project="hostile", text=case["input"], people=tuple(case["must_mask"]), others=tuple(case["must_keep"]))


def possible_names(documents: Iterable[Document]) -> Iterator[list[Possible]]:
    """Yield the possible names of each leaf that has any; a leaf that was seen before is left out."""
    scanner = Scanner(load_policy(), {})
    seen: set[tuple[str, str]] = set()
    batch: list[tuple[str, str, Document]] = []
    for document in documents:
        for leaf in (
            tree.leaves_of(walk.parse_tree(document.text, scanner.keys)) if len(document.text) < _MAX_FILE_BYTES else ()
        ):
            text = leaf.text
            if leaf.channel is not None or leaf.is_number or not 3 <= len(text) <= _MAX_LEAF_CHARS:
                continue
            if (text, leaf.prefix) in seen or (len(text) > 2000 and " " not in text[:1000]):
                continue
            seen.add((text, leaf.prefix))
            batch.append((text, leaf.prefix, document))
        if len(batch) >= _AT_ONCE:
            yield from _possible(scanner, batch)
            batch = []
    yield from _possible(scanner, batch)


def _possible(scanner: Scanner, batch: Sequence[tuple[str, str, Document]]) -> Iterator[list[Possible]]:
    held = scanner.before_evidence([(text, prefix) for text, prefix, _ in batch])
    for (_, prefix, document), (text, items) in zip(batch, held, strict=True):
        around = scanner.surroundings(text, items, 0, len(text))
        named = [(one, name) for one, name in items if one.class_ == names.CLASS and name.startswith("name: ")]
        named += [(Candidate(*span, names.CLASS), "") for span in _unfound(text, [(one.start, one.end) for one, _ in items])]
        out: list[Possible] = []
        for one, name in named:
            words = evidence.words_of(text, one.start, one.end)
            features = [tuple(evidence.features(around, evidence.key_of(prefix), words, index)) for index in range(len(words))]
            if words:
                out.append(Possible(project=document.project, leaf=text, prefix=prefix, words=tuple(words), detector=name,
                    kind=one.kind, features=tuple(features), document=document))  # fmt: skip
        if out:
            yield sorted(out, key=lambda one: one.words)


def _unfound(text: str, found: Sequence[evidence.Span]) -> list[evidence.Span]:
    """Return some runs of capitalised words that the rules do not accept, and that are not all ordinary words."""
    runs: list[evidence.Span] = []
    rest = iter(sorted(found))
    document = next(rest, None)
    for run in _RUN.finditer(text):
        while document is not None and document[1] <= run.start():
            document = next(rest, None)
        if document is None or document[0] >= run.end():
            words = evidence.words_of(text, *run.span())
            if any(text[start:end].lower() not in COMMON for start, end in words):
                runs.append(run.span())
    return random.Random(len(text)).sample(runs, _MAX_MISSED) if len(runs) > _MAX_MISSED else runs
