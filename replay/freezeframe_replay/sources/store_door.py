"""StoreDoor: one ClickHouse over HTTP.

Our own statements are sent directly, others through a client created for the first one. Importing the client's
library costs more than most commands, and it first sends its own statements.
"""

from __future__ import annotations

import base64
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from freezeframe_replay.sources.http_door import opener
from freezeframe_schemas.address import shown_address, split_address
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RetryableStoreError
from freezeframe_schemas.local_tokens import READER, token_of

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_SILENT: Final = "does not answer"
_TIMEOUT_S: Final = 300.0
_CODE: Final = "X-ClickHouse-Exception-Code"
_BUSY: Final = frozenset({"159", "202", "209", "241", "439"})
"""Codes of ClickHouse for a store that has no time, no place or no memory at the moment."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\0": r"\0"})
"""Escapes in a parameter, which is a field of TabSeparated."""


@dataclass(slots=True, kw_only=True)
class StoreDoor:
    """An address, and its connections."""

    host: str
    port: int
    secure: bool
    username: str
    password: str = field(repr=False)
    database: str
    _client: Client | None = None

    @classmethod
    def at(cls, url: str, *, database: str) -> Self:
        """Return the door at a URL; `database` is used if the URL names none. Connects to nothing.

        Raises:
            ConfigError: the URL does not have a known form.
        """
        parts = split_address(url)
        secure = parts.scheme in {"https", "clickhouses"}
        if parts.scheme not in {"http", "https", "clickhouse", "clickhouses"} or not parts.hostname:
            raise ConfigError(
                f"store: found {shown_address(url)}, expected http://HOST:PORT or clickhouse://USER:PASSWORD@HOST:PORT/DATABASE"
            )
        port = parts.port or (8443 if secure else 8123)
        return cls(
            host=parts.hostname,
            port=port,
            secure=secure,
            username=unquote(parts.username or "default"),
            password=unquote(parts.password or "") if parts.username else token_of(parts.hostname, port, READER) or "",
            database=parts.path.strip("/") or parse_qs(parts.query).get("database", [database])[0],
        )

    def native(self, statement: str, parameters: Mapping[str, str]) -> bytes:
        """Return the answer to one of our own statements, in the Native format.

        Raises:
            PermanentStoreError: the store refuses it; the message is the store's.
            RetryableStoreError: the store does not answer.
        """
        parameter_fields = {f"param_{name}": value.translate(_ESCAPES) for name, value in parameters.items()}
        query = urlencode({"database": self.database, "default_format": "Native", **parameter_fields})
        host = f"[{self.host}]" if ":" in self.host else self.host
        pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 - http or https, see `at`
            f"http{'s' * self.secure}://{host}:{self.port}/?{query}",
            data=statement.encode(),
            headers={"Authorization": f"Basic {pair}", "Content-Type": "text/plain"},
        )
        try:
            with opener(self.host).open(request, timeout=_TIMEOUT_S) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            message = error.read().decode(errors="replace").strip()
            if error.headers.get(_CODE) is None and error.code >= 500:  # a proxy, or a store that is about to end
                raise RetryableStoreError(f"store {self.host}:{self.port}: HTTP {error.code}") from None
            message = message.rpartition("DB::Exception: ")[2] or f"HTTP {error.code}"
            if error.headers.get(_CODE) in _BUSY:
                raise self._unanswered(RuntimeError(message)) from None
            raise PermanentStoreError(f"store: {message[:2000]}") from None
        except OSError as error:
            raise self._unanswered(error) from error

    def client(self) -> Client:
        """Return a client for any statement.

        Raises:
            RetryableStoreError: nothing answers there.
        """
        if self._client is None:
            import clickhouse_connect
            from clickhouse_connect.driver.exceptions import Error

            logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())  # its message is also in the exception
            try:
                self._client = clickhouse_connect.get_client(
                    host=self.host,
                    port=self.port,
                    username=self.username,
                    password=self.password,
                    database=self.database,
                    secure=self.secure,
                    autogenerate_session_id=False,
                    client_name="freezeframe",
                )
            except Error as error:
                raise self._unanswered(error) from error
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _unanswered(self, error: Exception) -> RetryableStoreError:
        why = _why(error)
        do = "start it with `freezeframe up`" if why.startswith(_SILENT) else "try again if it was only busy"
        return RetryableStoreError(f"store {self.host}:{self.port}: {why}", do=f"{do}, or name another with --store")


def is_backend(url: str) -> bool:
    """Return whether the URL names a backend other than our own store."""
    parts = urlsplit(url)
    return "+" in parts.scheme or (parts.scheme.startswith("clickhouse") and "table" in parse_qs(parts.query))


def _why(error: BaseException) -> str:
    """Return the operating system's message, if that is the reason; else the driver's."""
    cause: BaseException | None = error
    while cause is not None:
        found = re.search(r"\[Errno -?\d+\] ([A-Za-z ]+)", str(cause))
        if found is not None:
            return f"{_SILENT}: {found[1]}"
        cause = cause.__cause__ or cause.__context__
    return str(error)[:300]
