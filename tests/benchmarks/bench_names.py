"""How well names are told in traffic that nothing was learned from: by the rules, and with the learned evidence.

    python tests/benchmarks/bench_names.py --projects DIR               precision and recall on what was read
    python tests/benchmarks/bench_names.py --projects DIR --sheet FILE  draw possible names to be read

DIR holds one folder for each project: its repository at the commit that `tests/data/pii/README.md` names. What a person read is
in `tests/data/pii/names_read.jsonl`: for each name drawn, a digest of it and its context, and whether it is one. Names were
drawn at random among those that the rules accept and those that only the model tier sees; what neither sees is not counted. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from name_documents import Possible, possible_names, project
from name_evidence import is_sure, read_words

from freezeframe_redaction import load_policy
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model_tier import prose
from freezeframe_redaction.scanner import Scanner

READ = Path(__file__).parents[1] / "data" / "pii" / "names_read.jsonl"
WINDOWS = 300
"""Of each project, that the model reads for a sheet."""
DRAWN = 60
"""Names of each project on a sheet."""


def digest(one: Possible) -> str:
    """Return what identifies a name in its place without showing it."""
    return blake2b("\x1f".join((one.project, one.prefix, *one.context)).encode("utf-8", "replace"), digest_size=8).hexdigest()


def draw(folder: Path) -> Iterator[Possible]:
    """Yield names of one project, drawn at random from leaves drawn at random."""
    model = prose.load_model()
    leaves = list(possible_names(project(folder)))
    rnd = random.Random(7)
    rnd.shuffle(leaves)
    windows = 0
    pool: dict[tuple[str, str], Possible] = {}
    for possible in leaves:
        if windows >= WINDOWS:
            break
        read, count = read_words(possible, model)
        windows += count
        for one in possible:
            if one.detector or any(is_sure(read[word]) for word in one.words):
                before, name, _ = one.context
                pool.setdefault((name, before[-12:]), one)
    held = list(pool.values())
    yield from rnd.sample(held, min(DRAWN, len(held)))


def sheet(projects: Path, to: Path) -> None:
    """Write the names to be read, one a line: ``digest<tab>project<tab>who sees it<tab>context``."""
    lines: list[str] = []
    for folder in sorted(projects.iterdir()):
        for one in draw(folder):
            start, end = one.span
            shown = f"{one.prefix}{one.leaf[max(0, start - 60) : start]}[[{one.leaf[start:end]}]]{one.leaf[end : end + 40]}"
            lines.append("\t".join([digest(one), folder.name, "rules" if one.detector else "model", repr(shown)]))
    to.write_text("\n".join(lines) + "\n", "utf-8")


def is_kept(one: Possible, scanner: Scanner) -> bool:
    """Whether a word of the name is replaced: the rules accept it, and no veto, or a proposal that the evidence accepts."""
    start, end = one.span
    _, found = scanner.scan([(one.leaf, one.prefix)]).get(0, (None, []))
    return any(each.class_ == names.CLASS and each.start < end and start < each.end for each, _ in found)


def figures(projects: Path) -> None:
    """Print precision and recall of each project and of all."""
    scanner = Scanner(load_policy("strict"), {})
    held = [json.loads(line) for line in READ.read_text("utf-8").splitlines()]
    truth: dict[str, bool] = {row["name"]: row["is_name"] for row in held}
    total: dict[str, list[int]] = {}
    for folder in sorted(projects.iterdir()):
        found = {digest(one): one for possible in possible_names(project(folder)) for one in possible}
        mine = [row["name"] for row in held if row["project"] == folder.name]
        missing = [name for name in mine if name not in found]
        if len(missing) > len(mine) // 10:
            raise SystemExit(f"{folder}: {len(missing)} of {len(mine)} names that were read are not there: another commit?")
        if missing:
            print(f"{folder.name}: {len(missing)} no longer possible, {sum(truth[name] for name in missing)} of them names")
        mine = [name for name in mine if name in found or truth[name]]
        for who in ("rules", "rules and evidence"):
            accepted = [
                name
                for name in mine
                if name in found and (found[name].detector if who == "rules" else is_kept(found[name], scanner))
            ]
            right = sum(truth[name] for name in accepted)
            counts = [right, len(accepted), sum(truth[name] for name in mine)]
            _say(folder.name, who, counts)
            total[who] = [one + other for one, other in zip(total.get(who, [0, 0, 0]), counts, strict=True)]
    for who, counts in total.items():
        _say("all", who, counts)
    print(
        json.dumps({who: {"precision": right / found, "recall": right / names} for who, (right, found, names) in total.items()})
    )


def _say(project: str, who: str, counts: list[int]) -> None:
    right, found, people = counts
    precision, recall = right / max(1, found), right / max(1, people)
    print(f"{project:20s} {who:20s} precision {precision:.3f} ({right}/{found})  recall {recall:.3f} ({right}/{people})")


def main() -> None:
    """Print figures, or write a sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--projects", type=Path, required=True, metavar="DIR", help="one folder for each project")
    parser.add_argument("--sheet", type=Path, default=None, metavar="FILE", help="write possible names to be read")
    arguments = parser.parse_args()
    if arguments.sheet:
        sheet(arguments.projects, arguments.sheet)
    else:
        figures(arguments.projects)


if __name__ == "__main__":
    main()
