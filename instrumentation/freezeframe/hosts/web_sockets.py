"""A WebSocket to an application as a run: what came and went, in order.

A run's input is the handshake and each message of the client, with how many messages the application had sent before it
came; so a replay can send it at the same point. Its output is what the application sent, and how the connection was closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.hosts.request_runs import Asked, begin_scope, target_of_application
from freezeframe.runs.entry import EntryScope
from freezeframe.seams.recorder import switch
from freezeframe_schemas import values

Message = MutableMapping[str, Any]
RECEIVED: Final = "freezeframe.received"
"""Key of an ASGI scope under which a replay gives the messages of the client beforehand."""


@dataclass(slots=True, kw_only=True)
class Talk:
    """One WebSocket while it is open, and the run that it may be."""

    scope: EntryScope
    received: list[list[Any]]
    """``[messages sent before, text or bytes]``; the client's leaving is ``[messages sent before, {"left": code}]``."""
    accepted: dict[str, Any] = field(default_factory=dict[str, Any])
    sent: list[Any] = field(default_factory=list[Any])
    closed: int | None = None

    @property
    def has_left(self) -> bool:
        """Return whether the client has left."""
        return bool(self.received) and isinstance(self.received[-1][1], dict)

    def hear(self, message: Message) -> None:
        """Note a message of the client."""
        if message["type"] == "websocket.receive":
            text = message.get("text")
            self.received.append([len(self.sent), message.get("bytes") if text is None else text])
        elif message["type"] == "websocket.disconnect":
            self.received.append([len(self.sent), {"left": message.get("code", 1005)}])

    def tell(self, message: Message) -> None:
        """Note a message of the application."""
        if message["type"] == "websocket.send":
            text = message.get("text")
            self.sent.append(message.get("bytes") if text is None else text)
        elif message["type"] == "websocket.accept":
            self.accepted = {"subprotocol": message.get("subprotocol")}
        elif message["type"] == "websocket.close":
            self.closed = message.get("code", 1000)

    def end(self, error: BaseException | None = None) -> None:
        """End the run, if it is one."""
        output: str | None = None
        with guard("socket.end"):
            payload = self.scope.payload
            if payload is not None and switch.serving() is None:
                payload.add_input("received", self.received)
            if error is None and (payload is not None or switch.serving() is not None):
                output = values.encode({"accepted": self.accepted, "sent": self.sent, "closed": self.closed})
        self.scope.finish(output=output, error=error)


def begin_talk(app: Any, scope: Message, asked: Callable[[], Asked]) -> Talk:
    """Begin what may be a run: `asked` returns the handshake."""
    received: list[list[Any]] = []
    given = received if switch.serving() is None else scope.get(RECEIVED, [])
    found = begin_scope(partial(target_of_application, app), asked, lambda: {"received": given})
    return Talk(scope=found, received=received)


async def talk_inside(talk: Talk, call: Callable[..., Awaitable[Any]], receive: Any, send: Any) -> Any:
    """Call the application inside the run, with functions that note what they pass on."""

    async def heard() -> Message:
        message = await receive()
        with guard("socket.receive"):
            talk.hear(message)
        return message

    async def watched_send(message: Message) -> None:
        with guard("socket.send"):
            talk.tell(message)
        await send(message)

    try:
        with talk.scope.inside():
            answer = await call(heard, watched_send)
    except BaseException as error:
        talk.end(error)
        raise
    talk.end()
    return answer
