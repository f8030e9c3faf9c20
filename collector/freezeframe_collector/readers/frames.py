"""The protocol between a reader and the collector: frames of a kind, a length and a payload.

::

    collector -> reader    QUESTION  JSON of a `Question`, then STATEMENT  the statement's bytes
    reader -> collector    BOUND     JSON of a `Bound`; sent before anything of the reader's runs
                           HEAD      JSON of a `Head`, before the first piece
                           PIECE     bytes of the answer
                           CONTROL   the statement was SET or USE, and is to be repeated for the next one of its session
                           FAILURE   JSON of a `QueryFailure`
                           END       nothing follows

A reader may be under a stranger's control, so the collector trusts no length and no type.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.records import from_json

_T = TypeVar("_T")
_HEADER: Final = struct.Struct("!cI")
PIECE_BYTES: Final = 4 << 20
_MAX_BYTES: Final = 32 << 20


class FrameKind(Enum):
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
    """One statement with its settings and limits."""

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
class Bound:
    """Time limits of a statement."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFailure:
    """An error in ClickHouse's form."""

    code: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Facts known before the first piece."""

    format: str
    read_rows: int = 0
    read_bytes: int = 0
    result_rows: int = 0
    elapsed_ns: int = 0

    def __post_init__(self) -> None:
        """Refuse a format that is not a plain name: it goes into a header."""
        if not self.format.isalnum():
            raise WireError("reader: the format of an answer is not a name")


def pack(kind: FrameKind, payload: bytes = b"") -> bytes:
    return _HEADER.pack(kind.value, len(payload)) + payload


def pack_json(kind: FrameKind, value: Mapping[str, Any]) -> bytes:
    return pack(kind, json.dumps(value).encode())


def pack_question(question: Question) -> bytes:
    """Return the two frames of a question."""
    about = asdict(question)
    sql = about.pop("sql")
    return pack_json(FrameKind.QUESTION, about) + pack(FrameKind.STATEMENT, sql)


def read_question(read: Callable[[int], bytes]) -> Question:
    """Return the question that comes; called in the reader, which trusts the collector.

    Raises:
        EOFError: the collector has closed the channel.
    """
    _, about = read_frame(read)
    _, sql = read_frame(read)
    return from_json(Question, {**json.loads(about), "sql": sql}, "question")


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


def payload_of(kind: type[_T], payload: bytes) -> _T:
    """Return the content of a frame's payload: a `Bound`, a `Head` or a `QueryFailure`.

    Raises:
        WireError: it does not hold one.
    """
    try:
        value: Any = json.loads(payload)
    except (ValueError, RecursionError):
        raise WireError("reader: a frame is not JSON") from None
    return from_json(kind, value, f"reader: {kind.__name__}")
