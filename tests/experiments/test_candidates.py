"""Several candidates on a dataset, by repeats, with a check: each starts the agent again, against a model on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

import pytest
from agent_folder import COMMAND_LINE, Folder

from freezeframe_replay.cli import main
from freezeframe_replay.experiments.dataset import write_dataset
from freezeframe_schemas.fixture import Fixture

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]
LIVE = ("--live", "model", "--check", "grep -q 'order: AC-1'")
CANDIDATES = ("--candidate", "wordy=--model wordy", "--candidate", "lost=--model other-order")
"""One says what the check looks for, and the other tracks another order."""


class Provider(Protocol):
    asked: list[dict[str, Any]]
    say: Any


@pytest.fixture
def questions(agent: Folder, provider: Provider, recordings: tuple[Fixture, Fixture], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of two recorded runs; the working directory is the agent's."""
    monkeypatch.chdir(agent.root)
    return write_dataset(agent.root / "set", [(run, "") for run in recordings], chosen_by="by hand").directory


def experiment(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["experiment", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def share(candidate: dict[str, Any], name: str) -> tuple[int, int]:
    found = candidate["score"][name]
    return found["count"], found["of"]


@pytest.mark.proof
def test_candidates_are_compared_on_the_same_runs_by_a_check(
    questions: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """The third candidate has no live part, so it runs once for each run, and asks no one."""
    code, found = experiment(
        capsys, str(questions), *LIVE, *CANDIDATES, "--candidate", "same=", "--repeats", "2", "--as", "one", "--jobs", "2"
    )
    assert code == 125, "the recorded runs fail the check, so none is broken; one candidate leaves two open"
    wordy, lost, same = found["candidates"]
    assert [share(each, "fixes") for each in (wordy, lost, same)] == [(2, 2), (0, 0), (0, 2)]
    assert [len(row["repeats"]) for each in (wordy, lost, same) for row in each["rows"]] == [2, 2, 2, 2, 1, 1]
    assert Counter(body["model"] for body in provider.asked) == {"wordy": 8, "other-order": 4}
    cell = lost["rows"][0]["repeats"][1]
    assert cell["path"] == ["orders", "model", "track"], "the frozen tool has no answer for another order"
    assert (cell["passed"], cell["came_to"], cell["live_calls"]) == (None, None, 1)
    assert wordy["rows"][0]["came_to"] == '"Your order: AC-1 is in Lyon."'
    kept = json.loads((questions / "results" / "one-wordy.json").read_bytes())
    assert kept == wordy
    assert not (questions / "unfinished").exists()


def test_a_killed_experiment_goes_on_where_it_was(
    questions: Path, agent: Folder, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL comes while the second of four live cells waits for its model."""
    arguments = (str(questions), *LIVE, "--model", "wordy", "--repeats", "2")
    waits, ended = threading.Event(), threading.Event()

    def say(body: dict[str, Any]) -> str:
        if len(provider.asked) == 3:
            waits.set()
            ended.wait()
        text = str(body["messages"][-1]["content"])
        return "AC-1" if text.startswith("pick") else f"Your order: {text}."

    provider.say = say
    process = subprocess.Popen([sys.executable, "-c", COMMAND_LINE, "experiment", *arguments], cwd=agent.root)
    assert waits.wait(120)
    process.kill()
    process.wait()
    ended.set()
    provider.asked.clear()
    code, found = experiment(capsys, *arguments)
    assert (code, found["resumed"]) == (0, 1)
    assert len(provider.asked) == 2 * 3, "two requests for each of the three cells that were left"
    assert [len(row["repeats"]) for row in found["rows"]] == [2, 2]
    assert not (questions / "unfinished").exists(), "a finished experiment begins anew"
