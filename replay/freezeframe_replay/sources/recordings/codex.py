"""Sessions of Codex CLI: ``~/.codex/sessions/YEAR/MONTH/DAY/rollout-*.jsonl``, items of OpenAI's Responses API in order.

Source: https://github.com/openai/codex, ``codex-rs/protocol/src/protocol.rs`` (``RolloutLine``), and what version 0.169 wrote.
Before version 0.44 the items stood in the lines without a ``payload`` around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.recordings.conversations import Conversation, Said, Session, answered, output_of, spoken
from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import lines_of, placed
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text
from freezeframe_schemas.wire.openai_responses import DIALECT

_LACKS: Final = (
    "imported from a session of Codex CLI: it holds the messages, without the tools offered and the parameters; its base "
    "instructions may be the template of those sent"
)
_USAGE: Final = (
    ("cached_input_tokens", "input_tokens_details", "cached_tokens"),
    ("reasoning_output_tokens", "output_tokens_details", "reasoning_tokens"),
)


def read_codex(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Yield the conversation of a session.

    Raises:
        WireError: a record does not follow the format; the message names the line.
    """
    session = _Session()
    for number, value, _ in lines_of(path):
        with placed(path, f"line {number}"):
            session.add(number, as_object(value))
    session.end_answer()
    yield from session.conversation(origin, _LACKS)


class _Session(Session):
    """A session, while it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[JsonValue] = []
        """Of the answer that is being read."""
        self._first = self._at = 0
        self._attributes: dict[str, AttributeValue] = {genai.PROVIDER_NAME: "openai"}
        self._usage: JsonObject = {}
        self._response_id: str | None = None

    def add(self, number: int, record: JsonObject) -> None:
        """Take the next record.

        Raises:
            ValueError: it does not follow the format.
        """
        if number == 1 and "payload" not in record and isinstance(record.get("id"), str):
            record = {"type": "session_meta", "timestamp": record.get("timestamp"), "payload": record}
        kind = as_text(record.get("type"))
        if kind is None and "record_type" not in record:
            raise ValueError("type: expected text; this is not a session of Codex CLI")
        payload = as_object(record.get("payload")) or {}
        at = iso_time(record.get("timestamp"), "timestamp") if "timestamp" in record else self._at
        match kind:
            case "session_meta":
                self._begin(payload, at)
            case "turn_context":
                self._attributes[genai.REQUEST_MODEL] = as_text(payload.get("model"))
            case "response_item":
                self._item(number, payload, at)
            case "compacted":
                self._compact(payload, at)
            case "token_usage_record":
                self._response_id = as_text(payload.get("response_id"))
                self._usage = as_object(payload.get("usage"))
                self.end_answer()
            case "event_msg" if payload.get("type") == "token_count" and not self._usage:
                self._usage = as_object(as_object(payload.get("info")).get("last_token_usage"))
            case "message" | "reasoning" | "function_call" | "function_call_output" | "local_shell_call" if not payload:
                self._item(number, record, at)
            case _:
                pass
        self._at = at

    def end_answer(self) -> None:
        """Assemble the items of an answer, if any."""
        if not self._items:
            return
        document: JsonObject = {"id": self._response_id, "status": "completed", "output": self._items}
        if self._usage:
            details: JsonObject = {outer: {inner: self._usage.get(name)} for name, outer, inner in _USAGE}
            document["usage"] = {**self._usage, **details}
        attributes = {**self._attributes, **answered(DIALECT, document)}
        self.say(
            Said(
                message=output_of(attributes),
                key=f"line {self._first}",
                at=self._at,
                attributes={name: value for name, value in attributes.items() if value is not None},
                after=tuple(self.window),
            )
        )
        self._items, self._usage, self._response_id = [], {}, None

    def _begin(self, payload: JsonObject, at: int) -> None:
        if self.id:
            return  # of the session that it was forked from
        self.id = as_text(payload.get("id")) or ""
        provider = as_text(payload.get("model_provider"))
        self._attributes[genai.PROVIDER_NAME] = provider or "openai"
        text = as_object(payload.get("base_instructions")).get("text") or payload.get("instructions")
        if isinstance(text, str) and text:
            self.say(Said(message={"role": "system", "parts": [{"type": "text", "content": text}]}, key="instructions", at=at))

    def _item(self, number: int, item: JsonObject, at: int) -> None:
        kind = as_text(item.get("type")) or ""
        if kind == "reasoning" or kind.endswith("_call") or (kind == "message" and item.get("role") == "assistant"):
            self._first = self._first if self._items else number
            self._items.append(item)
            return
        self.end_answer()
        for message in spoken(DIALECT, {"input": [item]}):
            self.say(Said(message=message, key=f"line {number}", at=at))
        if item.get("role") == "user":
            texts = [text for block in as_objects(item.get("content")) if isinstance(text := block.get("text"), str)]
            self.prompt = self.prompt or next(
                (text for text in texts if not text.lstrip().startswith(("<", "# AGENTS.md"))), ""
            )

    def _compact(self, payload: JsonObject, at: int) -> None:
        """Begin again with what replaced the history."""
        self.end_answer()
        self.window = []
        items: list[JsonValue] = [*as_objects(payload.get("replacement_history"))]
        summary: JsonObject = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": payload.get("message")}],
        }
        for message in spoken(DIALECT, {"input": items or [summary]}):
            self.say(Said(message=message, at=at, is_repeated=True))
