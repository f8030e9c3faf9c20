"""A small service of gRPC: the modules that protoc would write for it, since its compiler is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from google.protobuf import descriptor_pb2

_TEXT: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_NUMBER: Final = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
_PB2: Final = """
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({file!r})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "{module}", globals())
"""
_GRPC: Final = """
import grpc
import {module} as pb2

_SHAPES = {{"Ask": "unary_unary", "Watch": "unary_stream", "Sum": "stream_unary", "Talk": "stream_stream"}}


class ShopStub:
    def __init__(self, channel):
        for name, shape in _SHAPES.items():
            made = getattr(channel, shape)(
                f"/{module}.Shop/{{name}}",
                request_serializer=pb2.Question.SerializeToString,
                response_deserializer=pb2.Answer.FromString,
            )
            setattr(self, name, made)


def add_ShopServicer_to_server(servicer, server):
    handlers = {{
        name: getattr(grpc, f"{{shape}}_rpc_method_handler")(
            getattr(servicer, name),
            request_deserializer=pb2.Question.FromString,
            response_serializer=pb2.Answer.SerializeToString,
        )
        for name, shape in _SHAPES.items()
        if hasattr(servicer, name)
    }}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("{module}.Shop", handlers),))
    server.add_registered_method_handlers("{module}.Shop", handlers)
"""


def write_shop(folder: Path, module: str) -> None:
    """Write MODULE.py with the messages and MODULE_grpc.py with stub and servicer, in a package of protobuf named MODULE."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{module}.proto", package=module, syntax="proto3")
    for name in ("Question", "Answer"):
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate((("text", _TEXT), ("count", _NUMBER)), 1):
            message.field.add(name=field, number=number, type=kind, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
    (folder / f"{module}.py").write_text(_PB2.format(file=file.SerializeToString(), module=module))
    (folder / f"{module}_grpc.py").write_text(_GRPC.format(module=module))
