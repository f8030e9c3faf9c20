"""Readers are processes: they end at their bound, with their client, and with the collector; a flood of them waits its turn."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from freezeframe_collector.readers import client, sandbox
from freezeframe_collector.readers.catalog import make_catalog, state_of
from freezeframe_collector.readers.client import ReaderHost
from freezeframe_collector.readers.errors import ClickHouseError
from freezeframe_collector.readers.frames import Question
from freezeframe_collector.readers.host import MESSAGE, TAKE
from freezeframe_collector.readers.reader import StorePaths
from freezeframe_collector.store import Store
from freezeframe_collector.store.embedded import EmbeddedEngine

pytestmark = pytest.mark.long

BOMB = "SELECT extractAll(repeat('a', 1000000), '(.*?a){1000}')"
"""Runs for minutes inside one call of a regular expression, in which the engine never looks at its clock."""


@pytest.fixture
def host(store: Store) -> Generator[ReaderHost]:
    made = ReaderHost(host_shelf(store))
    yield made
    made.close()


def answer(host: ReaderHost, sql: str, **settings: str) -> bytes:
    items = list(host.take().ask(Question(sql=sql.encode(), settings=settings)))
    return b"".join(item for item in items if isinstance(item, bytes))


@pytest.mark.proof
def test_a_reader_sees_what_was_inserted_before_it_was_asked(store: Store, host: ReaderHost) -> None:
    for number in range(3):
        store.engine.command(f"INSERT INTO freezeframe.prices (prefix) VALUES ('fresh-{number}')")
        seen = answer(host, "SELECT count() FROM prices WHERE prefix LIKE 'fresh-%'")
        assert seen == b"%d\n" % (number + 1)
        assert answer(host, "SELECT count() FROM prices WHERE prefix LIKE 'fresh-%'") == seen


def test_a_reader_that_knows_its_statement_attaches_what_that_names_and_what_it_is_made_of(
    store: Store, host: ReaderHost, tmp_path: Path
) -> None:
    """Every view, and a table, answers a reader that attaches no more, as one that attached all: each is made for its question
    here, because the store changes before it. What may ask which tables there are sees all of them."""
    _, rows = store.query(
        "SELECT name, engine FROM system.tables WHERE database = 'freezeframe' AND engine != 'MaterializedView' ORDER BY name"
    )
    names = [str(row[0]) for row in rows if row[0] != "search"]
    everything = answer(
        host, "SELECT name FROM system.tables WHERE database = 'freezeframe' AND name != 'search' ORDER BY name"
    )
    assert set(everything.decode().split()) >= set(names)
    views = [str(name) for name, engine in rows if engine == "View" and name != "search"]
    for number, name in enumerate(["prices", *views, "search(words = 'anything')"]):
        store.engine.command(f"INSERT INTO freezeframe.prices (prefix) VALUES ('attached-{number}')")
        assert answer(host, f"SELECT count() >= 0 FROM {name}") == b"1\n", name
    store.engine.command("INSERT INTO freezeframe.prices (prefix) VALUES ('attached')")
    assert b"prices" in answer(host, "SHOW TABLES") and b"prefix" in answer(host, "DESCRIBE prices")
    catalog = make_catalog(host_shelf(store).writer, tmp_path, database=store.database, cold=None, grants=True)
    catalog.put(catalog.named_in(b"SELECT count() FROM prices"))
    assert [file.stem for file in catalog.folder.iterdir()] == ["prices"]
    catalog.put(catalog.named_in(b"SELECT count() FROM model_prices"))
    assert {file.stem for file in catalog.folder.iterdir()} < set(names)


def host_shelf(store: Store) -> StorePaths:
    assert isinstance(store.engine, EmbeddedEngine)
    return StorePaths(writer=store.engine.directory / "clickhouse", database=store.database)


def test_a_statement_that_ignores_its_bound_is_killed(host: ReaderHost) -> None:
    """Also in a constant, which the engine computes while the statement is only being checked."""
    with pytest.raises(ClickHouseError, match="stopped after 1 seconds") as caught:
        answer(host, f"{BOMB} SETTINGS max_execution_time = 1")
    assert caught.value.code == 159
    of_rows = BOMB.replace("'a', 1000000", "'a', 1000000 + number") + " FROM numbers(1)"
    with pytest.raises(ClickHouseError, match="stopped after 1 seconds"):
        answer(host, of_rows, max_execution_time="1")
    assert answer(host, "SELECT 1") == b"1\n"


@pytest.mark.proof
def test_a_killed_host_is_replaced(host: ReaderHost) -> None:
    assert answer(host, "SELECT 1") == b"1\n"
    end(host, signal.SIGKILL)
    assert answer(host, "SELECT 2") == b"2\n"


def test_the_temporary_files_of_hosts_are_removed(
    store: Store, host: ReaderHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the host if it is asked to end, else by the next one, which leaves those in use and what only looks like them."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("kept", "freezeframe-readers-of-a-killed-host"):
        (tmp_path / name / "1").mkdir(parents=True)
    (tmp_path / "freezeframe-readers-link").symlink_to(tmp_path / "kept")

    def folders() -> set[str]:
        return {found.name for found in tmp_path.iterdir()} - {"kept", "freezeframe-readers-link"}

    killed = ReaderHost(host_shelf(store))
    try:
        assert answer(killed, "SELECT 1") == b"1\n"
        (first,) = folders()
        assert first != "freezeframe-readers-of-a-killed-host"
        for _ in range(2):  # after the second question a reader is made ahead
            assert answer(host, "SELECT 1") == b"1\n"
        assert len(folders()) == 2
        end(killed, signal.SIGKILL)
        end(host, signal.SIGTERM)
        assert folders() == {first}
        assert answer(host, "SELECT 1") == b"1\n"
        assert first not in folders()
        assert len(folders()) == 1
        assert (tmp_path / "kept" / "1").is_dir()
    finally:
        killed.close()


IDLE_HOST = """
import socket, sys
from pathlib import Path
from types import SimpleNamespace
from freezeframe_collector.readers import host
from freezeframe_collector.readers.reader import StorePaths

