"""Bisect: the first commit whose code leaves a recorded run, found by `git bisect` in its own worktree.

The user's checkout is not touched: git keeps a bisection's state separately for each worktree. A commit whose code does not
start, or says nothing about the run, is skipped, as `git bisect run` does on exit code 125.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_replay.engine.policy import Policy
from freezeframe_replay.process.reenact import DEFAULT_TIMEOUT_S, reenact
from freezeframe_replay.sources.git import checked_out, git, git_text
from freezeframe_schemas.divergence import Divergence
from freezeframe_schemas.errors import ConfigError, ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, verdict, why_incomparable

_WORDS: Final = {
    Verdict.IDENTICAL: "good",
    Verdict.SAME_IN_MEANING: "good",
    Verdict.DIVERGED: "bad",
    Verdict.INCOMPARABLE: "skip",
}
_FOUND: Final = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit", re.MULTILINE)
_ONLY_SKIPPED: Final = "only 'skip'ped commits left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One commit, and what its code did with the run."""

    commit: str
    subject: str
    verdict: Verdict
    first: Divergence | None = None
    why: str = ""
    """Why it says nothing, if so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The result of a bisection."""

    first_bad: Tried | None
    """None if only skipped commits are left between the last good and the first bad one."""
    suspects: tuple[str, ...] = ()
    """The candidates, if the commit is not known."""
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How each commit is tried."""

    fixture: Fixture
    command: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    timeout_s: float = DEFAULT_TIMEOUT_S


OnTry = Callable[[Tried], None]


def bisect(folder: Path, trial: Trial, *, good: str, bad: str, on_try: OnTry = lambda _: None) -> Bisection:
    """Return the first commit after `good`, up to `bad`, that leaves the recording.

    Args:
        folder: the directory in which the agent is started, inside the repository.
        trial: the run, and how it is replayed.
        good: a commit that re-enacts the run.
        bad: a later one that does not.
        on_try: called with each commit that was tried.

    Raises:
        ConfigError: no repository, no such commit, or `good` is not good or `bad` not bad.
    """
    repository = Path(git_text(folder, "rev-parse", "--show-toplevel"))
    inside = folder.resolve().relative_to(repository.resolve())
    ends = {name: git_text(repository, "rev-parse", "--verify", f"{commit}^{{commit}}") for name, commit in _named(good, bad)}
    tried: list[Tried] = []
    with checked_out(repository, ends["good"]) as worktree:

        def try_here() -> Tried:
            found = _try_commit(worktree, worktree / inside, trial)
            tried.append(found)
            on_try(found)
            return found

        for name, expected in (("good", Verdict.IDENTICAL), ("bad", Verdict.DIVERGED)):
            git_text(worktree, "checkout", "--quiet", "--detach", ends[name])
            _check_end(name, try_here(), expected)
        said = git_text(worktree, "bisect", "start", ends["bad"], ends["good"])
        while True:
            found = _FOUND.search(said)
            if found is not None:
                return Bisection(first_bad=_of(found[1], worktree, tried), tried=tuple(tried))
            if _ONLY_SKIPPED in said:
                return Bisection(
                    first_bad=None, suspects=tuple(re.findall(r"^[0-9a-f]{40,64}$", said, re.MULTILINE)), tried=tuple(tried)
                )
            said = git(worktree, "bisect", _WORDS[try_here().verdict], may_fail=True).decode(errors="replace")


def _named(good: str, bad: str) -> Sequence[tuple[str, str]]:
    return (("good", good), ("bad", bad))


def _try_commit(worktree: Path, folder: Path, trial: Trial) -> Tried:
    commit = git_text(worktree, "rev-parse", "HEAD")
    subject = git_text(worktree, "log", "-1", "--format=%s")
    try:
        report = reenact(trial.fixture, trial.command or None, cwd=folder, policy=trial.policy, timeout_s=trial.timeout_s)
    except (ReplayError, FileNotFoundError, NotADirectoryError) as error:
        return Tried(commit=commit, subject=subject, verdict=Verdict.INCOMPARABLE, why=str(error).splitlines()[0])
    why = why_incomparable(report) or ""
    return Tried(commit=commit, subject=subject, verdict=verdict(report), first=report.first, why=why)


def _check_end(name: str, found: Tried, expected: Verdict) -> None:
    if _WORDS[found.verdict] == name:
        return
    why = f" ({found.why})" if found.why else ""
    raise ConfigError(
        f"--{name} {found.commit[:12]}: the replay is {found.verdict.value}{why}, expected {expected.value}",
        do="name the commit that the run was recorded on, or an older one, as --good"
        if name == "good"
        else "name a commit whose replay diverges as --bad; `freezeframe replay` checks that",
    )


def _of(commit: str, worktree: Path, tried: Sequence[Tried]) -> Tried:
    known = next((item for item in tried if item.commit == commit), None)
    return known or Tried(
        commit=commit, subject=git_text(worktree, "log", "-1", "--format=%s", commit), verdict=Verdict.DIVERGED
    )
