"""A ClickHouse server over HTTP, by clickhouse-connect."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from clickhouse_connect.driver.exceptions import Error as ClickHouseConnectError

from freezeframe_collector.store.engine import INSERT_SETTINGS, store_error
from freezeframe_schemas.address import store_options
from freezeframe_schemas.errors import RetryableStoreError

_WINDOW_ROWS: Final = 100_000


class ServerEngine:
    """A server at `dsn`, ``clickhouse://user:password@host:8123/database`` (``clickhouses://`` for TLS)."""

    embedded = False

    def __init__(self, dsn: str) -> None:
        import clickhouse_connect

        parts = urlsplit(dsn)
        secure = parts.scheme in {"clickhouses", "https"}
        options = store_options(parts)
        # a run lives on one shard: a subquery over the same run needs no other shard
        self._settings = {"distributed_product_mode": "local"} if "cluster" in options else {}
        self._durably = {"distributed_foreground_insert": 1} if "cluster" in options else {}
        try:
            # no session: sessions serialise requests
            self._client = clickhouse_connect.get_client(
                host=parts.hostname or "localhost",
                port=parts.port or (8443 if secure else 8123),
                username=unquote(parts.username or "default"),
                password=unquote(parts.password or ""),
                secure=secure,
                ca_cert=options.get("ca"),
                autogenerate_session_id=False,
                client_name="freezeframe-collector",
            )
        except ClickHouseConnectError as error:
            raise _error(error, "connecting to the ClickHouse server") from error

    def command(self, sql: str) -> None:
        try:
            self._client.command(sql)
        except ClickHouseConnectError as error:
            raise _error(error, sql[:60]) from error

    def rows(self, sql: str, parameters: Mapping[str, str | int] | None = None) -> tuple[list[str], list[Sequence[Any]]]:
        try:
            raw = self._client.raw_query(
                sql,
                parameters=dict(parameters or {}),
                fmt="JSONCompact",
                settings={"output_format_json_quote_64bit_integers": 0, **self._settings},
            )
        except ClickHouseConnectError as error:
            raise _error(error, sql[:60]) from error
        answer = orjson.loads(raw)
        return [column["name"] for column in answer["meta"]], answer["data"]

    def blocks(self, sql: str) -> Generator[bytes]:
        # HTTP's chunks do not show where the blocks of a stream end: one answer is one piece, bounded by its window of rows
        try:
            offset = 0
            while True:
                piece = self._client.raw_query(f"{sql} LIMIT {_WINDOW_ROWS} OFFSET {offset}", fmt="Native")
                if not piece:
                    return
                yield piece
                offset += _WINDOW_ROWS
        except ClickHouseConnectError as error:
            raise _error(error, sql[:60]) from error

    def insert(self, table: str, columns: Sequence[str], block: bytes, token: str) -> None:
        try:
            self._client.raw_insert(
                table,
                column_names=list(columns),
                insert_block=block,
                fmt="Native",
                settings={"insert_deduplication_token": token, **INSERT_SETTINGS, **self._durably},
            )
        except ClickHouseConnectError as error:
            raise _error(error, f"insert into {table}") from error

    def close(self) -> None:
        self._client.close()


def _error(error: Exception, what: str) -> Exception:
    text = str(error)
    return store_error(error, what) if "Code: " in text or "code: " in text else RetryableStoreError(f"{what}: {text[:400]}")
