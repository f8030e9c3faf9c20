"""A run's input and outcome as messages of the conventions, so that any backend shows what was asked and answered.

Only where they are a text or messages: nothing else is a conversation. Replays never read them. Called where spans are
exported, off the application's path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from freezeframe_schemas import genai

if TYPE_CHECKING:
    from freezeframe_schemas.wire.messages import Message

_MAX_CHARS: Final = 65_536
"""A longer input or outcome is not copied."""
_QUESTIONS: Final = ("question", "query", "prompt", "message", "input", "text", "task")
"""Arguments that hold the question, if several are texts."""


def messages_of_entry(given: str, output: str | None) -> dict[str, str]:
    """Return the attributes for an entry point's input and outcome, both tagged JSON."""
    from freezeframe_schemas.wire.messages import to_json

    found = {
        genai.INPUT_MESSAGES: _input_messages(_loaded(given)),
        genai.OUTPUT_MESSAGES: _output_messages(_loaded(output)),
    }
    return {name: to_json(messages) for name, messages in found.items() if messages}


def _loaded(text: str | None) -> Any:
    return None if text is None or len(text) > _MAX_CHARS else json.loads(text)


def _input_messages(given: Any) -> list[Message]:
    if not isinstance(given, Mapping):
        return []
    named = {**(given.get("kwargs") or {}), **({"input": given["input"]} if "input" in given else {})}
    values = [*(given.get("args") or ()), *named.values()]
    for value in values:
        if messages := _conversation(value):
            return messages
    texts = [value for value in values if isinstance(value, str) and value]
    if len(texts) > 1:
        texts = [named[name] for name in _QUESTIONS if named.get(name) in texts][:1]
    return [_message("user", text) for text in texts]


def _output_messages(output: Any) -> list[Message]:
    if isinstance(output, Mapping) and isinstance(parts := output.get("yields"), list):
        output = "".join(parts) if all(isinstance(part, str) for part in parts) else None
    if isinstance(output, str) and output:
        return [_message("assistant", output, "stop")]
    last = _conversation([output] if isinstance(output, Mapping) and "role" in output else output, "stop")[-1:]
    return [message for message in last if message.role == "assistant"]


def _message(role: str, text: str, reason: str | None = None) -> Message:
    from freezeframe_schemas.wire.messages import Message, TextPart

    return Message(role=role, parts=(TextPart(content=text),), finish_reason=reason)


def _conversation(value: Any, reason: str | None = None) -> list[Message]:
    """Return a list of messages, or the one in ``{"messages": [...]}``, as values; nothing for any other value."""
    from freezeframe_schemas.wire.openai_content import read_message

    items = value.get("messages") if isinstance(value, Mapping) else value
    if not isinstance(items, list):
        return []
    spoken = [dict(item) for item in items if isinstance(item, Mapping) and isinstance(item.get("role"), str)]
    return [read_message(item, reason) for item in spoken] if len(spoken) == len(items) else []
