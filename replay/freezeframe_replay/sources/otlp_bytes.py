"""The bytes of OTLP files: JSON or protobuf, which may be compressed with gzip, as exporters to object stores do.

Protobuf is one ``ExportTraceServiceRequest`` (or ``TracesData``, which has the same form), or several, each after its length in
four bytes, as the file exporter of the OpenTelemetry Collector writes them (``format: proto``). The same of logs:
instrumentations that keep content off the span send it in log records, which become spans below theirs.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import NO_LIMITS, Decoded, decode_traces
from freezeframe_schemas.otlp.logs import decode_logs
from freezeframe_schemas.span import SpanRecord

TRACES: Final = "traces"
LOGS: Final = "logs"
_GZIP: Final = b"\x1f\x8b"
_LENGTH: Final = 4
_HEAD_BYTES: Final = 4096
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a file that may be compressed with gzip.

    Raises:
        WireError: the compressed file is cut or damaged.
    """
    with path.open("rb") as file:
        is_packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        try:
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if is_packed else file
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise WireError(f"{path}: the compressed file is cut or damaged: {error}") from None


def is_text(path: Path) -> bool:
    """Return whether the file may be JSON, which holds no control character; the tags of protobuf are such characters."""
    with opened(path) as file:
        return _CONTROL.search(file.read(_HEAD_BYTES)) is None


class Document(NamedTuple):
    """A JSON document of a file."""

    line: int
    """Its line; 0 if it is the whole file."""
    text: bytes
    value: Any


def documents_of(path: Path) -> Iterator[Document]:
    """Yield the JSON documents of a file: one a line, or the file as a whole is one.

    Raises:
        WireError: a line is not JSON.
    """
    with opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = Document(number, line, json.loads(line))
            except (ValueError, RecursionError) as error:
                whole = line + lines.read() if number == 1 else b""
                try:
                    yield Document(0, whole, json.loads(whole))
                    return
                except (ValueError, RecursionError):
                    raise WireError(
                        f"{path}, line {number}: not JSON ({error}), expected one OTLP/JSON request a line, or one document",
                        do="name a fixture's directory, a file written by `freezeframe run --file`, or the id of a run",
                    ) from error
            yield found


def messages_of(path: Path) -> Iterator[bytes]:
    """Yield the messages of a file of protobuf: each after its length, unless the file as a whole is one.

    Raises:
        WireError: the last one is cut.
    """
    with opened(path) as file:
        is_first = True
        while head := file.read(_LENGTH):
            size = int.from_bytes(head, "big")
            body = file.read(size)
            if size and len(body) == size:
                yield body
            elif is_first:
                yield head + body + file.read()  # no lengths: these were the first bytes of the message
            else:
                raise WireError(f"{path}: the last message is cut: {size:,} bytes are announced, {len(body):,} are there")
            is_first = False


def read_message(body: bytes) -> tuple[str, Decoded]:
    """Return the signal of a message and its spans; log records are spans, too.

    Both kinds have the same form and differ only in their content.

    Raises:
        WireError: it is not OTLP protobuf with spans or log records in it.
    """
    try:
        found = decode_traces(body, NO_LIMITS)
        if found.spans:
            return TRACES, found
        logs = decode_logs(body, NO_LIMITS)
        if logs.events.spans or logs.others:
            return LOGS, logs.events
    except WireError:
        pass
    raise WireError(f"{len(body):,} bytes that are not OTLP protobuf with spans or log records in it")


def spans_of_protobuf(path: Path) -> Iterator[SpanRecord]:
    """Yield the spans of a file of protobuf.

    Raises:
        WireError: it is not OTLP, holds no span, or an unreadable one.
    """
    is_empty = True
    for number, body in enumerate(messages_of(path), 1):
        try:
            _, found = read_message(body)
        except WireError as error:
            raise WireError(
                f"{path}, message {number}: {error}, expected OTLP (JSON lines, one JSON document, or protobuf)",
                do="name a file of spans, a fixture's directory or its .tar.gz, or the id of a run",
            ) from error
        for fault in found.faults:
            raise WireError(f"{path}, span {fault.span_id or '(no id)'}: {fault.reason}: {fault.detail}")
        is_empty = is_empty and not found.spans
        yield from found.spans
    if is_empty:
        raise WireError(f"{path}: holds no spans")
