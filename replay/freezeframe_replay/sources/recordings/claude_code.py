"""Sessions of Claude Code: ``~/.claude/projects/PROJECT/SESSION.jsonl``, and the files of its helpers (``agent-*.jsonl``).

A line is a record. Records form a tree: each names the one before it, so that the model's later input excludes
a prompt that was taken back, and everything before a compaction. Each block of an answer is a line. Source:
sessions that version 2.1 wrote; the format is not documented.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.recordings.conversations import (
    MAX_MESSAGES,
    Conversation,
    Said,
    answered,
    output_of,
    spoken,
)
from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import lines_of, placed
from freezeframe_schemas import genai
from freezeframe_schemas.wire.anthropic_messages import DIALECT
from freezeframe_schemas.wire.document import JsonObject, as_list, as_object, as_objects, as_text

_LACKS: Final = (
    "imported from a session of Claude Code: it holds the messages, without the system prompt, the reminders that Claude Code "
    "adds, the tools offered and the parameters"
)


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A message while it is assembled."""

    key: str
    at: int
    above: str
    message: JsonObject


@dataclass(slots=True)
class _Thread:
    """One line of records: that of the session, or of a helper."""

    entries: list[_Entry] = field(default_factory=list[_Entry])
    above: dict[str, str] = field(default_factory=dict[str, str])
    """Record -> the one before it."""
    place: dict[str, int] = field(default_factory=dict[str, int])
    """Record -> the entry that it is a part of."""
    by_answer: dict[str, int] = field(default_factory=dict[str, int])


def read_claude_code(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Yield the conversations of a session.

    Raises:
        WireError: a record does not follow the format; the message names the line.
    """
    threads: defaultdict[str, _Thread] = defaultdict(_Thread)
    session = ""
    for number, value, _ in lines_of(path):
        with placed(path, f"line {number}"):
            record = as_object(value)
            if not isinstance(record.get("type"), str):
                raise ValueError("type: expected text; this is not a session of Claude Code")
            session = as_text(record.get("sessionId")) or session
            _add(threads, record)
    for inside, thread in threads.items():
        _chain(thread)
        if thread.entries:
            yield Conversation(
                number=1,
                name=_name(thread) or origin.name,
                messages=_messages_of(thread),
                lacks=_LACKS,
                session=session,
                inside=inside,
            )


def _add(threads: defaultdict[str, _Thread], record: JsonObject) -> None:
    own, above = as_text(record.get("uuid")), as_text(record.get("parentUuid")) or ""
    if own is None:
        return
    inside = as_text(record.get("agentId")) or ""
    if not inside and record.get("isSidechain"):
        inside = next((name for name, thread in threads.items() if name and above in thread.above), f"helper {own}")
    thread = threads[inside]
    thread.above[own] = above
    message = as_object(record.get("message"))
    if record["type"] not in ("user", "assistant") or not message:
        return
    at = iso_time(record.get("timestamp"), "timestamp")
    answer = as_text(message.get("id")) if record["type"] == "assistant" else None
    known = thread.by_answer.get(answer or "")
    if known is not None:
        entry = thread.entries[known]
        entry.message = {**message, "content": [*as_list(entry.message.get("content")), *as_list(message.get("content"))]}
        entry.at = at
        thread.place[own] = known
        return
    thread.place[own] = len(thread.entries)
    if answer:
        thread.by_answer[answer] = len(thread.entries)
    thread.entries.append(_Entry(key=own, at=at, above=above, message={**message, "role": record["type"]}))


def _chain(thread: _Thread) -> None:
    """Let each record follow the one before it in the file, if none names the record that it follows."""
    if not any(thread.above.values()):
        thread.above = dict(zip(thread.above, ["", *thread.above], strict=False))
        for entry in thread.entries:
            entry.above = thread.above[entry.key]


def _messages_of(thread: _Thread) -> list[Said]:
    results: defaultdict[int, list[int]] = defaultdict(list)
    for place, entry in enumerate(thread.entries):
        if entry.above in thread.place and any(
            block.get("type") == "tool_result" for block in as_objects(entry.message.get("content"))
        ):
            results[thread.place[entry.above]].append(place)
    result: list[Said] = []
    for place, entry in enumerate(thread.entries):
        if entry.message.get("role") == "user":
            messages = spoken(DIALECT, {"messages": [entry.message]})
            parts = [part for message in messages for part in as_objects(message.get("parts"))]
            result.append(Said(message={"role": "user", "parts": [*parts]}, key=entry.key, at=entry.at))
        else:
            result.append(_answer(entry, _before(thread, place, results)))
    return result


def _answer(entry: _Entry, after: list[int]) -> Said:
    attributes = answered(DIALECT, entry.message)
    attributes[genai.PROVIDER_NAME] = "anthropic"
    made_up = entry.message.get("model") == "<synthetic>"  # Claude Code's own words, if the call failed
    message = output_of(attributes)
    return Said(
        message={"role": "assistant", "parts": []} if made_up else message,
        key=entry.key,
        at=entry.at,
        attributes={} if made_up else attributes,
        error=" ".join(str(part.get("content")) for part in as_objects(message["parts"])) or "no answer" if made_up else "",
        after=after,
    )


def _before(thread: _Thread, place: int, results: defaultdict[int, list[int]]) -> list[int]:
    """Return the places of the model's input: the records above, and the results of all calls in their answers."""
    found: set[int] = set()
    seen: set[str] = set()
    record = thread.entries[place].above
    while record and record not in seen and len(found) <= MAX_MESSAGES:
        seen.add(record)
        held = thread.place.get(record)
        if held is not None and held not in found:
            found |= {held, *results[held]}
        record = thread.above.get(record, "")
    return sorted(item for item in found if item < place)


def _name(thread: _Thread) -> str:
    """Return the first line of the first prompt."""
    content = thread.entries[0].message.get("content")
    text = content if isinstance(content, str) else next((str(b.get("text")) for b in as_objects(content) if "text" in b), "")
    return text.strip().partition("\n")[0][:100]
