"""chDB: ClickHouse in this process, over a data directory that only one process may open.

Traps that shape this module: a fork after opening hangs the child (start processes with ``spawn``); a second directory cannot
be opened while one is open; one handle serialises its queries, so each caller borrows one; a streamed insert
that fails at its end (a full disk) is reported as done (`insert_rows` checks).
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from freezeframe_collector.store.chdb_module import load_connect
from freezeframe_collector.store.engine import INSERT_SETTINGS, quote_text, store_error
from freezeframe_collector.store.tiers import cold_directory, disks_xml
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RetryableStoreError
from freezeframe_schemas.installing import install_command

DEFAULT_MEMORY_BYTES: Final = 2_000_000_000
MIN_MEMORY_BYTES: Final = 500_000_000
"""With less, inserts of usual size are refused."""
_SPARE_HANDLES: Final = 8

# Readers and writer are one ClickHouse user here, so the engine itself must not be able to reach files, URLs or other hosts:
# no source grants. (`readonly=2` alone still let `url()` and file-backed identifiers through.)
_CONFIG: Final = """\
<clickhouse>
  <user_directories><users_xml><path>{path}</path></users_xml></user_directories>
  <profiles><default>
    <async_insert>0</async_insert>
    <max_execution_time>0</max_execution_time>
    <allow_introspection_functions>0</allow_introspection_functions>
  </default></profiles>
  <users><default>
    <password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
    <grants>
      <query>GRANT SELECT, INSERT, ALTER, CREATE TABLE, CREATE VIEW, CREATE DATABASE, DROP, TRUNCATE, OPTIMIZE, SHOW,
        SYSTEM MERGES, SYSTEM FLUSH, KILL QUERY, CHECK, BACKUP ON *.*</query>
      <query>GRANT TABLE ENGINE ON *</query>
    </grants>
  </default></users>
  <quotas><default></default></quotas>
{disks}</clickhouse>
"""


class EmbeddedEngine:
    """chDB over `directory`. Safe to use from many threads."""

    embedded = True

    def __init__(self, directory: Path, *, memory_bytes: int = DEFAULT_MEMORY_BYTES, cold_volume: str = "") -> None:
        try:
            connect = load_connect()
        except ImportError:
            raise ConfigError("store chdb://: the package chdb is not installed", do=install_command("embedded")) from None
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"store {directory}: cannot be created: {error.strerror}", do="name a directory that this user may write to"
            ) from None
        config = directory / "freezeframe-engine.xml"
        cold = cold_directory(directory, cold_volume)
        config.write_text(_CONFIG.format(path=config, disks=disks_xml(cold) if cold else ""), encoding="utf-8")
        self.directory = directory
        self.cold = cold
        """The directory of old days, if they are on another disk."""
        self._connect = connect
        self._target = f"{directory / 'clickhouse'}?config-file={config}&max_server_memory_usage={memory_bytes}"
        self._lock = threading.Lock()
        self._spare: list[Any] = []
        self._closed = False
        self._counted: Mapping[str, int] | None = None
        """As counted at the end of the last insert; None if a statement has failed since."""
        self._keep = self.open_handle()

    def open_handle(self) -> Any:
        """Return a new handle; the caller closes it."""
        try:
            return self._connect(self._target)
        except Exception as error:
            failed = store_error(error, f"opening the store in {self.directory}")
            if isinstance(failed, PermanentStoreError):  # chDB does not pass on why
                held = _is_held(self.directory / "clickhouse" / "status")
                raise PermanentStoreError(failed.message, do=_DO_IF_HELD if held else _DO_IF_DAMAGED) from error
            raise failed from error

    @contextmanager
    def handle(self) -> Generator[Any]:
        """Lend a handle for the collector's own statements, which change none of its settings."""
        with self._lock:
            if self._closed:
                raise PermanentStoreError("the store is closed")
            handle = self._spare.pop() if self._spare else None
        handle = handle or self.open_handle()
        try:
            yield handle
        except BaseException:
            self._counted = None
            handle.close()
            raise
        with self._lock:
            if not self._closed and len(self._spare) < _SPARE_HANDLES:
                self._spare.append(handle)
                return
        handle.close()

    def command(self, sql: str) -> None:
        try:
            with self.handle() as handle:
                handle.query(sql, "Null")
        except RuntimeError as error:
            raise store_error(error, _gist(sql)) from error

    def rows(self, sql: str, parameters: Mapping[str, str | int] | None = None) -> tuple[list[str], list[Sequence[Any]]]:
        try:
            with self.handle() as handle:
                raw = handle.query(
                    f"{sql} SETTINGS output_format_json_quote_64bit_integers=0", "JSONCompact", params=parameters
                )
                answer = orjson.loads(raw.bytes())
        except RuntimeError as error:
            raise store_error(error, _gist(sql)) from error
        return [column["name"] for column in answer["meta"]], answer["data"]

    def blocks(self, sql: str) -> Generator[bytes]:
        try:
            with self.handle() as handle, closing(handle.send_query(sql, "Native")) as stream:
                for chunk in stream:
                    yield chunk.bytes()
        except RuntimeError as error:
            raise store_error(error, _gist(sql)) from error

    def insert(self, table: str, columns: Sequence[str], block: bytes, token: str) -> None:
        names = ", ".join(f"`{name}`" for name in columns)
        common = "".join(f", {name}={value}" for name, value in INSERT_SETTINGS.items())
        settings = f"SETTINGS insert_deduplication_token={quote_text(token)}{common}"
        statement = f"INSERT INTO {table} ({names}) {settings}"
        try:
            try:
                self._insert_block(statement, block)
            except SilentFaultError:  # the error may be that of a statement since the last insert
                self._insert_block(statement, block)
        except SilentFaultError as error:
            # Never the rows' fault: bad rows are refused with an error when they are parsed.
            raise RetryableStoreError(f"insert into {table}: {error}") from error
        except RuntimeError as error:
            raise store_error(error, f"insert into {table}") from error

    def _insert_block(self, statement: str, block: bytes) -> None:
        with self.handle() as handle:
            self._counted = insert_rows(handle, statement, "Native", block, self._counted)

    def close(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, []
            closed, self._closed = self._closed, True
        if not closed:
            for handle in (*spare, self._keep):
                handle.close()


_DO_IF_HELD: Final = "another process holds this data directory: stop it, or reach it over its ClickHouse HTTP port"
_DO_IF_DAMAGED: Final = (
    "no process holds this data directory, so a file of the engine in it is damaged or of another version: restore a backup"
    " into a new one with `freezeframe store restore`"
)


def _is_held(status: Path) -> bool:
    """Return whether an engine has the directory of this file open."""
    try:
        descriptor = os.open(status, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class SilentFaultError(RuntimeError):
    """The engine reported an insert as done and counted an error meanwhile: its rows, or those of a view, may be missing."""


def insert_rows(
    handle: Any, statement: str, format_name: str, data: bytes, before: Mapping[str, int] | None = None
) -> Mapping[str, int]:
    """Insert the data in the named format, and count it as stored only if the engine counted no error meanwhile.

    `before` and the result are the engine's counts before and after. Without it they are asked for, which takes
    2 ms of CPU.

    chDB 26.9 gives no error if a streamed insert fails while its rows are written: on a full disk `finish`
    returns the count of the rows, although none was written. The counters of ``system.errors`` show it. They
    are the whole engine's, but readers have their
    own engines. If another statement of the collector caused the error, the insert is repeated without need; its token makes
    that harmless.

    Raises:
        SilentFaultError: the engine reported success, and counted an error.
        RuntimeError: the engine reported a failure.
    """
    if before is None:
        before = count_errors(handle)
    with handle.send_insert(statement, format_name) as inserter:
        inserter.append(data)
        inserter.finish()
    after = count_errors(handle)
    met = [name for name, count in after.items() if count != before.get(name)]
    if met:
        # The names alone: an error's text may quote a reader's statement.
        raise SilentFaultError(f"the engine met {', '.join(met)} and reported the insert as done")
    return after


def count_errors(handle: Any) -> dict[str, int]:
    """Return how often the engine has counted each error since it was opened."""
    answer = handle.query("SELECT name, value FROM system.errors", "TSV").bytes()
    return {name.decode(): int(count) for name, count in (line.split(b"\t") for line in answer.splitlines())}


def _gist(sql: str) -> str:
    return " ".join(sql.split())[:60]
