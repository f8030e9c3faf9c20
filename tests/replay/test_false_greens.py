"""Ways to be called identical without being so, or to hide what was not compared: each was once possible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.report.outline import outline_fixture
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

TOOLS = """
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def track(order):
    return {"order": order, "place": "Lyon"}
"""
FUNCTION = (
    TOOLS
    + """
@freezeframe.run
def answer(question):
    first = track("AC-1")
    return track("AC-2")["place"]

if __name__ == "__main__":
    answer("where?")
"""
)
YIELDING = (
    TOOLS
    + """
import asyncio

@freezeframe.run
def places(question):
    yield track("AC-1")["place"]
    yield "Paris"
    raise ValueError("no more")

async def every(found):
    return [place async for place in found]

if __name__ == "__main__":
    found = places("where?")
    print(asyncio.run(every(found)) if hasattr(found, "asend") else list(found))
"""
)
SCRIPT = TOOLS + '\nprint(track("AC-1"))\nraise ValueError("no order")\n'


def record(folder: Path, source: str) -> Fixture:
    (folder / "agent.py").write_text(source)
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environment, check=False, timeout=400, capture_output=True)
    return freeze(load_run_of_file(folder / "spans.jsonl"))


def replayed(fixture: Fixture, folder: Path, source: str, *command: str) -> Report:
    (folder / "agent.py").write_text(source)
    return reenact(fixture, [sys.executable, *command] if command else None, cwd=folder)


def line(fixture: Fixture, folder: Path, source: str, *command: str) -> str:
    return headline(replayed(fixture, folder, source, *command)).partition(", run ")[0]


@pytest.mark.proof
def test_a_script_that_no_longer_raises_is_not_identical(tmp_path: Path) -> None:
    """What a whole process raised is its outcome, like what it printed."""
    fixture = record(tmp_path, SCRIPT)
    assert fixture.entry.error is not None
    assert line(fixture, tmp_path, SCRIPT) == "identical: 1 of 1 step and the outcome"
    assert line(fixture, tmp_path, SCRIPT.replace("no order", "no such order")).startswith("REPLAY-104")
    assert line(fixture, tmp_path, SCRIPT.replace("raise ", "print(1); ")).startswith("REPLAY-104")


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_an_entry_point_yielded_before_it_raised_is_part_of_its_outcome(kind: str, tmp_path: Path) -> None:
    source = YIELDING.replace("def places", f"{kind} places")
    fixture = record(tmp_path, source)
    assert line(fixture, tmp_path, source) == "identical: 1 of 1 step and the outcome"
    for changed in ('yield "Nice"', "pass"):
        report = replayed(fixture, tmp_path, source.replace('yield "Paris"', changed))
        assert report.first is not None
        assert (report.first.kind, report.first.path) == (DivergenceKind.OUTCOME_CHANGED, "$.raised.yields[1]")
    assert outline_fixture(fixture).outcome == 'yielded "LyonParis", then raised ValueError: no more'


@pytest.mark.proof
@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("place='Lyon'", "place='Nice'", "$.body.kwargs.place"),
        ("find('AC-1')", "find('AC-1', 'Nice')", "$.body.kwargs.place"),
        ("find('AC-1')", "find('AC-1', 'Lyon')", None),
        ("find('AC-1')", "find(place='Lyon', order='AC-1')", None),
    ],
)
def test_a_default_of_a_tool_is_an_argument_of_its_calls(old: str, new: str, path: str | None, tmp_path: Path) -> None:
    """What was passed decides, whether the call or the function says it. Defaults that are objects are not looked at."""
    source = (
        TOOLS + "\n@freezeframe.tool\ndef find(order, place='Lyon', clock=object()):\n    return place\n\nprint(find('AC-1'))\n"
    )
    fixture = record(tmp_path, source)
    report = replayed(fixture, tmp_path, source.replace(old, new))
    assert (report.first and report.first.path) == path
    if path is None:
        assert headline(report).startswith("identical: 1 of 1 step and the outcome")


def test_steps_that_were_left_out_by_raising_show_where_no_outcome_was_recorded(tmp_path: Path) -> None:
    """A different outcome accounts for the steps that it left out; if there is none to compare, they are missing."""
    fixture = record(tmp_path, FUNCTION)
    unknown = replace(fixture, entry=replace(fixture.entry, output=None))
    assert line(unknown, tmp_path, FUNCTION) == "identical, except the outcome (not recorded): 2 of 2 steps"
    raising = FUNCTION.replace('    return track("AC-2")', '    raise KeyError(1)\n    return track("AC-2")')
    assert line(unknown, tmp_path, raising).startswith("REPLAY-103")
    report = replayed(fixture, tmp_path, raising)
    assert [each.kind for each in report.divergences] == [DivergenceKind.OUTCOME_CHANGED]


def test_a_program_that_fails_after_the_run_says_so_beside_the_verdict(tmp_path: Path) -> None:
    fixture = record(tmp_path, FUNCTION)
    failing = FUNCTION + "    raise SystemExit(3)\n"
    assert line(fixture, tmp_path, failing, "agent.py") == (
        "identical, except the program's exit status (3): 2 of 2 steps and the outcome"
    )


@pytest.mark.parametrize(
    ("recorded", "changed", "said"),
    [
        ("sys.exit(3)", "sys.exit(3)", "identical: 1 of 1 step and the outcome"),
        ("sys.exit(3)", "sys.exit(0)", "REPLAY-104"),
        ("sys.exit(3)", "pass", "REPLAY-104"),
        ("pass", "sys.exit('no order')", "REPLAY-104"),
        ("raise SystemExit(3)", "pass", "identical, except the program's exit status (not recorded)"),
        ("exit(3)", "pass", "identical, except the program's exit status (not recorded)"),
        ("sys.stdout.buffer.write(b'1')", "pass", "identical, except bytes written to standard output (not recorded)"),
        ("pass", "open('/proc/self/fd/1', 'w').write('2')", "identical, except bytes written to standard output"),
        ("pass", "import os; os.write(1, b'2')", "identical, except bytes written to standard output (not recorded)"),
        ("print('x' * 2_000_000)", "print('y' * 2_000_000)", "identical, except standard output (not recorded)"),
    ],
)
def test_another_exit_status_of_a_script_is_not_identical(recorded: str, changed: str, said: str, tmp_path: Path) -> None:
    fixture = record(tmp_path, f"import sys\n{TOOLS}\ntrack('AC-1')\nprint(1)\n{recorded}\n")
    script = f"import sys\n{TOOLS}\ntrack('AC-1')\nprint(1)\n{changed}\n"
    assert line(fixture, tmp_path, script).startswith(said)


@pytest.mark.parametrize("where", ["agent.py", "helper.py"])
def test_an_exit_that_python_alone_sees_is_named_as_not_compared_where_nothing_calls_instrument(
    where: str, tmp_path: Path
) -> None:
    """We come before the program then, and cannot read it yet; it may also end in a module that it imports."""
    main = "import helper\nprint(helper.track('AC-1'))\nhelper.end()\n"
    helper = TOOLS.replace("freezeframe.instrument()", "") + "\ndef end():\n    pass\n"
    texts = {"agent.py": main, "helper.py": helper}
    before, after = (
        ("pass", "raise SystemExit(3)") if where == "helper.py" else ("helper.end()", "raise SystemExit(helper.end())")
    )
    (tmp_path / "agent.py").write_text(main)
    (tmp_path / "helper.py").write_text(helper)
    (tmp_path / where).write_text(texts[where].replace(before, after))
    run = [sys.executable, "-m", "freezeframe._cli", "run", "--file", "spans.jsonl", "--", sys.executable, "agent.py"]
    subprocess.run(run, cwd=tmp_path, check=False, timeout=400, capture_output=True)
    (tmp_path / where).write_text(texts[where])
    said = headline(reenact(freeze(load_run_of_file(tmp_path / "spans.jsonl")), None, cwd=tmp_path))
    assert said.startswith("identical, except the program's exit status (not recorded): 1 of 1 step and the outcome")


def test_of_a_program_whose_text_cannot_be_read_the_exit_status_is_not_known(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "agent.pyz", "w") as archive:
        archive.writestr("__main__.py", TOOLS + "\nprint(track('AC-1'))\nraise SystemExit(3)\n")
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.pyz"], cwd=tmp_path, env=environment, check=False, timeout=400, capture_output=True)
    output = load_run_of_file(tmp_path / "spans.jsonl").entry.output
    assert json.loads(output or "")["exit"] is None


def test_a_script_whose_exit_status_is_not_known_is_not_called_ok(tmp_path: Path) -> None:
    fixture = record(tmp_path, f"import sys\n{TOOLS}\ntrack('AC-1')\nif __name__ == '__main__':\n    raise SystemExit(3)\n")
    assert load_run_of_file(tmp_path / "spans.jsonl").status is RunStatus.ENDED
    assert outline_fixture(fixture).status is RunStatus.ENDED


def test_a_script_that_exits_with_another_status_than_0_has_failed(tmp_path: Path) -> None:
    record(tmp_path, f"import sys\n{TOOLS}\ntrack('AC-1')\nsys.exit(3)\n")
    run = load_run_of_file(tmp_path / "spans.jsonl")
    assert (run.status, run.entry.output) == (RunStatus.FAILED, '{"exit": 3, "stdout": ""}')
    assert outline_fixture(freeze(run)).status is RunStatus.FAILED


CHANGING = """
@freezeframe.tool
def fill(found):
    found.append("x")

