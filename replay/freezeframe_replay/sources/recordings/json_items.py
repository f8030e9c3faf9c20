"""Read the items of a long JSON array, or of a file with one a line: only one item is in memory at once, not the file."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TextIO, TypeVar

from freezeframe_replay.sources.otlp_bytes import opened
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.wire.document import JsonObject, as_object

MAX_ITEM_CHARS: Final = 32 * 1024 * 1024
"""Characters of one item. The largest recorded calls have a few million."""
_PIECE: Final = 64 * 1024
_SPACE: Final = " \t\r\n"

Other = Callable[[str, Any], None]
Made = TypeVar("Made")


@contextmanager
def placed(path: Path, where: str) -> Generator[None]:
    """Add the place to a fault.

    Raises:
        WireError: in place of a `ValueError`, and of a `WireError` that does not name the file.
    """
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise WireError(f"{path}, {where}: {error}") from None
    except WireError as error:
        if error.message.startswith(str(path)):
            raise
        raise WireError(f"{path}, {where}: {error.message}") from None


def each(path: Path, word: str, items: Iterable[Any], make: Callable[[JsonObject], Made]) -> Iterator[Made]:
    """Yield the result of `make` for each item.

    A fault names it by its `word` and number, from 1, and by its line if it has one.

    Raises:
        WireError: `make` raised a `ValueError`.
    """
    for number, item in enumerate(items, 1):
        where, value = f"{word} {number}", item
        if isinstance(item, Line):
            where, value = f"line {item.number}, {where}", item.value
        with placed(path, where):
            made = make(as_object(value))
        yield made


class Line(NamedTuple):
    """A line of a file, as JSON."""

    number: int
    value: Any
    offset: int


def lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines of a file that has a JSON value on each; it may be compressed with gzip.

    Raises:
        WireError: a line is not JSON, or longer than an item may be.
    """
    with opened(path) as file:
        number = offset = 0
        while line := _line(path, file, number + 1):
            number += 1
            if line.strip():
                yield Line(number, _parsed(path, number, line), offset)
            offset += len(line)


def line_at(path: Path, offset: int) -> Any:
    """Return the JSON value of the line that begins at `offset`."""
    with opened(path) as file:
        file.seek(offset)
        return json.loads(_line(path, file, 0))


def _line(path: Path, file: BinaryIO, number: int) -> bytes:
    line = file.readline(4 * MAX_ITEM_CHARS)
    if len(line) >= 4 * MAX_ITEM_CHARS:
        raise WireError(f"{path}, line {number}: has more than {4 * MAX_ITEM_CHARS:,} bytes")
    return line


