"""Where a run was recorded and where it is replayed: differences are reported, and the recorded commit can be checked out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.process.surroundings import Interpreter, compare_commits, surroundings_warnings
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import FixtureError, ReplayError
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.verdict import Verdict, verdict

AGENT = """
import datetime
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(place, day):
    return f"{place}: {day}"

@freezeframe.run
def answer():
    wide = freezeframe.flag("wide", True)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return look("everywhere" if wide else "here", day)

if __name__ == "__main__":
    answer()
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fixture]:
    """A repository with the agent in a folder of it, and its run; then a commit that changes the agent."""
    root = tmp_path_factory.mktemp("repository")
    folder = root / "agents"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "requirements.txt").write_text("httpx\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "as recorded")
    environ = {**os.environ, "FREEZEFRAME_FILE": str(root.parent / "spans.jsonl")}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environ, timeout=400, check=True)
    fixture = freeze(load_run_of_file(root.parent / "spans.jsonl"))
    (folder / "agent.py").write_text(AGENT.replace('"everywhere"', '"anywhere"'))
    git(root, "commit", "--quiet", "-a", "-m", "otherwise")
    return folder, fixture


@pytest.mark.proof
@pytest.mark.long
def test_the_recorded_code_is_checked_out_and_gone_afterwards(repository: tuple[Path, Fixture]) -> None:
    folder, fixture = repository
    here = reenact(fixture, cwd=folder)
    assert verdict(here) is not Verdict.IDENTICAL
    assert any("--at-commit takes the recorded code" in line for line in here.warnings)
    assert verdict(reenact(fixture, cwd=folder, at_commit=True)) is Verdict.IDENTICAL
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.long
def test_a_fork_to_another_commit_replays_that_code(repository: tuple[Path, Fixture]) -> None:
    folder, fixture = repository
    forked = fork(fixture, [Edit(target=Target.COMMIT, value=git(folder, "rev-parse", "HEAD"))])
    first = reenact(forked, cwd=folder, at_commit=True).first
    assert first is not None
    assert first.live == '"anywhere"'


@pytest.mark.long
def test_a_flag_and_the_clock_can_be_forked_on_the_command_line(
    repository: tuple[Path, Fixture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, fixture = repository
    monkeypatch.chdir(folder)
    write_fixture(fixture, tmp_path / "run")
    for name, options, change in (
        ("flag", ["--flag", "wide=false"], '"here"'),
        ("clock", ["--clock", "2026-12-24T18:00:00Z"], '"2026-12-24"'),
    ):
        assert main(["experiment", "fork", str(tmp_path / "run"), "-o", str(tmp_path / name), *options]) == 0
        capsys.readouterr()
        assert main(["replay", str(tmp_path / name), "--at-commit"]) == 3
        assert f"+ {change}" in capsys.readouterr().out
    assert load_fixture(tmp_path / "flag").edits == ("flag wide = false",)


@pytest.mark.long
def test_a_time_that_cannot_be_read_is_refused(repository: tuple[Path, Fixture]) -> None:
    with pytest.raises(FixtureError, match="expected a time in ISO 8601"):
        fork(repository[1], [Edit(target=Target.CLOCK, value="at Christmas")])


@pytest.mark.proof
@pytest.mark.long
def test_what_is_otherwise_here_is_said_in_a_line_each(repository: tuple[Path, Fixture]) -> None:
    folder, fixture = repository
    (only_the_commit,) = surroundings_warnings(fixture, folder, Interpreter())
    assert only_the_commit.startswith("recorded at commit ") and " (1 commit ahead)" in only_the_commit
    packages = {**json.loads(fixture.environment[genai.PACKAGES]), "httpx": "0.1", "no-such-package": "1"}
    other = {
        genai.RUNTIME_VERSION: "3.9.1",
        genai.PACKAGES: json.dumps(packages),
        genai.LOCK_FILE: "uv.lock sha256:0",
        genai.VCS_DIRTY: "true",
    }
    python, versions, lock, commit = surroundings_warnings(
        replace(fixture, environment={**fixture.environment, **other}), folder, Interpreter()
    )
    assert python.startswith("recorded on Python 3.9.1, replayed on ")
    assert "httpx 0.1 (here " in versions and "no-such-package 1 (here none)" in versions
    assert "uv.lock sha256:0, replayed with requirements.txt sha256:" in lock
    assert ", with uncommitted changes, and replayed at " in commit


@pytest.mark.long
def test_commits_are_compared_whatever_became_of_the_recorded_one(repository: tuple[Path, Fixture], tmp_path: Path) -> None:
    """Behind, on another branch, with changes here, not in this repository, or not a commit but an option of git."""
    origin, fixture = repository
    recorded = fixture.environment[genai.VCS_REVISION]
    folder = tmp_path / "clone" / "agents"
    git(tmp_path, "clone", "--quiet", str(origin.parent), "clone")
    later = git(folder, "rev-parse", "HEAD")
    git(folder, "switch", "--quiet", "--detach", recorded)

    def said(revision: str) -> str:
        return compare_commits({genai.VCS_REVISION: revision}, folder)[0].partition(" and replayed at ")[2]

    assert said(later) == f"{recorded[:12]} (1 commit behind)"
    assert said(recorded[:7]) == "the same commit"
    (folder / "agent.py").write_text("")
    assert said(recorded) == "the same commit, with uncommitted changes"
    git(folder, "commit", "--quiet", "-a", "-m", "aside")
    assert "(1 commit ahead, 1 commit behind)" in said(later)
    assert "(the recorded one is not in this repository)" in said("0" * 40)
    assert "(the recorded one is not in this repository)" in said("--output=written")
    assert not (folder / "written").exists()
    assert compare_commits({}, folder) == compare_commits({genai.VCS_REVISION: later}, tmp_path) == ("", False)


def test_a_commit_that_is_not_here_is_said_with_what_to_do(repository: tuple[Path, Fixture], tmp_path: Path) -> None:
    folder, fixture = repository
    gone = replace(fixture, environment={**fixture.environment, genai.VCS_REVISION: "0" * 40})
    with pytest.raises(ReplayError, match="git worktree add failed") as caught:
        reenact(gone, cwd=folder, at_commit=True)
    assert "git fetch" in str(caught.value)
    with pytest.raises(ReplayError, match="commit of its code was not recorded"):
        reenact(replace(fixture, environment={}), cwd=folder, at_commit=True)
    with pytest.raises(ReplayError, match="git rev-parse"):
        reenact(fixture, cwd=tmp_path, at_commit=True)
