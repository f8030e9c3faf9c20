"""Calls of tools that models asked for, and which of them a result belongs to. Pure.

Ids decide, then names and arguments. Conversations that go on side by side may number their calls alike; then the lanes decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from freezeframe_replay.report.messages import FoundDocument, plain, read_messages, readable
from freezeframe_replay.report.outline import Node
from freezeframe_schemas.exchange import Lane
from freezeframe_schemas.wire.document import JsonValue, as_list, as_object


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptCall:
    """A call of a tool, a retriever, an MCP server or over HTTP."""

    kind: str
    name: str
    arguments: str
    node: Node | None
    """The recorded call; None if the model asked for one and none was recorded."""
    result: str = ""
    """What it answered; of a retriever the same as `documents`, if these could be read."""
    received: str = ""
    """What the model received, if that is not the result."""
    error: str = ""
    documents: tuple[FoundDocument, ...] = ()
    requested_in_step: int | None = None
    """Step of the model call that asked for it."""


@dataclass(slots=True, kw_only=True)
class AnnouncedCall:
    """A call that a model asked for, until its result is met."""

    call: TranscriptCall
    turn: int
    """Index of the turn in the items."""
    part: int
    """Index of the part in the turn's answer."""
    id: str | None
    conversation: int
    """Number of the conversation that it was asked for in."""
    lane: Lane


class AskedCalls:
    """The calls that models asked for, until the result of each is met."""

    def __init__(self) -> None:
        self._open: list[AnnouncedCall] = []

    def add(self, asked: AnnouncedCall) -> None:
        self._open.append(asked)

    def remove(self, asked: AnnouncedCall) -> None:
        self._open.remove(asked)

    def answered_by(self, made: TranscriptCall, call_id: str | None, lane: Lane) -> AnnouncedCall | None:
        """Return the request of a model that this call answers: by its id, else by name and arguments; of the nearest lane."""
        open_ones = [item for item in self._open if item.call.node is None]
        if call_id and (found := [item for item in open_ones if item.id == call_id]):
            return max(
                found, key=lambda item: (item.call.name == made.name, nearness(item.lane, lane), _has_arguments_of(item, made))
            )
        named = [item for item in open_ones if item.call.name == made.name]
        equal = [item for item in named if _has_arguments_of(item, made)]
        if not equal:
            nearest = max((nearness(item.lane, lane) for item in named), default=None)
            named = [item for item in named if nearness(item.lane, lane) == nearest]
            return named[0] if len(named) == 1 else None
        return max(equal, key=lambda item: nearness(item.lane, lane))

    def call_announced_in(self, call_id: JsonValue, conversation: int, lane: Lane, history: str) -> AnnouncedCall | None:
        """Return the call whose result a conversation holds: one of its own, else of the nearest lane.

        A conversation that was not known before (`history`) names its calls itself, and only a call like that is meant.
        """
        found = [item for item in reversed(self._open) if item.id is not None and item.id == call_id]
        own = [item for item in found if item.conversation == conversation]
        if own or not found:
            return own[0] if own else None
        named = [
            (part.get("name"), readable(plain(part.get("arguments"))))
            for message in read_messages(history)
            for part in map(as_object, as_list(message.get("parts")))
            if part.get("type") == "tool_call" and part.get("id") == call_id
        ]
        like = [item for item in found if not named or (item.call.name, item.call.arguments) in named]
        return max(like, key=lambda item: nearness(item.lane, lane), default=None)


def nearness(one: Lane, other: Lane) -> tuple[bool, int]:
    """Return the closeness of two lanes: equal, or else the length of their common path from the entry point."""
    shared = next((index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one == other, min(len(one), len(other)) if shared is None else shared


def _has_arguments_of(asked: AnnouncedCall, made: TranscriptCall) -> bool:
    return asked.call.arguments == made.arguments
