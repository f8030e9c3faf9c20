"""Detectors of one's own behind HTTP: texts go there in batches, the places of values come back within a time limit.

A detector that failed is not asked again for some seconds, so a dead one does not slow the collector down.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from queue import Empty, SimpleQueue
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.policies.plugins import DetectorFailedError

PAUSE_S: Final = 5.0
"""Time after a failure in which a detector is not asked."""
_BATCH: Final = 250_000
"""Characters of a batch; a longer text is one."""
MAX_TEXT: Final = 4_000_000
MAX_ANSWER: Final = 4_000_000


@lru_cache
def remote_detector(url: str, timeout_s: float, on_error: str) -> RemoteDetector:
    """Return the detector at an address: the same for all redactors, so that all know when it failed."""
    return RemoteDetector(url, timeout_s, on_error)


class RemoteDetector:
    """Finds values in texts by asking a server. Safe to share between threads."""

    def __init__(self, url: str, timeout_s: float, on_error: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`timeout_s` bounds the time that a span waits for it."""
        self._url, self._on_error = url, on_error
        self._timeout_s = timeout_s
        self._clock = clock
        self._asked_again_at = float("-inf")

    def __call__(self, texts: Sequence[str], deadline: Deadline) -> Iterator[list[tuple[int, int]]]:
        """Yield the places of values in each text.

        Raises:
            DetectorFailedError: it failed, was too slow, or failed a moment ago.
        """
        for batch in _batches(texts):
            if (start := self._clock()) < self._asked_again_at:
                raise DetectorFailedError(self._url, self._on_error, f"it failed less than {PAUSE_S:g} s ago", is_first=False)
            if len(batch[0]) > MAX_TEXT:
                raise DetectorFailedError(self._url, self._on_error, f"a text has over {MAX_TEXT:,} characters")
            try:
                found = _places_in(self._asked(batch, self._timeout_s - deadline.waited), batch)
            except (OSError, HTTPException, ValueError) as error:
                self._asked_again_at = self._clock() + PAUSE_S
                reason = str(error) if type(error) is ValueError else type(error).__name__
                raise DetectorFailedError(self._url, self._on_error, reason) from None
            if deadline is not NEVER:  # which all share
                deadline.waited += self._clock() - start
            yield from found

    def _asked(self, texts: Sequence[str], seconds: float) -> bytes:
        """Return the answer, read in another thread: a host is looked up, and bytes trickle, without a limit."""
        late = ValueError(f"no answer within {self._timeout_s:g} s")
        if seconds <= 0:
            raise late
        parts = urlsplit(self._url)
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = connect(str(parts.hostname), parts.port, timeout=2 * self._timeout_s)  # the wait below ends first
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        made = SimpleQueue[bytes | Exception]()
        body = orjson.dumps({"texts": [one.encode("utf-8", "replace").decode() for one in texts]})
        threading.Thread(target=_post, args=(connection, path, body, made), daemon=True).start()
        try:
            answer = made.get(timeout=seconds)
        except Empty:
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread
            raise late from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _post(connection: HTTPConnection, path: str, body: bytes, made: SimpleQueue[bytes | Exception]) -> None:
    try:
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        held = answer.read(MAX_ANSWER + 1)
        if answer.status != 200:
            made.put(ValueError(f"status {answer.status}"))
        elif len(held) > MAX_ANSWER:
            made.put(ValueError(f"an answer of over {MAX_ANSWER:,} bytes"))
        else:
            made.put(held)
    except Exception as error:
        made.put(error if isinstance(error, OSError | HTTPException) else OSError())
    finally:
        connection.close()


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and size + len(text) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _places_in(answer: bytes, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Return the places in each text of an answer ``{"spans": [[[0, 8], ...], ...]}``.

    Raises:
        ValueError: it has another form.
    """
    try:
        held: Any = orjson.loads(answer)["spans"]
        rows: list[list[tuple[Any, Any]]] = [[(start, end) for start, end in row] for row in held]
    except (ValueError, TypeError, LookupError):
        rows = []
    if len(rows) != len(texts):
        raise ValueError('expected {"spans": [[[start, end], ...], ...]}, a list for each text')
    for text, row in zip(texts, rows, strict=True):
        for start, end in row:
            if not (type(start) is int and type(end) is int and 0 <= start < end <= len(text)):
                raise ValueError("a span is not in its text")
    return rows
