"""A replay imports a script: under the name that it had in the run, and up to the run that is replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

HEAD = """
import asyncio, concurrent.futures, freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(text):
    return text.upper()

@freezeframe.run
def answer(text, **more):
    return look(text)

@freezeframe.run
async def reply(text):
    await asyncio.sleep(0)
    return look(text)

@freezeframe.run
def both(text):
    return [answer(text), look(text * 2)]
"""
BODIES = {
    "a loop": 'for text in ["one", "two", "three"]:\n    print(answer(text))',
    "calls in a row, the first as an expression": 'answer("one").strip()\ntwo = answer("two")\nassert answer(two) == "TWO"',
    "a comprehension": 'print([answer(text) for text in ("one", "two")])',
    "equal inputs": 'for _ in range(3):\n    answer("same")',
    "a function that calls it": 'def go():\n    for n in range(2):\n        answer(str(n), n=n)\ngo()',
    "what catches exceptions": 'for n in "ab":\n    try:\n        answer(n)\n    except Exception:\n        exit(1)',
    "coroutines in a loop each": 'for text in ("one", "two"):\n    asyncio.run(reply(text))',
    "coroutines in one loop": 'async def go():\n    await reply("one")\n    await reply("two")\nasyncio.run(go())',
    "threads": 'with concurrent.futures.ThreadPoolExecutor(2) as pool:\n    print(list(pool.map(answer, ["one", "two"])))',
    "two functions with equal input": 'answer("one")\nboth("one")\nboth("two")',
    "a main guard above calls": 'if __name__ == "__main__":\n    answer("one")\nanswer("two")',
}  # fmt: skip
FIRST = {"equal inputs", "coroutines in one loop", "threads"}
"""Those that `make test` tries."""


def record(
    folder: Path, source: str, *arguments: str, typed: Sequence[str] = (), terminal: bool = False, **environ: str
) -> list[Fixture]:
    """Write the program to `folder`, run it once, return its runs. `typed`: the lines of its standard input."""
    (folder / "agent.py").write_text(source)
    ours, its = os.openpty() if terminal else os.pipe()
    with open(ours if terminal else its, "wb", buffering=0) as keys:
        keys.write("".join(f"{line}\n" for line in typed).encode())
        if not terminal:
            keys.close()
        done = subprocess.run(
            [sys.executable, "agent.py", *arguments],
            cwd=folder,
            env={**os.environ, "FREEZEFRAME_FILE": "spans.jsonl", **environ},
            stdin=its if terminal else ours,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
    os.close(its if terminal else ours)
    assert done.returncode == 0, done.stderr
    spans = defaultdict[str, list[SpanRecord]](list)
    for line in (folder / "spans.jsonl").read_text().splitlines():
        for span in spans_from_otlp_json(json.loads(line)):
            spans[span.trace_id].append(span)
    return [freeze(build_run(each)) for each in spans.values()]


@pytest.mark.parametrize(
    "body", [pytest.param(body, id=name, marks=pytest.mark.proof if name in FIRST else ()) for name, body in BODIES.items()]
)
def test_each_run_that_a_script_without_a_main_guard_begins_is_replayed_by_its_own_input(body: str, tmp_path: Path) -> None:
    runs = record(tmp_path, HEAD + body)
    assert len(runs) > 1
    reports = [reenact(run, cwd=tmp_path) for run in runs]
    found = [(verdict(report), report.divergences, report.warnings) for report in reports]
    assert found == [(Verdict.IDENTICAL, (), ())] * len(runs)


ARGUMENTS = """
import argparse, sys, freezeframe
freezeframe.instrument()
parser = argparse.ArgumentParser()
parser.add_argument("question")
parser.add_argument("--words", type=int)

@freezeframe.tool
def look(text):
    return text.upper()

@freezeframe.run
def main():
    given = parser.parse_args()
    return look(f"{sys.argv[0]} {given.question} {given.words}")

if __name__ == "__main__":
    main()
"""


def test_a_run_that_reads_the_arguments_of_its_script_is_replayed_by_them(tmp_path: Path) -> None:
    [run] = record(tmp_path, ARGUMENTS, "where is my order?", "--words", "7")
    report = reenact(run, cwd=tmp_path)
    assert (verdict(report), report.divergences) == (Verdict.IDENTICAL, ())
    assert run.entry.argv == '["where is my order?", "--words", "7"]'


NAMES = """
import collections, multiprocessing, pickle, sys, typing, freezeframe
freezeframe.instrument()

class Place:
    pass

def emb():
    return 1

Pair = collections.namedtuple("Pair", "a b")
GUARDED = [__name__ == "__main__", "__main__" == __name__, __name__ != "__main__", __name__ in ("__main__",)]

@freezeframe.tool
def look(seen):
    return None

@freezeframe.run
def answer():
    main = sys.modules["__main__"]
    main.Later = 3
    look([__name__, __file__, Place.__module__, emb.__module__, Pair.__module__, repr(Place), Later, main.emb is emb])
    look([pickle.dumps([Place, emb, Pair(1, 2)]), type(pickle.loads(pickle.dumps(Place()))) is Place])
    look([f"{emb.__module__}.{emb.__qualname__}", typing.get_type_hints(answer), multiprocessing.current_process().name])
    return emb.__code__.co_filename

if __name__ == "__main__":
    answer()
