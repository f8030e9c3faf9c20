"""The whole collector as a process: the command line, real sockets, the real redactor and the real engine."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from freezeframe_collector.otlp import encode_traces
from freezeframe_schemas.span import Resource, Scope, SpanRecord

pytestmark = pytest.mark.long  # each test starts a collector of its own

COMMAND = [sys.executable, "-m", "freezeframe_collector"]
LONG_ROUNDS = int(os.environ.get("FREEZEFRAME_KILL_ROUNDS", "200"))
PROTOBUF = {"content-type": "application/x-protobuf"}
RESOURCE, SCOPE = Resource(attributes={"service.name": "orders"}), Scope(name="test")


def span(number: int, text: str = "hello") -> SpanRecord:
    """Return a span whose number makes its ids."""
    return SpanRecord(
        trace_id=f"{number // 7 + 1:032x}",
        span_id=f"{number + 1:016x}",
        name=f"span-{number}",
        start_time_unix_nano=1_780_000_000_000_000_000 + number * 1_000_000,
        end_time_unix_nano=1_780_000_000_000_500_000 + number * 1_000_000,
        attributes={"number": number, "text": text},
        resource=RESOURCE,
        scope=SCOPE,
    )


class Process:
    """A collector process over a data directory, on free ports."""

    def __init__(self, data: Path, *arguments: str, policy: str = "off") -> None:
        self.data = data
        ports = data / "ports.json"
        ports.unlink(missing_ok=True)
        data.mkdir(parents=True, exist_ok=True)
        self.stderr = (data / "stderr.txt").open("ab")
        free_ports = ("--grpc-port", "0", "--http-port", "0", "--clickhouse-port", "0")
        command = [*COMMAND, "--data", str(data), *free_ports, *arguments]
        # Compiling the strict policy takes seconds: only the test of redaction needs it.
        environment = {**os.environ, "FREEZEFRAME_COLLECTOR__REDACTION__POLICY": policy}
        self.process = subprocess.Popen(command, stderr=self.stderr, env=environment)
        while not ports.exists():
            if self.process.poll() is not None:
                raise AssertionError((data / "stderr.txt").read_text()[-3000:])
            time.sleep(0.01)
        self.ports: dict[str, Any] = json.loads(ports.read_text())
        self.url = f"http://127.0.0.1:{self.ports['http']}"

    def post(self, spans: Sequence[SpanRecord]) -> httpx.Response:
        """Send the spans over HTTP."""
        return httpx.post(f"{self.url}/v1/traces", content=encode_traces(spans), headers=PROTOBUF, timeout=60)

    def flush(self) -> None:
        """Wait until all that was acked is in the store."""
        # Minutes, for the backlog of two hundred killed processes; an idle collector answers within its flush interval.
        answer = httpx.post(f"{self.url}/v1/flush?timeout_s=300", timeout=330)
        assert answer.json() == {"flushed": True}

    def status(self) -> dict[str, Any]:
        """Return the status page."""
        return httpx.get(f"{self.url}/status", timeout=60).json()

    def rows(self, sql: str) -> list[list[Any]]:
        """Ask the store through the ClickHouse protocol."""
        url = f"http://127.0.0.1:{self.ports['clickhouse']}/"
        answer = httpx.post(url, content=f"{sql} FORMAT JSONCompactEachRow", timeout=60)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def kill(self) -> None:
        """End it as a power button would."""
        self.process.kill()
        self.process.wait()
        self.stderr.close()

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.stderr.close()
        return code


@pytest.fixture
def data(tmp_path: Path) -> Generator[Path]:
    """Return a data directory; a collector that still runs over it is ended."""
    directory = tmp_path / "data"
    yield directory
    ports = directory / "ports.json"
    if ports.exists():
        try:
            os.kill(json.loads(ports.read_text())["pid"], signal.SIGKILL)
        except ProcessLookupError:
            return


def test_a_span_goes_from_the_wire_to_sql_redacted(data: Path) -> None:
    """What was acked is in SQL after a flush, and no file of the data directory holds the e-mail address."""
    slowly = data.parent / "slowly.toml"
    slowly.write_text("wal.flush_interval_s = 60.0")
    collector = Process(data, "--config", str(slowly), policy="strict")
    assert collector.post([span(1, text="write to jane.roe@example.com please")]).status_code == 200
    logged = b"".join(path.read_bytes() for path in (data / "wal").iterdir())
    assert b"write to " in logged
    collector.flush()
    assert collector.rows("SELECT name FROM freezeframe.spans") == [["span-1"]]
    [[stored]] = collector.rows("SELECT toJSONString(tuple(*)) FROM freezeframe.spans")
    assert "write to " in stored
    assert collector.stop() == 0
    everything = stored.encode() + logged + b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert b"jane.roe@example.com" not in everything


def test_a_graceful_stop_stores_everything(data: Path) -> None:
    """SIGTERM right after the ack: the exit code says that all is stored, and the log is empty."""
    collector = Process(data)
    for start in range(0, 100, 10):
        assert collector.post([span(number) for number in range(start, start + 10)]).status_code == 200
    assert collector.stop() == 0
    assert list((data / "wal").glob("*.wal")) == list((data / "wal").glob("*.open")) == []
    assert not (data / "ports.json").exists()
    again = Process(data)
    assert again.rows("SELECT toUInt32(count()) FROM freezeframe.spans") == [[100]]
    again.stop()


def test_a_server_that_is_down_does_not_keep_the_collector_from_starting(data: Path, tmp_path: Path) -> None:
    """Spans are acked from the log; a stop says that they are still there, and another store gets them later."""
    away = tmp_path / "away.toml"
    away.write_text('service.shutdown_s = 2.0\nstore.dsn = "clickhouse://user:secret@127.0.0.1:1/freezeframe"\n')
    collector = Process(data, "--config", str(away))
    assert collector.ports["clickhouse"] == 0
    assert collector.post([span(1)]).status_code == 200
    assert collector.status()["audit"]["in_log"] == 1
    assert collector.stop() == 4
    assert "secret" not in (data / "stderr.txt").read_text()
    again = Process(data)
    again.flush()
    assert again.rows("SELECT name FROM freezeframe.spans") == [["span-1"]]
    assert again.stop() == 0


def test_a_second_collector_on_the_directory_is_refused(data: Path) -> None:
    """The message names the process that holds it; the first goes on."""
    collector = Process(data)
    second = subprocess.run([*COMMAND, "--data", str(data)], capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2
    assert f"process {collector.process.pid}" in second.stderr
    assert collector.post([span(1)]).status_code == 200
    assert collector.stop() == 0


def test_a_taken_port_is_named(data: Path, tmp_path: Path) -> None:
    """The message says which port and which option changes it."""
    collector = Process(data)
    port = str(collector.ports["http"])
    arguments = ["--data", str(tmp_path / "other"), "--http-port", port, "--grpc-port", "0", "--clickhouse-port", "0"]
    second = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2
    assert port in second.stderr
    assert "--http-port" in second.stderr
    assert collector.stop() == 0


class _Load:
    """Senders that go on until the collector is gone, and remember what it acked."""

    def __init__(self, port: int, numbers: Sequence[int], senders: int = 4) -> None:
        self.acked: list[int] = []
        self._port = port
        self._lock = threading.Lock()
        self._left = list(reversed(numbers))
        self._threads = [threading.Thread(target=self._send) for _ in range(senders)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the senders."""
        for thread in self._threads:
            thread.join()

    def _take(self) -> list[int]:
        with self._lock:
            taken = self._left[-20:]
            del self._left[-20:]
            return taken

    def _send(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            while numbers := self._take():
                body = encode_traces([span(number) for number in numbers])
                connection.request("POST", "/v1/traces", body, PROTOBUF)
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    with self._lock:
                        self.acked.extend(numbers)
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(5, marks=pytest.mark.timeout(600)),
        pytest.param(LONG_ROUNDS, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
def test_kill_9_under_load_loses_nothing_acked_and_doubles_nothing(data: Path, rounds: int) -> None:
    """Killed at random moments, restarted each time, and sent again what was not acked: every acked span is there once."""
    chance = random.Random(rounds)
    acked: set[int] = set()
    unsure: list[int] = []
    following = 0
    for _ in range(rounds):
        collector = Process(data)
        fresh = list(range(following, following + 4000))
        following += 4000
        load = _Load(collector.ports["http"], unsure + fresh)
        time.sleep(chance.uniform(0.02, 1.2))
        collector.kill()
        load.join()
        acked.update(load.acked)
        unsure = [number for number in unsure + fresh if number not in acked]
        # A sender gives up in the end; the last few it was unsure of it sends again.
        unsure = unsure[:200]
    collector = Process(data)
    collector.flush()
    stored = Counter(int(name[5:]) for (name,) in collector.rows("SELECT name FROM freezeframe.spans"))
    status = collector.status()
    assert collector.stop() == 0
    assert acked - set(stored) == set()
    assert [number for number, count in stored.items() if count > 1] == []
    assert status["audit"]["missing"] == status["audit"]["in_log"] == 0
    assert status["audit"]["stored"] == sum(stored.values())
    assert len(acked) > 0
