"""Trials of verdicts: an agent is recorded, replayed unchanged, and replayed with one place of it changed.

Everything is real but the provider: the SDKs, a collector that redacts and stores, the fixture made from what it stored, and
the replay in its own process.

    python tests/support/verdict_trials.py 137        one seed, all its changes; what fails is made small and shown
    python tests/support/verdict_trials.py 0-500      a range of seeds, two changes each, and the counts
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from unittest import mock

from agent_rules import BUDGET_MS, Change
from arbitrary_agents import Agent, make_agent
from chancy_provider import ChancyProvider
from running_collector import CollectorProcess
from warm_python import WarmPython

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.report.report_text import report_text
from freezeframe_replay.sources.run_list import RunQuery, find_runs
from freezeframe_replay.sources.store import RunRow, RunStore, open_runs
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import LEVELS, Run, build_run, readiness
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, exit_code, not_compared, verdict

_TIMEOUT_S = 120.0
_BATCH = 10
_AT_ONCE = 4
"""Programs that run side by side: much of a program's time is the provider's, or a deadline that has to pass."""
_PYTHON = sys.executable
_CHANGES = 2
_RECORDINGS = 3
_NEAR_LIMIT_NS = 30_000_000
_OF_DURATIONS = ("if the program computes with a duration", "may be a duration that the program measured")
"""Tries to record an agent on a busy machine."""


class Found(StrEnum):
    """The outcome of one replay, compared with the expected one."""

    IDENTICAL = "identical"
    """Unchanged, and called identical."""
    NAMED = "named"
    """Unchanged, and not identical for a reason that the recording itself had named before."""
    FALSE_RED = "false red"
    """Unchanged, and not identical without such a reason."""
    SEEN = "seen"
    """Changed, and not called identical."""
    SAID = "said"
    """A private value changed without the key, or a number among durations, and the line says that it was not compared."""
    FALSE_GREEN = "false green"
    """Changed, and called identical."""


FALSE = frozenset({Found.FALSE_RED, Found.FALSE_GREEN})
DURATIONS = "only durations differ, as the report says"
"""The reason of agents that the machine was too busy for; all else in them was compared to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One replay of one agent."""

    agent: Agent
    change: Change | None
    found: Found
    reason: str = ""
    """For `Found.NAMED`, the reason; else empty."""
    told: str = ""
    """The report of the replay."""

    def __str__(self) -> str:
        what = "unchanged" if self.change is None else f"{self.change.label}: {self.change.before!r} -> {self.change.after!r}"
        rules = ", ".join(rule for _, rule in self.agent.parts)
        return f"{self.found}: seed {self.agent.seed} ({self.agent.entry}: {rules}), {what}\n{self.told}"


@dataclass(slots=True)
class Stage:
    """Parts shared by all trials: the provider, the collector with its store, and Python with the SDKs."""

    folder: Path
    provider: ChancyProvider
    collector: CollectorProcess
    store: RunStore
    python: str
    _recorded: dict[str, Run] = field(default_factory=dict[str, Run])

    def record(self, agents: Sequence[Agent]) -> None:
        """Run each agent once, and keep one run of each.

        An agent whose end did not get to the collector in the time that a process has to deliver it is run again: nothing of
        its outcome could be compared.
        """
        left = list(agents)
        for _ in range(_RECORDINGS):
            with ThreadPoolExecutor(_AT_ONCE) as workers:
                list(workers.map(self._run, left))
            self.collector.flush()
            left = [agent for agent in left if not self._whole_runs(agent)]
        assert not left, f"seeds {[agent.seed for agent in left]}: no run was recorded to its end"
        for agent in agents:
            rows = sorted(self._whole_runs(agent), key=lambda row: row.start_time)
            chosen = random.Random(agent.seed).choice(rows)
            self._recorded[_service(agent)] = build_run(self.store.load_spans(chosen.trace_id))

    def _whole_runs(self, agent: Agent) -> list[RunRow]:
        rows = find_runs(self.store, RunQuery(chosen={"service": _service(agent)})).rows  # needs no reader's process
        return [row for row in rows if row.status != RunStatus.UNFINISHED]

    def _run(self, agent: Agent) -> None:
        environment = {
            **os.environ,
            **agent.environment(),
            "OPENAI_BASE_URL": f"{self.provider.url}/v1",
            "ANTHROPIC_BASE_URL": self.provider.url,
            "FREEZEFRAME_ENDPOINT": self.collector.url,
            "FREEZEFRAME_SERVICE_NAME": _service(agent),
            "HOME": str(self.folder),
        }
        command, folder = [self.python, "agent.py"], self._write(agent, None)
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=_TIMEOUT_S)

    def replay(self, agent: Agent, place: int | None, *, with_key: bool = True) -> Trial:
        """Replay the agent's run, with the program as it was or with one place changed."""
        run = self._recorded[_service(agent)]
        try:
            report = reenact(
                freeze(run),
                cwd=self._write(agent, place),
                env=agent.environment(place),
                keys=None if with_key else self.folder / "no keys",
                timeout_s=_TIMEOUT_S,
            )
            if (
                not with_key
                and verdict(report) is Verdict.IDENTICAL
                and any("private value" in what for what in not_compared(report))
            ):
                return Trial(agent=agent, change=agent.changes[place or 0], found=Found.SAID, told=report_text(report))
            return _judge(agent, place, run, exit_code(report), report_text(report))
        except ReplayError as error:
            return _judge(agent, place, run, EXIT_CODES[Verdict.INCOMPARABLE], str(error))

    def replay_by_command(self, agent: Agent, place: int | None) -> Trial:
        """Do what `replay` does, by the command line, with a Python that has imported nothing."""
        run = self._recorded[_service(agent)]
        done = subprocess.run(
            [_PYTHON, "-m", "freezeframe._cli", "replay", run.trace_id, "--data", str(self.collector.data)],
            cwd=self._write(agent, place),
            env={**os.environ, **agent.environment(place)},
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        return _judge(agent, place, run, done.returncode, done.stdout + done.stderr)

    def _write(self, agent: Agent, place: int | None) -> Path:
        folder = self.folder / f"{agent.seed}-{'-'.join(str(position) for position, _ in agent.parts)}-{place}"
        folder.mkdir(exist_ok=True)
        (folder / "agent.py").write_text(agent.source(place))
        (folder / "notes.txt").write_text("The depot opens at nine.\n")
        return folder


def _service(agent: Agent) -> str:
    return f"agent {agent.seed} {agent.parts}"


def _judge(agent: Agent, place: int | None, run: Run, code: int, told: str) -> Trial:
    if place is not None:
        found = Found.FALSE_GREEN if code == 0 else Found.SEEN
        if code == 0 and agent.changes[place].label == "computed number" and "except times read from the clock" in told:
            found = Found.SAID
        return Trial(agent=agent, change=agent.changes[place], found=found, told=told)
    if code == 0:
        return Trial(agent=agent, change=None, found=Found.IDENTICAL, told=told)
    reason = named_reason(run)
    if (
        not reason
        and any(words in " ".join(told.split()) for words in _OF_DURATIONS)
        and ("It took" in told or ".took" in told)
    ):
        reason = DURATIONS
    if not reason and _is_at_limit(run):
        reason = "decided right at a limit of time"
    return Trial(agent=agent, change=None, found=Found.NAMED if reason else Found.FALSE_RED, reason=reason, told=told)


def _is_at_limit(run: Run) -> bool:
    """Return whether a loop of pauses may have gone on, or ended, when its budget of time was nearly spent.

    A replay may then go the other way. The program read the clock at some time between the call before the loop and its first.
    """
    ended_ns = run.entry.start_time_unix_nano
    earliest_ns = latest_ns = 0
    for exchange in run.exchanges:
        if exchange.name != "pause":
            latest_ns = 0
        elif not latest_ns:
            earliest_ns, latest_ns = ended_ns, exchange.start_time_unix_nano
        ended_ns = max(ended_ns, exchange.end_time_unix_nano)
        least_ns, most_ns = ended_ns - latest_ns - _NEAR_LIMIT_NS, ended_ns - earliest_ns + _NEAR_LIMIT_NS
        if latest_ns and least_ns <= BUDGET_MS * 1_000_000 <= most_ns:
            return True
    return False


def named_reason(run: Run) -> str:
    """Return why the recording says that it cannot be re-enacted exactly; empty if it does not."""
    ready = readiness(replace(run, verified=True))
    if run.gaps:
        return ", ".join(sorted({gap.kind.value for gap in run.gaps}))
    return "" if ready.level == max(LEVELS) else f"level {ready.level}: {', '.join(item.field.name for item in ready.missing)}"


@contextmanager
def open_stage(folder: Path, python: str = "") -> Generator[Stage]:
    """Start everything, and end it. `python`: the executable of a warm Python that runs already."""
    with ExitStack() as stack:
        _commit(folder)
        python = python or stack.enter_context(WarmPython(folder)).executable
        provider = stack.enter_context(ChancyProvider())
        # The name is the one in which a replay looks for the keys, from a program's folder upwards.
        collector = CollectorProcess(folder / ".freezeframe", policy="strict")
        stack.callback(collector.stop)
        store = open_runs(collector.store_url)
        stack.callback(store.close)
        stack.enter_context(mock.patch.object(sys, "executable", python))  # what `reenact` starts
        yield Stage(folder=folder, provider=provider, collector=collector, store=store, python=python)


def _commit(folder: Path) -> None:
    """Make the folder a checkout: without a commit no run is at the highest level, and levels are not what is tested here."""
    for command in ("init --quiet", "-c user.name=fuzz -c user.email=fuzz@example.com commit --quiet --allow-empty -m agents"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)


def try_seeds(stage: Stage, seeds: Sequence[int], *, changes: int | None = _CHANGES, by_command: int = 0) -> Iterator[Trial]:
    """Yield the trials of the agents of these seeds.

    Args:
        stage: what they run on.
        seeds: of the agents.
        changes: how many places of each are changed, one at a time; None changes each.
        by_command: every how many agents the command line is tried, too; 0 never tries it.
    """
    for start in range(0, len(seeds), _BATCH):
        agents = [make_agent(seed) for seed in seeds[start : start + _BATCH]]
        stage.record(agents)
        chosen: list[tuple[Agent, int | None]] = []
        for number, agent in enumerate(agents, start):
            places = random.Random(agent.seed).sample(agent.places, len(agent.places))
            chosen += [(agent, place) for place in (None, *places[:changes])]
            if by_command and number % by_command == 0:
                yield from (stage.replay_by_command(agent, place) for place in (None, *places[:1]))
        with ThreadPoolExecutor(_AT_ONCE) as workers:
            yield from workers.map(stage.replay, *zip(*chosen, strict=True))
        for agent, place in chosen:
            if place is not None and agent.changes[place].private:
                yield stage.replay(agent, place, with_key=False)


def made_small(stage: Stage, trial: Trial) -> Trial:
    """Return the trial of the same agent with every part left out that can be while the verdict stays false."""
    smallest = trial
    for position, _ in trial.agent.parts:
        kept = [other for other, _ in smallest.agent.parts if other != position]
        agent = make_agent(trial.agent.seed, keep=kept)
        place = None if trial.change is None else _place_of(trial.change, agent)
        if not kept or (trial.change is not None and place is None):
            continue
        stage.record([agent])
        tried = stage.replay(agent, place)
        if tried.found is trial.found:
            smallest = tried
    return smallest


def _place_of(change: Change, agent: Agent) -> int | None:
    """Return where the change is in a smaller agent, whose places have other numbers."""
    alike = [place for place in agent.places if agent.changes[place].label == change.label]
    exact = [place for place in alike if agent.changes[place] == change]
    return next(iter([*exact, *alike]), None)


def counted(trials: Iterable[Trial]) -> Counter[str]:
    """Return how many trials had each outcome; the reasons one by one."""
    return Counter(f"{trial.found}: {trial.reason}" if trial.reason else trial.found.value for trial in trials)


def _main() -> int:
    parser = argparse.ArgumentParser(description="record generated agents, and replay them unchanged and changed")
    parser.add_argument("seeds", help="one seed, or FIRST-END")
    first, _, end = parser.parse_args().seeds.partition("-")
    seeds = range(int(first), int(end or int(first) + 1))
    counts: Counter[str] = Counter()
    tried: set[int] = set()
    try:
        with tempfile.TemporaryDirectory(prefix="verdicts-") as folder, open_stage(Path(folder)) as stage:
            for trial in try_seeds(stage, seeds, changes=_CHANGES if end else None, by_command=50 if end else 0):
                tried.add(trial.agent.seed)
                if trial.found in FALSE:
                    print(f"\n{trial}\nnow smaller:", flush=True)
                small = made_small(stage, trial) if trial.found in FALSE else trial
                counts += counted([small])
                if trial.found in FALSE:
                    print(f"\n{small}\n{small.agent.source().partition('# the agent')[2] if not end else ''}", flush=True)
    finally:
        print(f"{len(tried)} agents: {dict(counts)}", flush=True)
    return 1 if any(counts[found] for found in FALSE) else 0


if __name__ == "__main__":
    sys.exit(_main())
