"""gRPC clients: a call of a run, above the wire. The asyncio ones: `grpc_aio_client`.

A replay answers with grpc's own objects, finished beforehand. Futures of calls that stream requests are gaps of their run
(`sessions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe._drive import Watcher
from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import outside_lane
from freezeframe.seams.rpc.grpc_messages import message_from_json, message_to_json, metadata_of
from freezeframe.seams.rpc.grpc_requests import Sent, Unsent
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Completion, Kind

SEAM: Final = "grpc"
OK: Final[dict[str, Any]] = {"code": "OK", "details": "", "trailing": []}
_REQUEST: Final = ("request", "request_iterator")
"""Names of the parameter that takes the request."""
_TELEMETRY: Final = "/opentelemetry.proto.collector."
"""Services that receive traces: a run does not depend on them."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``grpc._channel``."""
    kinds: Any = module
    for name in ("__call__", "with_call", "future"):
        patches.around(kinds._UnaryUnaryMultiCallable, name, partial(_unary, kinds, name, sends=False))
    for name in ("__call__", "with_call"):
        patches.around(kinds._StreamUnaryMultiCallable, name, partial(_unary, kinds, name, sends=True))
    patches.around(kinds._StreamStreamMultiCallable, "__call__", partial(_stream, kinds, sends=True))
    for name in ("_UnaryStreamMultiCallable", "_SingleThreadedUnaryStreamMultiCallable"):
        patches.around(getattr(kinds, name), "__call__", partial(_stream, kinds, sends=False))


def method_of(callable_: Any) -> str:
    """Return ``/package.Service/Method``."""
    method: Any = getattr(callable_, "_method", "")
    return method.decode(errors="replace") if isinstance(method, bytes) else str(method or "")


def is_exchange(callable_: Any) -> bool:
    """Return whether a call made here is recorded or served."""
    place, recorder = current_place(), switch.recorder()
    if method_of(callable_).startswith(_TELEMETRY) or not place.is_followed or place.sending:
        return False
    if switch.serving() is not None:
        return True
    return recorder is not None and (place.run is not None or recorder.root.accesses() is not None)


