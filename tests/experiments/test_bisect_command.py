"""`freezeframe replay bisect` names the first commit whose code leaves a run, and does not change the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

import pytest
from agent_folder import Folder

from freezeframe_redaction import Redactor, load_or_create_keys, load_policy
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each commit starts the program again


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


@pytest.mark.proof("command replay bisect")
def test_the_commit_is_found_past_one_that_does_not_run(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    good = history.commit("recorded here")
    history.commit("does not parse", "import httpx\n", "import httpx\n)\n")
    history.commit("parses again", "import httpx\n)\n", "import httpx\n")
    culprit = history.commit("tracks another order", "place = track(order,", "place = track(found[1],")
    history.commit("something else")
    before = history.git("status", "--porcelain", "--branch"), history.git("worktree", "list")
    assert main(["replay", "bisect", "run", "--good", good, "--ignore", "user", "--", sys.executable, "agent.py", "Ann"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == f"{culprit} is the first commit that diverges from the recording: tracks another order"
    assert lines[1].strip() == "REPLAY-101 at step 3: tool track"
    by_hand = f"git bisect run freezeframe replay --quiet run --ignore=user -- {sys.executable} agent.py Ann"
    assert lines[-1].strip() == f"by hand: git bisect start HEAD {good} && {by_hand}"
    assert (history.git("status", "--porcelain", "--branch"), history.git("worktree", "list")) == before


def test_where_only_commits_that_do_not_run_are_left_the_suspects_are_named(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("recorded here")
    broken = history.commit("does not parse", "import httpx\n", "import httpx\n)\n")
    history.agent.edit("import httpx\n)\n", "import httpx\n")
    bad = history.commit("runs, and tracks another order", "place = track(order,", "place = track(found[1],")
    assert main(["replay", "bisect", "run", "--good", good, "--json"]) == 125
    found = json.loads(capsys.readouterr().out)
    assert found["first_bad"] is None
    assert set(found["suspects"]) == {broken, bad}


def test_an_end_that_is_not_what_it_is_said_to_be_is_refused(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    good = history.commit("recorded here")
    history.commit("something else")
    assert main(["replay", "bisect", "run", "--good", good, "--quiet"]) == 1
    assert "--bad" in (said := capsys.readouterr().err)
    assert "is identical, expected diverged" in said
    assert main(["replay", "bisect", "run", "--good", "no-such-commit"]) == 1
    assert "holds no commit no-such-commit" in capsys.readouterr().err


def test_uncommitted_changes_are_said_to_be_no_part_of_a_commit(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    good = history.commit("recorded here")
    history.commit("something else")
    history.agent.edit("place = track(order,", "place = track(found[1],")
    assert main(["replay", "bisect", "run", "--good", good, "--quiet"]) == 1
    assert "without uncommitted changes" in capsys.readouterr().err


def test_a_fix_is_not_looked_for(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither where `--bad` is the older end, nor where both have an ancestor that diverges: git has no answer there."""
    broken = history.commit("tracks another order", "place = track(order,", "place = track(found[1],")
    fixed = history.commit("tracks the right one", "place = track(found[1],", "place = track(order,")
    assert main(["replay", "bisect", "run", "--good", fixed, "--bad", broken]) == 1
    assert f"--bad {broken[:12]} comes before --good {fixed[:12]}" in capsys.readouterr().err
    history.git("checkout", "--quiet", "-b", "other", broken)
    other = history.commit("something else")
    assert main(["replay", "bisect", "run", "--good", fixed, "--bad", other]) == 1
    assert f"the common ancestor {broken[:12]}: the replay is diverged, expected identical" in capsys.readouterr().err


def test_a_commit_whose_replay_is_not_the_same_each_time_is_not_named(
    history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as seen:  # a replay writes to copies of other files
        monkeypatch.setenv("SEEN", seen.name)
        good = history.commit("recorded here")
        flaky = history.commit(
            "tracks another order once",
            "place = track(order,",
            "open(os.environ['SEEN'], 'a').write('x')\n    place = track(found[len(open(os.environ['SEEN']).read()) == 1],",
        )
        assert main(["replay", "bisect", "run", "--good", good, "--quiet"]) == 125
        said = capsys.readouterr().out
        assert (
            f"undecided: the replay of one commit is not the same each time: {flaky[:12]} was diverged, and identical" in said
        )


def test_private_values_are_compared_with_the_key_of_the_users_folder(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """A commit is checked out in a folder of its own, in which there is no key."""
    agent = history.agent
    agent.edit("    found = orders", "    orders('anna.kirsch@harbour-post.com')\n    found = orders")
    good = history.commit("recorded here")
    spans = agent.root / "spans.jsonl"
    done = agent.python(
        "-c", "import agent; agent.ask = lambda text: 'AC-1'; agent.answer('Ann')", environ={"FREEZEFRAME_FILE": str(spans)}
    )
    assert done.returncode == 0, done.stderr
    keys = load_or_create_keys(agent.root / ".freezeframe" / KEYS)
    redactor = Redactor(load_policy("strict"), keys.current())
    run = build_run([redactor.redact_span(span) for span in load_run_of_file(spans).spans])
    write_fixture(freeze(run), agent.root / "redacted")
    culprit = history.commit("asks for another customer", "anna.kirsch@harbour-post.com", "bert.lorenz@north-quay.org")
    program = [sys.executable, "-c", "import agent; agent.ask = lambda text: 'AC-1'; agent.answer('Ann')"]
    assert main(["replay", "bisect", "redacted", "--good", good, "--", *program]) == 0
    assert capsys.readouterr().out.startswith(f"{culprit} is the first commit that diverges")
