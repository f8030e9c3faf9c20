"""A collector as a separate process, with real sockets, and senders that remember what it acked."""

from __future__ import annotations

import atexit
import functools
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from freezeframe_redaction.keyring.keys import keys_apart, load_or_create_keys
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import Resource, Scope, SpanRecord

MODULE = ["-m", "freezeframe_collector"]
COMMAND = [sys.executable, *MODULE]  # Python itself, also where `warm_python` stands in for it
_ANSWERS_ITSELF = str(Path(__file__).with_name("readers_here.py"))
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


@functools.cache
def _empty_store() -> Path:
    """Return an embedded store with all tables and no rows. Another process makes it: an engine opens one store."""
    folder = Path(tempfile.mkdtemp(prefix="freezeframe-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = "import sys; from freezeframe_collector.store import open_store as o; s = o(sys.argv[1]); s.migrate(); s.close()"
    subprocess.run([COMMAND[0], "-c", program, f"chdb://{folder / 'store'}"], check=True)
    return folder / "store"


class CollectorProcess:
    """A collector process over a data directory, on free ports; a fork of `warm_python` if the test's module asks for that.

    It finds tables and a key there already: to make the tables takes most of a second. `freezeframe up` makes both itself.
    It answers statements in its own process, unless the test is about a collector with `readers`.
    """

    def __init__(
        self,
        data: Path,
        *arguments: str,
        policy: str = "off",
        environment: Mapping[str, str] | None = None,
        readers: bool = False,
    ) -> None:
        self.data = data
        ports = data / "ports.json"
        ports.unlink(missing_ok=True)
        data.mkdir(parents=True, exist_ok=True)
        if not (data / "store").exists():
            load_or_create_keys(keys_apart(data, KEYS))
            shutil.copytree(_empty_store(), data / "store", symlinks=True)
        self.stderr = (data / "stderr.txt").open("ab")
        free_ports = ("--grpc-port", "0", "--http-port", "0", "--clickhouse-port", "0")
        program = MODULE if readers else [_ANSWERS_ITSELF]
        command = [sys.executable, *program, "--data", str(data), *free_ports, *arguments]
        # Compiling the strict policy takes seconds: only the test of redaction needs it.
        # Senders of most tests are other people's SDKs and raw sockets: tests/collector/test_tokens.py is about the token.
        settings = {"REDACTION__POLICY": policy, "AUTH__OPEN_SENDERS": "true"}
        variables = os.environ | {f"FREEZEFRAME_COLLECTOR__{name}": value for name, value in settings.items()}
        variables |= environment or {}
        self.process = subprocess.Popen(command, stderr=self.stderr, env=variables)
        while not ports.exists():
            if self.process.poll() is not None:
                raise AssertionError((data / "stderr.txt").read_text()[-3000:])
            time.sleep(0.01)
        self.ports: dict[str, Any] = json.loads(ports.read_text())
        self.pid: int = self.ports["pid"]
        self.url = f"http://127.0.0.1:{self.ports['http']}"
        self.reader = bearer(read_token(data, READER))
        """The header that opens what is read."""
        password = read_token(data, READER) or ""
        self.store_url = f"http://default:{password}@127.0.0.1:{self.ports['clickhouse']}"

    def post(self, spans: Sequence[SpanRecord]) -> httpx.Response:
        """Send the spans over HTTP."""
        return httpx.post(f"{self.url}/v1/traces", content=encode_traces(spans), headers=PROTOBUF, timeout=400)

    def flush(self) -> None:
        """Wait until all that was acked is in the store."""
        # Minutes, for the backlog of two hundred killed processes; an idle collector answers within its flush interval.
        answer = httpx.post(f"{self.url}/v1/flush?timeout_s=300", headers=self.reader, timeout=330)
        assert answer.json() == {"flushed": True}

    def status(self) -> dict[str, Any]:
        """Return the status page."""
        return httpx.get(f"{self.url}/status", headers=self.reader, timeout=400).json()

    def rows(self, sql: str) -> list[list[Any]]:
        """Ask the store through the ClickHouse protocol."""
        url = f"http://127.0.0.1:{self.ports['clickhouse']}/"
        answer = httpx.post(url, content=f"{sql} FORMAT JSONCompactEachRow", headers=self.reader, timeout=400)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def kill(self) -> None:
        """End it as a power button would."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()
        self.stderr.close()

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(300)
        self.stderr.close()
        return code


class Load:
    """Senders that go on until the collector is gone, and remember what it acked."""

    def __init__(self, port: int, numbers: Iterable[int], senders: int = 4) -> None:
        self.acked: list[int] = []
        self._port = port
        self._lock = threading.Lock()
        self._left = iter(numbers)
        self._threads = [threading.Thread(target=self._send) for _ in range(senders)]
        for thread in self._threads:
            thread.start()

    @property
    def is_sending(self) -> bool:
        """Return whether a sender has more to send."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for the senders."""
        for thread in self._threads:
            thread.join()

    def _take(self) -> list[int]:
        with self._lock:
            return list(islice(self._left, 20))

    def _send(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=400)
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
