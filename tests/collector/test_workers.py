"""Several processes that receive: one log behind them, and nothing lost when one of them dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from running_collector import MODULE, CollectorProcess, Load, span

from freezeframe_collector.batch import Batch, EncodedSpan
from freezeframe_collector.store import Rejected
from freezeframe_collector.workers.channel import pack_batch, unpack_batch
from freezeframe_schemas.otlp.encode import encode_traces

TWO = {"FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": "2"}


def gone(pid: int) -> bool:
    """Return whether the process has ended."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until_gone(pids: list[int]) -> None:
    """Wait until none of the processes is there; the test's own time limit bounds it."""
    while not all(gone(pid) for pid in pids):
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_spans_through_several_workers_are_in_one_log(data: Path) -> None:
    """Both transports and many connections; the pages are the whole collector's, whichever worker answers them."""
    collector = CollectorProcess(data, environment=TWO)
    load = Load(collector.ports["http"], range(1000), senders=8)
    load.join()
    assert len(load.acked) == 1000
    with grpc.insecure_channel(f"127.0.0.1:{collector.ports['grpc']}") as channel:
        send = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        answer = ExportTraceServiceResponse.FromString(send(encode_traces([span(1000), span(0)]), timeout=120))
    assert not answer.HasField("partial_success")
    collector.flush()
    assert collector.rows("SELECT toUInt32(count()) FROM freezeframe.spans") == [[1001]]
    status = collector.status()
    for _ in range(8):  # each on a separate connection, so that each worker answers some
        assert collector.status()["audit"] == status["audit"]
        assert (
            "freezeframe_collector_spans_stored_total 1001"
            in httpx.get(f"{collector.url}/metrics", headers=collector.reader).text
        )
        assert httpx.get(f"{collector.url}/readyz").status_code == 200
    audit = status["audit"]
    assert (audit["received"], audit["duplicate"], audit["stored"]) == (1002, 1, 1001)
    assert audit["missing"] == audit["in_log"] == audit["rejected"] == 0
    workers = [worker["pid"] for worker in status["workers"]]
    assert len(set(workers)) == 2
    assert collector.stop() == 0
    assert all(gone(pid) for pid in workers)


@pytest.mark.proof("law acked spans survive a killed worker")
@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_worker_that_is_killed_loses_nothing_acked_and_is_replaced(data: Path) -> None:
    """Killed in the middle of requests: the other goes on, what was acked is stored, and the books balance."""
    collector = CollectorProcess(data, environment=TWO)
    acked: set[int] = set()
    left = list(range(3000))
    killed: list[int] = []
    for _ in range(3):
        load = Load(collector.ports["http"], left, senders=6)
        while len(load.acked) < 100 and load.is_sending:
            time.sleep(0.01)
        victim = collector.status()["workers"][0]["pid"]
        if victim not in killed:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
        load.join()
        acked.update(load.acked)
        left = [number for number in left if number not in acked]
    while left:  # senders try again, as exporters do
        load = Load(collector.ports["http"], left)
        load.join()
        acked.update(load.acked)
        left = [number for number in left if number not in acked]
    while (status := collector.status())["workers"][0]["pid"] in killed:
        time.sleep(0.05)
    assert status["workers"][0]["restarts"] >= 1
    collector.flush()
    assert collector.rows("SELECT toUInt32(count()), toUInt32(uniqExact(span_id)) FROM freezeframe.spans") == [[3000, 3000]]
    audit = collector.status()["audit"]
    assert audit["missing"] == audit["in_log"] == 0
    assert audit["stored"] == 3000
    assert collector.stop() == 0


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_workers_end_with_the_process_that_owns_the_log(data: Path) -> None:
    """After a kill -9 of the owner no worker is left on the ports, and another collector starts over the directory."""
    collector = CollectorProcess(data, environment=TWO)
    workers = [worker["pid"] for worker in collector.status()["workers"]]
    assert collector.post([span(1)]).status_code == 200
    collector.kill()
    wait_until_gone(workers)
    again = CollectorProcess(data)
    again.flush()
    assert again.rows("SELECT name FROM freezeframe.spans") == [["span-1"]]
    assert again.stop() == 0


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_workers_redact_alike(data: Path) -> None:
    """One key for all: the same value has the same surrogate, whichever worker met it, and no file holds the value."""
    collector = CollectorProcess(data, policy="strict", environment=TWO)
    for number in range(12):  # each on a separate connection
        assert collector.post([span(number, text="write to jane.roe@example.com please")]).status_code == 200
    collector.flush()
    texts = collector.rows("SELECT uniqExact(toJSONString(attributes)), toUInt32(count()) FROM freezeframe.spans")
    assert texts[0][1] == 12
    [[stored]] = collector.rows(
        "SELECT groupUniqArray(extract(toJSONString(tuple(*)), 'write to ([^ ]+) ')) FROM freezeframe.spans"
    )
    assert len(stored) == 1
    assert "@" in stored[0]
    assert collector.stop() == 0
    assert b"jane.roe@example.com" not in b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_port_that_another_program_shares_is_taken_all_the_same(tmp_path: Path) -> None:
    """Workers share their ports among themselves and with no one else."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        arguments = ["--data", str(tmp_path / "data"), "--http-port", port, "--grpc-port", "0", "--clickhouse-port", "0"]
        refused = subprocess.run(
            [sys.executable, *MODULE, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, **TWO},
        )
    assert refused.returncode == 2
    assert f"http.port: cannot listen on 127.0.0.1:{port}" in refused.stderr


_pieces = st.builds(
    EncodedSpan,
    key=st.integers(0, (1 << 64) - 1),
    span=st.binary(max_size=40),
    scope=st.sampled_from([b"", b"scope", b"other scope"]),
    resource=st.sampled_from([b"", b"resource", b"other"]),
)
_reasons = st.builds(
    Rejected,
    trace_id=st.text(max_size=4),
    span_id=st.text(max_size=4),
    name=st.just(""),
    reason=st.text(max_size=9),
    detail=st.text(max_size=9),
    time_unix_nano=st.integers(0, 1 << 62),
    tenant=st.text(max_size=4),
)


@given(st.lists(_pieces, max_size=8), st.lists(_reasons, max_size=3))
def test_a_batch_survives_the_way_to_the_owner(pieces: list[EncodedSpan], reasons: list[Rejected]) -> None:
    """Keys, spans, their resources and scopes, and the rejected: all unchanged, in order."""
    batch = Batch(encoded=pieces, spans=None, rejected=tuple(reasons))
    assert unpack_batch(pack_batch(batch)) == batch
