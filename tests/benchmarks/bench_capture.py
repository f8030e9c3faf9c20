"""What capture costs the application: client CPU and wall time per model call, beside five other ways and none.

Each subject is a process with the same SDKs, the same provider on loopback and the same collector that accepts and forgets;
peers that are no part of this project's environment get one of their own below ``.freezeframe/bench-capture`` (made on the
first run). CPU is that of the whole process, exporter thread included, until everything is delivered. The subjects take turns,
in short rounds and in another order each time, because the machine is shared; the lower quartile over rounds counts, since what
disturbs a round only ever adds to it. Goal: freezeframe adds less than OpenInference in every row, and captures more: the
third table says how much telemetry each sends for a call (langfuse compresses it, the others do not). What capture costs code
that makes no call is in `bench_host.py`.

    python tests/benchmarks/bench_capture.py [--rounds 15] [--subjects openinference,langfuse]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PEERS: Final = Path(".freezeframe") / "bench-capture"
OURS: Final = ("bare", "freezeframe", "openinference")
"""Subjects that run in this project's own environment."""
OTHERS: Final = {
    "official": (
        "opentelemetry-instrumentation-genai-openai",
        "opentelemetry-instrumentation-genai-anthropic",
        "opentelemetry-exporter-otlp-proto-http",
    ),
    "langfuse": ("langfuse", "opentelemetry-instrumentation-anthropic"),
    "traceloop": ("traceloop-sdk", "httpx"),  # it imports httpx without asking for it
}
"""Subjects with a separate environment, and what is installed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row. `calls` is what a round measures."""

    name: str
    calls: int
    means: str


