"""What `bench_collector` measures: freezeframe's collector and those that others use, each started on an empty directory.

Peers are installed from the package index, each into an environment of its own below ``.freezeframe``.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Protocol

from freezeframe_schemas.local_tokens import SENDER, bearer, read_token

HERE = Path(__file__).parent
PEERS = Path(".freezeframe") / "bench-peers"


class Subject(Protocol):
    """A collector with its store."""

    name: str
    port: int
    headers: dict[str, str]
    """What its requests need besides the content type."""
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
    """Return a port that no one listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_port(port: int, timeout_s: float = 240.0) -> None:
    """Wait until something listens."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}")


def get(url: str, headers: dict[str, str] | None = None) -> bytes:
    """Return the body of a GET."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=60) as answer:
        return answer.read()


class Peer:
    """A collector in processes of its own."""

    def __init__(self) -> None:
        self.port = 0
        self.headers: dict[str, str] = {}
        self.processes: list[subprocess.Popen[bytes]] = []


class Ours(Peer):
    """freezeframe-collector with the embedded store."""

    def __init__(self, policy: str, workers: int = 1) -> None:
        super().__init__()
        several = f", {workers} workers" if workers > 1 else ""
        self.name = ("freezeframe" if policy == "strict" else f"freezeframe, policy {policy}") + several
        self._workers = workers
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
        self.headers = bearer(read_token(directory, SENDER))

    def stored(self) -> int:
        url = f"http://127.0.0.1:{self.port}"
        request = urllib.request.Request(f"{url}/v1/flush?timeout_s=300", method="POST", headers=self.headers)
        with urllib.request.urlopen(request, timeout=330):
            audit = json.loads(get(f"{url}/status", self.headers))["audit"]
        if audit["rejected"] or audit["missing"]:
            raise RuntimeError(f"{audit['rejected']} spans rejected, {audit['missing']} unaccounted for: no figure can be had")
        return int(audit["stored"])

    def stored_after_kill(self, directory: Path) -> int:
        self.start(directory)
        return self.stored()


class Rotel(Peer):
    """rotel (Rust), writing to a ClickHouse endpoint over the same engine as this collector's."""

    name = "rotel + ClickHouse"

    def __init__(self) -> None:
        super().__init__()
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
        # Only rotel was killed. Only what reached its store is left: it keeps nothing on disk to start again from.
        time.sleep(2.0)
        return self.stored()


class Phoenix(Peer):
    """Arize Phoenix with its default store, SQLite."""

    name = "phoenix"

    def __init__(self) -> None:
        super().__init__()
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


class Mlflow(Peer):
    """MLflow's tracking server with SQLite."""

    name = "mlflow"

    def __init__(self) -> None:
        super().__init__()
        self.headers = {"x-mlflow-experiment-id": "0"}
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
    """Return the command of an installed peer; rotel's is in its package."""
    home, name = PEERS.absolute() / peer, _BINARIES[peer]
    inside = sorted(home.glob(f"lib/*/site-packages/*/{name}"))
    return inside[0] if inside else home / "bin" / name


def install(peer: str) -> bool:
    """Install a peer into a separate environment; return whether its command is there."""
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
