"""Drivers whose work Python's audit hook does not see: real ones, each against a port where nobody answers, or no server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import freezeframe
from freezeframe.seams.unmarked.drivers import QUERIES
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long  # imports drivers

CONNECT: dict[str, Callable[[Any, int, Path], Any]] = {
    "psycopg2": lambda driver, port, _: driver.connect(host="127.0.0.1", port=port, user="u", password="not seen"),
    "MySQLdb": lambda driver, port, _: driver.connect(host="127.0.0.1", port=port, user="u"),
    "mariadb": lambda driver, port, _: driver.connect(host="127.0.0.1", port=port, user="u"),
    "oracledb": lambda driver, port, _: driver.connect(user="u", password="p", dsn=f"127.0.0.1:{port}/x"),
    "pyodbc": lambda driver, port, _: driver.connect(f"DRIVER=none;SERVER=127.0.0.1,{port}"),
    "pymssql": lambda driver, port, _: driver.connect(server="127.0.0.1", port=str(port), user="u", login_timeout=3),
    "ibm_db": lambda driver, port, _: driver.connect(f"DATABASE=d;HOSTNAME=127.0.0.1;PORT={port};UID=u;PWD=p;", "", ""),
    "curl_cffi": lambda driver, port, _: driver.requests.get(f"http://127.0.0.1:{port}", timeout=3),
    "pylibmc": lambda driver, port, _: driver.Client([f"127.0.0.1:{port}"]).get("key"),
    "duckdb": lambda driver, _, folder: driver.connect(str(folder / "orders.duckdb")),
    "chdb": lambda driver, _, __: driver.query("SELECT 1"),
    "lmdb": lambda driver, _, folder: driver.open(str(folder / "orders")),
    "kuzu": lambda driver, _, folder: driver.Database(str(folder / "orders.kuzu")),
}
"""Module -> what connects by it, given the module, a port and a folder. Those that are not installed are skipped."""
PROGRAM = """
import os
import psycopg2
import freezeframe
freezeframe.instrument()

@freezeframe.run
def answer(question):
    try:
        psycopg2.connect(host="127.0.0.1", port=int(os.environ["PORT"]), user="u")
    except psycopg2.Error:
        return question

if __name__ == "__main__":
    answer("where?")
"""


@freezeframe.run
def agent(name: str, port: int, folder: str) -> None:
    """Connect in unmarked code."""
    driver = importlib.import_module(name)
    with contextlib.suppress(Exception):  # nobody answers
        CONNECT[name](driver, port, Path(folder))


@contextlib.contextmanager
def hangs_up() -> Generator[tuple[int, list[object]]]:
    """Give a port that accepts connections and closes them, and the list of their addresses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        seen: list[object] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, address = server.accept()
                    seen.append(address)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1], seen
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.proof
@pytest.mark.parametrize("name", CONNECT)
def test_what_a_run_reaches_by_a_driver_in_c_is_a_gap_with_the_line_that_closes_it(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name, exc_type=ImportError)
    with hangs_up() as (port, _), capture() as captured:
        agent(name, port, str(tmp_path))
    (gap,) = build_run(captured.spans).gaps
    assert gap.kind is GapKind.CONNECTION
    assert f"test_drivers.py:{CONNECT[name].__code__.co_firstlineno})" in gap.text
    assert gap.text.endswith(f" by {name}, outside any tool")
    assert "with @freezeframe.tool" in gap.do
    assert "not seen" not in str(gap)


@freezeframe.run
async def asks(call: Callable[[], object]) -> None:
    """Query in unmarked code."""
    with contextlib.suppress(Exception):  # there is no server
        result = call()
        if inspect.isawaitable(result):
            await result


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for name, rows in QUERIES.items() for row in rows], ids=lambda value: str(value)
)
def test_a_query_over_a_connection_that_was_open_before_the_run_is_a_gap(name: str, row: str) -> None:
    """The connection of the test is an object without one: the library's own method says so when it is called."""
    module = pytest.importorskip(name, exc_type=ImportError)
    class_name, _, method = row.partition(".")
    connection = object.__new__(getattr(module, class_name))
    with capture() as captured:
        asyncio.run(asks(lambda: getattr(connection, method)("SELECT 1")))
    (gap,) = (each for each in build_run(captured.spans).gaps if each.kind is GapKind.CONNECTION)
    assert gap.text.endswith(f" queries by {name.partition('.')[0]}, outside any tool")


def test_a_driver_finds_the_variables_of_its_caller() -> None:
    duckdb = pytest.importorskip("duckdb")
    with capture():
        numbers = duckdb.sql("SELECT 42")
        assert duckdb.sql("SELECT * FROM numbers").fetchall() == numbers.fetchall()


@pytest.mark.proof
def test_a_replay_stops_a_driver_that_connects_in_c(tmp_path: Path) -> None:
    pytest.importorskip("psycopg2")
    (tmp_path / "agent.py").write_text(PROGRAM)
    with hangs_up() as (port, seen):
        environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl", "PORT": str(port)}
        subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=environment, check=True, timeout=400)
        assert len(seen) == 1
        report = reenact(freeze(load_run_of_file(tmp_path / "spans.jsonl")), cwd=tmp_path, env={"PORT": str(port)})
        assert len(seen) == 1
    assert report.first is not None
    assert (report.first.kind, report.first.name) == (DivergenceKind.NETWORK, "by psycopg2")
