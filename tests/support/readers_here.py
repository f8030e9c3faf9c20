"""Readers in the test's own process: what a reader answers, without a process for each statement.

A reader process costs half a second of CPU time, and one more is forked ahead of the next question. Tests of readers, of their
walls and of what ends them use the real ones.

    python readers_here.py ARGUMENT...  a collector that answers statements itself
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from aiohttp import web

from freezeframe_collector import facade
from freezeframe_collector.__main__ import main
from freezeframe_collector.facade import app
from freezeframe_collector.readers.client import Reader, ReaderHost
from freezeframe_collector.readers.reader import StorePaths, answer_question
from freezeframe_collector.store import Store
from freezeframe_collector.store.embedded import EmbeddedEngine
from freezeframe_collector.store.engine import Engine


class ReadersHere(ReaderHost):
    """A host whose readers are threads with a handle of the collector's own engine."""

    def __init__(self, engine: Engine, paths: StorePaths) -> None:
        super().__init__(paths)
        assert isinstance(engine, EmbeddedEngine)
        self._engine = engine
        self._answered = paths

    def start(self) -> None:
        """Start nothing."""

    def take(self) -> Reader:
        """Return a reader whose other end is a thread."""
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return Reader(self, 0, ours)

    def _serve(self, channel: socket.socket) -> None:
        with channel, suppress(ConnectionError):
            handle: Any = self._engine.open_handle()
            try:
                answer_question(handle._conn, self._answered, channel.fileno())
            finally:
                handle.close()


def _answer_here(build: Callable[..., web.Application]) -> Callable[..., web.Application]:
    def build_app(store: Store, **how: Any) -> web.Application:
        app.__dict__["ReaderHost"] = partial(ReadersHere, store.engine)
        return build(store, **how)

    return build_app


if __name__ == "__main__":
    facade.build_app = _answer_here(facade.build_app)
    sys.exit(main())
