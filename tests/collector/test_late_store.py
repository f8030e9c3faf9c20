"""A server that is opened late: whatever keeps it away is not the fault of a span, and it is opened once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from freezeframe_collector import service
from freezeframe_collector.service import LateStore
from freezeframe_schemas.errors import ConfigError, FreezeframeError, PermanentStoreError, RetryableStoreError
from freezeframe_schemas.span import SpanRecord


class Server:
    """What `open_store` gives: counts what is done to it, and may have faults that the test takes away."""

    def __init__(self) -> None:
        self.faults: list[FreezeframeError] = []
        self.done: list[str] = []

    def open(self, dsn: str, **_: object) -> Server:
        if self.faults:
            raise self.faults.pop(0)
        self.done.append(f"open {dsn}")
        return self

    def migrate(self) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.done.append("migrate")

    def insert(self, spans: Sequence[SpanRecord], token: str) -> None:
        self.done.append(f"insert {len(spans)} {token}")

    def close(self) -> None:
        self.done.append("close")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(service, "open_store", server.open)
    return server


@pytest.mark.parametrize(
    "fault",
    [
        RetryableStoreError("connection refused"),
        PermanentStoreError("the database is newer than this version"),
        ConfigError("store: no such cluster"),
    ],
)
def test_whatever_keeps_a_server_from_opening_is_tried_again(
    server: Server, fault: FreezeframeError, make_span: Callable[..., SpanRecord]
) -> None:
    """If it were passed on, a permanent fault would make the writer set aside every waiting span."""
    server.faults = [fault]
    store = LateStore("clickhouse://server/freezeframe")
    with pytest.raises(RetryableStoreError, match=f"the store cannot be opened: {fault.message}"):
        store.insert([make_span(1)], "a")
    store.insert([make_span(1)], "a")
    assert server.done == ["open clickhouse://server/freezeframe", "migrate", "insert 1 a"]


def test_a_server_is_opened_once_and_its_schema_brought_up_first(server: Server, make_span: Callable[..., SpanRecord]) -> None:
    """Not before something is to be stored; what fails between opening it and finishing the schema is started again."""
    store = LateStore("clickhouse://server/freezeframe")
    store.close()
    assert server.done == []
    for token in ("a", "b"):
        store.insert([make_span(1), make_span(2)], token)
    store.close()
    assert server.done == ["open clickhouse://server/freezeframe", "migrate", "insert 2 a", "insert 2 b", "close"]
