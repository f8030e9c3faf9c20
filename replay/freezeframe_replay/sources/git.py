"""The parts of git that recordings need: one command, and a commit checked out next to the repository."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from freezeframe_schemas.errors import ConfigError


def git(directory: Path, *arguments: str, given: bytes = b"", do: str | None = None, may_fail: bool = False) -> bytes:
    """Return a git command's output. No hook of the repository runs, and no unnecessary lock is taken.

    Args:
        directory: where it runs.
        arguments: the command.
        given: its standard input.
        do: the remedy in an error.
        may_fail: return the output of a failed command, too, instead of raising an error.

    Raises:
        ConfigError: git cannot be started, or the command failed.
    """
    line = ["git", "--no-optional-locks", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(line, cwd=directory, capture_output=True, check=False, input=given)
    except OSError as error:
        raise ConfigError(f"git: cannot be started: {error.strerror}", do=do) from error
    if may_fail:
        return done.stdout + done.stderr
    if done.returncode:
        command = " ".join(itertools.takewhile(lambda word: not word.startswith("-"), arguments[:2]))
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(f"{directory}: git {command} failed: {lines[-1] if lines else 'no error message'}", do=do)
    return done.stdout


def git_text(directory: Path, *arguments: str, do: str | None = None) -> str:
    """Return the output of a git command as stripped text; raises as `git`."""
    return git(directory, *arguments, do=do).decode(errors="replace").strip()


@contextmanager
def checked_out(repository: Path, commit: str, *, do: str | None = None) -> Generator[Path]:
    """Check a commit out next to the repository's own checkout, in a worktree that is removed after the block.

    Raises:
        ConfigError: the repository does not hold the commit.
    """
    with tempfile.TemporaryDirectory(prefix="freezeframe-commit-") as scratch:
        tree = Path(scratch).resolve() / "tree"
        git(repository, "worktree", "add", "--quiet", "--detach", str(tree), commit, do=do)
        try:
            yield tree
        finally:
            git(repository, "worktree", "remove", "--force", str(tree), do=do)
