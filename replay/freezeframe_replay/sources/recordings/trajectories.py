"""Trajectories: what benchmarks and research agents keep of a run, as chat messages.

Source: sierra-research/tau-bench ``run.py`` (a list of results); SWE-agent/SWE-agent ``docs/usage/trajectories.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.recordings.conversations import MOST_MESSAGES, Conversation, linear
from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.json_items import each, items_of
from freezeframe_schemas.wire import openai_chat
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_objects

_OF_TAU_BENCH: Final = "imported from a tau-bench result: it holds messages only; no model, tools offered, parameters and times"
_OF_SWE_AGENT: Final = (
    "imported from a SWE-agent trajectory: it holds the history only, which may be longer than what the model was sent; no "
    "model, tools offered, parameters and times"
)


def read_tau_bench(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Return the results in a file, each a run.

    Raises:
        WireError: a result does not follow the format; the message says which.
    """
    del origin
    numbers = count(1)

    def talk_of(result: JsonObject) -> Conversation:
        messages = as_objects(result.get("traj"))
        if not messages or len(messages) != len(as_list(result.get("traj"))):
            raise ValueError("traj: expected a list of messages")
        return Conversation(
            number=next(numbers),
            name=f"task {result.get('task_id')}, trial {result.get('trial')}"[:100],
            messages=linear(openai_chat.DIALECT, messages),
            lacks=_OF_TAU_BENCH,
        )

    return each(path, "result", items_of(path), talk_of)


def read_swe_agent(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Yield a trajectory: one run. Of several agents, that of the first is read.

    Raises:
        WireError: an entry of the history does not follow the format; the message says which.
    """
    about: dict[str, Any] = {}

    def note(name: str, value: Any) -> None:
        if name == "environment":
            about[name] = value

    messages: list[JsonObject] = []
    first: JsonValue = None
    for number, (agent, message) in enumerate(
        each(path, "entry of the history", items_of(path, "history", other=note), _entry)
    ):
        first = agent if number == 0 else first
        if agent == first and len(messages) <= MOST_MESSAGES:
            messages.append(message)
    name = about.get("environment")
    yield Conversation(
        number=1,
        name=name[:100] if isinstance(name, str) and name else origin.name,
        messages=linear(openai_chat.DIALECT, messages),
        lacks=_OF_SWE_AGENT,
    )


def _entry(entry: JsonObject) -> tuple[JsonValue, JsonObject]:
    """Return who wrote an entry, and the message as the provider got it: without the agent's own fields."""
    if not isinstance(entry.get("role"), str):
        raise ValueError("expected a message with a role")
    kept: JsonObject = {"role": entry["role"], "content": entry.get("content")}
    if entry.get("tool_calls"):
        kept["tool_calls"] = entry["tool_calls"]
    answered = as_list(entry.get("tool_call_ids"))
    if answered:
        kept["tool_call_id"] = answered[0]
    return entry.get("agent"), kept