@freezeframe.run
def answer(question):
    found = []
    fill(found)
    track(found)

if __name__ == "__main__":
    answer("where?")
"""
CANCELLED = """
import asyncio

@freezeframe.run
async def answer(question):
    try:
        yield track("AC-1")
        await asyncio.sleep(9)
    finally:
        track("the end")

async def main():
    async def read():
        async for _ in answer("where?"):
            reading.set()
    reading = asyncio.Event()
    task = asyncio.create_task(read())
    await reading.wait()
    task.cancel()
    await asyncio.wait([task])

if __name__ == "__main__":
    asyncio.run(main())
"""


SECRET = """
import secrets

@freezeframe.run
def answer(question):
    return track(secrets.token_hex(8))

if __name__ == "__main__":
    answer("where?")
"""

SYSTEM_RANDOM = """
import random

@freezeframe.run
def answer(question):
    return track(str(random.SystemRandom().random()))

if __name__ == "__main__":
    answer("where?")
"""

LOCK = """
import threading

@freezeframe.tool
def hold(order):
    return {"lock": threading.Lock()}

@freezeframe.run
def answer(question):
    return track(type(hold("AC-1")["lock"]).__name__)

if __name__ == "__main__":
    answer("where?")
"""

DREW = "the program drew from os.urandom, /dev/urandom, secrets or SystemRandom, which a replay does not set"


@pytest.mark.parametrize(
    ("source", "gap"),
    [
        (SECRET, DREW),
        (SYSTEM_RANDOM, DREW),
        (LOCK, "the result of execute_tool hold holds a _thread:lock, which a replay does not give back whole"),
        (CHANGING, "tool fill (agent.py:9) changes its argument found, which a replay does not do"),
        (CANCELLED, "the run was ended from outside (CancelledError)"),
    ],
    ids=[
        "a secret",
        "SystemRandom",
        "a lock in a result",
        "a tool that changes its argument",
        "a generator that its caller cancels",
    ],
)
def test_a_divergence_of_unchanged_code_names_the_gap_that_show_does(source: str, gap: str, tmp_path: Path) -> None:
    fixture = record(tmp_path, TOOLS + source)
    (named,) = outline_fixture(fixture).gaps
    assert named.startswith(gap)
    report = replayed(fixture, tmp_path, TOOLS + source)
    assert report.first is not None
    assert report.first.note.endswith(f"a gap of the run may be the reason: {named}")


def test_another_command_in_place_of_the_recorded_one_was_not_given_its_input(tmp_path: Path) -> None:
    fixture = record(tmp_path, TOOLS + '\nprint(track("AC-1")["place"])\n')
    assert line(fixture, tmp_path, (tmp_path / "agent.py").read_text()) == "identical: 1 of 1 step and the outcome"
    assert line(fixture, tmp_path, (tmp_path / "agent.py").read_text(), "agent.py", "--verbose") == (
        "identical, except the input (not seen by the replay): 1 of 1 step and the outcome"
    )


def test_what_a_worker_process_relaxed_is_named(tmp_path: Path) -> None:
    """The first process writes the report; what the others found different is on its line, too."""
    source = FUNCTION.replace(
        '    return track("AC-2")["place"]',
        "    import multiprocessing\n"
        '    worker = multiprocessing.get_context("fork").Process(target=track, args=(object(),))\n'
        "    worker.start()\n    worker.join()\n    return first['place']",
    )
    fixture = record(tmp_path, source)
    said = "identical, except objects compared by class only in 1 step: 2 of 2 steps and the outcome"
    assert line(fixture, tmp_path, source) == said


REPORTING = FUNCTION.replace("import freezeframe", "import pathlib, subprocess\nimport freezeframe", 1).replace(
    '    return track("AC-2")',
    '    pathlib.Path("report.txt").write_text("found")\n    subprocess.run(["true", "found"])\n    return track("AC-2")',
)


def test_what_a_program_does_outside_its_steps_is_named_as_not_compared(tmp_path: Path) -> None:
    fixture = record(tmp_path, REPORTING)
    assert line(fixture, tmp_path, REPORTING.replace('"found"', '"lost"')) == (
        "identical, except what it does to files outside its steps and what it gives to programs that it starts: "
        "2 of 2 steps and the outcome"
    )


CLASSES = """
import dataclasses
import freezeframe
freezeframe.instrument()

