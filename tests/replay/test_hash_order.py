"""Sets of texts have the order of the process's hash seed: a replay has that of the run, or the run names it as a gap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe._injection import capture_environment
from freezeframe.context.environment import HASH_SEED_VARIABLE
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import Run, build_run, readiness
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = pytest.mark.long  # each test starts Python itself: a fork has the seed of the process that it comes from

PROGRAM = """
import collections, enum, freezeframe
freezeframe.instrument()
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
ON_IMPORT = list(set(WORDS))

@freezeframe.tool
def look(name, seen):
    return seen

class Colour(enum.Enum):
    RED, GREEN, BLUE = "red", "green", "blue"

def passed(**given):
    return list(set(given))

@freezeframe.run
def answer():
    look("a set", list(set(WORDS)))
    look("a comprehension", " ".join({word.title() for word in WORDS}))
    look("a frozen set", list(frozenset(WORDS)))
    look("a union", list(set(WORDS[:5]) | set(WORDS[3:])))
    look("a difference", list(set(WORDS) - set(WORDS[:2])))
    look("what is popped", set(WORDS).pop())
    look("hash()", hash("alpha"))
    look("hash() of bytes", hash(b"alpha") % 1000)
    look("hash() of a tuple", hash(("alpha", 1)))
    look("keys of dicts", list({"x": 1, "y": 2, "z": 3}.keys() & {"z", "y", "x"}))
    look("names", passed(**dict.fromkeys(WORDS)))
    look("members", [each.name for each in set(Colour)])
    look("a bucket by hash", collections.Counter(hash(word) % 4 for word in WORDS).most_common())
    look("on import", ON_IMPORT)

if __name__ == "__main__":
    answer()
"""


def record(folder: Path, source: str, **environ: str) -> Run:
    """Write the program to `folder`, run it once, return its run."""
    (folder / "agent.py").write_text(source)
    own = {name: value for name, value in os.environ.items() if name != HASH_SEED_VARIABLE}
    environ = {**own, "FREEZEFRAME_FILE": str(folder / "spans.jsonl"), **environ}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environ, check=True, capture_output=True, timeout=400)
    lines = (folder / "spans.jsonl").read_text().splitlines()
    spans = [span for line in lines for span in spans_from_otlp_json(json.loads(line))]
    [target] = {span.trace_id for span in spans if span.name == "answer"}
    return build_run(span for span in spans if span.trace_id == target)


@pytest.mark.parametrize("way", ["freezeframe run", "PYTHONHASHSEED"])
def test_a_replay_has_the_order_of_the_run_whatever_the_seed_here(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(HASH_SEED_VARIABLE, raising=False)
    given = capture_environment(["python"]) if way == "freezeframe run" else {HASH_SEED_VARIABLE: "7"}
    run = record(tmp_path, PROGRAM, FREEZEFRAME_RECORD_ENV="LANG", **given)
    assert [gap for gap in run.gaps if gap.kind is GapKind.HASH_SEED] == []
    monkeypatch.setenv(HASH_SEED_VARIABLE, "8")
    report = reenact(freeze(run), cwd=tmp_path)
    assert [(each.recorded, each.live) for each in report.divergences] == []
    assert verdict(report) is Verdict.IDENTICAL


HEAD = (
    "import freezeframe\nfreezeframe.instrument()\n@freezeframe.tool\ndef look(x): return x\n@freezeframe.run\ndef answer(w):\n"
)
BODIES = {
    "list(set(w))": True,
    "''.join({x for x in w})": True,
    "[x for x in {'a', 'b'}]": True,
    "list(frozenset(w))": True,
    "' '.join({'a', 'b'})": True,
    "str({'a': w, 'b': 1})": False,
    "hash(w) % 10": True,
    "dict.fromkeys(set(w))": True,
    "sorted(set(w))": False,
    "len(set(w))": False,
    "w in {'a', 'b'}": False,
    "{x: 1 for x in w}": False,
    "dict(offset=1)": False,
    "str(__import__('contextvars').ContextVar('v').set(w))[:1]": False,
}  # fmt: skip


def test_a_run_whose_seed_is_not_known_says_so_if_its_program_makes_sets(
    tmp_path: Path, warm_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its level: many sets are only asked what they hold, and a replay, which has another seed, shows that."""
    monkeypatch.setattr(sys, "executable", warm_server)  # its seed is not known either, and orders nothing here
    named: dict[str, bool] = {}
    for number, body in enumerate(BODIES):
        (folder := tmp_path / str(number)).mkdir()
        run = record(folder, f"{HEAD}    return look({body})\nanswer('ab')\n", GIT_COMMIT="1f4aa9f")
        named[body] = any(gap.kind is GapKind.HASH_SEED for gap in run.gaps)
        assert readiness(run).level == 5, run.gaps
    assert named == BODIES
