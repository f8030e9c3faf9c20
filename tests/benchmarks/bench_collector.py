"""What accepting and storing a span costs, next to collectors that others use; the last line is one JSON object.

    python tests/benchmarks/bench_collector.py [--peers rotel,phoenix,mlflow] [--scale 1.0]

Peers are installed from the package index, each into an environment of its own below ``.freezeframe``. Every subject gets
the same bytes over OTLP/HTTP from eight connections. CPU is user and system time of all processes of the subject, its store
included, from the first request until every span is stored. Ours redacts and syncs before it acks; no peer does either.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from freezeframe_collector.otlp import encode_traces
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanKind, SpanRecord

HERE = Path(__file__).parent
PEERS = Path(".freezeframe") / "bench-peers"
CONNECTIONS = 8
RUN_SPANS = 10
"""Spans of one trace: an agent's run has about that many or more."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests of one shape."""

    name: str
    span_bytes: int
    spans_per_request: int
    requests: int


LOADS = (
    Load(name="1 KB x 200", span_bytes=1_000, spans_per_request=200, requests=40),
    Load(name="9 KB x 50", span_bytes=9_000, spans_per_request=50, requests=60),
    Load(name="200 KB x 5", span_bytes=200_000, spans_per_request=5, requests=60),
    Load(name="9 KB x 1", span_bytes=9_000, spans_per_request=1, requests=1_500),
)


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


# -- load ---------------------------------------------------------------------------------------------------------------

_ENGLISH = "ta re mi con sol ing er an the ion pro de st al ex per ver log tic ment us com ble ness"
_SYLLABLES = _ENGLISH.split()
_PII = ("alice.{n}@example.com", "+1 415 555 {n:04d}", "4111 1111 1111 1111", "Maria Jensen")


class Texts:
    """Text that compresses like English, with one finding of personal data in about two thousand words."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        words = ["".join(self.random.choices(_SYLLABLES, k=self.random.randint(1, 4))) for _ in range(20_000)]
        self._pool = self.random.choices(words, weights=[1 / (rank + 10) for rank in range(len(words))], k=200_000)

    def make(self, size_bytes: int) -> str:
        """Return about this much text."""
        count = max(1, size_bytes // 8)
        start = self.random.randrange(len(self._pool) - count - 1) if count < len(self._pool) else 0
        words = self._pool[start : start + count]
        for _ in range(count // 2000 + (self.random.random() < count % 2000 / 2000)):
            number = self.random.randrange(9999)
            words[self.random.randrange(len(words))] = self.random.choice(_PII).format(n=number)
        return " ".join(words)


def make_requests(load: Load, texts: Texts) -> list[bytes]:
    """Return the bodies; every span id is fresh, so that nothing is a duplicate. Spans come in runs of `RUN_SPANS`."""
    resource = Resource(attributes={genai.SERVICE_NAME: "bench", "telemetry.sdk.language": "python"})
    scope = Scope(name="opentelemetry.instrumentation.openai_v2", version="2.3b0")
    traces = (f"{texts.random.getrandbits(127) + 1:032x}" for _ in iter(int, 1))
    runs = itertools.chain.from_iterable(itertools.repeat(trace, RUN_SPANS) for trace in traces)
    return [
        encode_traces(
            _span(trace, load.span_bytes, texts, resource, scope) for trace in itertools.islice(runs, load.spans_per_request)
        )
        for _ in range(load.requests)
    ]


def _span(trace_id: str, size_bytes: int, texts: Texts, resource: Resource, scope: Scope) -> SpanRecord:
    share = size_bytes // 5
    said = [{"role": role, "parts": [{"type": "text", "content": texts.make(share)}]} for role in ("system", "user", "tool")]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": texts.make(share)}], "finish_reason": "stop"}]
    start = 1_780_000_000_000_000_000 + texts.random.randrange(10**12)
    attributes: dict[str, AttributeValue] = {
        genai.OPERATION_NAME: "chat",
        genai.PROVIDER_NAME: "openai",
        genai.REQUEST_MODEL: "gpt-4.1",
        genai.RESPONSE_MODEL: "gpt-4.1-2026-04-14",
        genai.RESPONSE_ID: f"chatcmpl-{texts.random.getrandbits(96):024x}",
        genai.USAGE_INPUT_TOKENS: texts.random.randrange(9000),
        genai.USAGE_OUTPUT_TOKENS: texts.random.randrange(2000),
        genai.REQUEST_TEMPERATURE: 0.7,
        genai.INPUT_MESSAGES: json.dumps(said),
        genai.OUTPUT_MESSAGES: json.dumps(answer),
    }
    return SpanRecord(
        trace_id=trace_id,
        span_id=f"{texts.random.getrandbits(63) + 1:016x}",
        name="chat gpt-4.1",
        kind=SpanKind.CLIENT,
        start_time_unix_nano=start,
        end_time_unix_nano=start + texts.random.randrange(10**7, 10**9),
        attributes=attributes,
        resource=resource,
        scope=scope,
    )


PROTOBUF = {"content-type": "application/x-protobuf"}


def send(subject: Subject, bodies: Sequence[bytes]) -> list[float]:
    """Send all bodies over `CONNECTIONS` connections, again where told to come later; return the ack latencies in seconds."""
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


# -- subjects -----------------------------------------------------------------------------------------------------------


class Subject(Protocol):
    """A collector with its store."""

    name: str
    port: int
    headers: dict[str, str]
    """What its requests need beside the content type."""
    processes: list[subprocess.Popen[bytes]]

    def start(self, directory: Path) -> None:
        """Start it on an empty directory."""
        ...

    def stored(self) -> int:
        """Return how many spans the store has."""
        ...

    def stored_after_kill(self, directory: Path) -> int:
        """Return how many spans are in the store after a kill -9 and whatever restart would bring."""
        ...


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_port(port: int, timeout_s: float = 240.0) -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}")


def get(url: str) -> bytes:
    """Return the body of a GET."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


