"""A real collector that is killed again and again under an agent with a spool: each span is stored."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from running_collector import CollectorProcess

import freezeframe
from freezeframe import _instrument, seams
from freezeframe._config import load_settings
from freezeframe.export.tracing import make_provider

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

_CALLS = 120
_MANY = (pytest.mark.soak, pytest.mark.timeout(3600))
_PORTS = {"http/protobuf": "http", "grpc": "grpc"}


@freezeframe.tool
def work(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("protocol", "kills"),
    [
        ("http/protobuf", 1),
        ("grpc", 1),
        pytest.param("http/protobuf", 50, marks=_MANY),
        pytest.param("grpc", 50, marks=_MANY),
    ],
)
def test_no_span_is_lost_however_often_the_collector_is_killed(
    protocol: str, kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at a random call; the agent goes on, and what it could not send waits on the disk until the next one is up.

    What one of them took and did not ack is sent again: such a span may be stored twice, and counts as one.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    chance = random.Random(kills)
    data = tmp_path / "data"
    collector = CollectorProcess(data)
    ports = [text for name in ("http", "grpc") for text in (f"--{name}-port", str(collector.ports[name]))]
    spool = str(tmp_path / "spool")
    given = {"endpoint": f"http://127.0.0.1:{collector.ports[_PORTS[protocol]]}", "protocol": protocol, "spool": spool}
    timing = {"root": "never", "batch_interval_s": 0.01, "export_timeout_s": 1.0}
    settings = load_settings({**given, **timing}, environ={})
    exporter = _instrument.make_spooling_exporter(settings, spool)
    handle = _instrument.start_recording(settings, exporter, provider=make_provider("shop"), environment=dict)
    seams.install()
    try:
        for _ in range(kills):
            fatal, is_reached = chance.randrange(_CALLS - 20), threading.Event()
            agent = threading.Thread(target=_call, args=(handle, fatal, is_reached))
            agent.start()
            is_reached.wait()
            collector.kill()
            agent.join()
            collector = CollectorProcess(data, *ports)
        handle.uninstrument()
        assert handle.counts is not None
        assert handle.counts.lost == 0 < handle.counts.spooled
        later = _instrument.make_spooling_exporter(settings, spool)  # what a later process does
        later.drain()
        later.close()
        collector.flush()
        [[stored]] = collector.rows("SELECT toUInt32(uniqExact(span_id)) FROM freezeframe.spans WHERE name LIKE '%work'")
    finally:
        handle.uninstrument()
        collector.stop()
    assert stored == kills * _CALLS


def _call(handle: freezeframe.Handle, fatal: int, is_reached: threading.Event) -> None:
    for number in range(_CALLS):
        if number == fatal:
            is_reached.set()
        work(number)
        if number % 7 == 0:
            handle.flush(10)