def serve_one(engine, paths, own, channel, *, ahead):
    if ahead:
        control.recv(1)  # nobody writes there

folder = Path(sys.argv[1])
host.IDLE_S = 0.01
host.serve_one = serve_one
host.state_of = lambda writer, cold: ()
host.shutil = SimpleNamespace(rmtree=lambda own, **options: print(own.name, flush=True))
served = socket.socket(fileno=0)
control, _other = socket.socketpair()
host.Host(None, StorePaths(writer=folder, database="d"), served, folder).run()
"""
"""A host that prints the number of each reader that has ended. The one made ahead waits for ever."""


def test_a_reader_made_ahead_ends_if_no_question_comes(tmp_path: Path) -> None:
    """It holds the memory of an engine. The next question gets a new one."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", IDLE_HOST, str(tmp_path)]
    with subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.PIPE, text=True) as process, ours:
        theirs.close()
        assert process.stdout is not None
        for question, readers in ((1, {"1", "2"}), (2, {"3", "4"})):
            ours.sendall(MESSAGE.pack(TAKE, question))
            _, [channel], _, _ = socket.recv_fds(ours, MESSAGE.size, 1)
            os.close(channel)
            assert {process.stdout.readline().strip() for _ in readers} == readers
        ours.close()
        assert process.wait(300) == 0


