"""A replay answers for a tool's body; a change of it, and of what it reaches, is on the line of the verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

SHOP = """
import freezeframe
from prices import price

@freezeframe.tool
def refund(order):
    return price(order)

class Shop:
    def __init__(self, rate):
        self.rate = rate

    @freezeframe.retriever
    def search(self, query):
        return [{"id": 1, "content": query * self.rate * self.size()}]

    def size(self):
        return 1

    def other(self):
        return 1
"""
AGENT = """
import freezeframe
freezeframe.instrument()
from shop import Shop, refund

class Corner(Shop):
    def size(self):
        return 2

@freezeframe.run
def answer(question):
    return [refund(7), len(Corner(2).search(question))]

if __name__ == "__main__":
    answer("where?")
"""
PRICES = "RATE = 3\n\ndef price(order):\n    return order * RATE\n"
SOURCES = {"agent.py": AGENT, "shop.py": SHOP, "prices.py": PRICES}


def record(folder: Path, sources: Mapping[str, str] = SOURCES) -> Fixture:
    for name, text in sources.items():
        (folder / name).write_text(text)
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environment, check=True, timeout=400)
    return freeze(load_run_of_file(folder / "spans.jsonl"))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("shop.py", "return price(order)", "return price(order) + 1", "tool refund (shop.py:5)"),
        ("prices.py", "RATE = 3", "RATE = 4", "tool refund (shop.py:5)"),
        ("shop.py", "query * self.rate", "query", "retrieval search (shop.py:13)"),
        ("agent.py", "return 2", "return 3", "retrieval search (shop.py:13)"),
        ("shop.py", "def other(self):\n        return 1", "def other(self):\n        return 2", None),
        ("shop.py", "\n@freezeframe.tool", "\n# Refunds.\n@freezeframe.tool", None),
        ("agent.py", "len(Corner(2)", "len( Corner(2)", None),
    ],
)
@pytest.mark.proof
def test_a_changed_tool_is_named_in_place_of_identical(file: str, old: str, new: str, said: str | None, tmp_path: Path) -> None:
    fixture = record(tmp_path)
    assert old in SOURCES[file]
    (tmp_path / file).write_text(SOURCES[file].replace(old, new, 1))
    line = headline(reenact(fixture, cwd=tmp_path))
    if said is None:
        assert line.startswith("identical: 2 of 2 steps and the outcome")
    else:
        assert line.startswith(f"incomparable: {said} changed since the recording; its new code was not run")


CACHED = """
import freezeframe
freezeframe.instrument()
KEPT = {}

@freezeframe.tool
def rate(currency):
    return len(currency)

@freezeframe.tool
def convert(currency):
    if "all" not in KEPT:
        KEPT["all"] = rate(currency)
    return KEPT["all"]

@freezeframe.run
def answer(question):
    return [convert("EUR"), convert("francs")]

if __name__ == "__main__":
    answer("how much?")
"""


@pytest.mark.parametrize(
    ("new", "line"),
    [
        (
            CACHED.replace('"all"', "currency"),
            "REPLAY-102 a call that is not in the recording (tool rate, inside tool convert)",
        ),
        (
            CACHED.replace("KEPT = {}", "import socket\nKEPT = {}").replace(
                "    return KEPT", '    socket.create_connection(("127.0.0.1", 9))\n    return KEPT'
            ),
            "incomparable: tool convert (agent.py:11) changed since the recording; its new code was not run",
        ),
    ],
)
def test_a_changed_tool_that_asks_something_new_diverges_and_one_that_is_stopped_is_not_run(
    new: str, line: str, tmp_path: Path
) -> None:
    """The first is what a fix of a stale cache or a wrong query looks like."""
    fixture = record(tmp_path, {"agent.py": CACHED})
    (tmp_path / "agent.py").write_text(new)
    report = reenact(fixture, cwd=tmp_path, policy=ReplayPolicy(run_changed=True))
    assert headline(report).startswith(line)
