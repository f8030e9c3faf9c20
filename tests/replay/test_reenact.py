"""A recorded program is run again in a separate process, with the recorded input, clock, randomness and environment."""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

MARKED = """
import datetime, os, random, sys, freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(*seen):
    open("touched", "a").write("x")
    return list(seen)

@freezeframe.run
def answer(question):
    seen = look(question, random.random(), datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), os.environ.get("SHOP_BASE_URL"))
    return [seen, random.random()]

if __name__ == "__main__":
    answer(sys.argv[1])
"""

UNGUARDED = MARKED.replace('if __name__ == "__main__":\n    answer(sys.argv[1])', 'answer("where?")')
UNMARKED = MARKED.replace("@freezeframe.run\n", "")


def record(folder: Path, source: str, *arguments: str, **environ: str) -> Fixture:
    """Write the program to `folder`, run it once, return its run."""
    (folder / "agent.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "agent.py", *arguments],
        cwd=folder,
        env={**os.environ, "FREEZEFRAME_FILE": "spans.jsonl", **environ},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = (folder / "spans.jsonl").read_text().splitlines()
    return freeze(build_run(span for line in lines for span in spans_from_otlp_json(json.loads(line))))


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not just a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def touches(folder: Path) -> int:
    return len((folder / "touched").read_text())


@pytest.mark.proof
def test_a_marked_function_sees_the_recorded_input_clock_randomness_and_environment(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?", SHOP_BASE_URL="https://shop.example")
    report = reenact(fixture, cwd=tmp_path)
    assert report.divergences == ()
    assert verdict(report) is Verdict.IDENTICAL
    assert touches(tmp_path) == 1


def test_a_generator_made_before_the_run_draws_in_the_replay_what_it_drew(tmp_path: Path) -> None:
    own = MARKED.replace("@freezeframe.run", "OWN = random.Random()\n\n@freezeframe.run").replace(
        "return [seen, random.random()]", "return [look(OWN.random()), random.Random().random()]"
    )
    report = reenact(record(tmp_path, own, "where?"), cwd=tmp_path)
    assert (verdict(report), report.divergences) == (Verdict.IDENTICAL, ())


@pytest.mark.proof
@pytest.mark.parametrize(
    "reading",
    ["time.ctime()[-4:]", "time.ctime(None)[-4:]", "time.asctime()[-4:]", 'time.strftime("%Y")',
     "str(1970 + int(time.clock_gettime(time.CLOCK_REALTIME) / 31556952))"],
)  # fmt: skip
def test_each_way_of_asking_the_wall_clock_tells_the_time_of_the_run(reading: str, tmp_path: Path) -> None:
    called = (
        f"import time, freezeframe\n\n@freezeframe.run\ndef year():\n    return {reading}\n\nfreezeframe.instrument()\nyear()\n"
    )
    fixture = record(tmp_path, called)
    report = reenact(replace(fixture, entry=replace(fixture.entry, start_time_unix_nano=10**18)), cwd=tmp_path)
    assert [found.live for found in report.divergences] == ['"2001"']


def test_a_script_without_a_main_guard_calls_its_function_once(tmp_path: Path) -> None:
    """It does so while it is loaded, and leaves the recording there too."""
    fixture = record(tmp_path, UNGUARDED)
    assert verdict(reenact(fixture, cwd=tmp_path)) is Verdict.IDENTICAL
    assert touches(tmp_path) == 1
    (tmp_path / "agent.py").write_text(UNGUARDED.replace("look(question,", "look(question.upper(),"))
    report = reenact(fixture, cwd=tmp_path)
    assert [item.kind for item in report.divergences] == [DivergenceKind.REQUEST_CHANGED]
    assert report.warnings == ()


OWN_CLASSES = """
import dataclasses, enum, freezeframe
freezeframe.instrument()

class Place(enum.Enum):
    HOME, WORK = 1, 2

@dataclasses.dataclass
class Order:
    number: int
    place: Place

class Refused(Exception):
    pass

@freezeframe.tool
def look(order):
    return dataclasses.replace(order, place=Place.WORK)

@freezeframe.run
def answer(number):
    found = look(Order(number, Place.HOME))
    if number > 1:
        raise Refused(str(found))
    return found

if __name__ == "__main__":
    try:
        answer(NUMBER)
    except Refused:
        pass
"""


@pytest.mark.parametrize("number", [1, 2], ids=["returned", "raised"])
def test_classes_of_the_script_itself_are_the_same_in_its_replay(number: int, tmp_path: Path) -> None:
    fixture = record(tmp_path, OWN_CLASSES.replace("NUMBER", str(number)))
    report = reenact(fixture, cwd=tmp_path)
    assert verdict(report) is Verdict.IDENTICAL, report.first
    (tmp_path / "agent.py").write_text(OWN_CLASSES.replace("place=Place.WORK", "number=0").replace("Place.HOME", "Place.WORK"))
    assert verdict(reenact(fixture, cwd=tmp_path)) is not Verdict.IDENTICAL


LEFT_EARLY = """
import asyncio, freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(page):
    return page

@freezeframe.run
ASYNC def answer():
    for page in range(5):
        yield look(page)

async def first_two():
    pages = answer()
    print([await anext(pages), await anext(pages)])
    await pages.aclose()

if __name__ == "__main__":
    CALL
"""


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kind", "call"),
    [("", "pages = answer(); print(next(pages), next(pages)); pages.close()"), ("async", "asyncio.run(first_two())")],
    ids=["generator", "async generator"],
)
def test_a_generator_that_was_left_early_is_left_there_again(kind: str, call: str, tmp_path: Path) -> None:
    program = LEFT_EARLY.replace("ASYNC", kind).replace("CALL", call).replace("\n def", "\ndef")
    fixture = record(tmp_path, program)
    assert len(fixture.steps) == 2
    report = reenact(fixture, cwd=tmp_path)
    assert verdict(report) is Verdict.IDENTICAL, report.first
    (tmp_path / "agent.py").write_text(program.replace("range(5)", "range(1)"))
    assert verdict(reenact(fixture, cwd=tmp_path)) is not Verdict.IDENTICAL


@pytest.mark.proof
def test_a_script_without_a_mark_is_started_again_with_its_recorded_arguments(tmp_path: Path) -> None:
    fixture = record(tmp_path, UNMARKED.replace("random.random()", "0.5"), "where?")
    assert fixture.entry.kind == "command"
    assert "where?" not in fixture.entry.target
    report = reenact(fixture, cwd=tmp_path)
    assert verdict(report) is Verdict.IDENTICAL
    assert touches(tmp_path) == 1


@pytest.mark.proof("code REPLAY-105")
def test_a_named_command_takes_the_place_of_the_recorded_one(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?")
    assert verdict(reenact(fixture, [sys.executable, "agent.py", "where?"], cwd=tmp_path)) is Verdict.IDENTICAL
    other = reenact(fixture, [sys.executable, "agent.py", "why?"], cwd=tmp_path)
    assert other.first is not None
    assert other.first.kind is DivergenceKind.INPUT_CHANGED


def test_a_program_that_cannot_be_imported_is_incomparable_and_not_diverged(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?")
    (tmp_path / "agent.py").write_text("import no_such_module\n")
    report = reenact(fixture, cwd=tmp_path)
    assert not report.entered
    assert report.divergences == ()
    assert "no_such_module" in report.warnings[0]


@pytest.mark.proof
def test_an_entry_point_that_is_gone_is_named(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?")
    (tmp_path / "agent.py").write_text(MARKED.replace("def answer", "def reply").replace("answer(sys", "reply(sys"))
    report = reenact(fixture, cwd=tmp_path)
    assert not report.entered
    assert "answer" in report.warnings[0]


@pytest.mark.proof("code REPLAY-106")
def test_a_connection_that_no_seam_covers_is_stopped_and_reported(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?")
    (tmp_path / "agent.py").write_text(
        MARKED.replace("    seen =", "    import socket; socket.create_connection(('127.0.0.1', 9))\n    seen =")
    )
    report = reenact(fixture, cwd=tmp_path)
    assert [item.kind for item in report.divergences] == [DivergenceKind.NETWORK]
    assert report.divergences[0].name == "127.0.0.1:9"
    assert report.sockets_tried == 1


def test_an_exporter_of_the_applications_own_is_refused_and_does_not_make_a_divergence(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?")
    exporting = (
        "    import socket; from opentelemetry import context as c\n"
        "    token = c.attach(c.set_value('suppress_instrumentation', True))\n"
        "    try: socket.create_connection(('127.0.0.1', 9))\n"
        "    except OSError: pass\n"
        "    finally: c.detach(token)\n"
        "    seen ="
    )
    (tmp_path / "agent.py").write_text(MARKED.replace("    seen =", exporting))
    assert verdict(reenact(fixture, cwd=tmp_path)) is Verdict.IDENTICAL


@pytest.mark.proof
def test_a_program_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?")
    sleeper = f"{sys.executable} -c 'import time; time.sleep(60)'"
    with pytest.raises(ReplayError, match="did not finish within"):
        reenact(fixture, ["sh", "-c", f"{sleeper} & echo $! > pid; wait"], cwd=tmp_path, timeout_s=3)
    pid = int((tmp_path / "pid").read_text())
    while is_running(pid):  # a kill is delivered in its own time; if it never comes, the test's time limit ends the wait
        time.sleep(0.01)


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    fixture = record(tmp_path, MARKED, "where?")
    with pytest.raises(ReplayError, match="cannot be started"):
        reenact(fixture, ["no-such-command"], cwd=tmp_path)


SPLIT = "import shop, " + MARKED.partition("import ")[2].replace("return [seen", "return [shop.NAME, seen")


def test_a_source_edited_twice_in_a_second_is_replayed_as_it_is_now(tmp_path: Path) -> None:
    """Python itself would take the first version's byte code for the second's: size and second are the same."""
    shop = tmp_path / "shop.py"
    shop.write_text("NAME = 'one'")
    fixture = record(tmp_path, SPLIT, "where?", PYTHONDONTWRITEBYTECODE="1")
    in_an_hour = time.time() + 3600  # not settled, however slow the machine is
    os.utime(shop, (in_an_hour, in_an_hour))
    edited = shop.stat()
    writing = {"PYTHONDONTWRITEBYTECODE": ""}
    assert verdict(reenact(fixture, cwd=tmp_path, env=writing)) is Verdict.IDENTICAL
    shop.write_text("NAME = 'two'")
    os.utime(shop, ns=(edited.st_atime_ns, edited.st_mtime_ns))
    (changed,) = reenact(fixture, cwd=tmp_path, env=writing).divergences
    assert changed.kind is DivergenceKind.OUTCOME_CHANGED


def test_byte_code_that_the_program_wrote_in_the_second_of_its_source_is_not_replayed(tmp_path: Path) -> None:
    shop = tmp_path / "shop.py"
    shop.write_text("NAME = 'one'")
    fixture = record(tmp_path, SPLIT, "where?", PYTHONDONTWRITEBYTECODE="1")
    py_compile.compile(str(shop))
    written = shop.stat()
    shop.write_text("NAME = 'two'")
    os.utime(shop, ns=(written.st_atime_ns, written.st_mtime_ns))
    os.utime(importlib.util.cache_from_source(str(shop)), ns=(written.st_atime_ns, written.st_mtime_ns))
    (changed,) = reenact(fixture, cwd=tmp_path).divergences
    assert changed.kind is DivergenceKind.OUTCOME_CHANGED


def test_byte_code_of_libraries_is_kept_from_one_replay_to_the_next(tmp_path: Path) -> None:
    shop = tmp_path / "shop.py"
    shop.write_text("NAME = 'one'")
    an_hour_ago = time.time() - 3600
    os.utime(shop, (an_hour_ago, an_hour_ago))
    fixture = record(tmp_path, SPLIT, "where?", PYTHONDONTWRITEBYTECODE="1")
    assert not (tmp_path / "__pycache__").exists()
    assert verdict(reenact(fixture, cwd=tmp_path, env={"PYTHONDONTWRITEBYTECODE": ""})) is Verdict.IDENTICAL
    assert [path.name.partition(".")[0] for path in (tmp_path / "__pycache__").iterdir()] == ["shop"]
