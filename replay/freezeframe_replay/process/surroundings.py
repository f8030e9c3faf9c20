"""Surroundings: where the run was recorded and where it is replayed. Reported as warnings; checked out on demand."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from freezeframe._environment import lock_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture

_PACKAGES_NAMED = 3
_DIGITS = 12


def surroundings_warnings(fixture: Fixture, directory: Path) -> list[str]:
    """Return what differs here from the run: Python, packages, lock file, commit; one line each."""
    recorded = fixture.environment
    found = [
        _python(recorded.get(genai.RUNTIME_VERSION, "")),
        _packages(json.loads(recorded.get(genai.PACKAGES) or "{}")),
        _lock_file(recorded.get(genai.LOCK_FILE, ""), directory),
        _commit(recorded, directory),
    ]
    return [line for line in found if line]


def _python(recorded: str) -> str:
    here = ".".join(map(str, sys.version_info[:3]))
    other = recorded and recorded.split(".")[:2] != here.split(".")[:2]
    return f"recorded on Python {recorded}, replayed on {here}" if other else ""


def _packages(recorded: Mapping[str, str]) -> str:
    other: list[str] = []
    for name, version in recorded.items():
        try:
            here = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            here = "none"
        if here != version:
            other.append(f"{name} {version} (here {here})")
    more = f" and {len(other) - _PACKAGES_NAMED} more" if len(other) > _PACKAGES_NAMED else ""
    return f"recorded with {', '.join(other[:_PACKAGES_NAMED])}{more}" if other else ""


def _lock_file(recorded: str, directory: Path) -> str:
    here = lock_file(directory) or ""
    return f"recorded with the lock file {recorded}, replayed with {here or 'none'}" if recorded and recorded != here else ""


def _commit(recorded: Mapping[str, str], directory: Path) -> str:
    revision = recorded.get(genai.VCS_REVISION, "")
    try:
        here = _git(directory, "rev-parse", "HEAD") if revision else ""
    except ReplayError:  # no repository: nothing to compare
        return ""
    if revision == here:
        return ""
    dirty = ", with uncommitted changes," if recorded.get(genai.VCS_DIRTY) == "true" else ""
    return (
        f"recorded at commit {revision[:_DIGITS]}{dirty} and replayed at {here[:_DIGITS]} (--at-commit takes the recorded code)"
    )


@contextmanager
def at_recorded_commit(fixture: Fixture, directory: Path) -> Generator[tuple[Path, list[str]]]:
    """Check the recorded commit out next to the repository of `directory`, in a worktree that is removed after the block.

    Yields the directory in the worktree that corresponds to `directory`, and warnings.

    Raises:
        ReplayError: no commit was recorded, there is no repository here, or it does not hold the commit.
    """
    revision = fixture.environment.get(genai.VCS_REVISION)
    if not revision:
        raise ReplayError(
            f"run {fixture.run_id}: the commit of its code was not recorded, so it cannot be checked out",
            do="record it in a git repository, or with GIT_COMMIT set",
        )
    root = Path(_git(directory, "rev-parse", "--show-toplevel"))
    inside = directory.resolve().relative_to(root.resolve())
    warnings: list[str] = []
    if fixture.environment.get(genai.VCS_DIRTY) == "true":
        warnings.append(f"recorded with uncommitted changes on top of {revision[:_DIGITS]}: the checkout lacks them")
    with tempfile.TemporaryDirectory(prefix="freezeframe-commit-") as scratch:
        tree = Path(scratch) / "tree"
        _git(root, "worktree", "add", "--detach", "--quiet", str(tree), revision)
        try:
            if not (tree / inside).is_dir():
                raise ReplayError(
                    f"{inside}: does not exist at commit {revision[:_DIGITS]}", do="start the replay from a parent directory"
                )
            yield tree / inside, warnings
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=directory, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise ReplayError(f"git: cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ReplayError(
            f"{directory}: git {' '.join(arguments[:2])} failed: {said[-1] if said else 'without a word'}",
            do="replay in a clone of the recorded code that holds the commit (git fetch)",
        )
    return done.stdout.strip()
