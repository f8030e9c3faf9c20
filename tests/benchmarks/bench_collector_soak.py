"""Traffic without a pause, and what of the collector grows: memory, log, parts, files. The last line is one JSON object.

    python tests/benchmarks/bench_collector_soak.py [--minutes 20] [--policy strict] [--workers 1]

Four senders send as fast as they are answered: spans of 1 KB to 200 KB, in requests of 1 to 200, some of them sent again, some
damaged. Every few seconds the collector is looked at from outside. So many minutes at full speed stand for as many
hours of an agent fleet at a fraction of it: `spans` in the last line says how many there were.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector_load import Load, Texts, make_requests
from collector_peers import get

from freezeframe_schemas.local_tokens import READER, bearer, read_token

SENDERS = 4
LOOK_S = 10.0
SHAPES = (
    Load(name="small", span_bytes=1_000, spans_per_request=100, requests=4),
    Load(name="typical", span_bytes=9_000, spans_per_request=20, requests=3),
    Load(name="single", span_bytes=9_000, spans_per_request=1, requests=12),
    Load(name="large", span_bytes=200_000, spans_per_request=1, requests=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The collector's state at one moment."""

    at_s: float
    spans: int
    rss_mb: float
    log_mb: float
    segments: int
    parts: int
    files: int
    threads: int
    missing: int


class Senders:
    """Threads that send until told to stop."""

    def __init__(self, port: int) -> None:
        self.refused = 0
        self._port = port
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait for the requests in progress."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _send(self, number: int) -> None:
        texts = Texts(seed=number)
        chance = random.Random(number)
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        earlier: list[bytes] = []
        while not self._stopping.is_set():
            for shape in SHAPES:
                for body in make_requests(shape, texts):
                    self._post(connection, body)
                    earlier.append(body)
            del earlier[:-50]
            # A sender that missed an answer sends again; a line that is noisy changes a byte.
            self._post(connection, chance.choice(earlier))
            damaged = bytearray(chance.choice(earlier))
            damaged[chance.randrange(len(damaged))] ^= 0xFF
            self._post(connection, bytes(damaged))

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        if self._stopping.is_set():
            return
        connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        if answer.status in (429, 503):
            self.refused += 1
            time.sleep(0.2)
        elif answer.status not in (200, 400):
            raise RuntimeError(f"HTTP {answer.status}")


def _look(ports: dict[str, Any], started: float) -> Look:
    status = json.loads(get(f"http://127.0.0.1:{ports['http']}/status", _reader(ports)))
    sql = b"SELECT count() FROM system.parts WHERE active AND database = 'freezeframe'"
    url = f"http://127.0.0.1:{ports['clickhouse']}/"
    request = urllib.request.Request(url, sql, method="POST", headers=_reader(ports))
    with urllib.request.urlopen(request, timeout=60) as answer:
        parts = int(answer.read())
    processes = [ports["pid"], *(worker["pid"] for worker in status["workers"])]
    words = [Path(f"/proc/{pid}/status").read_text().splitlines() for pid in processes]

    def total(name: str) -> int:
        return sum(int(line.split()[1]) for lines in words for line in lines if line.startswith(f"{name}:"))

    return Look(
        at_s=time.monotonic() - started,
        spans=status["audit"]["received"],
        rss_mb=total("VmRSS") / 1024,
        log_mb=status["log"]["bytes"] / 1e6,
        segments=status["log"]["segments"],
        parts=parts,
        files=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in processes),
        threads=total("Threads"),
        missing=status["audit"]["missing"],
    )


