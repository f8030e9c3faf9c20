"""How much that is nobody's is replaced in traffic of agents that nothing was learned from and no rule was repaired from.

    FREEZEFRAME_DATA=... python tests/benchmarks/bench_findings.py --projects DIR               the figures
    FREEZEFRAME_DATA=... python tests/benchmarks/bench_findings.py --projects DIR --sheet FILE  findings to be read

DIR is that of `tests/benchmarks/agents_projects.py`. All findings of all classes in different leaves are counted; leaves that
the recorded data have too are left out. A share of the findings, told by their digests, was read: `tests/data/pii` has what
a reader made of each (`findings_read.jsonl`). What nobody has read is counted as such. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from agents_projects import HELD_OUT, LEARNED, READ, digest, leaves
from name_documents import recorded

from freezeframe_redaction import load_policy
from freezeframe_redaction.leaves import tree, walk
from freezeframe_redaction.scanner import Scanner

SHARES = {"react": 32}
"""Of 256 findings of a project, how many are read; 128 of most."""
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """A value that the redactor would replace, in its place."""

    project: str
    class_: str
    detector: str
    prefix: str
    before: str
    value: str
    behind: str

    @property
    def digest(self) -> str:
        """Return what identifies the finding without showing it."""
        return digest(self.project, (self.before[-25:], self.value, self.behind[:25]))

    @property
    def is_drawn(self) -> bool:
        """Whether it belongs to the share that is read."""
        return int(self.digest[:2], 16) < SHARES.get(self.project, 128)


def leaves_of_the_recorded_data(scanner: Scanner) -> Iterator[str]:
    """Yield the texts that the recorded data have."""
    for document in recorded(Path(os.environ["FREEZEFRAME_DATA"])):
        yield from (leaf.text for leaf in tree.leaves_of(walk.parse_tree(document.text, scanner.keys)))


def findings(
    folder: Path, projects: Mapping[str, tuple[str, ...]], known: Set[str]
) -> Iterator[tuple[str, int, list[Finding]]]:
    """Yield each project, the bytes of its leaves, and what is found in them, once for each context."""
    scanner = Scanner(load_policy("strict"), {})
    seen = {*known}
    for project, parts in projects.items():
        held = list(leaves(folder / project, parts, scanner, seen))
        size = sum(len(text.encode("utf-8", "replace")) for text, _ in held)
        found: dict[str, Finding] = {}
        for low in range(0, len(held), AT_ONCE):
            batch = held[low : low + AT_ONCE]
            for index, (view, items) in scanner.scan(batch).items():
                prefix, text = batch[index][1], view.text
                for one, detector in items:
                    start, end = one.start, one.end
                    around = text[max(0, start - 70) : start], text[start:end], text[end : end + 50]
                    made = Finding(project, one.class_, detector, prefix, *around)
                    found.setdefault(made.digest, made)
        yield project, size, list(found.values())


def sheet(found: list[Finding], to: Path) -> None:
    """Write findings to be read, one a line."""
    lines = [
        "\t".join(
            [one.digest, one.project, one.class_, one.detector, repr(f"{one.prefix}| {one.before}[[{one.value}]]{one.behind}")]
        )
        for one in found
    ]
    to.write_text("\n".join([*lines, ""]), "utf-8")


def main() -> None:
    """Print figures, or write a sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--projects", type=Path, required=True, metavar="DIR", help="one folder for each project")
    parser.add_argument("--sheet", type=Path, default=None, metavar="FILE", help="write those of the share that were not read")
    parser.add_argument("--learned", action="store_true", help="the projects that are learned from, all findings")
    arguments = parser.parse_args()
    known = {*leaves_of_the_recorded_data(Scanner(load_policy("strict"), {}))}
    read = {row["finding"]: row["is"] for row in map(json.loads, READ.read_text("utf-8").splitlines())} if READ.exists() else {}
    total: Counter[str] = Counter()
    classes: dict[str, Counter[str]] = {}
    unread: list[Finding] = []
    wrong = 0.0
    for project, size, found in findings(arguments.projects, LEARNED if arguments.learned else HELD_OUT, known):
        drawn = found if arguments.learned else [one for one in found if one.is_drawn]
        said = Counter(read.get(one.digest, "not read") for one in drawn)
        unread += [one for one in drawn if one.digest not in read]
        for one in drawn:
            classes.setdefault(one.class_, Counter())[read.get(one.digest, "not read")] += 1
        total += Counter({"bytes": size, "findings": len(found), "drawn": len(drawn)}) + said
        expected = said["nobody"] * len(found) / max(1, len(drawn))
        wrong += expected
        _say(project, size, len(found), said, expected)
    _say("all", total["bytes"], total["findings"], total, wrong)
    for class_, said in sorted(classes.items()):
        judged = said.total() - said["not read"]
        print(f"{class_:16s} {judged} read, precision {1 - said['nobody'] / max(1, judged):.3f}, {dict(said)}")
    if arguments.sheet:
        sheet(unread, arguments.sheet)
    print(json.dumps({**total, "nobody_per_mb": wrong / total["bytes"] * 1e6}))


def _say(project: str, size: int, found: int, said: Counter[str], wrong: float) -> None:
    """Print one line; `wrong` is how many of all findings are nobody's, told from those read."""
    megabytes = size / 1e6
    told = ", ".join(f"{said[kind]} {kind}" for kind in ("someone", "fiction", "wide", "nobody", "not read"))
    print(f"{project:18s} {megabytes:5.2f} MB, {found:5d} findings: {told}; {wrong / megabytes:6.1f} nobody's per MB")


if __name__ == "__main__":
    main()
