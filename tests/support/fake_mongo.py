"""A server that speaks MongoDB's wire (OP_MSG) and keeps documents in memory: no real one can be installed here.

It knows equality in filters, ``$set`` and ``$inc``, counts, batches of cursors and unique ids: what the tests ask.
"""

from __future__ import annotations

import itertools
import socketserver
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import bson

_HEADER = struct.Struct("<iiii")
_HELLO: dict[str, Any] = {
    "isWritablePrimary": True, "ismaster": True, "helloOk": True, "minWireVersion": 0, "maxWireVersion": 21,
    "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30, "readOnly": False, "ok": 1.0,
}  # fmt: skip
Document = dict[str, Any]


class FakeMongo:
    """The documents of all collections."""

    def __init__(self) -> None:
        self._collections: dict[str, list[Document]] = {}
        self._cursors: dict[int, list[Document]] = {}
        self._ids = itertools.count(7001)
        self._lock = threading.Lock()

    def answer(self, command: Document) -> Document:
        """Return the reply to a command."""
        name = next(iter(command))
        if name.lower() in ("hello", "ismaster"):
            return _HELLO
        act: Any = getattr(self, f"_{name.lower()}", None)
        if act is None:
            return {"ok": 0.0, "errmsg": f"no such command: '{name}'", "code": 59, "codeName": "CommandNotFound"}
        with self._lock:
            return {"ok": 1.0, **act(command, f"{command['$db']}.{command[name]}")}

    def _ping(self, command: Document, where: str) -> Document:
        return {}

    _endsessions = _killcursors = _ping

    def _insert(self, command: Document, where: str) -> Document:
        found, errors = self._collections.setdefault(where, []), list[Document]()
        for index, document in enumerate(command["documents"]):
            if any(document["_id"] == other["_id"] for other in found):
                text = f"E11000 duplicate key error collection: {where} index: _id_"
                errors.append({"index": index, "code": 11000, "errmsg": text})
                break
            found.append(document)
        return {"n": len(command["documents"]) - len(errors), **({"writeErrors": errors} if errors else {})}

    def _matching(self, where: str, wanted: Document) -> list[Document]:
        return [
            document
            for document in self._collections.get(where, [])
            if all(document.get(name) == value for name, value in wanted.items())
        ]

    def _cursor(self, documents: list[Document], where: str, size: int, batch: str) -> Document:
        number = 0
        if len(documents) > size:
            number = next(self._ids)
            self._cursors[number] = documents[size:]
        return {"cursor": {"id": bson.Int64(number), "ns": where, batch: documents[:size]}}

    def _find(self, command: Document, where: str) -> Document:
        found = self._matching(where, command.get("filter", {}))
        found = found[: command["limit"]] if command.get("limit") else found
        return self._cursor(found, where, command.get("batchSize", 101), "firstBatch")

    def _getmore(self, command: Document, where: str) -> Document:
        found = self._cursors.pop(command["getMore"])
        return self._cursor(found, f"{command['$db']}.{command['collection']}", command.get("batchSize", 101), "nextBatch")

    def _aggregate(self, command: Document, where: str) -> Document:
        match, *_ = command["pipeline"]
        count = len(self._matching(where, match["$match"]))
        return self._cursor([{"_id": 1, "n": count}] if count else [], where, 101, "firstBatch")

    def _update(self, command: Document, where: str) -> Document:
        [update] = command["updates"]
        found = self._matching(where, update["q"])
        found = found if update.get("multi") else found[:1]
        for document in found:
            document |= update["u"].get("$set", {})
            for name, value in update["u"].get("$inc", {}).items():
                document[name] = document.get(name, 0) + value
        return {"n": len(found), "nModified": len(found)}

    def _delete(self, command: Document, where: str) -> Document:
        [delete] = command["deletes"]
        gone = self._matching(where, delete["q"])
        gone = gone[: delete["limit"]] if delete["limit"] else gone
        self._collections[where] = [document for document in self._collections.get(where, []) if document not in gone]
        return {"n": len(gone)}


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        while head := self.rfile.read(_HEADER.size):
            size, request_id, _, op_code = _HEADER.unpack(head)
            body = self.rfile.read(size - _HEADER.size)
            if op_code == 2013:
                payload = struct.pack("<IB", 0, 0) + bson.encode(server.mongo.answer(_command(body)))
            else:  # the first words of older clients
                payload = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(_HELLO)
            answer = _HEADER.pack(_HEADER.size + len(payload), 1, request_id, 2013 if op_code == 2013 else 1)
            self.wfile.write(answer + payload)


def _command(body: bytes) -> Document:
    command, at = dict[str, Any](), 4
    while at < len(body):
        (size,) = struct.unpack_from("<i", body, at + 1)
        section = body[at + 1 : at + 1 + size]
        if body[at] == 0:
            command |= bson.decode(section)
        else:
            name, _, documents = section[4:].partition(b"\0")
            command[name.decode()] = bson.decode_all(documents)
        at += 1 + size
    return command


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    mongo = FakeMongo()


@contextmanager
def mongo_server() -> Generator[str]:
    """Yield the address of a new server."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.mongo = FakeMongo()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"mongodb://127.0.0.1:{server.server_address[1]}/?uuidRepresentation=standard"
        finally:
            server.shutdown()