class Ours:
    """freezeframe-collector with the embedded store."""

    def __init__(self, policy: str, workers: int = 1) -> None:
        several = f", {workers} workers" if workers > 1 else ""
        self.name = ("freezeframe" if policy == "strict" else f"freezeframe, policy {policy}") + several
        self._workers = workers
        self.port = 0
        self.headers: dict[str, str] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._policy = policy

    def start(self, directory: Path) -> None:
        ports = directory / "ports.json"
        ports.unlink(missing_ok=True)
        free = ["--grpc-port", "0", "--http-port", "0", "--clickhouse-port", "0"]
        environment = {
            **os.environ,
            "FREEZEFRAME_COLLECTOR__REDACTION__POLICY": self._policy,
            "FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": str(self._workers),
        }
        command = [sys.executable, "-m", "freezeframe_collector", "--data", str(directory), *free]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        self.processes = [process]
        while not ports.exists():
            if process.poll() is not None:
                raise RuntimeError("freezeframe-collector did not start")
            time.sleep(0.05)
        self.port = int(json.loads(ports.read_text())["http"])

    def stored(self) -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/flush?timeout_s=300", method="POST")
        with urllib.request.urlopen(request, timeout=330):
            audit = json.loads(get(f"http://127.0.0.1:{self.port}/status"))["audit"]
        if audit["rejected"] or audit["missing"]:
            raise RuntimeError(f"{audit['rejected']} spans rejected, {audit['missing']} unaccounted for: no figure can be had")
        return int(audit["stored"])

    def stored_after_kill(self, directory: Path) -> int:
        self.start(directory)
        return self.stored()


class Rotel:
    """rotel (Rust), writing to a ClickHouse endpoint over the same engine as ours."""

    name = "rotel + ClickHouse"

    def __init__(self) -> None:
        self.port = 0
        self.headers: dict[str, str] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._sink_port = 0

    def start(self, directory: Path) -> None:
        self.port, self._sink_port = free_port(), free_port()
        sink = [sys.executable, str(HERE / "clickhouse_sink.py"), str(self._sink_port), str(directory / "sink")]
        self.processes = [subprocess.Popen(sink)]
        wait_port(self._sink_port)
        options = {
            "--exporter": "clickhouse",
            "--clickhouse-exporter-endpoint": f"http://127.0.0.1:{self._sink_port}",
            "--clickhouse-exporter-compression": "none",
            "--otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
            "--otlp-http-endpoint": f"127.0.0.1:{self.port}",
            "--otlp-grpc-max-recv-msg-size-mib": "64",
        }
        command = [str(peer_binary("rotel")), "start", *(word for pair in options.items() for word in pair)]
        log = (directory / "rotel.log").open("wb")
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        wait_port(self.port)

    def stored(self) -> int:
        return int(get(f"http://127.0.0.1:{self._sink_port}/rows"))

    def stored_after_kill(self, directory: Path) -> int:
        # Only rotel was killed. What reached its store is what there is: it keeps nothing on disk to start again from.
        time.sleep(2.0)
        return self.stored()


