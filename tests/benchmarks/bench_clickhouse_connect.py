"""clickhouse-connect's own integration tests against the facade, as far as they read: how many pass, and what the others meet.

    git clone https://github.com/ClickHouse/clickhouse-connect
    python tests/benchmarks/bench_clickhouse_connect.py clickhouse-connect [pytest's arguments, such as -k "not async"]

The facade stands as it does for everybody: readers, sandbox, grants and guard. It takes no CREATE and no INSERT, so a door in
front of it carries those out in the engine itself and passes everything else on, but for a setting of replicas that the tests
send with every statement. Needs the checkout's version of
clickhouse-connect, or one near it. Tests of SQLAlchemy run only if that is installed. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import aiohttp
from aiohttp import web
from serving import serving
from yarl import URL

from freezeframe_collector.facade.protocol import decode_body
from freezeframe_collector.readers.errors import ClickHouseError, from_engine
from freezeframe_collector.store import Store, open_store
from freezeframe_collector.store.embedded import EmbeddedEngine, insert_rows

_WRITES: Final = re.compile(rb"\s*(CREATE|INSERT|DROP|ALTER|TRUNCATE|DELETE|OPTIMIZE|RENAME|EXCHANGE|UPDATE)\b", re.IGNORECASE)
_ROWS: Final = re.compile(rb"\s*(INSERT\s+INTO\s+.*?)\s+FORMAT\s+(\w+)[ ;]*(?:\r?\n|\Z)", re.IGNORECASE | re.DOTALL)
_REASONS: Final = (
    re.compile(r"Code: (\d+)"),
    re.compile(r"(No module named \S+)"),
    re.compile(r"^(\w+(?:Error|Exception))", re.MULTILINE),
)
_OF_REPLICAS: Final = "database_replicated_enforce_synchronous_settings"
_LIMIT_BYTES: Final = 256 << 20
_NOT_ON: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-encoding"})


class Door:
    """Writes go to the engine, the rest to the facade."""

    def __init__(self, store: Store, facade_url: str) -> None:
        assert isinstance(store.engine, EmbeddedEngine)
        self._engine = store.engine
        self._database = store.database
        self._url = facade_url

    async def answer(self, http: web.Request) -> web.StreamResponse:
        body = await http.read()
        plain = decode_body(body, http.headers.get("Content-Encoding", ""), limit_bytes=_LIMIT_BYTES, blocks=False)
        statement = http.query.get("query", "").encode() or plain
        if _WRITES.match(statement):
            data = plain if "query" in http.query else b""
            try:
                await asyncio.to_thread(self._write, statement, data)
            except ClickHouseError as error:
                code = {"X-ClickHouse-Exception-Code": str(error.code)}
                return web.Response(status=error.http_status, text=error.text, headers=code)
            told = {"X-ClickHouse-Summary": "{}", "X-ClickHouse-Query-Id": http.query.get("query_id", "")}
            return web.Response(headers=told)
        # what aiohttp took off or left on of the coding is settled by sending the body plain
        headers = {name: value for name, value in http.headers.items() if name.lower() not in _NOT_ON}
        if http.content_type == "multipart/form-data":
            plain = body
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(http.method, self._forward(http), headers=headers, data=plain) as answer,
        ):
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_ON - {"content-encoding"}}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    def _forward(self, http: web.Request) -> URL:
        query = [(name, value) for name, value in http.query.items() if name != _OF_REPLICAS]
        return URL(self._url).with_path(http.path).with_query(query)

    def _write(self, statement: bytes, data: bytes) -> None:
        handle = self._engine.open_handle()
        try:
            handle.query(f"USE {self._database}")
            whole = statement + b"\n" + data if data else statement
            if rows := _ROWS.match(whole):
                insert_rows(handle, rows[1].decode(), rows[2].decode(), whole[rows.end() :])
            else:
                handle.query(whole.decode())
        except RuntimeError as error:
            raise from_engine(error) from error
        finally:
            handle.close()


@contextmanager
def door_to(store: Store, facade_url: str) -> Generator[int]:
    """Serve the door from a thread and yield its port."""
    loop = asyncio.new_event_loop()
    app = web.Application(client_max_size=_LIMIT_BYTES)
    app.router.add_route("*", "/{path:.*}", Door(store, facade_url).answer)
    runner = web.AppRunner(app, access_log=None)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield runner.addresses[0][1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(runner.cleanup())


def run_tests(checkout: Path, port: int, arguments: list[str], report: Path) -> None:
    """Run the checkout's tests; what came of them is in the report."""
    variables = {"HOST": "127.0.0.1", "PORT": str(port), "DATABASE": "freezeframe"}
    environment = {**os.environ, **{f"CLICKHOUSE_CONNECT_TEST_{name}": value for name, value in variables.items()}}
    options = ["-q", "-o", "addopts=", "-o", "log_cli=false", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    # file by file: pytest would load the conftest of SQLAlchemy's folder before it is told to skip it
    files = [str(file.relative_to(checkout)) for file in sorted(checkout.glob("tests/integration_tests/test_*"))]
    if find_spec("sqlalchemy") is None:
        files.remove("tests/integration_tests/test_sqlalchemy")
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", "--tb=line", *files, *arguments],
        cwd=checkout,
        env={**environment, "PYTHONPATH": str(checkout)},
        stdout=subprocess.DEVNULL,
        check=False,
    )


def count(report: Path) -> dict[str, object]:
    """Return how many passed, failed and were skipped, and of the failures how many for each reason."""
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        fault = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        if fault is None:
            outcomes["skipped" if case.find("skipped") is not None else "passed"] += 1
            continue
        text = f"{fault.get('message', '')}\n{fault.text or ''}"
        found = next((match[1] for reason in _REASONS if (match := reason.search(text))), "other")
        outcomes["failed"] += 1
        reasons[f"code {found}" if found.isdigit() else found] += 1
        print(f"{case.get('classname')}.{case.get('name')}: {text.strip().splitlines()[0][:400]}")
    return {**outcomes, "failures": dict(reasons.most_common())}


def main() -> None:
    """Run the tests and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="clickhouse-connect's repository")
    given, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"chdb://{folder}/store")
        store.migrate()
        report = Path(folder) / "report.xml"
        try:
            with serving(store) as url, door_to(store, url) as port:
                run_tests(given.checkout, port, rest, report)
            print(json.dumps({"benchmark": "clickhouse_connect", **count(report)}))
        finally:
            store.close()


if __name__ == "__main__":
    main()
