"""Surroundings: differences between the places of recording and replay, reported as warnings.

And the recorded commit, checked out on demand.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from pathlib import Path

from freezeframe.context.environment import lock_file, version_of
from freezeframe_replay.report.render import counted
from freezeframe_replay.sources.git import checked_out, git, git_text
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, ReplayError
from freezeframe_schemas.fixture import Fixture

_PACKAGES_NAMED = 3
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_DIGITS = 12
_CLONE = "replay in a clone of the recorded code that holds the commit (git fetch)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that a program is replayed on; by default, the one that runs here."""

    executable: str = field(default_factory=lambda: sys.executable)
    version: str = field(default_factory=platform.python_version)
    path: Sequence[str] = field(default_factory=lambda: sys.path)
    """Its package search path."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables with which a program finds it."""
    note: str = ""
    """Note about it for the report."""


def surroundings_warnings(fixture: Fixture, directory: Path, interpreter: Interpreter) -> list[str]:
    """Return the differences from the run's surroundings: Python, packages, lock file, commit; one line each."""
    recorded = fixture.environment
    found = [
        interpreter.note,
        _python(recorded.get(genai.RUNTIME_VERSION, ""), interpreter.version),
        _packages(json.loads(recorded.get(genai.PACKAGES) or "{}"), interpreter.path),
        _lock_file(recorded.get(genai.LOCK_FILE, ""), directory),
        _commit(recorded, directory),
    ]
    return [line for line in found if line]


def _python(recorded: str, here: str) -> str:
    other = recorded and recorded.split(".")[:2] != here.split(".")[:2]
    return f"recorded on Python {recorded}, replayed on {here}" if other else ""


def _packages(recorded: Mapping[str, str], path: Sequence[str]) -> str:
    other: list[str] = []
    for name, version in recorded.items():
        here = next((version_of(found) for found in Distribution.discover(name=name, path=list(path))), "none")
        if here != version:
            other.append(f"{name} {version} (here {here})")
    more = f" and {len(other) - _PACKAGES_NAMED} more" if len(other) > _PACKAGES_NAMED else ""
    return f"recorded with {', '.join(other[:_PACKAGES_NAMED])}{more}" if other else ""


def _lock_file(recorded: str, directory: Path) -> str:
    here = lock_file(directory) or ""
    return f"recorded with the lock file {recorded}, replayed with {here or 'none'}" if recorded and recorded != here else ""


def _commit(recorded: Mapping[str, str], directory: Path) -> str:
    text, is_other = compare_commits(recorded, directory)
    return f"{text}; --at-commit takes the recorded code" if is_other else ""


def compare_commits(recorded: Mapping[str, str], directory: Path) -> tuple[str, bool]:
    """Return the commit of a recording next to that of the code here, and whether it is another one.

    Args:
        recorded: the recorded environment.
        directory: the folder of the replayed code.

    Returns:
        For example ``recorded at commit 1f4aa9f and replayed at 77c0d1e (3 commits ahead), with uncommitted
        changes``; empty if no commit was recorded or found here.
    """
    revision = recorded.get(genai.VCS_REVISION, "")
    try:
        here = git_text(directory, "rev-parse", "HEAD") if revision else ""
        changed = here and git(directory, "status", "--porcelain", "--untracked-files=no")
    except ConfigError:  # no repository, or no commit in it: nothing to compare
        return "", False
    if not here:
        return "", False
    apart = _apart(directory, revision, here)
    dirty = ", with uncommitted changes," if recorded.get(genai.VCS_DIRTY) == "true" else ""
    place = f"{here[:_DIGITS]} ({apart})" if apart else "the same commit"
    dirty_here = ", with uncommitted changes" if changed else ""
    return f"recorded at commit {revision[:_DIGITS]}{dirty} and replayed at {place}{dirty_here}", bool(apart)


def _apart(directory: Path, revision: str, here: str) -> str:
    """Return how many commits apart two are, seen from the recorded one; empty if they are the same."""
    try:
        # the recorded name is a stranger's text: it must not be an option
        counts = git_text(directory, "rev-list", "--left-right", "--count", "--end-of-options", f"{revision}...{here}")
    except ConfigError:
        return "" if revision == here else "the recorded one is not in this repository"
    behind, ahead = map(int, counts.split())
    words = [f"{counted(number, 'commit')} {way}" for number, way in ((ahead, "ahead"), (behind, "behind")) if number]
    return ", ".join(words)


@contextlib.contextmanager
def at_recorded_commit(fixture: Fixture, directory: Path) -> Generator[tuple[Path, list[str]]]:
    """Check the recorded commit out next to the repository of `directory`, in a worktree that is removed after the block.

    Yields the directory in the worktree that corresponds to `directory`, and warnings.

    Raises:
        ReplayError: no commit was recorded, or no repository here has it.
    """
    revision = fixture.environment.get(genai.VCS_REVISION)
    if not revision:
        raise ReplayError(
            f"run {fixture.run_id}: the commit of its code was not recorded, so it cannot be checked out",
            do="record it in a git repository, or with GIT_COMMIT set",
        )
    if not _COMMIT.fullmatch(revision):
        raise ReplayError(f"run {fixture.run_id}: its commit {revision!r:.80} is not a hexadecimal id and is not checked out")
    warnings: list[str] = []
    if fixture.environment.get(genai.VCS_DIRTY) == "true":
        warnings.append(f"recorded with uncommitted changes on top of {revision[:_DIGITS]}: the checkout lacks them")
    with contextlib.ExitStack() as stack:
        try:
            root = Path(git_text(directory, "rev-parse", "--show-toplevel", do=_CLONE))
            tree = stack.enter_context(checked_out(root, revision, do=_CLONE))
        except ConfigError as error:
            raise ReplayError(error.message, do=error.do) from error
        inside = directory.resolve().relative_to(root.resolve())
        if not (tree / inside).is_dir():
            raise ReplayError(
                f"{inside}: does not exist at commit {revision[:_DIGITS]}", do="start the replay from a parent directory"
            )
        yield tree / inside, warnings