class Phoenix:
    """Arize Phoenix with its default store, SQLite."""

    name = "phoenix"

    def __init__(self) -> None:
        self.port = 0
        self.headers: dict[str, str] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._database = Path()

    def start(self, directory: Path) -> None:
        self.port, self._database = free_port(), directory / "phoenix.db"
        environment = {
            **os.environ,
            "PHOENIX_WORKING_DIR": str(directory),
            "PHOENIX_PORT": str(self.port),
            "PHOENIX_GRPC_PORT": str(free_port()),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        log = (directory / "phoenix.log").open("wb")
        command = [str(peer_binary("phoenix")), "serve"]
        self.processes = [subprocess.Popen(command, env=environment, stdout=log, stderr=log)]
        wait_port(self.port)

    def stored(self) -> int:
        if not self._database.exists():
            return 0
        with sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=30) as connection:
            return int(connection.execute("SELECT count(*) FROM spans").fetchone()[0])

    def stored_after_kill(self, directory: Path) -> int:
        return self.stored()


class Mlflow:
    """MLflow's tracking server with SQLite."""

    name = "mlflow"

    def __init__(self) -> None:
        self.port = 0
        self.headers = {"x-mlflow-experiment-id": "0"}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._database = Path()

    def start(self, directory: Path) -> None:
        self.port, self._database = free_port(), directory / "mlflow.db"
        log = (directory / "mlflow.log").open("wb")
        doors = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        stores = ["--backend-store-uri", f"sqlite:///{self._database}", "--default-artifact-root", str(directory / "artifacts")]
        command = [str(peer_binary("mlflow")), "server", *doors, *stores]
        self.processes = [subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)]
        wait_port(self.port)

    def stored(self) -> int:
        with sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=30) as connection:
            return int(connection.execute("SELECT count(*) FROM spans").fetchone()[0])

    def stored_after_kill(self, directory: Path) -> int:
        return self.stored()


_PACKAGES = {"rotel": "rotel==0.0.1a15", "phoenix": "arize-phoenix", "mlflow": "mlflow"}
_BINARIES = {"rotel": "rotel-agent", "phoenix": "phoenix", "mlflow": "mlflow"}


def peer_binary(peer: str) -> Path:
    """Return the command of an installed peer; rotel's lies in its package."""
    home, name = PEERS.absolute() / peer, _BINARIES[peer]
    inside = sorted(home.glob(f"lib/*/site-packages/*/{name}"))
    return inside[0] if inside else home / "bin" / name


def install(peer: str) -> bool:
    """Install a peer into an environment of its own; return whether its command is there."""
    home = PEERS.absolute() / peer
    if not peer_binary(peer).exists():
        print(f"installing {_PACKAGES[peer]} ...", flush=True)
        uv = Path(sys.executable).with_name("uv")
        if uv.exists():
            make = [str(uv), "venv", "-q", "--clear", "-p", sys.executable, str(home)]
            add = [str(uv), "pip", "install", "-q", "-p", str(home), _PACKAGES[peer]]
        else:
            make = [sys.executable, "-m", "venv", "--clear", str(home)]
            add = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", _PACKAGES[peer]]
        subprocess.run(make, check=True)
        subprocess.run(add, check=False)
    return peer_binary(peer).exists()


# -- measuring ----------------------------------------------------------------------------------------------------------


def _descendants(root: int) -> Iterator[int]:
    yield root
    for task in Path(f"/proc/{root}/task").glob("*/children"):
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
    """End the subject's processes, last started first."""
    for process in reversed(subject.processes):
        end(process)
    for process in subject.processes:
        process.wait(60)


