"""The whole collector as a process: the command line, real sockets, the real redactor and the real engine."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from running_collector import MODULE, CollectorProcess, Load, span

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts a collector of its own

IN_A_HURRY = {"FREEZEFRAME_COLLECTOR__WAL__FLUSH_INTERVAL_S": "0.05"}
LONG_ROUNDS = int(os.environ.get("FREEZEFRAME_KILL_ROUNDS", "200"))
LANES = 4


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """A collector that none of its tests stops."""
    collector = CollectorProcess(tmp_path_factory.mktemp("running") / "data")
    yield collector
    assert collector.stop() == 0


@pytest.mark.proof
def test_a_span_goes_from_the_wire_to_sql_redacted(data: Path) -> None:
    """What was acked is in SQL after a flush, and no file of the data directory holds the e-mail address."""
    slowly = data.parent / "slowly.toml"
    slowly.write_text("wal.flush_interval_s = 60.0")
    collector = CollectorProcess(data, "--config", str(slowly), policy="strict", readers=True)
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


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="limits of a process are read from /proc")
def test_a_crash_would_leave_no_core(running: CollectorProcess) -> None:
    """A core holds what was in memory, and so what was not redacted yet."""
    limits = Path(f"/proc/{running.pid}/limits").read_text().splitlines()
    [soft] = [line.split()[4] for line in limits if line.startswith("Max core file size")]
    assert int(soft) <= 1


@pytest.mark.proof("law acked spans survive a stop")
def test_a_stop_under_load_stores_all_that_was_acked(data: Path) -> None:
    """SIGTERM between requests of eight senders: each ack, the last ones too, is for a span that is stored at the exit.

    The exit code says that all is stored, and the log is empty.
    """
    collector = CollectorProcess(data)
    load = Load(collector.ports["http"], itertools.count(), senders=8)  # without end, however fast they are
    while len(load.acked) < 500:
        time.sleep(0.01)
    assert collector.stop() == 0
    load.join()
    assert list((data / "wal").glob("*.wal")) == list((data / "wal").glob("*.open")) == []
    assert not (data / "ports.json").exists()
    again = CollectorProcess(data)
    stored = {int(name[5:]) for (name,) in again.rows("SELECT name FROM freezeframe.spans")}
    audit = again.status()["audit"]
    assert again.stop() == 0
    assert set(load.acked) <= stored
    assert (audit["missing"], audit["in_log"]) == (0, 0)


def test_a_reload_under_load_loses_nothing_and_applies(data: Path, tmp_path: Path) -> None:
    """SIGHUP while senders send: new limits and a new policy hold from then on, without a restart of the process.

    A file with faults changes nothing; a setting that needs a restart is named.
    """
    file = tmp_path / "collector.toml"
    file.write_text("")
    environment = {"FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": "2"}
    collector = CollectorProcess(data, "--config", str(file), environment=environment)
    log = data / "stderr.txt"

    def reload(text: str, expected: str) -> None:
        file.write_text(text)
        collector.process.send_signal(signal.SIGHUP)
        while expected not in log.read_text():  # the test's own time limit bounds it
            time.sleep(0.02)

    load = Load(collector.ports["http"], range(2_500), senders=4)
    reload("[limits]\nattributes = 0", "not reloaded: the configuration has faults")
    reload("[limits]\nattributes = 2\n[wal]\nflush_interval_s = 0.5", "need a restart: wal.flush_interval_s")
    load.join()
    wide = span(900_000).with_attributes({"third": "x"})
    answer = ExportTraceServiceResponse.FromString(collector.post([wide, span(900_001)]).content)
    assert answer.partial_success.rejected_spans == 1
    assert "the span has 3 attributes, the limit is 2" in answer.partial_success.error_message
    collector.flush()
    stored = {int(name[5:]) for (name,) in collector.rows("SELECT name FROM freezeframe.spans")}
    assert {*load.acked, 900_001} <= stored
    assert len(load.acked) > 0
    assert collector.status()["audit"]["missing"] == 0
    assert collector.status()["since_start"]["reloads_failed"] == 1
    assert [worker["restarts"] for worker in collector.status()["workers"]] == [0, 0]
    assert collector.stop() == 0


def test_a_client_that_goes_away_or_sends_no_http_is_one_line_and_no_error(running: CollectorProcess) -> None:
    """Half a body, half a body in chunks, a chunk with an invalid size: senders that are killed, and scanners."""
    head = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
    chunked, waits = b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n"
    log = running.data / "stderr.txt"
    for first, then, told in (
        (waits + b"Content-Length: 100\r\n\r\n", b"abc", "disconnected in the middle"),
        (waits + chunked + b"\r\n", b"5\r\nab", "disconnected in the middle"),
        (chunked + b"\r\nsize\r\nabc", b"", "sent invalid HTTP"),
    ):
        before = log.read_text().count(told)
        with socket.create_connection(("127.0.0.1", running.ports["http"]), timeout=300) as client:
            client.sendall(head + first)
            assert client.recv(100).split()[1] == (b"100" if then else b"400")
            client.sendall(then)
        while log.read_text().count(told) == before:  # the test's own time limit bounds it
            time.sleep(0.01)
    assert running.post([span(1)]).status_code == 200
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert [line for line in lines if line["level"] == "error" or "error" in line] == []


def test_a_server_that_is_down_does_not_keep_the_collector_from_starting(data: Path, tmp_path: Path) -> None:
    """Spans are acked from the log; a stop says that they are still there, and another store gets them later."""
    away = tmp_path / "away.toml"
    away.write_text('service.shutdown_s = 2.0\nstore.dsn = "clickhouse://user:secret@127.0.0.1:1/freezeframe"\n')
    collector = CollectorProcess(data, "--config", str(away))
    assert collector.ports["clickhouse"] == 0
    assert collector.post([span(1)]).status_code == 200
    assert collector.status()["audit"]["in_log"] == 1
    assert collector.stop() == 4
    assert "secret" not in (data / "stderr.txt").read_text()
    again = CollectorProcess(data)
    again.flush()
    assert again.rows("SELECT name FROM freezeframe.spans") == [["span-1"]]
    assert again.stop() == 0


def test_a_second_collector_on_the_directory_is_refused(running: CollectorProcess) -> None:
    """The message names the process that holds it; the first goes on."""
    command = [sys.executable, *MODULE, "--data", str(running.data)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert second.returncode == 2
    assert f"process {running.pid}" in second.stderr
    assert running.post([span(1)]).status_code == 200


def test_a_taken_port_is_named(running: CollectorProcess, tmp_path: Path) -> None:
    """The message says which port, who has it and which option changes it; also with a full log and several workers."""
    away = tmp_path / "away.toml"
    away.write_text('service.shutdown_s = 1.0\nstore.dsn = "clickhouse://127.0.0.1:1/freezeframe"\n')
    backlog = CollectorProcess(tmp_path / "other", "--config", str(away))
    assert backlog.post([span(number) for number in range(200)]).status_code == 200
    backlog.kill()
    for name, workers in (("http", "1"), ("grpc", "2"), ("clickhouse", "1")):
        ports = {"http": 0, "grpc": 0, "clickhouse": 0, name: running.ports[name]}
        options = [text for option, port in ports.items() for text in (f"--{option}-port", str(port))]
        second = subprocess.run(
            [sys.executable, *MODULE, "--data", str(tmp_path / "other"), *options],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": workers},
        )
        assert second.returncode == 2
        assert f"{name}.port: cannot listen on 127.0.0.1:{ports[name]}: it is taken by pid" in second.stderr
        assert f"--{name}-port" in second.stderr


@pytest.mark.parametrize(
    ("rounds", "lanes"),
    [
        pytest.param(4, 1, marks=pytest.mark.timeout(600)),
        pytest.param(LONG_ROUNDS, LANES, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
def test_kill_9_under_load_loses_nothing_acked_and_doubles_nothing(tmp_path: Path, rounds: int, lanes: int) -> None:
    """Killed at random moments, restarted each time, and sent again what was not acked: every acked span is there once.

    The short flush interval makes inserts and merges as frequent as requests, so that the kills meet all of them; every fourth
    collector has worker processes. The rounds are shared by lanes, each in its own directory, to save time.
    """
    with ThreadPoolExecutor(lanes) as pool:
        played = [pool.submit(_kill_again_and_again, tmp_path / f"lane-{lane}", rounds // lanes, lane) for lane in range(lanes)]
    assert [lane.result() for lane in played] == [rounds // lanes] * lanes


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_kill_9_and_another_number_of_workers_on_the_same_ports(tmp_path: Path, rounds: int) -> None:
    """One and two in turn: the connections that a killed collector leaves do not keep the next from its ports."""
    assert _kill_again_and_again(tmp_path / "data", rounds, 0, changing=True) == rounds


def _kill_again_and_again(data: Path, rounds: int, seed: int, *, changing: bool = False) -> int:
    """Play the rounds of one lane, look at what is stored in the end, and return how many kills there were.

    `changing`: each collector has another number of workers than the one before, and its ports; its readers keep none.
    """
    ports: tuple[str, ...] = ()
    chance = random.Random(seed)
    acked: set[int] = set()
    unsure: list[int] = []
    following = kills = 0
    for number in range(rounds):
        workers = "2" if number % (2 if changing else 4) == (1 if changing else 3) else "1"
        environment = IN_A_HURRY | {"FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": workers}
        collector = CollectorProcess(data, *ports, environment=environment, readers=changing)
        if changing:
            ports = ("--http-port", str(collector.ports["http"]), "--grpc-port", str(collector.ports["grpc"]))
        # An idle connection: the collector's end of it is closed first.
        idle = socket.create_connection(("127.0.0.1", collector.ports["http"]), timeout=300)
        fresh = list(range(following, following + 1500))
        following += 1500
        load = Load(collector.ports["http"], unsure + fresh)
        time.sleep(chance.uniform(0.02, 1.2))
        collector.kill()
        idle.close()
        kills += 1
        load.join()
        acked.update(load.acked)
        unsure = [number for number in unsure + fresh if number not in acked]
        # A sender gives up in the end; the last few it was unsure of it sends again.
        unsure = unsure[:200]
    collector = CollectorProcess(data, *ports)
    try:
        collector.flush()
        stored = Counter(int(name[5:]) for (name,) in collector.rows("SELECT name FROM freezeframe.spans"))
        merged = "SELECT toUInt32(count()) FROM system.parts WHERE database = 'freezeframe' AND level > 0"
        [[merged_parts]] = collector.rows(merged)
        status = collector.status()
    finally:
        code = collector.stop()
    assert code == 0
    assert acked - set(stored) == set()
    assert [number for number, count in stored.items() if count > 1] == []
    assert status["audit"]["missing"] == status["audit"]["in_log"] == 0
    assert status["audit"]["stored"] == sum(stored.values())
    assert len(acked) > 0
    assert rounds < 20 or merged_parts > 0
    return kills
