"""What accepting and storing a span costs, next to collectors that others use; the last line is one JSON object.

    python tests/benchmarks/bench_collector.py [--peers rotel,phoenix,mlflow] [--scale 1.0]

Every subject gets the same bytes over OTLP/HTTP from eight connections. CPU is user and system time of all processes of the
subject, its store included, from the first request until every span is stored. Ours redacts and syncs before it acks; no peer
does either.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from collector_load import LOADS, Load, Texts, make_requests
from collector_peers import Mlflow, Ours, Phoenix, Rotel, Subject, install

CONNECTIONS = 8
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROTOBUF = {"content-type": "application/x-protobuf"}
SLOW_SHARE = 0.2
"""Of the requests, for peers that take minutes for what the others do in seconds."""
COLUMNS = ("us/accepted", "us/stored", "spans/s", "p50 ms", "p99 ms", "MB")


@dataclass(slots=True, kw_only=True)
class Measured:
    """One subject under one load."""

    spans: int
    bytes: int
    wall_s: float
    accepted_cpu_s: float
    stored_cpu_s: float
    acks_s: list[float] = field(default_factory=list[float])
    peak_mb: float = 0.0

    def ack_ms(self, share: float) -> float:
        """Return the latency that `share` of the requests did not exceed."""
        return sorted(self.acks_s)[min(len(self.acks_s) - 1, int(len(self.acks_s) * share))] * 1e3

    @property
    def accepted_us(self) -> float:
        """Return the CPU of a span from its request to its answer, in microseconds."""
        return self.accepted_cpu_s / self.spans * 1e6

    @property
    def stored_us(self) -> float:
        """Return the CPU of a span until it is stored, in microseconds."""
        return self.stored_cpu_s / self.spans * 1e6

    def columns(self) -> tuple[float, ...]:
        """Return the figures of `COLUMNS`."""
        rate = self.spans / self.wall_s
        return self.accepted_us, self.stored_us, rate, self.ack_ms(0.5), self.ack_ms(0.99), self.peak_mb


def send(subject: Subject, bodies: Sequence[bytes]) -> list[float]:
    """Send all bodies over `CONNECTIONS` connections, again if told to come back later; return the ack latencies in seconds."""
    left, lock, acks = list(reversed(bodies)), threading.Lock(), list[float]()
    faults: list[str] = []

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", subject.port, timeout=120)
        while True:
            with lock:
                if not left or faults:
                    return
                body = left.pop()
            started = time.perf_counter()
            while True:
                connection.request("POST", "/v1/traces", body, PROTOBUF | subject.headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status not in (429, 503):
                    break
                time.sleep(0.05)
            if answer.status not in (200, 202):
                faults.append(f"HTTP {answer.status}")
                return
            with lock:
                acks.append(time.perf_counter() - started)

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise RuntimeError(f"a request was refused: {faults[0]}")
    return acks


def _descendants(root: int) -> Iterator[int]:
    yield root
    for task in Path(f"/proc/{root}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            for child in task.read_text().split():
                yield from _descendants(int(child))


def _processes(subject: Subject) -> list[int]:
    return [pid for process in subject.processes for pid in _descendants(process.pid)]


def cpu_s(subject: Subject) -> float:
    """Return user and system seconds of all processes of the subject."""
    total = 0
    for pid in _processes(subject):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


def peak_mb(subject: Subject) -> float:
    """Return the sum of the processes' largest resident sizes."""
    total_kb = 0
    for pid in _processes(subject):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        total_kb += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return total_kb / 1024


def stop(subject: Subject, end: Callable[[subprocess.Popen[bytes]], None]) -> None:
    """End the subject's processes, last started first, and whatever these started: a killed one ends nothing itself."""
    started = _processes(subject)
    for process in reversed(subject.processes):
        end(process)
    for process in subject.processes:
        process.wait(60)
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_stored(subject: Subject, count: int, timeout_s: float) -> int:
    """Wait until the store has `count` spans, or no more arrive; return how many it has."""
    deadline, found, changed_at = time.monotonic() + timeout_s, -1, time.monotonic()
    while time.monotonic() < deadline:
        now = subject.stored()
        if now != found:
            found, changed_at = now, time.monotonic()
        if found >= count or time.monotonic() - changed_at > 20:
            break
        time.sleep(0.1)
    return found


def measure(subject: Subject, load: Load, texts: Texts) -> Measured:
    """Return what the load costs the subject, on an empty store."""
    directory = Path(tempfile.mkdtemp(prefix="bench-collector-"))
    try:
        subject.start(directory)
        warm = Load(name="warm", span_bytes=load.span_bytes, spans_per_request=load.spans_per_request, requests=2)
        send(subject, make_requests(warm, texts))
        before = wait_stored(subject, 2 * load.spans_per_request, 120)
        bodies = make_requests(load, texts)
        spans = load.requests * load.spans_per_request
        cpu_before, started = cpu_s(subject), time.perf_counter()
        acks = send(subject, bodies)
        wall, accepted = time.perf_counter() - started, cpu_s(subject)
        found = wait_stored(subject, before + spans, 300)
        if found < before + spans:
            print(f"  {subject.name}: only {found - before} of {spans} spans were stored", flush=True)
        return Measured(
            spans=spans,
            bytes=sum(map(len, bodies)),
            wall_s=wall,
            accepted_cpu_s=accepted - cpu_before,
            stored_cpu_s=cpu_s(subject) - cpu_before,
            acks_s=acks,
            peak_mb=peak_mb(subject),
        )
    finally:
        stop(subject, lambda process: process.kill())
        shutil.rmtree(directory, ignore_errors=True)


