"""`git bisect run freezeframe replay FIXTURE` finds the commit that changed the behaviour."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from agent_folder import Project


@pytest.mark.long
def test_git_bisect_finds_the_commit_and_skips_what_does_not_run(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """0 is good, 3 is bad, 125 (a commit whose code cannot be imported) is skipped."""
    fixture = tmp_path_factory.mktemp("outside") / "fixture"
    shutil.move(project.root / "tests" / "late-order", fixture)

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *identity, *arguments], cwd=project.root, capture_output=True, text=True, check=True
        ).stdout.strip()

    def commit(message: str) -> str:
        git("commit", "--quiet", "--all", "--allow-empty", "--message", message)
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    git("add", "agent.py")
    good = commit("recorded here")
    project.edit("import freezeframe\n", "import freezeframe\n)\n")
    commit("does not even parse")
    project.edit("import freezeframe\n)\n", "import freezeframe\n")
    commit("parses again")
    project.edit("orders[0]", "orders[1]")
    culprit = commit("takes another order")
    commit("something else")
    git("bisect", "start", "HEAD", good)
    said = git("bisect", "run", sys.executable, "-B", "-m", "freezeframe._cli", "replay", "--quiet", str(fixture))
    assert f"{culprit} is the first bad commit" in said
