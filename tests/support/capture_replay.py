"""The smallest replay: answers each call with the first unused recorded exchange of the same lane and key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from freezeframe.seams import Call, serve, stop_serving
from freezeframe.seams.recorder.responder import EditRequest, Feed
from freezeframe.testing import capture
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.keys import request_key
from freezeframe_schemas.span import SpanRecord


class Recorded:
    """A responder over recorded exchanges; nested ones are left out, since a replay never gets there."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        known = list(exchanges)
        ids = {exchange.span_id for exchange in known}
        self.left = [exchange for exchange in known if exchange.parent_span_id not in ids]
        self.calls: list[Call] = []
        self.entries: list[tuple[str, str | None]] = []
        self._lock = threading.Lock()

    def respond(self, call: Call) -> Exchange:
        key = request_key(call.kind, call.name, call.request).digest
        with self._lock:
            self.calls.append(call)
            for exchange in self.left:
                if exchange.lane == call.lane and request_key(exchange.kind, exchange.name, exchange.request).digest == key:
                    self.left.remove(exchange)
                    return exchange
        raise ReplayMiss(f"no recording of {call.name} in lane {call.lane}; left: {[(e.name, e.lane) for e in self.left]}")

    def recall(self, feed: Feed, key: str) -> str | None:
        """Recall nothing."""
        del feed, key

    def runs(self, answer: Exchange) -> bool:
        """Run nothing."""
        del answer
        return False

    def ran(self, answer: Exchange, result_json: str | None, error_json: str | None) -> None:
        """Compare nothing."""

    def unserved(self, what: str) -> None:
        """Note nothing: no tool runs."""

    async def turn(self, answer: Exchange) -> None:
        """Answer at once."""

    def turn_in_thread(self, answer: Exchange) -> None:
        """Answer at once."""

    async def stay_open(self, answer: Exchange) -> None:
        """Wait until the reader is cancelled."""
        await asyncio.get_running_loop().create_future()

    def reach(self, now_ns: int) -> None:
        """Leave the clock alone."""

    def loop_time(self, loop: object) -> None:
        """Leave the loop its own time."""

    def enter(self, target: str, input_json: str) -> None:
        self.entries.append((target, input_json))

    def leave(self, output_json: str | None, error_json: str | None, unseen: Sequence[str] = ()) -> None:
        self.entries.append(("leave", output_json or error_json))


@contextmanager
def replaying(exchanges: Iterable[Exchange], *, edit: EditRequest | None = None) -> Generator[Recorded]:
    """Serve the exchanges in this process."""
    recorded = Recorded(exchanges)
    serve(recorded, edit=edit)
    try:
        yield recorded
    finally:
        stop_serving()
        from freezeframe import seams

        seams.uninstall()


def spans_of_replayed(agent: Callable[[], Any], calls: list[Any]) -> list[SpanRecord]:
    """Return the spans of an agent; replayed, it gives the same, and adds nothing to the `calls` that it notes."""
    with capture() as captured:
        first = agent()
        spans, exchanges = captured.spans, captured.exchanges
    noted = list(calls)
    with replaying(exchanges) as recorded:
        assert agent() == first
    assert (calls, recorded.left) == (noted, [])
    return spans
