"""What a reader and the collector say to each other: frames of a kind, a length and a payload.

::

    collector -> reader    QUESTION  JSON of a `Question`, then STATEMENT  the statement's bytes
    reader -> collector    BOUND     JSON {"seconds": how long it may run}; sent before anything of the reader's runs
                           HEAD      JSON of a `Head`, before the first piece
                           PIECE     bytes of the answer
                           CONTROL   the statement was SET or USE, and is to be repeated for the next one of its session
                           FAILURE   JSON {"code": int, "text": str}
                           END       nothing follows

A reader may be under a stranger's control, so the collector trusts no length and no type.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from freezeframe_schemas.errors import WireError

_HEADER: Final = struct.Struct("!cI")
PIECE_BYTES: Final = 4 << 20
_MAX_BYTES: Final = 32 << 20


class FrameKind(Enum):
    """What a frame holds."""

    QUESTION = b"Q"
    STATEMENT = b"S"
    BOUND = b"B"
    HEAD = b"H"
    PIECE = b"P"
    CONTROL = b"C"
    FAILURE = b"F"
    END = b"E"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One statement with what it is to run under."""

    sql: bytes
    database: str | None = None
    default_format: str = "TabSeparated"
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    wait: bool = False
    """Answer only when the statement has ended."""
    controls: tuple[str, ...] = ()
    """SET and USE statements that its session ran before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is known before the first piece."""

    format: str
    read_rows: int = 0
    read_bytes: int = 0
    result_rows: int = 0
    elapsed_ns: int = 0


def pack(kind: FrameKind, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return _HEADER.pack(kind.value, len(payload)) + payload


def pack_json(kind: FrameKind, value: Mapping[str, Any]) -> bytes:
    """Return a frame with JSON in it."""
    return pack(kind, json.dumps(value).encode())


def pack_question(question: Question) -> bytes:
    """Return the two frames of a question."""
    about = {
        "database": question.database,
        "default_format": question.default_format,
        "parameters": dict(question.parameters),
        "settings": dict(question.settings),
        "wait": question.wait,
        "controls": list(question.controls),
    }
    return pack_json(FrameKind.QUESTION, about) + pack(FrameKind.STATEMENT, question.sql)


def read_question(read: Callable[[int], bytes]) -> Question:
    """Return the question that comes; called in the reader, which trusts the collector.

    Raises:
        EOFError: the collector has closed the channel.
    """
    _, about = read_frame(read)
    _, sql = read_frame(read)
    given: dict[str, Any] = json.loads(about)
    return Question(sql=sql, controls=tuple(given.pop("controls")), **given)


def read_frame(read: Callable[[int], bytes]) -> tuple[FrameKind, bytes]:
    """Return the next frame. `read(n)` gives n bytes or raises.

    Raises:
        WireError: the bytes are not a frame.
    """
    mark, size = _HEADER.unpack(read(_HEADER.size))
    try:
        kind = FrameKind(mark)
    except ValueError:
        raise WireError(f"reader: found a frame of kind {mark!r}") from None
    if size > _MAX_BYTES:
        raise WireError(f"reader: found a frame of {size} bytes, the limit is {_MAX_BYTES}")
    return kind, read(size) if size else b""


def head_of(payload: bytes) -> Head:
    """Return the head in a frame's payload.

    Raises:
        WireError: it is not one.
    """
    given = _object(payload)
    numbers = {name: given.get(name) for name in ("read_rows", "read_bytes", "result_rows", "elapsed_ns")}
    name = given.get("format")
    if not isinstance(name, str) or not name.isalnum() or not all(type(number) is int for number in numbers.values()):
        raise WireError("reader: the head of an answer is malformed")
    return Head(format=name, **{key: int(number or 0) for key, number in numbers.items()})


def failure_of(payload: bytes) -> tuple[int, str]:
    """Return code and text of a failure.

    Raises:
        WireError: it is not one.
    """
    given = _object(payload)
    code, text = given.get("code"), given.get("text")
    if type(code) is not int or not isinstance(text, str):
        raise WireError("reader: a failure is malformed")
    return code, text


def bound_of(payload: bytes) -> float:
    """Return the seconds that a statement may run.

    Raises:
        WireError: they are not a number.
    """
    seconds = _object(payload).get("seconds")
    if not isinstance(seconds, int | float):
        raise WireError("reader: a bound is malformed")
    return float(seconds)


def _object(payload: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(payload)
    except (ValueError, RecursionError):
        raise WireError("reader: a frame is not JSON") from None
    if not isinstance(value, dict):
        raise WireError("reader: a frame is not a JSON object")
    return value
