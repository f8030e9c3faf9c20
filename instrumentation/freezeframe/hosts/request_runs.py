"""A request to an application as a run: its recorded parts, those of its response, and the application's place."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import RunContext
from freezeframe.context.program import loaded_modules, relative_path
from freezeframe.runs.entry import EntryScope
from freezeframe.runs.entry_payload import EntryPoint
from freezeframe.runs.run import file_of, target_of
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.body import Body
from freezeframe_schemas import values
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.gaps import Gap, GapKind
from freezeframe_schemas.run import EntryKind


def function_name() -> str:
    """Return the name of the function that this process serves; empty if it serves none."""
    return os.environ.get("FUNCTION_TARGET", "") if "functions_framework" in sys.modules else ""


def search(app: Any) -> tuple[str, ModuleType] | None:
    """Return the call that creates the application in a replay, and the function's module; None if it creates another one."""
    name = function_name()
    modules = loaded_modules().values() if name else ()
    module = next((module for module in modules if _was_read(module) and hasattr(module, name)), None)
    if module is None or type(app).__module__.partition(".")[0] not in ("flask", "starlette"):
        return None
    maker = "functions_framework:create_app" if hasattr(app, "wsgi_app") else "functions_framework.aio:create_asgi_app"
    words = [name, relative_path(str(module.__file__)), os.environ.get("FUNCTION_SIGNATURE_TYPE", "http")]
    return f"{maker}({str(words)[1:-1]})", module


def _was_read(module: ModuleType) -> bool:
    """Return whether the framework has loaded the module, which it may have made from any file."""
    file, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
    return bool(file) and folders == [os.path.dirname(str(file))] and Path(str(file)).stem != "__init__"


_REQUEST_HEADERS: Final = frozenset(
    "accept accept-encoding accept-language content-type host idempotency-key last-event-id user-agent x-request-id".split()
)
"""Headers of a request that are recorded with their values. Others may be credentials, or identify the client."""
_ENCODING: Final = ("content-encoding",)
_EVENT: Final = "ce-"
"""Prefix of the headers that hold a CloudEvent's attributes, which are recorded, too."""
_EVENT_ID: Final = (f"{_EVENT}id",)
_RESPONSE_HEADERS: Final = frozenset("content-encoding content-language content-type location retry-after".split())
_FAILED: Final = 500
_ANSWER_BYTES: Final = 1 << 20
"""Largest recorded response; of a longer one, size and SHA-256 are kept and compared, so no setting changes this."""
_targets: Final[dict[int, tuple[Any, str, str | None]]] = {}
"""Id of an application -> the application, its place, and the file of its module."""


class ServedRequest:
    """A request in progress and its run, if one was started."""

    __slots__ = ("answer", "asked", "body", "headers", "is_answered", "left_after", "pieces", "scope", "status")

    def __init__(self, scope: EntryScope, body: Body, asked: Callable[[], RequestFacts]) -> None:
        self.scope = scope
        self.body = body
        """The request's body, as far as the application read it."""
        self.asked = asked
        self.answer = Body(_ANSWER_BYTES)
        """The response up to the client's departure. The rest, sent to no one, depends on when the application notices."""
        self.pieces = 0
        self.status = 0
        self.headers: Callable[[], Iterable[tuple[str, str]]] = tuple
        """Returns the response's headers."""
        self.is_answered = False
        self.left_after: int | None = None
        """Number of pieces of the response after which the client left."""

    @property
    def is_run(self) -> bool:
        """Return whether the request made a call, or a replay answers it."""
        return self.scope.payload is not None or switch.serving() is not None

    def gives(self, piece: bytes) -> None:
        """Note a piece of the response."""
        if piece and self.left_after is None:
            self.answer.add(piece)
            self.pieces += 1

    def client_left(self) -> None:
        """Note that the client left before the end of the response."""
        if not self.is_answered and self.left_after is None:
            self.left_after = self.pieces

    def end(self, error: BaseException | None = None, *, route: Callable[[], str] = str) -> None:
        """End the run, if it is one. `route` returns method and path of the route, which is known once it is answered."""
        output: str | None = None
        if self.is_run:
            with guard("request.end"):
                payload = self.scope.payload
                if payload is not None and switch.serving() is None:
                    body = _plain(self.body, self.asked().first(_ENCODING))
                    payload.add_input("body", as_text(b"".join(body.pieces)))
                    if body.omitted is not None:
                        payload.add_gap(_left_out(body.omitted))
                    if name := function_name() or route():
                        self.scope.rename(name)
                if error is None:
                    output = values.encode(self._response())
        self.scope.finish(output=output, error=error, failure=str(self.status) if self.status >= _FAILED else "")

    def _response(self) -> dict[str, Any]:
        headers = _kept(self.headers(), _RESPONSE_HEADERS)
        answer = _plain(self.answer, headers.get("content-encoding"))  # whole: a compressor makes other pieces
        pieces = [as_text(piece) for piece in answer.pieces]
        body = {"yields": pieces} if len(pieces) > 1 else {"body": answer.omitted or (pieces or [""])[0]}
        left = {} if self.left_after is None else {"client_left_after": self.left_after}
        return {"status": self.status, "headers": headers, **body, **left}


@dataclass(slots=True, kw_only=True)
class RequestFacts:
    """A client's request as the server passed it on. Nothing of it is processed before it is a run."""

    name: str
    """Method and path."""
    first: Callable[[tuple[str, ...]], str | None]
    """Returns the first of these headers (lower-case names) that is present."""
    given: Callable[[], dict[str, Any]]
    """Returns what is recorded."""


