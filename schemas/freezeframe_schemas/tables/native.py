"""ClickHouse's Native format: columns of Python values to one block of bytes, and the columns of a stored run back.

A block is sent with plain types (``String`` for ``LowCardinality(String)`` and for enums); the store converts on insert.

Source: https://clickhouse.com/docs/en/interfaces/formats/Native
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain
from typing import Any, Final

_ARRAY_CODES: Final = {"UInt8": "B", "Bool": "B", "UInt16": "H", "UInt32": "I", "UInt64": "Q", "Int64": "q", "Float64": "d"}
_INDEX_CODES: Final = "BHIQ"
_DICTIONARY: Final = "LowCardinality("
_REPEATING: Final = 4
"""Repetitions of each text, on average, from which each is encoded once (names, kinds, models)."""


def encode_block(columns: Mapping[str, tuple[str, Sequence[Any]]]) -> bytes:
    """Return one Native block of ``{name: (type, values)}``; all columns have the same length.

    Shape: text and ``String`` take ``str`` or ``bytes``; ``DateTime('UTC')`` seconds, ``DateTime64(9, 'UTC')`` nanoseconds;
    ``Map`` takes a mapping, ``Array`` a sequence, ``Nullable`` may be None, ``FixedString`` bytes of its length.
    """
    rows = len(next(iter(columns.values()))[1]) if columns else 0
    out: list[bytes] = [_varint(len(columns)), _varint(rows)]
    for name, (type_, values) in columns.items():
        if len(values) != rows:
            raise ValueError(f"column {name}: found {len(values)} values, expected {rows}")
        wire = wire_type(type_)
        out += (_text(name), _text(wire))
        _encode(wire, values, out)
    return b"".join(out)


def decode_blocks(raw: bytes, *, binary: Container[str] = frozenset[str]()) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of each block by name, with the values that `encode_block` takes.

    Text is ``str``, and ``bytes`` in the columns that `binary` names.

    Raises:
        ValueError: the bytes end within a block, or a type is not one of those that hold a span.
    """
    at = 0
    try:
        while at < len(raw):
            count, at = _read_varint(raw, at)
            rows, at = _read_varint(raw, at)
            block: dict[str, list[Any]] = {}
            for _ in range(count):
                (name, type_), at = _read_texts(raw, at, 2)
                if rows:
                    at += 8 * type_.count(_DICTIONARY)  # versions
                block[name], at = _decode(type_, raw, at, rows, name in binary)
            if at > len(raw):
                raise IndexError
            yield block
    except IndexError:
        raise ValueError(f"found {len(raw)} bytes, expected more: a block is cut short") from None


@cache
def wire_type(type_: str) -> str:
    """Return the type that is sent: without dictionaries, enums as text."""
    while (start := type_.find("LowCardinality(")) >= 0:
        type_ = type_[:start] + type_[start + 15 :].replace(")", "", 1)
    while (start := type_.find("Enum8(")) >= 0:
        type_ = type_[:start] + "String" + type_[type_.index(")", start) + 1 :]
    return type_


def _encode(type_: str, values: Sequence[Any], out: list[bytes]) -> None:
    if code := _ARRAY_CODES.get(type_):
        out.append(_numbers(code, values))
    elif type_ == "String":
        _append_texts(values, out)
    elif type_.startswith("FixedString("):
        out.append(b"".join(values))
    elif type_.startswith("DateTime64("):
        out.append(_numbers("q", values))
    elif type_.startswith("DateTime("):
        out.append(_numbers("I", values))
    elif type_.startswith("Nullable("):
        if values.count(None) == len(values):
            out.append(b"\x01" * len(values))
            _encode(type_[9:-1], [0] * len(values), out)
            return
        out.append(bytes([value is None for value in values]))
        _encode(type_[9:-1], [0 if value is None else value for value in values], out)
    elif type_.startswith(("Array(", "Map(")) and not any(values):
        out.append(bytes(8 * len(values)))
    elif type_.startswith("Array("):
        out.append(_offsets(values))
        _encode(type_[6:-1], list(chain.from_iterable(values)), out)
    elif type_.startswith("Map("):
        key, _, value = type_[4:-1].partition(", ")
        out.append(_offsets(values))
        _encode(key, list(chain.from_iterable(values)), out)
        _encode(value, [item for mapping in values if mapping for item in mapping.values()], out)
    else:
        raise ValueError(f"type {type_}: expected one that this writer knows")


