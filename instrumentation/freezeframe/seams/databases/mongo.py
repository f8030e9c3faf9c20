"""pymongo, sync and asyncio: each command that a connection sends, and its reply, on the wire (OP_MSG), as MongoDB's JSON.

So a cursor is recorded batch by batch, as pymongo fetches it. In a replay a client is connected to nothing:
pymongo's own commands (``hello``) are answered here, all others from the recording. Ids that pymongo makes are
restored.

Not seen: commands that are compressed or have no reply to wait for, change streams and other cursors that a server fills by
itself (exhaust).
"""

from __future__ import annotations

import json
import re
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.seams.databases import statements
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.readings import feed_of, is_read_inside, note, recall
from freezeframe_schemas.exchange import Completion

SYSTEM: Final = "mongodb"
_HEADER: Final = struct.Struct("<iiii")
_OP_MSG: Final = 2013
_OP_COMPRESSED: Final = 2012
_MORE_TO_COME: Final = 2
_PYMONGOS: Final = frozenset({"hello", "ismaster", "endsessions", "killcursors", "saslstart", "saslcontinue", "authenticate"})
"""Commands that pymongo sends by itself."""
_VARIES: Final = frozenset({"lsid", "txnNumber", "$clusterTime", "operationTime", "$readPreference", "apiVersion"})
"""Fields of commands and replies that do not concern the data."""
_OF_THE_SERVER: Final = re.compile(
    r"(?:tls|ssl|auth|srv)\w*|replicaset|directconnection|loadbalanced|compressors|zlib\w*|username|password|server_?api",
    re.IGNORECASE,
)
"""Options of a client that a replay leaves out."""
_HELLO: Final[Mapping[str, Any]] = {
    "ok": 1, "isWritablePrimary": True, "ismaster": True, "helloOk": True, "minWireVersion": 0, "maxWireVersion": 21,
    "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "readOnly": False,
    "logicalSessionTimeoutMinutes": 30,
}  # fmt: skip
_STATE: Final = "_freezeframe"
"""Attribute of a connection: the recording of the command that it has sent, or the reply that a replay gives to it."""
_OWN: Final = ("bson", "pymongo", "freezeframe")
_others: Final[list[socket.socket]] = []
"""The other ends of the connections of a replay."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch pymongo's connections, clients and sockets, or ``bson.objectid``."""
    for name, hooks in _HOOKS.items():
        owner = getattr(module, name, None)
        for method, hook in hooks.items() if owner is not None else ():
            patches.around(owner, method, hook)
    for name, hook in (("_create_connection", _connect), ("_async_create_connection", _connect_async)):
        if module.__name__ == "pymongo.pool_shared" and hasattr(module, name):
            patches.around(module, name, hook)


# -- what crosses ---------------------------------------------------------------------------------------------------------


def _command_of(message: bytes) -> tuple[int, dict[str, Any]]:
    """Return flags and command of a message: its document, with its sequences of documents as fields."""
    import bson

    _, _, _, op_code = _HEADER.unpack_from(message)
    body = memoryview(message)[_HEADER.size :]
    if op_code == _OP_COMPRESSED:
        return _MORE_TO_COME, {"compressed": 1}
    if op_code != _OP_MSG:
        return 0, {"hello": 1}  # an older form, of which pymongo makes only that
    (flags,) = struct.unpack_from("<I", body)
    at, command = 4, dict[str, Any]()
    while at < len(body) - (4 if flags & 1 else 0):  # a checksum
        kind, (size,) = body[at], struct.unpack_from("<i", body, at + 1)
        section = bytes(body[at + 1 : at + 1 + size])
        if kind == 0:
            command |= bson.decode(section, _options())
        else:
            name, _, rest = section[4:].partition(b"\0")
            command[name.decode()] = bson.decode_all(rest, _options())
        at += 1 + size
    return flags, {name: value for name, value in command.items() if name not in _VARIES}


def _options() -> Any:
    from bson.codec_options import CodecOptions, DatetimeConversion

    options: Any = CodecOptions(tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO)
    return options


def _to_json(document: Any) -> Any:
    from bson import json_util

    return json.loads(json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS))


def _to_bson(recorded: Any) -> bytes:
    import bson
    from bson import json_util

    return bson.encode(json_util.loads(json.dumps(recorded), json_options=json_util.CANONICAL_JSON_OPTIONS))


def _operation(command: Mapping[str, Any]) -> str:
    return next(iter(command), "")


def _describe(command: Mapping[str, Any]) -> calls.Describe:
    return statements.describe_statement(SYSTEM, _operation(command), _to_json(command))


# -- recording ------------------------------------------------------------------------------------------------------------


def _is_passed(command: Mapping[str, Any]) -> bool:
    return not command or _operation(command).lower() in _PYMONGOS


def _note_command(connection: Any, message: bytes) -> None:
    with guard("mongo.command"):
        setattr(connection, _STATE, None)
        flags, command = _command_of(message)
        if _is_passed(command):
            return
        if not statements.is_recorded() or flags & _MORE_TO_COME:
            statements.note_unrecorded(statements.describe_statement(SYSTEM, ""))
            return
        setattr(connection, _STATE, calls.begin(_describe(command), lambda: None))


