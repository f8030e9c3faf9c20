"""Real database servers on loopback, where Debian's packages (or others) have installed them; else the test is skipped."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def none() -> Generator[str]:
    """No server."""
    yield ""


@contextmanager
def redis_server(*, wanted: bool = True) -> Generator[str]:
    """Yield the port of a Redis on loopback."""
    if not wanted:
        yield "0"
        return
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    server = subprocess.Popen([program, "--port", port, "--save", "", "--bind", "127.0.0.1"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert any("Ready to accept connections" in line for line in server.stdout)
        yield port
    finally:
        server.kill()
        server.communicate()


@contextmanager
def postgres_server() -> Generator[str]:
    """Yield the connection string of a PostgreSQL on a Unix socket."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    program = next((str(folder / "initdb") for folder in folders), shutil.which("initdb"))
    if program is None:
        pytest.skip("PostgreSQL is not installed")
    user = "postgres" if os.getuid() == 0 else None  # it refuses to run as root
    folder = tempfile.mkdtemp()
    if user:
        shutil.chown(folder, user)
    data = f"{folder}/data"
    quiet: Any = {"user": user, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    server = None
    try:
        subprocess.run([program, "-D", data, "-A", "trust", "-U", "freezeframe", "-N"], check=True, **quiet)
        arguments = ["-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        server = subprocess.Popen([str(Path(program).with_name("postgres")), *arguments], **quiet)
        ready = [str(Path(program).with_name("pg_isready")), "-h", folder, "-t", "30"]
        while subprocess.run(ready, stdout=subprocess.DEVNULL, check=False).returncode:
            assert server.poll() is None
        yield f"host={folder} user=freezeframe dbname=postgres"
    finally:
        if server is not None:
            server.send_signal(signal.SIGQUIT)
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)