def wait_stored(subject: Subject, count: int, timeout_s: float) -> int:
    """Wait until the store has `count` spans, or no more come; return how many it has."""
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
    """Return the rows of the JSON line, with the goals where there are some."""
    rows: list[Row] = []

    def add(name: str, value: float, unit: str, goal: str | None = None, met: bool | None = None) -> None:
        rows.append({"name": name, "value": round(value, 2), "unit": unit, "goal": goal, "met": met})

    for (subject, load), found in results.items():
        label = f"{subject}, {load}"
        peer = results.get((Rotel.name, load))
        cost = found.stored_cpu_s / found.spans * 1e6
        if subject == "freezeframe" and peer is not None:
            ratio = cost / (peer.stored_cpu_s / peer.spans * 1e6)
            add(f"{label}: CPU per stored span, ratio to rotel", ratio, "x", "<= 1", ratio <= 1)
        for name, goal in ((Phoenix.name, 50), (Mlflow.name, None)):
            other = results.get((name, load))
            if subject == "freezeframe" and other is not None:
                ratio = other.stored_cpu_s / other.spans * 1e6 / cost
                add(
                    f"{label}: cheaper than {name}", ratio, "x", f">= {goal}" if goal else None, ratio >= goal if goal else None
                )
        add(f"{label}: CPU per stored span", cost, "us")
        add(f"{label}: CPU per accepted span", found.accepted_cpu_s / found.spans * 1e6, "us")
        add(f"{label}: accepted", found.spans / found.wall_s, "spans/s")
        add(f"{label}: accepted", found.bytes / found.wall_s / 1e6, "MB/s")
        add(f"{label}: ack p50", found.ack_ms(0.5), "ms")
        add(f"{label}: ack p99", found.ack_ms(0.99), "ms")
        add(f"{label}: peak memory", found.peak_mb, "MB")
    single, batched = results.get(("freezeframe", LOADS[3].name)), results.get(("freezeframe", LOADS[1].name))
    if single is not None and batched is not None:
        ratio = single.stored_cpu_s / single.spans / (batched.stored_cpu_s / batched.spans)
        add("freezeframe: one span a request, ratio to batched per span", ratio, "x", "<= 2", ratio <= 2)
    for subject, count in lost.items():
        goal = subject.startswith("freezeframe")
        add(f"{subject}: acked spans lost at kill -9", count, "of 1000", "0" if goal else None, count == 0 if goal else None)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="rotel,phoenix,mlflow", help="comma-separated; empty measures freezeframe alone")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of requests")
    options = parser.parse_args()
    wanted = [peer for peer in options.peers.split(",") if peer]
    subjects: list[Subject] = [Ours("strict"), Ours("off"), Ours("strict", workers=2)]
    for peer, subject in (("rotel", Rotel), ("phoenix", Phoenix), ("mlflow", Mlflow)):
        if peer in wanted and install(peer):
            subjects.append(subject())
        elif peer in wanted:
            print(f"{peer}: could not be installed, left out", flush=True)
    texts = Texts(seed=7)
    results: dict[tuple[str, str], Measured] = {}
    columns = ("us/accepted", "us/stored", "spans/s", "p50 ms", "p99 ms", "MB")
    print(f"{'subject':<26} {'load':<11}" + "".join(f" {column:>11}" for column in columns))
    for load in LOADS:
        for subject in subjects:
            share = 0.2 if isinstance(subject, Phoenix | Mlflow) else 1.0  # it takes minutes for what the others do in seconds
            requests = max(2, int(load.requests * options.scale * share))
            scaled = Load(
                name=load.name, span_bytes=load.span_bytes, spans_per_request=load.spans_per_request, requests=requests
            )
            try:
                found = measure(subject, scaled, texts)
            except RuntimeError as error:
                print(f"{subject.name:<26} {load.name:<11} {error}", flush=True)
                continue
            results[subject.name, load.name] = found
            figures = (
                found.accepted_cpu_s / found.spans * 1e6,
                found.stored_cpu_s / found.spans * 1e6,
                found.spans / found.wall_s,
                found.ack_ms(0.5),
                found.ack_ms(0.99),
                found.peak_mb,
            )
            print(f"{subject.name:<26} {load.name:<11}" + "".join(f" {figure:>11.1f}" for figure in figures), flush=True)
    lost: dict[str, int] = {}
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
