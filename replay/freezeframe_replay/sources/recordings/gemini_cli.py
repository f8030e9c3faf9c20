"""Sessions of Gemini CLI: ``~/.gemini/tmp/PROJECT/chats/session-*.jsonl``; older versions wrote one JSON document (``.json``).

In the lines, a message that is written again under its id replaces itself, and ``$set`` replaces the whole history.

Source: https://github.com/google-gemini/gemini-cli, ``packages/core/src/services/chatRecordingService.ts``, and what version
0.61 wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.recordings.conversations import Conversation, Said, Session, answered, output_of, spoken
from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import items_of, lines_of, placed
from freezeframe_schemas import genai
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text
from freezeframe_schemas.wire.gemini import DIALECT

_LACKS: Final = (
    "imported from a session of Gemini CLI: it holds the messages, without the system prompt, the tools offered and the "
    "parameters"
)
_COUNTS: Final = {
    "promptTokenCount": "input",
    "candidatesTokenCount": "output",
    "cachedContentTokenCount": "cached",
    "thoughtsTokenCount": "thoughts",
    "toolUsePromptTokenCount": "tool",
}


def read_gemini_cli(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Yield the conversation of a session.

    Raises:
        WireError: a record does not follow the format; the message says which.
    """
    session = _Session()
    if _has_lines(path):
        for number, value, _ in lines_of(path):
            with placed(path, f"line {number}"):
                session.add(as_object(value))
    else:
        for number, item in enumerate(items_of(path, "messages", other=lambda name, value: session.add({name: value})), 1):
            with placed(path, f"message {number}"):
                session.add(as_object(item))
    session.end_tools()
    yield from session.conversation(origin, _LACKS)


def _has_lines(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            head: Any = json.loads(file.readline(64 * 1024))
        except (ValueError, RecursionError):
            return False
    return isinstance(head, dict) and "messages" not in head


class _Session(Session):
    """A session, while it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, int] = {}
        self._tools: Said | None = None
        """The results of the tools of the last answer, which older versions do not repeat as a message."""

    def add(self, record: JsonObject) -> None:
        """Take the next record.

        Raises:
            ValueError: it does not follow the format.
        """
        self.id = as_text(record.get("sessionId")) or self.id
        if "$set" in record:
            history = as_object(record["$set"]).get("messages")
            if isinstance(history, list):
                self._replace(as_objects(history))
        elif "id" in record or "content" in record:
            self._message(record)

    def end_tools(self) -> None:
        """Take the results of tools as a message, if none repeated them."""
        if self._tools is not None:
            self._say(self._tools)
            self._tools = None

    def _message(self, record: JsonObject) -> None:
        kind, own = as_text(record.get("type")), as_text(record.get("id")) or ""
        if kind not in ("user", "gemini"):
            return
        at = iso_time(record.get("timestamp"), "timestamp")
        place = self._known.get(own)
        if kind == "gemini":
            if place is None:
                self.end_tools()
            after = tuple(self.window) if place is None else self.said[place].after
            self._say(_answer(record, own, at, after), own, place)
            self._tools = _results(record, own, at)
            return
        parts = _parts(record.get("content"))
        if any("functionResponse" in part for part in as_objects(parts)):
            self._tools = None
        self.end_tools()
        if place is None:
            self._say(_context("user", parts, own, at), own)
        texts = [text for part in as_objects(parts) if isinstance(text := part.get("text"), str)]
        self.prompt = self.prompt or next((text for text in texts if not text.startswith("<session_context>")), "")

    def _replace(self, history: list[JsonObject]) -> None:
        """Begin again with a history; earlier messages stay."""
        self.end_tools()
        self.window = []
        for record in history:
            own = as_text(record.get("id")) or ""
            if own in self._known:
                self.window.append(self._known[own])
            elif record.get("type") in ("user", "gemini"):
                role = "model" if record["type"] == "gemini" else "user"
                self._say(_context(role, _parts(record.get("content")), own, 0, is_repeated=True), own)

    def _say(self, said: Said, own: str = "", place: int | None = None) -> None:
        if place is not None:
            self.said[place] = said
            return
        if own:
            self._known[own] = len(self.said)
        self.say(said)


def _answer(record: JsonObject, key: str, at: int, after: Sequence[int] | None) -> Said:
    thoughts: list[JsonValue] = [
        {"text": f"**{thought.get('subject')}** {thought.get('description')}", "thought": True}
        for thought in as_objects(record.get("thoughts"))
    ]
    calls: list[JsonValue] = [
        {"functionCall": {name: call.get(name) for name in ("id", "name", "args")}}
        for call in as_objects(record.get("toolCalls"))
    ]
    parts = [*thoughts, *_parts(record.get("content")), *calls]
    tokens = as_object(record.get("tokens"))
    attributes = answered(
        DIALECT,
        {
            "candidates": [{"content": {"role": "model", "parts": parts}}],
            "usageMetadata": {google: tokens.get(name) for google, name in _COUNTS.items()},
        },
    )
    model = as_text(record.get("model"))
    attributes |= {genai.PROVIDER_NAME: "gcp.gemini"} | ({genai.REQUEST_MODEL: model} if model else {})
    return Said(message=output_of(attributes), key=key, at=at, attributes=attributes, after=after)


def _results(record: JsonObject, own: str, at: int) -> Said | None:
    calls = as_objects(record.get("toolCalls"))
    parts = [part for call in calls for part in as_list(call.get("result")) if "functionResponse" in as_object(part)]
    ended = [iso_time(call["timestamp"], "toolCalls.timestamp") for call in calls if "timestamp" in call]
    return _context("user", parts, f"{own}:results", max(ended, default=at)) if parts else None


def _context(role: str, parts: list[JsonValue], key: str, at: int, *, is_repeated: bool = False) -> Said:
    messages = spoken(DIALECT, {"contents": [{"role": role, "parts": parts}]})
    empty: JsonObject = {"role": "user", "parts": []}
    return Said(message=messages[0] if messages else empty, key=key, at=at, is_repeated=is_repeated)


def _parts(content: JsonValue) -> list[JsonValue]:
    return [_part(part) for part in (content if isinstance(content, list) else [content]) if part]


def _part(part: JsonValue) -> JsonValue:
    return {"text": part} if isinstance(part, str) else part