@dataclasses.dataclass
class Order:
    number: str

class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code

@freezeframe.tool
def find(number):
    return Order(number)

@freezeframe.tool
def refund(number):
    refused = Refused(7, "no")
    refused.add_note("asked twice")
    raise refused

@freezeframe.run
def answer(question):
    order = find("AC-1")
    try:
        refund(order.number)
    except Refused as refused:
        return [order.number, refused.code, str(refused), refused.__notes__]

"""


@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":\n    '], ids=["a_plain_script", "with_a_main_guard"])
def test_a_script_gets_objects_and_exceptions_of_its_own_classes_from_its_tools(guard: str, tmp_path: Path) -> None:
    """Without a main guard the run is reached while the script is imported: its classes were not found, and it failed."""
    source = f'{CLASSES}{guard}answer("where?")\n'
    fixture = record(tmp_path, source)
    assert line(fixture, tmp_path, source) == "identical: 2 of 2 steps and the outcome"


OUTCOME = """
import collections, dataclasses
import pydantic

class Order(pydantic.BaseModel):
    id: str
    _note: str = pydantic.PrivateAttr(default="")

@dataclasses.dataclass
class Parcel:
    id: str

class Items(list):
    pass

class Name(str):
    pass

def order(note=""):
    made = Order(id="AC-1")
    made._note = note
    return made