def _offsets(values: Sequence[Any]) -> bytes:
    return _numbers("Q", accumulate(map(len, values)))


def _numbers(code: str, values: Iterable[Any]) -> bytes:
    numbers = array(code, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _append_texts(values: Sequence[str | bytes], out: list[bytes]) -> None:
    """Append each text after its length. Large ones stay pieces until the block is joined, so they are copied once."""
    if len(values) > _REPEATING and isinstance(values[0], str):
        if values.count(values[0]) == len(values):  # quick: most columns hold one empty text throughout
            out.append(_text(values[0]) * len(values))
            return
        distinct = set(values)
        if len(distinct) * _REPEATING <= len(values):
            encoded = {value: _text(value) for value in distinct}
            out.append(b"".join([encoded[value] for value in values]))
            return
    raws = [value.encode() if isinstance(value, str) else value for value in values]
    parts: list[bytes] = [b""] * (2 * len(raws))
    parts[::2] = [_varint(len(raw)) for raw in raws]
    parts[1::2] = raws
    out += parts


def _text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _varint(len(raw)) + raw


@lru_cache(1 << 14)
def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _decode(type_: str, raw: bytes, at: int, rows: int, binary: bool) -> tuple[list[Any], int]:
    if not rows:
        return [], at
    if code := _ARRAY_CODES.get(type_):
        return _read_numbers(code, raw, at, rows)
    if type_ == "String":
        texts, at = _read_texts(raw, at, rows, binary)
        return texts, at
    kind, _, inner = type_[:-1].partition("(")
    match kind:
        case "FixedString":
            size = int(inner)
            return [raw[start : start + size] for start in range(at, at + rows * size, size)], at + rows * size
        case "DateTime64":
            return _read_numbers("q", raw, at, rows)
        case "LowCardinality":
            (flags, size), at = _read_numbers("Q", raw, at, 2)
            keys, at = _decode(inner, raw, at, size, binary)
            indexes, at = _read_numbers(_INDEX_CODES[flags & 255], raw, at + 8, rows)
            return [keys[index] for index in indexes], at
        case "Array":
            ends, at = _read_numbers("Q", raw, at, rows)
            items, at = _decode(inner, raw, at, ends[-1], binary)
            return [items[start:end] for start, end in zip([0, *ends], ends, strict=False)], at
        case "Tuple":
            columns: list[list[Any]] = []
            for item in _items(inner):
                column, at = _decode(item, raw, at, rows, binary)
                columns.append(column)
            return [*zip(*columns, strict=True)], at
        case "Map":
            key, _, value = inner.partition(", ")
            ends, at = _read_numbers("Q", raw, at, rows)
            keys, at = _decode(key, raw, at, ends[-1], binary)
            values, at = _decode(value, raw, at, ends[-1], binary)
            pairs = [*zip(keys, values, strict=True)]
            return [dict(pairs[start:end]) for start, end in zip([0, *ends], ends, strict=False)], at
        case _:
            raise ValueError(f"found type {type_!r}, which this reader does not know")


def _items(inner: str) -> list[str]:
    """Return the types of a tuple, whose items may have names."""
    items: list[str] = []
    depth = start = 0
    for at, char in enumerate(inner):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            items.append(inner[start:at].strip())
            start = at + 1
    items.append(inner[start:].strip())
    return [item.split(" ", 1)[1] if re.match(r"[\w`]+ ", item) else item for item in items]


def _read_numbers(code: str, raw: bytes, at: int, rows: int) -> tuple[list[Any], int]:
    numbers = array(code)
    end = at + rows * numbers.itemsize
    if end > len(raw):
        raise IndexError
    numbers.frombytes(raw[at:end])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist(), end


def _read_texts(raw: bytes, at: int, rows: int, binary: bool = False) -> tuple[list[Any], int]:
    texts: list[Any] = []
    for _ in range(rows):
        size = raw[at]
        at += 1
        if size > 127:
            size, at = _read_varint(raw, at - 1)
        texts.append(raw[at : at + size] if binary else raw[at : at + size].decode())
        at += size
    return texts, at


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := raw[at]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1