def _note_reply(connection: Any, reply: Any = None, error: BaseException | None = None) -> None:
    recording: Any = getattr(connection, _STATE, None)
    if recording is None:
        return
    with guard("mongo.reply"):
        import bson

        setattr(connection, _STATE, None)
        if error is None:
            reply_body = bson.decode(bytes(reply.payload_document), _options())
            kept = _to_json({name: value for name, value in reply_body.items() if name not in _VARIES})
            recording.chunk(calls.values.encode(kept).encode())
    recording.finish(Completion.COMPLETE if error is None else Completion.NONE, error)


async def _send(run: Any, original: Callable[..., Any], connection: Any, message: bytes, *args: Any, **kwargs: Any) -> Any:
    if _is_replay():
        described, nothing = _own_reply(connection, message)

        async def nowhere() -> Any:
            return nothing

        if described is not None:
            setattr(connection, _STATE, await run(described, nowhere, nothing=nothing))
        return None
    _note_command(connection, message)
    try:
        return await original(connection, message, *args, **kwargs)
    except BaseException as error:
        _note_reply(connection, error=error)
        raise


async def _receive(run: Any, original: Callable[..., Any], connection: Any, *args: Any, **kwargs: Any) -> Any:
    del run
    if _is_replay():
        return _replayed(connection)
    try:
        reply = await original(connection, *args, **kwargs)
    except BaseException as error:
        _note_reply(connection, error=error)
        raise
    _note_reply(connection, reply)
    return reply


# -- a replay -------------------------------------------------------------------------------------------------------------


def _is_replay() -> bool:
    return switch.serving() is not None and switch.databases() != "as they are"


def _own_reply(connection: Any, message: bytes) -> tuple[calls.Describe | None, Any]:
    """Answer a command of pymongo itself or of a tool; else describe the program's command. Also return an empty reply."""
    _, command = _command_of(message)
    operation = _operation(command)
    batch = {"cursor": {"id": 0, "ns": f"{command.get('$db')}.{command.get(operation)}", "firstBatch": []}}
    nothing = {"ok": 1, **(batch if operation in ("find", "aggregate", "listCollections", "listIndexes") else {"n": 0})}
    if _is_passed(command) or not statements.is_served():
        setattr(connection, _STATE, dict(_HELLO) if operation.lower() in ("hello", "ismaster") else nothing)
        return None, nothing
    return _describe(command), nothing


def _replayed(connection: Any) -> Any:
    from pymongo.message import _OpMsg

    return _OpMsg(0, _to_bson(getattr(connection, _STATE)))


def _pair() -> socket.socket:
    ours, other = socket.socketpair()
    _others.append(other)
    return ours


def _connect(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _pair() if _is_replay() else statements.outside_recording(original, *args, **kwargs)


async def _connect_async(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not _is_replay():
        return await statements.outside_recording_async(original, *args, **kwargs)
    ours = _pair()
    ours.setblocking(False)
    return ours


def _init_client(
    original: Callable[..., None], client: Any, host: Any = None, port: Any = None, *args: Any, **kwargs: Any
) -> None:
    if _is_replay():
        kwargs = {name: value for name, value in kwargs.items() if not _OF_THE_SERVER.fullmatch(name)}
        host, port = _address(host), None
    original(client, host, port, *args, **kwargs)


def _address(host: Any) -> str:
    """Return a URI without the servers, the keys and their options."""
    rest = host.partition("://")[2] if isinstance(host, str) else ""
    path, _, query = rest.partition("/")[2].partition("?")
    kept = [pair for pair in query.split("&") if pair and not _OF_THE_SERVER.fullmatch(pair.partition("=")[0])]
    return f"mongodb://replay.invalid/{path}?{'&'.join(kept)}"


def _init_id(original: Callable[..., None], made: Any, oid: Any = None) -> None:
    original(made, oid)
    if oid is not None:
        return
    with guard("mongo.id"):
        place = current_place()
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OWN:
            frame = frame.f_back
        if place.inside_call and not is_read_inside(place, frame.f_code.co_filename):
            return
        feed = feed_of("objectid", place, frame.f_code.co_filename)
        if (recorded := recall(feed)) is not None:
            made._ObjectId__id = bytes.fromhex(recorded)
        note(place, feed, made.binary.hex())


_SENDS, _RECEIVES = statements.both(_send), statements.both(_receive)
_HOOKS: Final[Mapping[str, Mapping[str, Callable[..., Any]]]] = {
    "Connection": {"send_message": _SENDS[0], "receive_message": _RECEIVES[0]},
    "AsyncConnection": {"send_message": _SENDS[1], "receive_message": _RECEIVES[1]},
    "MongoClient": {"__init__": _init_client, "_get_topology": statements.outside_recording},
    "AsyncMongoClient": {"__init__": _init_client, "_get_topology": statements.outside_recording_async},
    "ObjectId": {"__init__": _init_id},
}
"""Class -> method -> hook called around it."""
