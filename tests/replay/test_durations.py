"""Durations that a program measures and puts into a request: a replay measures those of the run, and names what it did
not compare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chancy_provider import ChancyProvider
from loopback import QuietHandler, listening

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.isolate import RecordedClock
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Entry
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

MEASURED = """
import dataclasses, datetime, time
from time import perf_counter, perf_counter_ns
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def track(order):
    time.sleep(0.2125)  # no clock shows so many digits: the program's own numbers are compared as they are
    return {"order": order, "place": "Lyon"}

@dataclasses.dataclass
class Note:
    at: float = dataclasses.field(default_factory=time.time)

@freezeframe.tool
def report(text, seconds=0.0):
    return text

note, moment, begun, nanoseconds = Note(), datetime.datetime.now(), perf_counter(), perf_counter_ns()
track("AC-1")
"""
CLOCKS = {
    "a branch": "report('slow' if time.monotonic() - begun > 0.1525 else 'fast')",
    "time": "report(f'took {time.time() - note.at} s')",
    "two decimals": "report(f'took {time.time() - note.at:.2f} s')",
    "one decimal": "report(f'took {time.time() - note.at:.1f} s')",
    "datetime": "report(f'took {datetime.datetime.now() - moment}')",
    "total_seconds": "report(f'took {(datetime.datetime.now() - moment).total_seconds()}')",
    # of three digits, as milliseconds are, it might be a number of the environment
    "microseconds": "report(f'took {(perf_counter_ns() - nanoseconds) // 1_000} us')",
    "a number": "report('took', perf_counter() - begun)",
    "twice": "first = perf_counter() - begun; report(f'took {first:.4f}'); report(f'took {first:.4f}, then more')",
    "a dataclass": "report(f'took {Note().at - note.at:.6f}')",
    "a thread": (
        "import threading\ndef work(): report(f'{perf_counter() - begun:.5f}')\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()"
    ),
    "a task": "import asyncio\nasync def main(): report(f'{perf_counter() - begun:.5f}')\nasyncio.run(main())",
    "a sleep that fails": "try: time.sleep('long')\nexcept TypeError as error: report(str(error))",
    "a deadline": "end = time.monotonic() + 0.5125\nwhile time.monotonic() < end: track('AC-2')",
}
ELAPSED = """
import json
import httpx, httpx2, requests
import freezeframe
freezeframe.instrument()
ASKED = [{"role": "user", "content": "Where?"}]

@freezeframe.tool
def report(text):
    return text

for client in (httpx, httpx2, requests):
    answer = client.post("URL/v1/chat/completions", json={"model": "fine", "messages": ASKED})
    report(f"{answer.elapsed} {answer.elapsed.total_seconds()}")
"""


def record(folder: Path, source: str) -> Fixture:
    (folder / "agent.py").write_text(source)
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environment, check=True, timeout=400)
    return freeze(load_run_of_file(folder / "spans.jsonl"))


def replayed(fixture: Fixture, folder: Path, source: str) -> Report:
    (folder / "agent.py").write_text(source)
    return reenact(fixture, cwd=folder)


def line(fixture: Fixture, folder: Path, source: str) -> str:
    return headline(replayed(fixture, folder, source)).partition(", run ")[0]


@pytest.mark.proof
def test_the_durations_that_a_program_measures_are_those_of_the_run(tmp_path: Path) -> None:
    """By each clock and in each form, in tasks and threads; and the program decides by them as it did."""
    source = "\n".join([MEASURED, *CLOCKS.values()])
    assert line(record(tmp_path, source), tmp_path, source).startswith("identical, except times read from the clock in ")


def test_elapsed_of_a_response_is_that_of_the_run(tmp_path: Path) -> None:
    with ChancyProvider() as provider:
        source = ELAPSED.replace("URL", provider.url)
        fixture = record(tmp_path, source)
    assert line(fixture, tmp_path, source).startswith("identical, except times read from the clock in ")


def test_another_number_is_not_taken_for_a_duration(tmp_path: Path) -> None:
    """Some are of the size of those that the program measures; a computed one has more digits than a duration has by chance."""
    more = (
        "LIMIT = 70 / 97\nfor each in range(40): perf_counter() - begun\n"
        "report(f'{perf_counter() - begun:.9f}, limit 0.21, {LIMIT}', 0.5)"
    )
    source = MEASURED + more
    fixture = record(tmp_path, source)
    assert line(fixture, tmp_path, source).startswith("identical")
    for old, new in (
        ("limit 0.21", "limit 0.2"),
        ("LIMIT = 70", "LIMIT = 80"),
        ("0.5)", "0.2)"),
        ("{perf_counter() - begun", "{(perf_counter() - begun) / 7"),
        ("{perf_counter() - begun", "{perf_counter() - begun + 30"),
        ('track("AC-1")', 'for each in range(20): track("AC-1")'),
    ):
        assert line(fixture, tmp_path, source.replace(old, new)).startswith("REPLAY-10"), new


def test_what_a_program_computes_of_a_duration_is_named_as_what_may_differ(tmp_path: Path) -> None:
    source = MEASURED + "track(f'{7 / (perf_counter() - begun):.9f} per s')\n"
    fixture = record(tmp_path, source)
    report = replayed(fixture, tmp_path, source)
    assert report.first is not None
    assert "only numbers differ: if the program computes with a duration" in report.first.note
    other = replayed(fixture, tmp_path, source.replace("per s", "in a second"))
    assert other.first is not None
    assert "only numbers" not in other.first.note


def test_a_duration_that_the_code_holds_as_a_number_too_is_named_as_what_may_differ(tmp_path: Path) -> None:
    """It stays a divergence: a number of the code that was changed looks the same."""
    held = "# " + " ".join(f"{tenths / 10}" for tenths in range(5, 100))
    measured = "later = perf_counter()\nfor each in range(4): track(each)\nreport(f'took {perf_counter() - begun:.1f}')\n"
    source = f"{MEASURED}{held}\n{measured}"
    fixture = record(tmp_path, source)
    report = replayed(fixture, tmp_path, source.replace("() - begun", "() - later"))
    assert report.first is not None
    assert "may be a duration that the program measured, but the program's code" in report.first.note


def test_a_number_is_measured_in_the_unit_that_fits_best() -> None:
    """A whole number is cut or rounded, so 1 may be nearly any time below two of its units."""
    clock = RecordedClock(Entry(name="agent"))

    def per_s(*took_ns: int) -> float | None:
        found = clock.measured("1", took_ns)
        return found and found.per_s

    assert per_s(600_000) == 1e3
    assert per_s(600_000, 1_100_000_000) == 1
    assert per_s(2_100_000_000) is None


class SlowStream(QuietHandler):
    """Streams an answer in three pieces, 0.3 s apart."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in (b'data: {"choices": []}\n\n', b'data: {"choices": []}\n\n', b"data: [DONE]\n\n", b""):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            time.sleep(0.3)


