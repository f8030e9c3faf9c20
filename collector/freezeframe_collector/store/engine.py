"""The store's interface to ClickHouse, and its errors, however it is reached."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, Protocol

from freezeframe_schemas.errors import PermanentStoreError, RetryableStoreError, StoreError

_CODE: Final = re.compile(r"Code: (\d+)")
_QUOTED: Final = re.compile(r"'[^'\n]*'?")
"""Pattern of an engine's quotation from a row that it refuses."""
RETRYABLE_CODES: Final = frozenset(
    {
        # The store or the way to it: it may recover by itself.
        159,  # TIMEOUT_EXCEEDED
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        236,  # ABORTED
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY (a replica that lost its keeper)
        252,  # TOO_MANY_PARTS
        285,  # TOO_FEW_LIVE_REPLICAS
        319,  # UNKNOWN_STATUS_OF_INSERT
        394,  # QUERY_WAS_CANCELLED
        439,  # CANNOT_SCHEDULE_TASK
        473,  # DEADLOCK_AVOIDED
        999,  # KEEPER_EXCEPTION
        # Its disk.
        74,  # CANNOT_READ_FROM_FILE_DESCRIPTOR
        75,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR
        77,  # CANNOT_CLOSE_FILE
        243,  # NOT_ENOUGH_SPACE
        499,  # S3_ERROR
        # Whoever runs it: a password that was changed, a grant or a table that is gone. It is never a span's fault.
        60,  # UNKNOWN_TABLE
        81,  # UNKNOWN_DATABASE
        192,  # UNKNOWN_USER
        193,  # WRONG_PASSWORD
        201,  # QUOTA_EXCEEDED
        497,  # ACCESS_DENIED
        516,  # AUTHENTICATION_FAILED
    }
)
"""Errors that waiting or an operator can fix; the rows may be the cause of any other."""


INSERT_SETTINGS: Final[Mapping[str, int]] = {
    "async_insert": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "max_partitions_per_insert_block": 1000,
    # Views read FINAL, and merges deduplicate: looking for repeated spans in each batch as well took a third of an insert.
    "optimize_on_insert": 0,
}
"""Settings of each insert, besides its token."""


class Engine(Protocol):
    """A ClickHouse that runs SQL: chDB in this process, or a server."""

    @property
    def embedded(self) -> bool:
        """Return whether the engine lives in this process."""
        ...

    def command(self, sql: str) -> None:
        """Run a statement without a result."""
        ...

    def rows(self, sql: str, parameters: Mapping[str, str | int] | None = None) -> tuple[list[str], list[Sequence[Any]]]:
        """Return the column names and rows of a SELECT; parameters are ``{name:Type}``. Values are JSON's types."""
        ...

    def blocks(self, sql: str) -> Generator[bytes]:
        """Yield the answer of a SELECT as blocks in the Native format, each of which can be inserted by itself."""
        ...

    def insert(self, table: str, columns: Sequence[str], block: bytes, token: str) -> None:
        """Insert one Native block, durable on return, once per token."""
        ...

    def close(self) -> None:
        """Release the engine. May be called twice."""
        ...


def store_error(error: Exception, what: str) -> StoreError:
    """Return a StoreError for an error of the engine, without any of the user's values in it."""
    text = _QUOTED.sub("'...'", str(error)) if what.startswith("insert") else str(error)
    found = _CODE.search(text)
    code = int(found[1]) if found else 0
    message = f"{what}: {text.strip().splitlines()[0][:400] if text.strip() else type(error).__name__}"
    if code in RETRYABLE_CODES or (not found and isinstance(error, OSError)):
        return RetryableStoreError(message)
    return PermanentStoreError(message)


def quote_identifier(name: str) -> str:
    """Return `name` as a quoted SQL identifier."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def quote_text(text: str) -> str:
    """Return `text` as a SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