def _start(data: Path, policy: str, workers: int) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    free = ("--grpc-port", "0", "--http-port", "0", "--clickhouse-port", "0")
    settings = {
        "AUTH__OPEN_SENDERS": "true",
        "REDACTION__POLICY": policy,
        "SERVICE__WORKERS": str(workers),
        "TELEMETRY__SPANS": "self",
    }
    environment = {**os.environ, **{f"FREEZEFRAME_COLLECTOR__{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "freezeframe_collector", "--data", str(data), *free]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    while not (data / "ports.json").exists():
        if process.poll() is not None:
            raise RuntimeError("freezeframe-collector did not start")
        time.sleep(0.05)
    return process, json.loads((data / "ports.json").read_text())


def _reader(ports: dict[str, Any]) -> dict[str, str]:
    return bearer(read_token(Path(ports["data"]), READER))


def _settled(ports: dict[str, Any]) -> dict[str, Any]:
    """Return the status when nothing is in the log, or the last one: a span about the last segment comes after it."""
    status: dict[str, Any] = {}
    for _ in range(5):
        url = f"http://127.0.0.1:{ports['http']}"
        request = urllib.request.Request(f"{url}/v1/flush?timeout_s=300", method="POST", headers=_reader(ports))
        with urllib.request.urlopen(request, timeout=330):
            status = json.loads(get(f"{url}/status", _reader(ports)))
        if not status["audit"]["in_log"]:
            break
        time.sleep(3.0)
    return status


def rows_of(looks: Sequence[Look], status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the JSON line: the middle third against the last, when all caches are full."""
    third = len(looks) // 3
    middle, last = looks[third : 2 * third], looks[-third:]

    def growth(of: Callable[[Look], float]) -> float:
        return statistics.median(map(of, last)) / max(1e-9, statistics.median(map(of, middle)))

    rss = growth(lambda look: look.rss_mb)
    audit = status["audit"]
    figures: list[tuple[str, float, str, str | None, bool | None]] = [
        ("spans received", audit["received"], "spans", None, None),
        ("spans rejected", audit["rejected"], "spans", None, None),
        ("spans sent twice", audit["duplicate"], "spans", None, None),
        (
            "spans unaccounted for, at any look",
            max(look.missing for look in looks),
            "spans",
            "0",
            not any(x.missing for x in looks),
        ),
        ("in the log at the end", audit["in_log"], "spans", "0", audit["in_log"] == 0),
        ("memory, last third over the middle one", rss, "x", "<= 1.1", rss <= 1.1),
        ("memory, largest", max(look.rss_mb for look in looks), "MB", None, None),
        ("log, largest", max(look.log_mb for look in looks), "MB", None, None),
        ("parts, largest", max(look.parts for look in looks), "parts", "<= 300", max(look.parts for look in looks) <= 300),
        ("open files, last third over the middle one", growth(lambda look: look.files), "x", None, None),
        ("threads, largest", max(look.threads for look in looks), "threads", None, None),
    ]
    return [{"name": n, "value": round(v, 2), "unit": u, "goal": g, "met": m} for n, v, u, g, m in figures]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--policy", default="strict")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    data = Path(tempfile.mkdtemp(prefix="bench-collector-soak-"))
    process, ports = _start(data, options.policy, options.workers)
    try:
        started = time.monotonic()
        senders = Senders(int(ports["http"]))
        looks: list[Look] = []
        print(f"{'s':>6} {'spans':>9} {'RSS MB':>8} {'log MB':>8} {'segments':>9} {'parts':>6} {'files':>6} {'threads':>8}")
        while time.monotonic() - started < options.minutes * 60:
            time.sleep(min(LOOK_S, options.minutes * 6))
            look = _look(ports, started)
            looks.append(look)
            print(
                f"{look.at_s:>6.0f} {look.spans:>9} {look.rss_mb:>8.0f} {look.log_mb:>8.1f} {look.segments:>9}"
                f" {look.parts:>6} {look.files:>6} {look.threads:>8}",
                flush=True,
            )
        senders.stop()
        status = _settled(ports)
        rows = rows_of(looks, status)
        for row in rows:
            print(f"{row['name']:<45} {row['value']:>12,.2f} {row['unit']}")
        print(json.dumps({"bench": "collector_soak", "rows": rows}))
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
