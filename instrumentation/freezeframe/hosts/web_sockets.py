"""A WebSocket to an application as a run: the messages in both directions, in order.

A run's input is the handshake and each message of the client, with how many messages the application had sent before it
came; so a replay can send it at the same point. The server's refusal of a message sent after the connection was
closed, or the client had left, belongs to the input, too. Its output is its own messages, and its way of
closing the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.hosts.request_runs import RequestFacts, begin_scope, target_of_application
from freezeframe.runs.entry import EntryScope
from freezeframe.seams.recorder import switch
from freezeframe_schemas import values

Message = MutableMapping[str, Any]
RECEIVED: Final = "freezeframe.received"
"""Key of an ASGI scope under which a replay passes the client's messages beforehand."""


@dataclass(slots=True, kw_only=True)
class WebSocketSession:
    """An open WebSocket and its run, if one was started."""

    scope: EntryScope
    received: list[list[Any]]
    """``[messages sent before, text or bytes]`` each.

    In place of the text, ``{"left": code, "reason": text}`` if the client leaves, and ``{"raised": exception,
    "type": of the message, "gone": is it an OSError}`` if the server refuses a message.
    """
    accepted: dict[str, Any] = field(default_factory=dict[str, Any])
    sent: list[Any] = field(default_factory=list[Any])
    tried: int = 0
    """Number of messages that the application sent or tried to send."""
    closed: int | None = None

    @property
    def has_left(self) -> bool:
        return any(isinstance(what, dict) and "left" in what for _, what in self.received[-2:])

    def on_receive(self, message: Message) -> None:
        """Note a message of the client."""
        if message["type"] == "websocket.receive":
            self.received.append([self.tried, _data(message)])
        elif message["type"] == "websocket.disconnect":
            reason = {"reason": message["reason"]} if "reason" in message else {}
            self.received.append([self.tried, {"left": message.get("code", 1005), **reason}])

    async def pass_on(self, message: Message, send: Callable[[], Awaitable[Any]]) -> Any:
        """Send a message of the application, noted before the client can answer it."""
        tried, closed = self.tried, self.closed
        with guard("socket.send"):
            self.on_send(message)
        try:
            return await send()
        except Exception as error:
            with guard("socket.refuse"):
                refused = {
                    "raised": values.encode_exception(error),
                    "type": message["type"],
                    "gone": isinstance(error, OSError),
                }
                self.received.append([tried, refused])
                self.closed = closed
                if message["type"] == "websocket.send":
                    data = _data(message)
                    del self.sent[max(place for place, sent in enumerate(self.sent) if sent == data)]
            raise

    def on_send(self, message: Message) -> None:
        """Note a message of the application."""
        if message["type"] == "websocket.send":
            self.sent.append(_data(message))
            self.tried += 1
        elif message["type"] == "websocket.accept":
            self.accepted = {"subprotocol": message.get("subprotocol")}
        elif message["type"] == "websocket.close":
            self.closed = message.get("code", 1000)

    def end(self, error: BaseException | None = None) -> None:
        output: str | None = None
        with guard("socket.end"):
            payload = self.scope.payload
            if payload is not None and switch.serving() is None:
                payload.add_input("received", self.received)
            if error is None and (payload is not None or switch.serving() is not None):
                output = values.encode({"accepted": self.accepted, "sent": self.sent, "closed": self.closed})
        self.scope.finish(output=output, error=error)


def _data(message: Message) -> Any:
    text, data = message.get("text"), message.get("bytes")
    return text if data is None else bytes(data)


def begin_session(app: Any, scope: Message, asked: Callable[[], RequestFacts]) -> WebSocketSession:
    """Prepare for a run: `asked` returns the handshake."""
    received: list[list[Any]] = []
    messages = received if switch.serving() is None else scope.get(RECEIVED, [])
    found = begin_scope(partial(target_of_application, app), asked, lambda: {"received": messages})
    return WebSocketSession(scope=found, received=received)


async def call_in_session(session: WebSocketSession, call: Callable[..., Awaitable[Any]], receive: Any, send: Any) -> Any:
    """Call the application inside the run, with functions that note the messages they pass on."""

    async def recorded_receive() -> Message:
        message = await receive()
        with guard("socket.receive"):
            session.on_receive(message)
        return message

    async def watched_send(message: Message) -> None:
        await session.pass_on(message, partial(send, message))

    try:
        with session.scope.inside():
            answer = await call(recorded_receive, watched_send)
    except BaseException as error:
        session.end(error)
        raise
    session.end()
    return answer
