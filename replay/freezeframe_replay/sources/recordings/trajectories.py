"""Trajectories: what benchmarks and research agents keep of a run, as chat messages.

Source: sierra-research/tau-bench ``run.py`` (a list of results); SWE-agent/SWE-agent ``docs/usage/trajectories.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.recordings.conversations import MOST_MESSAGES, Conversation, spans_of_conversation
from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.json_items import items_of
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects

_OF_TAU_BENCH: Final = "imported from a tau-bench result: it holds messages only; no model, tools offered, parameters and times"
_OF_SWE_AGENT: Final = (
    "imported from a SWE-agent trajectory: it holds the history only, which may be longer than what the model was sent; no "
    "model, tools offered, parameters and times"
)


def read_tau_bench(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Yield the spans of the results in a file, each a run.

    Raises:
        WireError: a result does not follow the format; the message says which.
    """
    for number, item in enumerate(items_of(path), 1):
        result = as_object(item)
        messages = as_objects(result.get("traj"))
        if not messages or len(messages) != len(as_list(result.get("traj"))):
            raise WireError(f"{path}, result {number}: traj: expected a list of messages")
        name = f"task {result.get('task_id')}, trial {result.get('trial')}"
        talk = Conversation(number=number, name=name[:100], messages=messages, lacks=_OF_TAU_BENCH)
        yield from _spans(path, f"result {number}", talk, origin)


def read_swe_agent(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Yield the spans of a trajectory: one run. Of several agents, those of the first are read.

    Raises:
        WireError: an entry of the history does not follow the format; the message says which.
    """
    about: dict[str, Any] = {}

    def note(name: str, value: Any) -> None:
        if name == "environment":
            about[name] = value

    messages: list[JsonObject] = []
    first: JsonValue = None
    for number, item in enumerate(items_of(path, "history", other=note), 1):
        entry = as_object(item)
        if "role" not in entry:
            raise WireError(f"{path}, entry {number} of the history: expected a message with a role")
        first = entry.get("agent") if number == 1 else first
        if entry.get("agent") == first and len(messages) <= MOST_MESSAGES:
            messages.append(_message(entry))
    name = about.get("environment")
    talk = Conversation(
        number=1,
        name=name[:100] if isinstance(name, str) and name else origin.name,
        messages=messages,
        lacks=_OF_SWE_AGENT,
    )
    yield from _spans(path, "history", talk, origin)


def _message(entry: JsonObject) -> JsonObject:
    """Return a message as the provider got it: without the agent's own fields."""
    kept: JsonObject = {"role": entry["role"], "content": entry.get("content")}
    if entry.get("tool_calls"):
        kept["tool_calls"] = entry["tool_calls"]
    answered = as_list(entry.get("tool_call_ids"))
    if answered:
        kept["tool_call_id"] = answered[0]
    return kept


def _spans(path: Path, where: str, talk: Conversation, origin: Origin) -> Iterator[SpanRecord]:
    try:
        yield from spans_of_conversation(talk, origin)
    except ValueError as error:
        raise WireError(f"{path}, {where}: {error}") from None
