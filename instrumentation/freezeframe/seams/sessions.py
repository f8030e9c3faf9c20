"""Sessions that have no seam: WebSockets (realtime APIs among them) and gRPC. Each is a gap of its run, unless a tool holds it.

The audit hook (`freezeframe._unmarked`) does not hear gRPC, which opens its sockets in C, and cannot tell what a socket is for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe._unmarked import note_session
from freezeframe.seams.patching import Patches

_CALLS: Final = ("__call__", "with_call", "future")
_KINDS: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
_TARGET: Final = "_freezeframe_target"
_TELEMETRY: Final = "/opentelemetry.proto.collector."
"""Services that take traces: no part of what a run depended on."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``websockets.client``, ``grpc._channel`` or ``grpc.aio._channel``."""
    if hasattr(module, "ClientProtocol"):
        patches.replace(module.ClientProtocol, "connect", _wrap_handshake)
        return
    for name, cls in list(vars(module).items()):
        if name.endswith("MultiCallable") and isinstance(cls, type) and cls.__module__ == module.__name__:
            for call in _CALLS:
                if call in vars(cls):
                    patches.replace(cls, call, _wrap_call)
    if module.__name__ == "grpc.aio._channel":
        channel: Any = module.Channel
        patches.replace(channel, "__init__", _wrap_channel)
        for kind in _KINDS:
            patches.replace(channel, kind, _wrap_factory)


def _wrap_handshake(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def connect(protocol: Any, *args: Any, **kwargs: Any) -> Any:
        uri = getattr(protocol, "uri", None)
        note_session("opens a WebSocket to", f"{getattr(uri, 'host', '')}:{getattr(uri, 'port', '')}")
        return original(protocol, *args, **kwargs)

    return connect


def _wrap_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        method = _text(getattr(self, "_method", ""))
        if not method.startswith(_TELEMETRY):
            target = _text(getattr(self, "_target", None) or getattr(self, _TARGET, "")) or f"the service of {method}"
            note_session("calls by gRPC", target.removeprefix("dns:///"))
        return original(self, *args, **kwargs)

    return call


def _wrap_channel(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(channel: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        setattr(channel, _TARGET, target)
        original(channel, target, *args, **kwargs)

    return init


def _wrap_factory(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def factory(channel: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(channel, *args, **kwargs)
        if hasattr(made, "__dict__"):
            setattr(made, _TARGET, getattr(channel, _TARGET, ""))
        return made

    return factory


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
