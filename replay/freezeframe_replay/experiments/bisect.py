"""Bisect: the first commit whose code leaves a recorded run, found by `git bisect` in its own worktree.

The user's checkout is not touched: git keeps a bisection's state separately for each worktree. A commit whose
code does not start, or gives no verdict on the run, is skipped, as `git bisect run` does on exit code 125.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_replay.process.reenact import Trial
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
_EXPECTED: Final = {"bad": Verdict.DIVERGED}
_DO: Final = {
    "good": "name the commit that the run was recorded on, or an older one, as --good",
    "bad": "name a commit whose replay diverges as --bad; `freezeframe replay` checks that",
    "common": "name an ancestor of --bad as --good",
}
_BY_ITSELF: Final = "each commit is tried as it is: without uncommitted changes, and without files that git does not track"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One commit, and the behaviour of its code on the run."""

    commit: str
    subject: str
    verdict: Verdict
    first: Divergence | None = None
    why: str = ""
    """Reason for a missing verdict, if so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    first_bad: Tried | None
    """None if it is not known: only skipped commits are left, or a replay of one commit is not the same each time."""
    suspects: tuple[str, ...] = ()
    """The candidates, if only skipped commits are left."""
    unsteady: tuple[Tried, ...] = ()
    """A commit's two replays, if they ended differently: findings by such a commit mean nothing."""
    tried: tuple[Tried, ...] = ()


OnTry = Callable[[Tried], None]


def bisect(folder: Path, fixture: Fixture, trial: Trial, *, good: str, bad: str, on_try: OnTry = lambda _: None) -> Bisection:
    """Return the first commit after `good`, up to `bad`, that leaves the recording.

    Args:
        folder: the directory in which the agent is started, inside the repository.
        fixture: the run.
        trial: the settings of its replays. A checkout of a commit has no keys, so it names their directory.
        good: a commit that re-enacts the run.
        bad: a later one that does not.
        on_try: called with each commit that was tried.

    Raises:
        ConfigError: no repository, no such commit, `bad` does not come after `good`, or one of them is not good
            or bad as claimed.
    """
    repository = Path(git_text(folder, "rev-parse", "--show-toplevel"))
    inside = folder.resolve().relative_to(repository.resolve())
    ends = _ends(repository, good, bad)
    tried: list[Tried] = []
    with checked_out(repository, ends[0][1]) as worktree:

        def try_here() -> Tried:
            found = _try_commit(worktree, worktree / inside, fixture, trial)
            tried.append(found)
            on_try(found)
            return found

        def try_commit(commit: str) -> Tried:
            git_text(worktree, "checkout", "--quiet", "--detach", commit)
            return try_here()

        for name, commit in ends:
            _check_end(name, try_commit(commit))
        output = git_text(worktree, "bisect", "start", *(commit for _, commit in reversed(ends)))
        while (found := _FOUND.search(output)) is None:
            if _ONLY_SKIPPED in output:
                suspects = re.findall(r"^[0-9a-f]{40,64}$", output, re.MULTILINE)
                return Bisection(first_bad=None, suspects=tuple(suspects), tried=tuple(tried))
            output = git(worktree, "bisect", _WORDS[try_here().verdict], may_fail=True).decode(errors="replace")
        known = {item.commit: item for item in tried}
        for commit in git_text(worktree, "rev-parse", found[1], f"{found[1]}^@").split():
            if commit in known and try_commit(commit).verdict is not known[commit].verdict:
                return Bisection(first_bad=None, unsteady=(known[commit], tried[-1]), tried=tuple(tried))
        return Bisection(first_bad=known[found[1]], tried=tuple(tried))


def _ends(repository: Path, good: str, bad: str) -> Sequence[tuple[str, str]]:
    """Return the commits tried before a bisection: both ends, and their common ancestor if they are on two branches."""
    known: list[str] = []
    for name, commit in (("good", good), ("bad", bad)):
        try:
            known.append(git_text(repository, "rev-parse", "--verify", f"{commit}^{{commit}}"))
        except ConfigError:
            raise ConfigError(f"--{name}: {repository} holds no commit {commit}", do="fetch it, or name another one") from None
    common = git(repository, "merge-base", "--all", *known, may_fail=True).decode().split()
    if not common:
        raise ConfigError(f"--good {known[0][:12]} and --bad {known[1][:12]} have no common ancestor", do=_DO["common"])
    if known[1] in common and known[0] != known[1]:
        raise ConfigError(
            f"--bad {known[1][:12]} comes before --good {known[0][:12]}: the commit that is looked for comes after --good",
            do="name a commit that re-enacts the run, and a later one that does not",
        )
    return [("good", known[0]), *(("common", commit) for commit in common if commit != known[0]), ("bad", known[1])]


def _try_commit(worktree: Path, folder: Path, fixture: Fixture, trial: Trial) -> Tried:
    commit = git_text(worktree, "rev-parse", "HEAD")
    subject = git_text(worktree, "log", "-1", "--format=%s")
    try:
        report = trial.replay(fixture, cwd=folder)
    except (ReplayError, FileNotFoundError, NotADirectoryError) as error:
        return Tried(commit=commit, subject=subject, verdict=Verdict.INCOMPARABLE, why=str(error).splitlines()[0])
    why = why_incomparable(report) or ""
    return Tried(commit=commit, subject=subject, verdict=verdict(report), first=report.first, why=why)


def _check_end(name: str, found: Tried) -> None:
    expected = _EXPECTED.get(name, Verdict.IDENTICAL)
    if _WORDS[found.verdict] == _WORDS[expected]:
        return
    why = f" ({found.why})" if found.why else ""
    end = "the common ancestor" if name == "common" else f"--{name}"
    raise ConfigError(
        f"{end} {found.commit[:12]}: the replay is {found.verdict.value}{why}, expected {expected.value}; {_BY_ITSELF}",
        do=_DO[name],
    )