STREAMED = """
import asyncio, http.client, json, time
import aiohttp, httpx, requests
import freezeframe
freezeframe.instrument()

ASKED = {"model": "slow", "stream": True, "messages": [{"role": "user", "content": "Where?"}]}
ADDRESS = "URL/v1/chat/completions"

@freezeframe.tool
def report(text):
    return text

def told(client, pieces):
    first = None
    for piece in pieces:
        first = first or time.monotonic()
    tell(client, first)

def tell(client, first):
    report(f"{client}: {'slow' if time.monotonic() - first > 0.5 else 'quick'} to end")

with httpx.stream("POST", ADDRESS, json=ASKED) as answer:
    told("httpx", answer.iter_raw())
told("requests", requests.post(ADDRESS, json=ASKED, stream=True).iter_lines())
connection = http.client.HTTPConnection("URL".removeprefix("http://"))
connection.request("POST", "/v1/chat/completions", json.dumps(ASKED), {"content-type": "application/json"})
told("http.client", connection.getresponse())

async def main():
    async with aiohttp.ClientSession() as session:
        first = None
        async with session.post(ADDRESS, json=ASKED) as answer:
            async for piece in answer.content:
                first = first or time.monotonic()
        tell("aiohttp", first)

asyncio.run(main())
"""


def test_a_replay_takes_the_time_of_a_stream_as_it_is_read(tmp_path: Path) -> None:
    """From its first piece to its end, by each client."""
    with listening(SlowStream) as url:
        source = STREAMED.replace("URL", url)
        fixture = record(tmp_path, source)
    said = [str(step.exchange.request.body) for step in fixture.steps if step.exchange.name == "report"]
    assert len(said) == 4
    assert all("slow to end" in text for text in said)
    assert line(fixture, tmp_path, source).startswith("identical: 8 of 8 steps")


LATE = """
import time
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def track(order):
    time.sleep(0.1)
    return order

track("AC-0")
end = time.process_time() + 0.4
while time.process_time() < end: pass
begun = time.monotonic()
track("AC-1")
track(f"took {time.monotonic() - begun:.3f} s")
"""


def test_the_programs_code_before_it_reads_its_clock_may_have_taken_longer_in_the_run(tmp_path: Path) -> None:
    """The replay then measures more; the recording shows that the run may have measured what it did."""
    fixture = record(tmp_path, LATE)
    assert line(fixture, tmp_path, LATE).startswith("identical, except times read from the clock in 1 step")
    other = LATE.replace("- begun:", "- begun + 1:")
    assert line(fixture, tmp_path, other).startswith("REPLAY-101")


BUDGET = """
import time
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def search(word):
    time.sleep(0.1)
    return word

begun = time.monotonic()
while time.monotonic() - begun < 0.28:
    search("depot")
    back = time.monotonic()
    MORE
print(f"{time.monotonic() - begun:.1f}")
"""


def test_how_long_the_programs_code_takes_decides_nothing(tmp_path: Path) -> None:
    """On a busy machine it takes longer than it did in the run; here it computes for longer. Its budget lasts as long."""
    fixture = record(tmp_path, BUDGET.replace("MORE", "pass"))
    slow = BUDGET.replace("MORE", "end = time.process_time() + 0.1\n    while time.process_time() < end: pass")
    assert line(fixture, tmp_path, slow).startswith("identical")


def test_a_new_sleep_uses_up_a_budget_of_time(tmp_path: Path) -> None:
    """The run makes two of its calls within a budget of two seconds on a busy machine, too."""
    wide = BUDGET.replace("0.28", "2 and left.pop()").replace("begun =", "left = [False, True, True]\nbegun =")
    fixture = record(tmp_path, wide.replace("MORE", "pass"))
    assert line(fixture, tmp_path, wide.replace("MORE", "time.sleep(2)")).startswith("REPLAY-103")


def test_a_new_loop_that_waits_for_the_clock_ends(tmp_path: Path) -> None:
    budget = BUDGET.replace("0.28", "0.45").replace("sleep(0.1)", "sleep(0.3)")  # two calls: each wait spins for seconds
    fixture = record(tmp_path, budget.replace("MORE", "pass"))
    polls = budget.replace("MORE", "end = time.monotonic() + 0.3\n    while time.monotonic() < end: pass")
    assert line(fixture, tmp_path, polls).startswith("REPLAY-103")