SCENARIOS: Final = (
    Scenario(name="chat_small", calls=40, means="one short message"),
    Scenario(name="chat_large", calls=15, means="100 messages and 10 tools, 63 KB"),
    Scenario(name="openai_stream", calls=30, means="OpenAI stream of 8 events"),
    Scenario(name="anthropic_stream", calls=30, means="Anthropic stream of 8 events"),
    Scenario(name="async_50", calls=50, means="50 concurrent asynchronous calls"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one round of a scenario took, per call."""

    cpu_ms: float
    wall_ms: float
    sent_bytes: float
    """Telemetry that arrived, per call."""


Figures = dict[str, dict[str, list[Cost]]]
"""Scenario -> subject -> one cost per round."""


class Process:
    """A process that is asked by lines and answers by lines."""

    def __init__(self, *command: str | Path) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "FREEZEFRAME_"))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
        )

    def hear(self) -> str:
        """Return the next line.

        Raises:
            RuntimeError: the process has ended; with the last line that it wrote to stderr.
        """
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        answer = self._process.stdout.readline()
        if not answer:
            said = self._process.stderr.read().strip().splitlines()
            raise RuntimeError(said[-1] if said else f"ended with {self._process.wait()}")
        return answer

    def ask(self, line: str) -> str:
        """Send a line and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.hear()

    def end(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.communicate()


# -- environments of the peers ------------------------------------------------------------------------------------------


def python_of(subject: str) -> str | Path:
    """Return the Python that a subject runs with; make its environment if there is none.

    Raises:
        RuntimeError: it cannot be installed.
    """
    if subject not in OTHERS:
        return sys.executable
    folder = PEERS / subject
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        print(f"installing {subject} into {folder}", file=sys.stderr)
        uv = Path(sys.executable).with_name("uv")
        wanted = [f"{name}=={version(name)}" for name in ("openai", "anthropic")] + list(OTHERS[subject])
        if uv.exists():
            commands: list[list[str | Path]] = [
                [uv, "venv", "-q", "--clear", folder, "--python", sys.executable],
                [uv, "pip", "install", "-q", "--python", python, *wanted],
            ]
        else:
            commands = [[sys.executable, "-m", "venv", "--clear", folder], [python, "-m", "pip", "install", "-q", *wanted]]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
            if done.returncode:
                raise RuntimeError(f"does not install: {done.stderr.strip().splitlines()[-1:]}")
        (folder / "done").touch()
    return python


# -- the measurement ----------------------------------------------------------------------------------------------------


def measure(subjects: Sequence[str], rounds: int) -> tuple[Figures, dict[str, str]]:
    """Start the processes, ask for the rounds in turn, and end them; return the figures, and why a subject has none."""
    figures: Figures = {scenario.name: {} for scenario in SCENARIOS}
    absent: dict[str, str] = {}
    world = Process(sys.executable, HERE / "capture_world.py")
    workers: dict[str, Process] = {}
    try:
        url = f"http://127.0.0.1:{int(world.hear())}"
        for subject in subjects:
            try:
                worker = Process(python_of(subject), HERE / "capture_worker.py", subject, url)
                workers[subject] = worker
                while worker.hear().strip() != "ready":
                    """What an SDK prints at its start."""
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                absent[subject] = str(error)
        present = [subject for subject in subjects if subject not in absent]
        for number in range(rounds):
            for scenario in SCENARIOS:
                first = number % len(present)
                for subject in present[first:] + present[:first]:
                    before = _bytes_received(url)
                    cpu_s, wall_s = map(float, workers[subject].ask(f"{scenario.name} {scenario.calls}").split())
                    cost = Cost(
                        cpu_ms=cpu_s * 1000 / scenario.calls,
                        wall_ms=wall_s * 1000 / scenario.calls,
                        sent_bytes=(_bytes_received(url) - before) / scenario.calls,
                    )
                    figures[scenario.name].setdefault(subject, []).append(cost)
    finally:
        for process in (*workers.values(), world):
            process.end()
    return figures, absent


def _bytes_received(url: str) -> int:
    with urllib.request.urlopen(f"{url}/received") as answer:
        return int(answer.read())


def cpu_ms(costs: dict[str, list[Cost]], subject: str) -> float:
    """Return the CPU of a call in the quieter rounds."""
    return _lower_quartile(cost.cpu_ms for cost in costs[subject])


def added_cpu_ms(costs: dict[str, list[Cost]], subject: str) -> float:
    """Return the CPU that the subject adds to the bare application's."""
    return cpu_ms(costs, subject) - cpu_ms(costs, "bare")


def _wall_ms(costs: dict[str, list[Cost]], subject: str) -> float:
    return _lower_quartile(cost.wall_ms for cost in costs[subject])


def _lower_quartile(figures: Iterable[float]) -> float:
    ordered = sorted(figures)
    return ordered[len(ordered) // 4]


def _sent_kilobytes(costs: dict[str, list[Cost]], subject: str) -> float:
    return statistics.median(cost.sent_bytes for cost in costs[subject]) / 1000


def report(figures: Figures, absent: dict[str, str]) -> None:
    """Print the tables, and as the last line one JSON object."""
    subjects = list(next(iter(figures.values())))
    print("client CPU, ms per call: of the bare application, and added by each")
    print(f"{'':18}" + "".join(f"{subject:>15}" for subject in subjects))
    for scenario in SCENARIOS:
        costs = figures[scenario.name]
        cells = "".join(f"{added_cpu_ms(costs, subject):>+15.2f}" for subject in subjects[1:])
        print(f"{scenario.name:18}{cpu_ms(costs, 'bare'):15.2f}{cells}   {scenario.means}")
    print("\nwall, ms per call")
    for scenario in SCENARIOS:
        cells = "".join(f"{_wall_ms(figures[scenario.name], subject):15.2f}" for subject in subjects)
        print(f"{scenario.name:18}{cells}")
    print("\ntelemetry sent, KB per call")
    for scenario in SCENARIOS:
        cells = "".join(f"{_sent_kilobytes(figures[scenario.name], subject):15.2f}" for subject in subjects)
        print(f"{scenario.name:18}{cells}")
    for subject, why in absent.items():
        print(f"\n{subject}: not measured: {why}")
    print(json.dumps({"bench": "capture", "rows": [*_rows(figures)]}))


def _rows(figures: Figures) -> Iterable[dict[str, Any]]:
    for name, costs in figures.items():
        for subject in costs:
            goal = value = None
            if subject == "bare":
                value = cpu_ms(costs, "bare")
            else:
                value = added_cpu_ms(costs, subject)
                if subject == "freezeframe" and "openinference" in costs:
                    goal = round(added_cpu_ms(costs, "openinference"), 3)
            what = "cpu" if subject == "bare" else "added_cpu"
            yield _row(f"{name}.{subject}_{what}", value, "ms", goal)
            yield _row(f"{name}.{subject}_wall", _wall_ms(costs, subject), "ms")
            yield _row(f"{name}.{subject}_sent", _sent_kilobytes(costs, subject), "KB")


def _row(name: str, value: float, unit: str, goal: float | None = None) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "goal": goal, "met": None if goal is None else value < goal}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each scenario and subject (default: 15)")
    parser.add_argument(
        "--subjects", default=",".join((*OURS, *OTHERS)[1:]), help="what to measure beside the bare application (default: all)"
    )
    given = parser.parse_args()
    report(*measure(["bare", *given.subjects.split(",")], given.rounds))


if __name__ == "__main__":
    main()
