"""A server of PostgreSQL's protocol on loopback that returns given answers: for a replay of psycopg, whose libpq is C.

libpq opens its own sockets, and only it can make the results that psycopg reads. So psycopg does everything itself, and only
the other end is ours. Borders of transactions are acknowledged; anything else without an answer is an error.

Source: PostgreSQL's documentation, "Message Formats" (protocol 3.0).
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

Result = Mapping[str, Any]
"""``{"tag": "SELECT 1", "columns": [[name, oid, modifier, format]] or None, "rows": [[text, bytes or None]]}``"""

_BORDERS: Final = frozenset(
    "BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE SET RESET DEALLOCATE DISCARD ABORT LISTEN UNLISTEN".split()
)
_AHEAD: Final = frozenset({"BEGIN", "DEALLOCATE"})
_BY_ITSELF: Final = _AHEAD | {"COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}
"""Statements that psycopg sends on its own, the first two before the one that `execute` asks for."""
_ENCRYPTED: Final = (80877103, 80877104)
"""Requests for TLS and for GSSAPI."""


class PostgresStub:
    """Listens from the first `address` on; `answers` gives the next answer for a connection, by its process id."""

    def __init__(self, parameters: Callable[[], Mapping[str, str]]) -> None:
        self._parameters = parameters
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._listening: socket.socket | None = None
        self.answers: defaultdict[int, deque[Result]] = defaultdict(deque)

    def port(self) -> int:
        with self._lock:
            if self._listening is None:
                self._listening = socket.create_server(("127.0.0.1", 0))
                _thread(self._accept, self._listening)
            return self._listening.getsockname()[1]

    def _accept(self, listening: socket.socket) -> None:
        while True:
            connection, _ = listening.accept()
            _thread(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        number = next(self._numbers)
        with connection, connection.makefile("rb") as stream:
            while int.from_bytes(_sized(stream)[:4], "big") in _ENCRYPTED:
                connection.sendall(b"N")
            greeting = _message(b"R", struct.pack("!i", 0))
            for name, value in self._parameters().items():
                greeting += _message(b"S", _text(name) + _text(value))
            connection.sendall(greeting + _message(b"K", struct.pack("!ii", number, 0)) + _message(b"Z", b"I"))
            session = _Session(self.answers[number])
            while kind := stream.read(1):
                answer = session.hear(kind, _sized(stream))
                if answer:
                    connection.sendall(answer)


class _Session:
    """One connection: its prepared statements, and whether it is in a transaction."""

    def __init__(self, answers: deque[Result]) -> None:
        self._answers = answers
        self._statements: dict[bytes, bytes] = {}
        self._portal = b""
        self._status = b"I"
        self._failed = False

    def hear(self, kind: bytes, body: bytes) -> bytes:
        """Return the answer to a message; after an error, nothing before the next Sync."""
        if kind == b"S":
            self._failed = False
            return _message(b"Z", self._status)
        if kind == b"Q":
            answered = self._whole(body.rstrip(b"\0"))
            self._failed = False
            return answered + _message(b"Z", self._status)
        if self._failed:
            return b""
        match kind:
            case b"P":
                name, _, rest = body.partition(b"\0")
                self._statements[name] = rest.partition(b"\0")[0]
                return _message(b"1")
            case b"B":
                _, _, rest = body.partition(b"\0")
                self._portal = self._statements.get(rest.partition(b"\0")[0], b"")
                return _message(b"2")
            case b"D":
                parameters = _message(b"t", struct.pack("!h", 0)) if body[:1] == b"S" else b""
                return parameters + (_described(self._answers[0]) if self._has_answer(self._portal) else _message(b"n"))
            case b"E":
                return self._done(self._answers.popleft() if self._has_answer(self._portal) else None, self._portal)
            case b"C":
                return _message(b"3")
            case _:
                return b""

    def _has_answer(self, statement: bytes) -> bool:
        """Return whether the next answer is one to the statement: psycopg sends some by itself, before the program's."""
        if not self._answers or (word := _word(statement)) not in _BY_ITSELF:
            return bool(self._answers)
        if "error" in self._answers[0]:
            # psycopg sends its own BEGIN only outside of a transaction
            return word not in _AHEAD or (word == "BEGIN" and self._status != b"I")
        # a transaction that failed is rolled back by COMMIT
        return self._answers[0]["tag"].split(" ")[0] in ((word, "ROLLBACK") if word == "COMMIT" else (word,))

    def _whole(self, statement: bytes) -> bytes:
        if not self._has_answer(statement):
            return self._done(None, statement)
        answered = b""
        while self._answers:
            result = self._answers.popleft()
            answered += (_described(result) if result["columns"] is not None else b"") + self._done(result, statement)
        return answered

    def _done(self, result: Result | None, statement: bytes) -> bytes:
        word = _word(statement)
        if result is not None and "error" in result:
            self._answers.clear()
            return self._refuse(result["error"])
        if word in ("BEGIN", "START") or (word == "ROLLBACK" and b" TO " in statement.upper()):
            self._status = b"T"
        elif word in ("COMMIT", "ABORT") or (word == "ROLLBACK" and b" TO " not in statement.upper()):
            self._status = b"I"
        if result is not None:
            return b"".join(_row(row) for row in result["rows"]) + _message(b"C", _text(result["tag"]))
        if word in _BORDERS:
            return _message(b"C", _text(word))
        reason = "a replay has no answer to this: only statements of Cursor.execute and executemany are recorded"
        return self._refuse({"S": "ERROR", "V": "ERROR", "C": "0A000", "M": reason})

    def _refuse(self, fields: Mapping[str, str]) -> bytes:
        self._failed = True
        self._status = b"E" if self._status == b"T" else self._status
        return _message(b"E", b"".join(name.encode() + _text(text) for name, text in fields.items()) + b"\0")


def _thread(target: Callable[..., None], *args: Any) -> None:
    from freezeframe.seams.recorder.recording import outside_lane

    with outside_lane():
        threading.Thread(target=target, args=args, daemon=True).start()


def _word(statement: bytes) -> str:
    words = statement.split(None, 1)
    return words[0].decode("ascii", "replace").upper().strip(";") if words else ""


def _sized(stream: Any) -> bytes:
    size = stream.read(4)
    return stream.read(int.from_bytes(size, "big") - 4) if size else b""


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _described(result: Result) -> bytes:
    if result["columns"] is None:
        return _message(b"n")
    columns = [
        _text(name) + struct.pack("!ihIhih", 0, 0, oid, -1, modifier, form) for name, oid, modifier, form in result["columns"]
    ]
    return _message(b"T", struct.pack("!h", len(columns)) + b"".join(columns))


def _row(row: list[Any]) -> bytes:
    cells = [struct.pack("!i", -1) if value is None else _cell(value) for value in row]
    return _message(b"D", struct.pack("!h", len(cells)) + b"".join(cells))


def _cell(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("!i", len(data)) + data
