"""A script without `@freezeframe.run` is a run as a whole: what it gets from outside is given again in a replay, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from capture_provider import Provider

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

SCRIPT = """
import os, random, threading, uuid
import httpx
INSTRUMENT

def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return httpx.post(os.environ["OPENAI_BASE_URL"] + "/v1/chat/completions", json=body).json()["choices"][0]

session = uuid.uuid4()  # before the first call, and so before there is a run
lucky = random.randrange(10**9)

def work():
    ask(f"in a thread {uuid.uuid4()}")

ask(f"{session} {lucky}")
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(ask(f"{uuid.uuid1()} {uuid.uuid4()} {random.random()}")["message"]["content"])
"""


def record(folder: Path, url: str, command: Sequence[str], instrument: str) -> Fixture:
    (folder / "agent.py").write_text(SCRIPT.replace("INSTRUMENT", instrument))
    environment = {**os.environ, "OPENAI_BASE_URL": url, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=400, capture_output=True)
    return freeze(load_run_of_file(folder / "spans.jsonl"))


WAYS = {
    "instrument": ([sys.executable, "agent.py"], "import freezeframe; freezeframe.instrument()"),
    "freezeframe-run": ([str(Path(sys.executable).with_name("freezeframe")), "run", "--", sys.executable, "agent.py"], ""),
}


@pytest.mark.proof
@pytest.mark.parametrize("way", WAYS)
def test_what_a_script_draws_is_given_again(way: str, tmp_path: Path) -> None:
    with Provider() as provider:
        fixture = record(tmp_path, provider.url, *WAYS[way])
    report = reenact(fixture, cwd=tmp_path)
    assert verdict(report) is Verdict.IDENTICAL, report.first
    assert len(report.served) == 4
    feeds: dict[str, list[str]] = json.loads(fixture.entry.clock_readings or "{}")
    assert {feed: len(row) for feed, row in feeds.items() if feed.startswith("uuid")} == {
        "uuid-outside  agent.py": 3,
        "uuid-outside 0 agent.py": 1,
        "uuid-outside 1 agent.py": 1,
    }
    assert len(feeds["random-outside  agent.py"]) == 1