elif __name__ != "__mp_main__":
    raise SystemExit("a replay took another branch")
"""


@pytest.mark.proof
def test_the_modules_of_a_replay_have_the_names_that_they_had_in_the_run(tmp_path: Path) -> None:
    [run] = record(tmp_path, NAMES)
    report = reenact(run, cwd=tmp_path)
    assert [(each.recorded, each.live) for each in report.divergences] == []
    assert verdict(report) is Verdict.IDENTICAL


CHAT = """
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(text):
    return text.upper()
{mark}
def main():
    while (text := input("> ")) != "quit":
        print(look(text))

main()
"""


@pytest.mark.parametrize(
    ("mark", "terminal"),
    [("@freezeframe.run", True), ("@freezeframe.run", False), ("", True), ("", False)],
    ids=["a marked run at a terminal", "a marked run", "a script at a terminal", "a script"],
)
def test_a_replay_types_what_was_typed(mark: str, terminal: bool, tmp_path: Path) -> None:
    [run] = record(tmp_path, CHAT.format(mark=mark), typed=["hello", "and more", "quit"], terminal=terminal)
    report = reenact(run, cwd=tmp_path)
    assert (verdict(report), report.divergences) == (Verdict.IDENTICAL, ())
    asked = [step.exchange.name for step in run.steps].count("input")
    assert asked == (3 if mark or terminal else 0)


READ = """
import fileinput, io, json, sys
from sys import stdin
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(text):
    return len(text)

@freezeframe.run
def answer():
    {body}

first = stdin.readline()
assert first in ("before\\n", "")
answer()
"""
STDIN = {
    "lines": "for line in sys.stdin: look(line)",
    "the first line, and later the rest": "look(sys.stdin.readline()); look(sys.stdin.read())",
    "pieces": "look(sys.stdin.read(3)); look(sys.stdin.readline(2))",
    "a list of lines": "return [look(line) for line in sys.stdin.readlines()]",
    "a name that was imported": "return [look(line) for line in stdin]",
    "JSON": 'look(json.load(sys.stdin) if sys.stdin.readline() == "x" else "")',
    "lines after input()": "look(input()); return [look(line) for line in sys.stdin]",
    "fileinput": 'return [look(line) for line in fileinput.input("-")]',
    "in a with block": "with sys.stdin as lines: return look(next(lines))",
    "bytes": "look(sys.stdin.buffer.readline()); return [look(line) for line in sys.stdin.buffer]",
    "another stream around its bytes": 'return look(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8").read())',
    "another stream around what it detached": "return look(io.TextIOWrapper(sys.stdin.detach()).read())",
    "a piece into a buffer": "held = bytearray(4); look(str(sys.stdin.buffer.readinto(held))); look(bytes(held))",
    "too many lines": "for line in sys.stdin: pass\n    return look(line)",
}


@pytest.mark.parametrize("way", STDIN)
def test_a_replay_gives_a_marked_run_the_standard_input_that_it_read(way: str, tmp_path: Path) -> None:
    """What the program read before the run is not the run's. A replay's own standard input is empty."""
    typed = ["before", *(str(number) for number in range(300 if way == "too many lines" else 3))]
    *_, run = record(tmp_path, READ.format(body=STDIN[way]), typed=typed)
    assert any(step.exchange.name.startswith("stdin.") for step in run.steps)
    assert any("reads over 200 times from standard input" in gap for gap in run.gaps) == (way == "too many lines")
    if way != "too many lines":
        report = reenact(run, cwd=tmp_path)
        assert (verdict(report), report.divergences) == (Verdict.IDENTICAL, ())


@pytest.mark.parametrize(
    "early", ["import sys; first = sys.stdin.readline()", "from sys import stdin; first = stdin.readline()"]
)
@pytest.mark.parametrize("mark", ["@freezeframe.run", "@freezeframe.tool"])
def test_a_program_that_read_ahead_before_capture_began_loses_nothing(early: str, mark: str, tmp_path: Path) -> None:
    body = f"freezeframe.instrument()\n{mark}\ndef rest(): return sys.stdin.read()\nprint(rest())"
    [run] = record(tmp_path, f"{early}\nimport sys, freezeframe\n{body}", typed=["one", "two", "three"])
    assert "two\\nthree\\n" in str(run.entry.output)


VARIABLES = """
import os, freezeframe
freezeframe.instrument()
os.environ["ITS_OWN"] = "1"

@freezeframe.run
def answer():
    return [os.environ["MOOD"], os.getenv("TONE"), os.environ.get('LANG'), os.environ.get("ABSENT"), os.environ["ITS_OWN"]]

answer()
"""


@pytest.mark.parametrize(
    ("recorded", "named"), [("LANG", "reads MOOD, TONE from"), ("LANG,MOOD", "reads TONE from"), ("*", "")]
)
def test_a_variable_that_is_read_and_not_recorded_is_named(recorded: str, named: str, tmp_path: Path) -> None:
    [run] = record(tmp_path, VARIABLES, MOOD="good", TONE="kind", LANG="C", FREEZEFRAME_RECORD_ENV=recorded)
    gaps = [gap for gap in run.gaps if "from the environment" in gap]
    assert len(gaps) == bool(named)
    assert all(named in gap for gap in gaps)
    report = reenact(run, cwd=tmp_path)
    assert verdict(report) is (Verdict.IDENTICAL if recorded == "*" else Verdict.DIVERGED)
