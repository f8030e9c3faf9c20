"""`freezeframe bisect` names the first commit whose code leaves a run, and does not change the checkout."""

from __future__ import annotations

import json
import subprocess

import pytest
from agent_folder import Folder

from freezeframe_replay.cli import main
from freezeframe_schemas.fixture import Fixture, write_fixture

pytestmark = pytest.mark.long  # each commit starts the program again


class History:
    """A repository in the agent's folder."""

    def __init__(self, agent: Folder) -> None:
        self.agent = agent
        self.git("init", "--quiet")
        self.git("add", "agent.py")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false")
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.agent.root, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, message: str, *change: str) -> str:
        if change:
            self.agent.edit(*change)
        self.git("commit", "--quiet", "--all", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def history(agent: Folder, recordings: tuple[Fixture, Fixture], monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.chdir(agent.root)
    write_fixture(recordings[0], agent.root / "run")
    return History(agent)


def test_the_commit_is_found_past_one_that_does_not_run(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    good = history.commit("recorded here")
    history.commit("does not parse", "import httpx\n", "import httpx\n)\n")
    history.commit("parses again", "import httpx\n)\n", "import httpx\n")
    culprit = history.commit("tracks another order", "place = track(order,", "place = track(found[1],")
    history.commit("something else")
    before = history.git("status", "--porcelain", "--branch"), history.git("worktree", "list")
    assert main(["bisect", "run", "--good", good]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == f"{culprit} is the first commit that diverges from the recording: tracks another order"
    assert lines[1].strip() == "REPLAY-101 at step 3: tool track"
    assert lines[-1].strip() == f"by hand: git bisect start HEAD {good} && git bisect run freezeframe replay --quiet run"
    assert (history.git("status", "--porcelain", "--branch"), history.git("worktree", "list")) == before


def test_where_only_commits_that_do_not_run_are_left_the_suspects_are_named(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("recorded here")
    broken = history.commit("does not parse", "import httpx\n", "import httpx\n)\n")
    history.agent.edit("import httpx\n)\n", "import httpx\n")
    bad = history.commit("runs, and tracks another order", "place = track(order,", "place = track(found[1],")
    assert main(["bisect", "run", "--good", good, "--json"]) == 125
    found = json.loads(capsys.readouterr().out)
    assert found["first_bad"] is None
    assert set(found["suspects"]) == {broken, bad}


def test_an_end_that_is_not_what_it_is_said_to_be_is_refused(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    good = history.commit("recorded here")
    history.commit("something else")
    assert main(["bisect", "run", "--good", good, "--quiet"]) == 1
    assert "--bad" in (said := capsys.readouterr().err)
    assert "is identical, expected diverged" in said
    assert main(["bisect", "run", "--good", "no-such-commit"]) == 1
