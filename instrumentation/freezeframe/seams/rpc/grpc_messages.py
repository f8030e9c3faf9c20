"""Messages of gRPC in their recorded form: protobuf's as JSON, with the class that reads it; others as bytes.

Protobuf's bytes contain the lengths of their parts, so redaction would break them.
"""

from __future__ import annotations

from typing import Any

from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayError


def message_to_json(message: Any) -> Any:
    """Return a message as it is recorded: ``{"type": "shop_pb2:Order", "json": {...}}``; unchanged if not protobuf's."""
    if not hasattr(message, "DESCRIPTOR"):
        return message
    from google.protobuf.json_format import MessageToDict

    kind: Any = type(message)
    return {"type": f"{kind.__module__}:{kind.__qualname__}", "json": MessageToDict(message, preserving_proto_field_name=True)}


def message_from_json(recorded: Any) -> Any:
    """Return the message of `message_to_json`. Does not import modules: the program has imported the classes that it uses.

    Raises:
        ReplayError: the program has no such message.
    """
    if not isinstance(recorded, dict) or "type" not in recorded:
        return recorded
    from google.protobuf.json_format import ParseDict
    from google.protobuf.message import Message

    kind: Any = values.find_class(str(recorded["type"]))
    if kind is None or not issubclass(kind, Message):
        raise ReplayError(
            f"gRPC: {recorded['type']!r:.200} is not a message class that this program has imported",
            do="import it in the module of the entry point",
        )
    return ParseDict(recorded["json"], kind(), ignore_unknown_fields=True)


def metadata_of(pairs: Any) -> list[tuple[str, str]]:
    """Return metadata as text; without the values that are bytes."""
    return [(str(name), value) for name, value in pairs or () if isinstance(value, str)]