def with_more(made, more=1):
    made.more = more
    return made

@freezeframe.run
def answer(question, found):
    track("AC-1")
    RESULT

if __name__ == "__main__":
    answer("where?", [])
"""


@pytest.mark.parametrize(
    ("recorded", "changed", "said"),
    [
        ("found.append(1)", "found.append(2)", "what the entry point changed in its arguments"),
        ("pass", "found.append(2)", "what the entry point changed in its arguments"),
        ("return order()", "return order('late')", "what the outcome holds of __main__:Order"),
        ("return with_more(Parcel('1'))", "return with_more(Parcel('1'), 2)", "what the outcome holds of __main__:Parcel"),
        ("return with_more(Items(), [1])", "return with_more(Items(), [2])", "what the outcome holds of __main__:Items"),
        ("return order()", "return order()", None),
    ],
)
def test_what_an_outcome_holds_that_is_not_compared_is_on_the_line(
    recorded: str, changed: str, said: str | None, tmp_path: Path
) -> None:
    both = [
        (TOOLS + OUTCOME).replace("RESULT", each).replace('answer("where?", [])', 'list(answer("where?", []) or ())')
        for each in (recorded, changed)
    ]
    fixture = record(tmp_path, both[0])
    said_now = line(fixture, tmp_path, both[1])
    assert said_now.startswith("identical: 1 of 1 step" if said is None else f"identical, except {said}"), said_now