def _parsed(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{path}, line {number}: not JSON, or cut ({type(error).__name__})") from None


def items_of(path: Path, *names: str, other: Other | None = None, is_required: bool = True) -> Iterator[Any]:
    """Yield the items of the array under `names`; without names, the document is the array.

    Args:
        path: the file.
        names: the fields that lead to the array, from the outermost on.
        other: called with each other field on the way and its value.
        is_required: whether a file without the array is a fault.

    Raises:
        WireError: the file is cut, is not JSON, lacks the array, or holds an item of more than `MAX_ITEM_CHARS` characters.
    """
    with path.open(encoding="utf-8-sig") as file:  # programs on Windows put a byte order mark before it
        text = _Text(path, file)
        try:
            if not (yield from _walk(text, names, other)) and is_required:
                raise WireError(f"{path}: found no array {'.'.join(names)!r}")
            if text.next() is not None:
                raise text.wrong("found more after the end of the document")
        except UnicodeDecodeError as error:
            raise WireError(f"{path}: not UTF-8 text: {error.reason}") from None


def only_document(path: Path) -> JsonObject | None:
    """Return the object that a file is, at most as long as an item; None if the file is anything else."""
    with opened(path) as file:
        held = file.readline(MAX_ITEM_CHARS).removeprefix(codecs.BOM_UTF8)
        if held.lstrip()[:1] != b"{":
            return None
        with suppress(ValueError, RecursionError):
            found: Any = json.loads(held)
            return None if file.read(_PIECE).strip() else as_object(found)  # a file of lines is not read to its end
        held += file.read(MAX_ITEM_CHARS - len(held) + 1)
    with suppress(ValueError, RecursionError):
        return as_object(json.loads(held)) if len(held) <= MAX_ITEM_CHARS else None
    return None


def listed(path: Path, *names: str) -> Iterator[Any]:
    """Yield the items of a file that is a JSON array, or an object that has one under one of `names`; or each `Line`.

    Raises:
        WireError: as `items_of` and `lines_of`.
    """
    with opened(path) as file:
        head = file.read(_PIECE).removeprefix(codecs.BOM_UTF8).lstrip()
    if head[:1] == b"[":
        yield from items_of(path)
    elif (name := _name_of_list(head, names)) is not None:
        yield from items_of(path, name)
    else:
        yield from lines_of(path)


def _name_of_list(head: bytes, names: tuple[str, ...]) -> str | None:
    """Return which of `names` has the array, if the file is one document: it begins with that, or goes on over lines."""
    begun = next((name for name in names if re.match(rb'\{\s*"%s"\s*:\s*\[' % name.encode(), head)), None)
    first, newline, _ = head.partition(b"\n")
    if begun is not None or not newline:
        return begun
    try:
        found: Any = json.loads(first)
    except (ValueError, RecursionError):
        return next((name for name in names if re.search(rb'\n[ \t]{0,4}"%s"\s*:\s*\[' % name.encode(), head)), names[0])
    return next((name for name in names if isinstance(found, dict) and isinstance(found.get(name), list)), None)


def _walk(text: _Text, names: tuple[str, ...], other: Other | None) -> Iterator[Any]:
    """Yield the items, and return whether the array was there. The text must continue after it as JSON does."""
    if not names:
        text.take("[")
        yield from text.items()
        return True
    found = False
    text.take("{")
    for _ in text.separated("}"):
        name = text.value()
        if not isinstance(name, str):
            raise text.wrong("expected the name of a field")
        text.take(":")
        if name == names[0] and not found:
            found = yield from _walk(text, names[1:], other)
        else:
            value = text.value()
            if other is not None:
                other(name, value)
    return found


class _Text:
    """A document, of which a part is in memory."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._held = ""
        self._at = 0
        self._items = self._lines = 0
        self._ended = False
        self._decoder = json.JSONDecoder()

    def next(self) -> str | None:
        """Return the next character that is not a space without consuming it, or None at the end."""
        while True:
            while self._at < len(self._held):
                if self._held[self._at] not in _SPACE:
                    return self._held[self._at]
                self._at += 1
            if not self._read():
                return None

    def take(self, mark: str) -> None:
        """Step over a mark.

        Raises:
            WireError: another one is there.
        """
        found = self.next()
        if found != mark:
            raise self.wrong("the file is cut" if found is None else f"found {found!r}, expected {mark!r}")
        self._at += 1

    def separated(self, end: str) -> Iterator[None]:
        """Yield before each member of an array or object, until its end has been taken."""
        if self.next() == end:
            self.take(end)
            return
        while True:
            yield
            if self.next() == end:
                self.take(end)
                return
            self.take(",")

    def items(self) -> Iterator[Any]:
        """Yield the items of an array whose opening bracket was taken."""
        for _ in self.separated("]"):
            item = self.value()
            self._items += 1
            yield item

    def value(self) -> Any:
        while True:
            try:
                if self.next() is None:
                    raise self.wrong("the file is cut")
                value, end = self._decoder.raw_decode(self._held, self._at)
            except RecursionError:
                raise self.wrong("nested deeper than Python reads") from None
            except ValueError as error:
                if len(self._held) - self._at > MAX_ITEM_CHARS:
                    raise self.wrong(f"one value has more than {MAX_ITEM_CHARS:,} characters, or is not JSON") from None
                why, at = "a number is too long", 0
                if isinstance(error, json.JSONDecodeError):
                    why, at = error.msg, error.pos - self._at
                if not self._read():  # what is held now begins with the value
                    raise self.wrong(f"not JSON, or cut ({why})", at) from None
                continue
            if end < len(self._held) or not self._read():  # a number might continue
                self._at = end
                return value

    def wrong(self, what: str, at: int | None = None) -> WireError:
        """Return an error with its place: at `at` in the held text, by default the current position."""
        line = 1 + self._lines + self._held.count("\n", 0, self._at if at is None else at)
        return WireError(f"{self._path}, line {line}, after item {self._items}: {what}")

    def _read(self) -> bool:
        """Double the held text, so that a long value is not tried too often; return whether there was more."""
        self._lines += self._held.count("\n", 0, self._at)
        self._held = self._held[self._at :]
        self._at = 0
        if self._ended:
            return False
        piece = self._file.read(max(_PIECE, len(self._held)))
        self._ended = not piece
        self._held += piece
        return bool(piece)
