"""Rows of the store as a Parquet file, which the store writes itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from freezeframe_replay.sources.store import DATABASE, connect
from freezeframe_schemas.errors import PermanentStoreError, RetryableStoreError

_OF_RUNS: Final = "SELECT * FROM spans WHERE trace_id IN {runs:Array(String)} ORDER BY trace_id, start_time, span_id"


def parquet_of_runs(url: str, runs: Sequence[str]) -> Iterator[bytes]:
    """Yield the file with the spans of runs; raises as `parquet_of_query`."""
    return parquet_of_query(url, _OF_RUNS, {"runs": list(runs)})


def parquet_of_query(url: str, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[bytes]:
    """Yield the file with what a SELECT gives, as it comes.

    Raises:
        PermanentStoreError: the store refuses the query; the message is its own.
        RetryableStoreError: the store does not answer.
    """
    from clickhouse_connect.driver.exceptions import Error, OperationalError

    client = connect(url, database=DATABASE)
    try:
        stream: Any = client.raw_stream(query.rstrip().rstrip(";"), parameters=dict(parameters or {}), fmt="Parquet")
        with stream:
            yield from iter(lambda: stream.read(1 << 20), b"")
    except OperationalError as error:
        raise RetryableStoreError(f"store: {str(error)[:500]}") from error
    except Error as error:
        raise PermanentStoreError(f"store: {str(error)[:2000]}") from error
    finally:
        client.close()