def test_directories_that_go_while_a_host_looks_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine removes those of a dropped table minutes after it was dropped."""
    groups, look = tmp_path / "store", os.scandir
    for table in ("aa/1", "bb/2", "bb/3"):
        (groups / table).mkdir(parents=True)

    def scandir(path: str | Path) -> Iterator[os.DirEntry[str]]:
        found = list(look(str(path)))
        for gone in {"store": ("aa/1", "aa"), "bb": ("bb/2",)}.get(Path(path).name, ()):
            (groups / gone).rmdir()
        return iter(found)

    monkeypatch.setattr("freezeframe_collector.readers.catalog.os.scandir", scandir)
    assert [path for path, _ in state_of(tmp_path, None)] == [str(groups / "bb" / "3")]


def test_bombs_keep_no_other_reader_waiting_and_end_with_their_clients(reader_url: str) -> None:
    """Four statements are one address's share, four more wait for their turn, and each runs for minutes. Another address has an
    answer meanwhile, and the same one when the clients have left, also those that waited."""
    parts = urlsplit(reader_url)
    body = f"{BOMB} SETTINGS max_execution_time = 300".encode()
    with ExitStack() as clients:
        for _ in range(8):
            leaver = clients.enter_context(socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30))
            leaver.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        while len(readers_now()) < 4:  # the test's timeout bounds it
            threading.Event().wait(0.05)
        assert post(reader_url, "SELECT 1", source="127.0.0.2") == (200, b"1\n")
    assert post(reader_url, "SELECT count() FROM numbers(3)") == (200, b"3\n"), "it has no turn while four of them run"


def test_errors_of_readers_hold_up_no_insert(store: Store, reader_url: str) -> None:
    """An insert is checked by the errors that the engine counted meanwhile, and a reader's errors are not among them."""
    done = threading.Event()

    def fail() -> None:
        while not done.is_set():
            post(reader_url, "SELECT throwIf(1)")

    readers = [threading.Thread(target=fail) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        post(reader_url, "SELECT throwIf(1)")
        for number in range(10):
            store.engine.insert("freezeframe.prices", ["prefix"], native_text(f"beside-{number}"), f"beside-{number}")
    finally:
        done.set()
        for reader in readers:
            reader.join(60)


def test_a_later_database_of_a_session_is_the_one_it_reads(reader_url: str) -> None:
    first = post(reader_url, "SELECT currentDatabase()", session_id="two", database="freezeframe")
    then = post(reader_url, "SELECT currentDatabase()", session_id="two", database="information_schema")
    assert (first, then) == ((200, b"freezeframe\n"), (200, b"information_schema\n"))


def test_every_view_and_table_can_be_described(store: Store, facade_url: str) -> None:
    _, rows = store.query("SELECT name FROM system.tables WHERE database = 'freezeframe' AND engine != 'MaterializedView'")
    refused = {row[0]: text for row in rows if (text := post(facade_url, f"DESCRIBE TABLE `{row[0]}`"))[0] != 200}
    assert list(refused) in ([], ["search"])  # `search` is a view with parameters: it has columns once they are given


def test_the_readers_of_a_killed_collector_end(store: Store, tmp_path: Path) -> None:
    assert isinstance(store.engine, EmbeddedEngine)
    program = f"""
import json, sys
from pathlib import Path
from freezeframe_collector.readers import client, sandbox
from freezeframe_collector.readers.catalog import make_catalog, state_of
from freezeframe_collector.readers.client import ReaderHost
from freezeframe_collector.readers.frames import Question
from freezeframe_collector.readers.host import MESSAGE, TAKE
from freezeframe_collector.readers.reader import StorePaths
host = ReaderHost(StorePaths(writer=Path({str(store.engine.directory / "clickhouse")!r}), database="freezeframe"))
items = host.take().ask(Question(sql={BOMB.encode()!r}))
host.start()
print(host._process.pid, flush=True)
list(items)
"""
    collector = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert collector.stdout is not None
        pid = int(collector.stdout.readline())
        ends = os.pidfd_open(pid)
    finally:
        collector.kill()
        collector.wait()
    with os.fdopen(ends) as handle:
        assert select.select([handle], [], [], 60)[0], "the host outlived its collector"


def test_without_a_sandbox_the_collector_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(client, "why_no_sandbox", lambda: "this kernel has no Landlock")
    walls = client.standing_walls()
    assert (walls.sandbox, walls.grants, walls.guard) == (False, True, True)
    assert "not sandboxed: this kernel has no Landlock" in caplog.text


def test_the_status_says_whether_readers_are_sandboxed_and_what_is_not_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "why_no_sandbox", lambda: None)
    assert sandbox.sandbox_state() == {"sandboxed": True, "why_not": None, "not_protected": None}
    monkeypatch.setattr(sandbox, "why_no_sandbox", lambda: "this kernel has no Landlock")
    state = sandbox.sandbox_state()
    assert (state["sandboxed"], state["why_not"]) == (False, "this kernel has no Landlock")
    assert "every file of the collector's user" in str(state["not_protected"])


# -- plumbing -----------------------------------------------------------------------------------------------------------


def native_text(value: str) -> bytes:
    """Return a Native block of one column `prefix` with one row."""
    name, kind, text = b"prefix", b"String", value.encode()
    return b"\x01\x01" + bytes([len(name)]) + name + bytes([len(kind)]) + kind + bytes([len(text)]) + text


def post(url: str, sql: str, *, source: str = "127.0.0.1", **parameters: str) -> tuple[int, bytes]:
    with connection(url, source) as http_connection:
        path = "/?" + "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
        http_connection.request("POST", path, body=sql.encode())
        got = http_connection.getresponse()
        return got.status, got.read()


@contextmanager
def connection(url: str, source: str) -> Generator[http.client.HTTPConnection]:
    parts = urlsplit(url)
    made = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400, source_address=(source, 0))
    try:
        yield made
    finally:
        made.close()


def end(host: ReaderHost, number: signal.Signals) -> None:
    """End the process of a host by a signal, and wait until it and its readers are gone."""
    assert host._process is not None
    with ExitStack() as stack:
        readers: list[int] = []
        for pid in children(host._process.pid):
            with suppress(ProcessLookupError):
                readers.append(os.pidfd_open(pid))
                stack.callback(os.close, readers[-1])
        host._process.send_signal(number)
        host._process.wait()
        for reader in readers:
            assert select.select([reader], [], [], 60)[0], "a reader outlived its host"


def readers_now() -> set[int]:
    """Return the processes of the readers that the facade's hosts in this process have."""
    hosts = [pid for pid in children(os.getpid()) if b"freezeframe_collector.readers.host" in command_line(pid)]
    return {reader for pid in hosts for reader in children(pid)}


def children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
