"""Sessions without a seam: WebSockets (realtime APIs among them), and gRPC that `seams.rpc` does not record. Each is a gap of
its run, unless a tool holds it.

The audit hook (`accesses`) does not see gRPC, which opens its sockets in C, and cannot know what a socket is for.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.unmarked.accesses import note_session

_CALLS: Final = ("__call__", "with_call", "future")
_KINDS: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
_TARGET: Final = "_freezeframe_target"
_TELEMETRY: Final = "/opentelemetry.proto.collector."
"""Services that receive traces: a run does not depend on them."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``websockets.client``, ``grpc._channel`` or ``grpc.aio._channel``."""
    if hasattr(module, "ClientProtocol"):
        patches.around(module.ClientProtocol, "connect", _connect)
        return
    for name, cls in list(vars(module).items()):
        if name.endswith("MultiCallable") and isinstance(cls, type) and cls.__module__ == module.__name__:
            for call in _CALLS:
                if call in vars(cls):
                    patches.around(cls, call, _call)
    if module.__name__ == "grpc.aio._channel":
        channel: Any = module.Channel
        patches.around(channel, "__init__", _init_channel)
        for kind in _KINDS:
            patches.around(channel, kind, _make_callable)


def _connect(original: Callable[..., Any], protocol: Any, *args: Any, **kwargs: Any) -> Any:
    uri = getattr(protocol, "uri", None)
    note_session("opens a WebSocket to", f"{getattr(uri, 'host', '')}:{getattr(uri, 'port', '')}")
    return original(protocol, *args, **kwargs)


def _call(original: Callable[..., Any], callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    method = _text(getattr(callable_, "_method", ""))
    if not method.startswith(_TELEMETRY):
        target = _text(getattr(callable_, "_target", None) or getattr(callable_, _TARGET, "")) or f"the service of {method}"
        note_session("calls by gRPC", target.removeprefix("dns:///"))
    return original(callable_, *args, **kwargs)


def _init_channel(original: Callable[..., None], channel: Any, target: Any, *args: Any, **kwargs: Any) -> None:
    setattr(channel, _TARGET, target)
    original(channel, target, *args, **kwargs)


def _make_callable(original: Callable[..., Any], channel: Any, *args: Any, **kwargs: Any) -> Any:
    made = original(channel, *args, **kwargs)
    if hasattr(made, "__dict__"):
        setattr(made, _TARGET, getattr(channel, _TARGET, ""))
    return made


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
