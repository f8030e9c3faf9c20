"""What is advised if the store cannot be opened: to start it only if nothing answers there."""

from __future__ import annotations

import http.server
import socket
import threading

import pytest

from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.errors import RetryableStoreError

pytestmark = pytest.mark.long  # imports clickhouse-connect


class Busy(http.server.BaseHTTPRequestHandler):
    """A store that has no time: what the collector's facade says under load."""

    def do_POST(self) -> None:
        """Answer as ClickHouse does if a statement took too long."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b"Code: 159. DB::Exception: the statement could not be checked in time (TIMEOUT_EXCEEDED)"
        self.send_response(500)
        self.send_header("X-ClickHouse-Exception-Code", "159")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """Answer alike."""
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.mark.proof
def test_a_store_that_answers_is_not_said_to_be_stopped() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with pytest.raises(RetryableStoreError, match=r"could not be checked in time") as caught:
                open_runs(f"http://127.0.0.1:{server.server_address[1]}").list_runs()
        finally:
            server.shutdown()
            thread.join()
    assert str(caught.value.do).startswith("try again")


@pytest.mark.proof
def test_a_store_that_does_not_answer_is_to_be_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RetryableStoreError, match=r"does not answer") as caught:
        open_runs(f"http://127.0.0.1:{port}").list_runs()
    assert str(caught.value.do).startswith("start it with")