def has_no_request(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call has no request, which grpc refuses."""
    return not args and kwargs.keys().isdisjoint(_REQUEST)


def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return a call's first argument, the request or the iterator of requests, and the other positional arguments."""
    if args:
        return args[0], args[1:]
    return next((kwargs.pop(name) for name in _REQUEST if name in kwargs), None), ()


def asked(callable_: Any, request: Any, *, sends: bool) -> calls.Describe:
    """Return the description of a call. The requests of a call that `sends` a stream of them are not known yet."""
    return lambda: calls.FunctionCall.of(
        Kind.HTTP, SEAM, method_of(callable_), *(() if sends else (message_to_json(request),)), kwargs={}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """Outcome of a call, recorded or live."""

    reply: Any
    """``{"message": ..., "code": "OK", "details": "", "trailing": [["name", "value"]]}``."""
    returned: Any = None
    error: Any = None


def _end_of(call: Any) -> dict[str, Any]:
    code: Any = call.code()
    return {"code": code.name, "details": call.details() or "", "trailing": metadata_of(call.trailing_metadata())}


# -- sync -----------------------------------------------------------------------------------------------------------------


def _unary(kinds: Any, name: str, original: Any, callable_: Any, *args: Any, sends: bool, **kwargs: Any) -> Any:
    if not is_exchange(callable_) or has_no_request(args, kwargs):
        return original(callable_, *args, **kwargs)
    request, rest = given(args, kwargs)
    sent, describe = _sent(callable_, request, sends=sends), asked(callable_, request, sends=sends)
    invoke = partial(original, callable_, sent if sends else request, *rest, **kwargs)
    if name == "future" and switch.serving() is None:
        return _recorded_future(describe, invoke)

    def make() -> _Outcome:
        outcome = _outcome(name, invoke)
        sent.mark(outcome.reply)
        return outcome

    load: Callable[[str], _Outcome] = lambda text: _Outcome(reply=values.decode(text))  # noqa: E731 - typed
    outcome = calls.run(describe, make, dump=_dump, load=load)
    is_served = switch.serving() is not None and outcome.returned is None and outcome.error is None
    if is_served:
        sent.take()
    sent.compare(outcome.reply)
    if outcome.error is not None:
        raise outcome.error
    return _served(kinds, name, outcome.reply) if is_served else outcome.returned


def _sent(callable_: Any, requests: Any, *, sends: bool) -> Unsent:
    return Sent(requests, method_of(callable_), SEAM) if sends else Unsent()


def _outcome(name: str, invoke: Callable[[], Any]) -> _Outcome:
    """Make the call. A status that is not OK is an answer, too."""
    import grpc

    try:
        returned = invoke()
    except grpc.RpcError as error:
        return _Outcome(reply={"message": None, **_end_of(error)}, error=error)
    reply = {"message": None, **OK}
    with guard("grpc.answer"):
        message, end = (returned[0], _end_of(returned[1])) if name == "with_call" else (returned, OK)
        reply = {"message": message_to_json(message), **end}
    return _Outcome(reply=reply, returned=returned)


def _dump(outcome: _Outcome) -> str:
    return values.encode(outcome.reply)


def no_dump(result: Any) -> str:
    """Return the record of an answer that a replay returns unchanged."""
    return result if isinstance(result, str) else "null"


def _recorded_future(describe: calls.Describe, invoke: Callable[[], Any]) -> Any:
    made: list[Any] = []
    recording = calls.begin(describe, lambda: made.append(invoke()))
    (future,) = made
    if recording is not None:

        def done(call: Any) -> None:
            with guard("grpc.future"):
                message = message_to_json(call.result()) if call.code().name == "OK" else None
                recording.chunk(values.encode({"message": message, **_end_of(call)}).encode())
            recording.finish(Completion.COMPLETE)

        future.add_done_callback(done)
    return future


def _finished(kinds: Any, reply: Any, message: Any = None) -> Any:
    """Return grpc's own object for a call that has ended."""
    import grpc

    state = kinds._RPCState((), (), metadata(reply), grpc.StatusCode[reply["code"]], reply["details"])
    state.response = message
    return kinds._MultiThreadedRendezvous(state, None, None, None)


def metadata(reply: Any) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a recorded end."""
    return tuple((name, value) for name, value in reply["trailing"])


def _served(kinds: Any, name: str, reply: Any) -> Any:
    message = message_from_json(reply["message"])
    call = _finished(kinds, reply, message)
    if name == "future":
        return call
    if reply["code"] != "OK":
        raise kinds._InactiveRpcError(call._state)
    return (message, call) if name == "with_call" else message


def _stream(kinds: Any, original: Any, callable_: Any, *args: Any, sends: bool, **kwargs: Any) -> Any:
    if not is_exchange(callable_) or has_no_request(args, kwargs):
        return original(callable_, *args, **kwargs)
    request, rest = given(args, kwargs)
    sent, describe = _sent(callable_, request, sends=sends), asked(callable_, request, sends=sends)
    invoke = partial(original, callable_, sent if sends else request, *rest, **kwargs)
    if switch.serving() is not None:
        reply: Any = calls.run(describe, invoke, dump=no_dump, load=values.decode)
        if not isinstance(reply, dict):
            return reply
        sent.take()
        return _served_stream(kinds, reply, sent)  # pyright: ignore[reportUnknownArgumentType]  # as `_watch` told it
    with outside_lane():
        call, watcher = calls.begin_generator(describe, invoke)
    if watcher is not calls.UNWATCHED:
        _watch(call, watcher, sent)
    return call


def _watch(call: Any, watcher: Watcher, sent: Unsent) -> None:
    take = call._next
    end = once(watcher)

    def watched() -> Any:
        try:
            message = take()
        except BaseException:
            with guard("grpc.end"):
                reply = _end_of(call)
                sent.mark(reply)
                if end(reply):
                    sent.compare(reply)
            raise
        with guard("grpc.message"):
            watcher.add(message_to_json(message))
        return message

    call._next = watched
    call.add_callback(lambda: end(None) if call.cancelled() else None)


def once(watcher: Watcher) -> Callable[[dict[str, Any] | None], bool]:
    """Return a function that ends a stream once, with its status; without one if the program did not wait for it."""
    left = [watcher]

    def end(reply: dict[str, Any] | None) -> bool:
        if not left:
            return False
        left.pop().end(Completion.CLOSED_EARLY if reply is None else Completion.COMPLETE, result=reply)
        return True

    return end


def _served_stream(kinds: Any, reply: dict[str, Any], sent: Unsent) -> Any:
    """Return a call whose messages are those that were recorded, and then its end."""
    end: dict[str, Any] = reply["return"] or OK
    call, messages, left = _finished(kinds, end), iter(reply["yields"]), [sent]

    def take() -> Any:
        for message in messages:
            return message_from_json(message)
        if left:
            left.pop().compare(end)
        if end["code"] != "OK":
            raise call
        raise StopIteration

    call._next = take
    return call
