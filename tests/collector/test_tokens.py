"""Who may come in, by default: whoever can read the tokens in the data directory, through every port, and no one else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from running_collector import PROTOBUF, CollectorProcess, span

from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.local_tokens import ADMIN, READER, SENDER, bearer, read_token
from freezeframe_schemas.otlp.encode import encode_traces

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

CLOSED = {"FREEZEFRAME_COLLECTOR__AUTH__OPEN_SENDERS": "false"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
NOBODY = 65534
STRANGER = """
import http.client, json, sys
data, ports = sys.argv[1], json.loads(sys.argv[2])
found = {}
for name in ("sender-token", "reader-token", "admin-token"):
    try:
        found[name] = bool(open(f"{data}/{name}").read())
    except PermissionError:
        found[name] = False
for port, method, path in (("http", "POST", "/v1/traces"), ("http", "GET", "/status"), ("clickhouse", "POST", "/")):
    connection = http.client.HTTPConnection("127.0.0.1", ports[port], timeout=300)
    connection.request(method, path, b"SELECT 1", {"content-type": "application/x-protobuf"})
    found[path] = connection.getresponse().status
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[CollectorProcess]:
    """A collector over a directory that everyone may enter, so that only the files' own modes keep others out."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        made = CollectorProcess(data, environment=CLOSED)
        os.chmod(place, 0o755)
        os.chmod(data, 0o755)
        try:
            yield made
        finally:
            made.kill()


def headers(collector: CollectorProcess, name: str | None) -> dict[str, str]:
    return bearer(read_token(collector.data, name)) if name else {}


def send(collector: CollectorProcess, shown: dict[str, str]) -> int:
    content = encode_traces([span(1)])
    return httpx.post(f"{collector.url}/v1/traces", content=content, headers=PROTOBUF | shown, timeout=300).status_code


def send_by_grpc(collector: CollectorProcess, shown: dict[str, str]) -> grpc.StatusCode:
    metadata = tuple((name.lower(), value) for name, value in shown.items())
    with grpc.insecure_channel(f"127.0.0.1:{collector.ports['grpc']}") as channel:
        _, call = channel.unary_unary(EXPORT).with_call(encode_traces([span(1)]), metadata=metadata, timeout=300)
        return call.code()


def ask(collector: CollectorProcess, shown: dict[str, str]) -> int:
    url = f"http://127.0.0.1:{collector.ports['clickhouse']}/"
    return httpx.post(url, content="SELECT 1", headers=shown, timeout=300).status_code


@pytest.mark.proof("law every port asks for its token")
def test_a_sender_without_the_token_is_refused_on_both_ports(collector: CollectorProcess) -> None:
    assert send(collector, {}) == 401
    assert send(collector, headers(collector, READER)) == 401
    for shown in ({}, bearer("a-token-of-somebody-elses")):
        with pytest.raises(grpc.RpcError) as refused:
            send_by_grpc(collector, shown)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "sender-token" in (refused.value.details() or "")
    assert send(collector, headers(collector, SENDER)) == 200
    assert send_by_grpc(collector, headers(collector, SENDER)) is grpc.StatusCode.OK


@pytest.mark.proof
def test_sql_takes_the_readers_token_and_no_other(collector: CollectorProcess) -> None:
    """By every way in which a ClickHouse client gives a password; the admin's is for the user admin."""
    assert [ask(collector, headers(collector, name)) for name in (None, SENDER, ADMIN, READER)] == [401, 401, 401, 200]
    token = read_token(collector.data, READER) or ""
    assert ask(collector, {"X-ClickHouse-User": "default", "X-ClickHouse-Key": token}) == 200
    url = f"http://default:{token}@127.0.0.1:{collector.ports['clickhouse']}/"
    assert httpx.post(url, content="SELECT 1", timeout=300).status_code == 200


@pytest.mark.proof
@pytest.mark.parametrize("path", ["/status", "/metrics"])
def test_the_pages_open_to_any_token_and_a_probe_needs_none(collector: CollectorProcess, path: str) -> None:
    statuses = [
        httpx.get(collector.url + path, headers=headers(collector, name)).status_code for name in (None, SENDER, READER)
    ]
    assert statuses == [401, 200, 200]
    assert httpx.post(f"{collector.url}/v1/flush").status_code == 401
    assert [httpx.get(f"{collector.url}{probe}").status_code for probe in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.proof
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as somebody else")
def test_another_user_of_the_machine_reads_no_token_and_gets_401(collector: CollectorProcess) -> None:
    command = ["/usr/bin/env", "python3", "-c", STRANGER, str(collector.data), json.dumps(collector.ports)]
    done = subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    closed = dict.fromkeys(("/v1/traces", "/status", "/"), 401)
    assert json.loads(done.stdout) == {SENDER: False, READER: False, ADMIN: False, **closed}


AGENT = """
import freezeframe, sys
freezeframe.instrument(endpoint=sys.argv[1], protocol=sys.argv[2], file=None)
@freezeframe.run
def answer(text):
    return text
answer("by " + sys.argv[2])
"""


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_an_agent_of_the_same_user_finds_the_token(collector: CollectorProcess, protocol: str) -> None:
    """By the data directory, and without being told."""
    port = collector.ports["grpc" if protocol == "grpc" else "http"]
    command = [sys.executable, "-c", AGENT, f"http://127.0.0.1:{port}", protocol]
    done = subprocess.run(
        command, env=os.environ | {"FREEZEFRAME_DATA": str(collector.data)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    collector.flush()
    assert [f"by {protocol}"] in collector.rows("SELECT output FROM freezeframe.runs")


def test_a_command_that_names_the_port_alone_finds_the_token(
    collector: CollectorProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREEZEFRAME_DATA", str(collector.data))
    assert open_runs(f"http://127.0.0.1:{collector.ports['clickhouse']}").sql("SELECT 1 AS one", {})[1] == [(1,)]


def test_open_senders_opens_the_senders_door_alone(data: Path) -> None:
    collector = CollectorProcess(data, "--open-senders", environment=CLOSED)
    try:
        assert (send(collector, {}), send(collector, bearer("of-another-product"))) == (200, 200)
        assert ask(collector, {}) == 401
        assert httpx.get(f"{collector.url}/status").status_code == 401
    finally:
        collector.kill()


def test_a_token_that_is_there_is_kept(data: Path) -> None:
    """Across a restart, and if someone put it there."""
    data.mkdir()
    (data / READER).write_text("chosen-by-the-operator\n")
    collector = CollectorProcess(data, environment=CLOSED)
    sender = read_token(data, SENDER)
    assert ask(collector, bearer("chosen-by-the-operator")) == 200
    collector.kill()
    again = CollectorProcess(data, environment=CLOSED)
    try:
        assert send(again, bearer(sender)) == 200
    finally:
        again.kill()
