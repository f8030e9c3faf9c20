"""Candidate: what is tried on each run of a dataset: code, a model, a prompt, what tools may do."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.experiments.tool_policy import ToolRule, with_rules
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.sources.git import checked_out, git_text
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Kind

NOISE: Final = "model noise alone"
_DO: Final = "name a folder, or a commit of this repository"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCandidate:
    name: str = ""
    """Empty for the only one, which needs none."""
    trial: Trial = field(default_factory=Trial)
    code: str = ""
    """A folder or a commit (default: the working directory)."""
    is_noise: bool = False
    """It changes nothing: the recorded requests to models are made again, by code that repeats the run offline."""

    @property
    def label(self) -> str:
        """Describe it in a few words."""
        if self.is_noise:
            return "the recorded requests, asked again"
        policy = self.trial.policy
        parts = [
            self.code and f"code of {self.code}",
            *map(str, policy.edits),
            *(f"{name} fixed" for name in policy.fixed_tools),
            *(f"{name} run" for name in sorted(policy.run_tools)),
            " ".join(self.trial.command),
        ]
        return ", ".join(filter(None, parts)) or "the code in the working tree"

    @property
    def goes_live(self) -> bool:
        """Return whether any of its calls may be made for real."""
        return self.trial.policy.goes_live

    @property
    def has_offline_part(self) -> bool:
        """Return whether an offline replay can say something: an edited request is in no recording."""
        policy = self.trial.policy
        return not self.goes_live or self.is_noise or not (policy.edits or policy.live_from)

    @property
    def offline(self) -> Trial:
        """Return its trial without live calls."""
        policy = replace(self.trial.policy, live=frozenset(), live_from=None, allow_tools=frozenset())
        return replace(self.trial, policy=policy)

    def with_rules(self, saved: Mapping[str, ToolRule]) -> ExperimentCandidate:
        """Return it with a dataset's rules for tools; noise has none, since it is to repeat the run.

        Raises:
            ConfigError: a tool is saved as live, and this candidate does not allow it.
        """
        if self.is_noise or not saved:
            return self
        return replace(self, trial=replace(self.trial, policy=with_rules(self.trial.policy, saved)))

    @property
    def model(self) -> str | None:
        """Return the model that it asks in place of the recorded one."""
        named = [edit.value for edit in self.trial.policy.edits if edit.part.value == "model"]
        return str(named[-1]) if named else None


def noise(trial: Trial, *, code: str = "") -> ExperimentCandidate:
    """Return the candidate that changes nothing and asks each model again."""
    policy = ReplayPolicy(ignore=trial.policy.ignore, live=frozenset({Kind.MODEL}), live_from=1)
    return ExperimentCandidate(name=NOISE, trial=replace(trial, policy=policy), code=code, is_noise=True)


@contextmanager
def checked_out_code(candidate: ExperimentCandidate) -> Generator[ExperimentCandidate]:
    """Yield the candidate with the folder of its code; a commit is checked out for the time of the block.

    Raises:
        ConfigError: there is no such folder or commit.
    """
    here = candidate.trial.cwd or Path.cwd()
    if not candidate.code:
        yield candidate
        return
    folder = here / Path(candidate.code).expanduser()
    if folder.is_dir():
        yield replace(candidate, trial=replace(candidate.trial, cwd=folder.resolve()))
        return
    try:
        root = Path(git_text(here, "rev-parse", "--show-toplevel")).resolve()
        commit = git_text(root, "rev-parse", "--verify", "--end-of-options", f"{candidate.code}^{{commit}}")
    except ConfigError:
        raise ConfigError(f"--code: found {candidate.code!r}, which is neither a folder nor a commit", do=_DO) from None
    with checked_out(root, commit) as tree:
        inside = tree / here.resolve().relative_to(root)
        if not inside.is_dir():
            raise ConfigError(f"--code: commit {candidate.code} has no folder {inside.relative_to(tree)}", do=_DO)
        yield replace(candidate, trial=replace(candidate.trial, cwd=inside))