def begin(app: Any, asked: Callable[[], RequestFacts], ahead: bytes | None = None) -> ServedRequest:
    """Prepare for a run. `ahead`: the body, if it was read before the application reads it."""
    recorder = switch.recorder()
    body = Body(_ANSWER_BYTES if recorder is None else recorder.settings.max_body_bytes)
    scope = begin_scope(partial(target_of_application, app), asked, partial(_came, asked, body, ahead))
    return ServedRequest(scope, body, asked)


def _came(asked: Callable[[], RequestFacts], body: Body, ahead: bytes | None) -> dict[str, Any]:
    """Return the body read before the first call, so that a run killed in that call has it."""
    came = body if ahead is None else Body(body.limit_bytes, ahead)
    return {"body": as_text(b"".join(_plain(came, asked().first(_ENCODING)).pieces))}


def _plain(body: Body, coding: str | None) -> Body:
    """Return a body without its content-encoding: a compressed one could not be redacted.

    A replay passes it so, too. A body that cannot be decoded is returned unchanged; aiohttp has decoded it
    already.
    """
    if not coding or not body.pieces:
        return body
    from freezeframe_schemas.decompression import UnpacksTooFarError
    from freezeframe_schemas.wire.encoding import decode_body

    try:
        return Body(
            body.limit_bytes, decode_body(b"".join(body.pieces), [("content-encoding", coding)], limit=body.limit_bytes)
        )
    except UnpacksTooFarError as error:
        return Body(body.limit_bytes, left_out=error.message)
    except WireError:
        return body


def begin_scope(
    where: Callable[[], tuple[str, str | None]], asked: Callable[[], RequestFacts], came: Callable[[], Mapping[str, Any]]
) -> EntryScope:
    """Prepare for a run. The functions are called once it is one, or has a span below it.

    Args:
        where: returns the place of the answering object for a replay, and its file.
        asked: returns the request.
        came: returns the data that the client sent after its headers.
    """
    return EntryScope(partial(_point, where, asked, came), RunContext(partial(_named, asked), is_implied=True))


def _point(
    where: Callable[[], tuple[str, str | None]], asked: Callable[[], RequestFacts], came: Callable[[], Mapping[str, Any]]
) -> EntryPoint:
    (target, file), found = where(), asked()
    return EntryPoint(
        kind=EntryKind.REQUEST,
        name=found.name,
        target=target,
        file=file,
        input=values.encode({**found.given(), **came()}),
        gaps=() if target else (_UNREACHABLE,),
    )


def _named(asked: Callable[[], RequestFacts]) -> Mapping[str, str | None]:
    found = asked()
    event = found.first(_EVENT_ID) if "functions_framework" in sys.modules else None  # is delivered again until it succeeds
    return {"name": found.name, "id": event, "session": found.first(_session_headers())}


def as_text(data: bytes) -> str | bytes:
    """Return the data as text, if it is UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def recorded_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers of a request that are recorded; in a replay, all that it has."""
    if switch.serving() is not None:
        return {name.lower(): value for name, value in headers}
    recorder = switch.recorder()
    wanted = () if recorder is None else (name.lower() for name in recorder.settings.request_headers)
    headers = [*headers]
    events = (name.lower() for name, _ in headers if name.lower().startswith(_EVENT))
    return _kept(headers, _REQUEST_HEADERS.union(_session_headers(), wanted, events))


def _session_headers() -> tuple[str, ...]:
    recorder = switch.recorder()
    return () if recorder is None else _in_small_letters(recorder.settings.session_headers)


@functools.lru_cache
def _in_small_letters(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def forget() -> None:
    _targets.clear()


def _kept(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in ((name.lower(), value) for name, value in headers) if name in names}


def _left_out(why: str) -> Gap:
    return Gap(kind=GapKind.INPUT_OPAQUE, text=f"the request's body is not kept ({why})", do="raise max_body_bytes")


_UNREACHABLE: Final = Gap(
    kind=GapKind.ENTRY_UNREACHABLE,
    text="the application is not a global of a module, so no other process can find it",
    do="make it a global (app = create_app()), or start the server with --factory module:create_app",
)


def target_of_application(app: Any) -> tuple[str, str | None]:
    """Return the ``module:name`` of an application and the module's file; an empty one if it has none."""
    known = _targets.get(id(app))
    if known is None or known[0] is not app:
        found, module = _search(app) or ("", None)
        file = None if module is None else getattr(module, "__file__", None)
        known = _targets[id(app)] = (app, found, None if file is None else relative_path(file))
    return known[1:]


def place_of_object(owner: Any) -> tuple[str, str | None]:
    """Return the place where a replay finds an object: a global, or its class, if it takes no arguments; else an empty name."""
    found, file = target_of_application(owner)
    kind: Any = type(owner)
    if found or "<locals>" in kind.__qualname__ or not _is_made_alone(kind):
        return found, file
    return f"{target_of(kind)}()", file_of(kind)


def _is_made_alone(kind: Any) -> bool:
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError):
        return False
    return True


def _search(app: Any) -> tuple[str, ModuleType] | None:
    # the program last: it may only have imported it
    for module in sorted(loaded_modules().values(), key=lambda module: getattr(module, "__name__", "") == "__main__"):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                spec = getattr(module, "__spec__", None) if module.__name__ == "__main__" else None
                return f"{module.__name__ if spec is None else spec.name}:{name}", module
    for word in sys.argv[1:] if "--factory" in sys.argv else ():
        module, _, name = word.partition(":")
        if name.isidentifier() and callable(getattr(sys.modules.get(module), name, None)):
            return f"{word}()", sys.modules[module]
    return search(app)
