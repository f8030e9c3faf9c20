"""The protocol between a worker and the owner of the log: framed messages over a socket pair, writer and reader side by side.

**Shape** of a message: ``length u32 | kind u8 | number u64 | payload``. A call and its answer have the same number. All numbers
little-endian. Both ends are the same version of this program, so it has no version.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import struct
import threading
from array import array
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from freezeframe_collector.admission import BusyError
from freezeframe_collector.batch import Appended, Batch, EncodedSpan
from freezeframe_collector.casts.found import RunKey, found_from_json, found_to_json
from freezeframe_collector.store import Rejected

_HEAD: Final = struct.Struct("<IBQ")
_BATCH: Final = struct.Struct("<IIIII")
_CAST: Final = struct.Struct("<III")
_APPENDED: Final = struct.Struct("<QQ")


class MessageKind(IntEnum):
    CONFIG = 1
    """Owner: the settings, as JSON. The first message."""
    READY = 2
    """Worker: it listens; its ports as JSON."""
    FAILED = 3
    """Worker: it cannot start; the reason as text."""
    APPEND = 4
    """Worker: a batch."""
    APPENDED = 5
    """Owner: the batch is on the disk."""
    PAGE = 6
    """Worker: requests one of the owner's pages, as JSON. Owner: the page."""
    COUNTS = 7
    """Worker: new counts of its meter and budget, as JSON. Has no answer."""
    BUSY = 8
    """Owner: nothing was taken; the reason as JSON."""
    STOP = 9
    """Owner: answer the requests in progress and end; the seconds for it as JSON."""
    CAST = 10
    """Owner: a finding in a run. Has no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMessage:
    kind: MessageKind
    number: int = 0
    payload: bytes = b""


class Channel:
    """One end of the socket pair. `send` may be called from any thread, `receive` from one."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._reader = end.makefile("rb", buffering=1 << 18)
        self._lock = threading.Lock()

    def send(self, message: ChannelMessage) -> None:
        """Send a message.

        Raises:
            OSError: the other end is gone.
        """
        head = _HEAD.pack(len(message.payload), message.kind, message.number)
        with self._lock:
            self._socket.sendall(head + message.payload)

    def receive(self) -> ChannelMessage | None:
        """Wait for a message; None when the other end is gone."""
        try:
            head = self._reader.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return None
            length, kind, number = _HEAD.unpack(head)
            payload = self._reader.read(length)
        except OSError:
            return None
        return ChannelMessage(kind=MessageKind(kind), number=number, payload=payload) if len(payload) == length else None

    def close(self) -> None:
        """Close this end, which ends a `receive` of the other."""
        self._reader.close()
        self._socket.close()


# -- payloads -----------------------------------------------------------------------------------------------------------


def pack_batch(batch: Batch) -> bytes:
    """Return a batch as bytes: lengths, rejected and found as JSON, the pieces' table, resources, scopes, spans."""
    resources: dict[bytes, int] = {}
    scopes: dict[bytes, int] = {}
    table = array("Q")
    for span in batch.encoded:
        resource = resources.setdefault(span.resource, len(resources))
        scope = scopes.setdefault(span.scope, len(scopes))
        table.extend((span.key, resource, scope, len(span.span)))
    table.extend(map(len, (*resources, *scopes)))
    rejected = json.dumps([dataclasses.asdict(item) for item in batch.rejected]).encode() if batch.rejected else b""
    found = json.dumps(found_to_json(batch.found)).encode() if batch.found else b""
    head = _BATCH.pack(len(rejected), len(found), len(resources), len(scopes), len(batch.encoded))
    spans = (span.span for span in batch.encoded)
    return b"".join((head, rejected, found, table.tobytes(), *resources, *scopes, *spans))


def unpack_batch(data: bytes) -> Batch:
    """Return the batch of `pack_batch`; its spans stay encoded."""
    rejected_length, found_length, resource_count, scope_count, span_count = _BATCH.unpack_from(data)
    at = _BATCH.size + rejected_length
    rejected = tuple(Rejected(**item) for item in json.loads(data[_BATCH.size : at])) if rejected_length else ()
    found = found_from_json(json.loads(data[at : at + found_length])) if found_length else ()
    at += found_length
    table = array("Q")
    end = at + 8 * (4 * span_count + resource_count + scope_count)
    table.frombytes(data[at:end])
    at = end
    heads: list[bytes] = []
    for length in table[4 * span_count :]:
        heads.append(data[at : at + length])
        at += length
    encoded: list[EncodedSpan] = []
    for row in range(0, 4 * span_count, 4):
        key, resource, scope, length = table[row : row + 4]
        span = data[at : at + length]
        at += length
        encoded.append(EncodedSpan(key=key, span=span, scope=heads[resource_count + scope], resource=heads[resource]))
    return Batch(encoded=encoded, spans=None, rejected=rejected, found=found)


def pack_appended(appended: Appended) -> bytes:
    """Return the log's answer as bytes."""
    return _APPENDED.pack(appended.segment, appended.duplicate)


def unpack_appended(data: bytes) -> Appended:
    """Return the answer of `pack_appended`."""
    segment, duplicate = _APPENDED.unpack(data)
    return Appended(segment=segment, duplicate=duplicate)


def pack_busy(error: BusyError) -> bytes:
    return json.dumps({"message": error.message, "retry_after_s": error.retry_after_s}).encode()


def unpack_busy(data: bytes) -> BusyError:
    """Return the refusal of `pack_busy`."""
    content = json.loads(data)
    return BusyError(content["message"], retry_after_s=content["retry_after_s"])


def pack_finding(run: RunKey, number: int, sealed: bytes) -> bytes:
    tenant, trace_id = (text.encode() for text in run)
    return _CAST.pack(number, len(tenant), len(trace_id)) + tenant + trace_id + sealed


def unpack_finding(data: bytes) -> tuple[RunKey, int, bytes]:
    """Return what `pack_finding` took."""
    number, tenant_length, trace_length = _CAST.unpack_from(data)
    tenant_end = _CAST.size + tenant_length
    end = tenant_end + trace_length
    return (data[_CAST.size : tenant_end].decode(), data[tenant_end:end].decode()), number, data[end:]