def lost_at_kill(subject: Subject, texts: Texts) -> int:
    """Return how many acked spans are gone after a kill -9 right after the last ack."""
    directory = Path(tempfile.mkdtemp(prefix="bench-collector-"))
    try:
        subject.start(directory)
        load = Load(name="kill", span_bytes=9_000, spans_per_request=50, requests=20)
        send(subject, make_requests(load, texts))
        # The store of a peer is another program; only the collector is killed.
        killed = subject.processes[-1]
        killed.kill()
        killed.wait()
        return load.requests * load.spans_per_request - subject.stored_after_kill(directory)
    finally:
        stop(subject, lambda process: process.kill())
        shutil.rmtree(directory, ignore_errors=True)


Row = dict[str, Any]


def rows_of(results: dict[tuple[str, str], Measured], lost: dict[str, int]) -> list[Row]:
    """Return the rows of the JSON line, with their goals, if any."""
    rows: list[Row] = []

    def add(name: str, value: float, unit: str, goal: str | None = None, met: bool | None = None) -> None:
        rows.append({"name": name, "value": round(value, 2), "unit": unit, "goal": goal, "met": met})

    for (subject, load), found in results.items():
        label = f"{subject}, {load}"
        peer = results.get((Rotel.name, load))
        if subject == "freezeframe" and peer is not None:
            ratio = found.stored_us / peer.stored_us
            add(f"{label}: CPU per stored span, ratio to rotel", ratio, "x", "<= 1", ratio <= 1)
        for name, goal in ((Phoenix.name, 50), (Mlflow.name, None)):
            other = results.get((name, load))
            if subject == "freezeframe" and other is not None:
                ratio = other.stored_us / found.stored_us
                add(
                    f"{label}: cheaper than {name}", ratio, "x", f">= {goal}" if goal else None, ratio >= goal if goal else None
                )
        add(f"{label}: CPU per stored span", found.stored_us, "us")
        add(f"{label}: CPU per accepted span", found.accepted_us, "us")
        add(f"{label}: accepted", found.spans / found.wall_s, "spans/s")
        add(f"{label}: accepted", found.bytes / found.wall_s / 1e6, "MB/s")
        add(f"{label}: ack p50", found.ack_ms(0.5), "ms")
        add(f"{label}: ack p99", found.ack_ms(0.99), "ms")
        add(f"{label}: peak memory", found.peak_mb, "MB")
    single, batched = results.get(("freezeframe", LOADS[3].name)), results.get(("freezeframe", LOADS[1].name))
    if single is not None and batched is not None:
        ratio = single.stored_us / batched.stored_us
        add("freezeframe: one span a request, ratio to batched per span", ratio, "x", "<= 2", ratio <= 2)
    for subject, count in lost.items():
        goal = subject.startswith("freezeframe")
        add(f"{subject}: acked spans lost at kill -9", count, "of 1000", "0" if goal else None, count == 0 if goal else None)
    return rows


def subjects_of(peers: Sequence[str]) -> list[Subject]:
    """Return this collector under its policies, and the peers that can be installed."""
    subjects: list[Subject] = [Ours("strict"), Ours("off"), Ours("strict", workers=2)]
    for peer, subject in (("rotel", Rotel), ("phoenix", Phoenix), ("mlflow", Mlflow)):
        if peer in peers and install(peer):
            subjects.append(subject())
        elif peer in peers:
            print(f"{peer}: could not be installed, left out", flush=True)
    return subjects


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="rotel,phoenix,mlflow", help="comma-separated; empty measures freezeframe alone")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of requests")
    options = parser.parse_args()
    subjects = subjects_of(options.peers.split(","))
    texts = Texts(seed=7)
    results: dict[tuple[str, str], Measured] = {}
    lost: dict[str, int] = {}
    print(f"{'subject':<26} {'load':<11}" + "".join(f" {column:>11}" for column in COLUMNS))
    for load in LOADS:
        for subject in subjects:
            share = SLOW_SHARE if isinstance(subject, Phoenix | Mlflow) else 1.0
            scaled = replace(load, requests=max(2, int(load.requests * options.scale * share)))
            try:
                found = results[subject.name, load.name] = measure(subject, scaled, texts)
            except RuntimeError as error:
                print(f"{subject.name:<26} {load.name:<11} {error}", flush=True)
                continue
            print(f"{subject.name:<26} {load.name:<11}" + "".join(f" {x:>11.1f}" for x in found.columns()), flush=True)
    for subject in subjects:
        try:
            lost[subject.name] = lost_at_kill(subject, texts)
        except RuntimeError as error:
            print(f"{subject.name:<26} {error}", flush=True)
            continue
        print(f"{subject.name:<26} acked spans lost at kill -9: {lost[subject.name]} of 1000", flush=True)
    print(json.dumps({"bench": "collector", "rows": rows_of(results, lost)}))


if __name__ == "__main__":
    main()
