"""Trajectories: a run as chat messages, as benchmarks and research agents keep it.

Source: sierra-research/tau-bench ``run.py`` (a list of results); SWE-agent/mini-swe-agent ``docs/usage/output_files.md``
(``mini-swe-agent-1.1``); sierra-research/tau2-bench ``src/tau2/data_model/message.py``, and the file of which the tests
have a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.recordings.conversations import (
    Conversation,
    Said,
    answered,
    linear,
    tool_call,
)
from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import each, items_of
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import openai_chat
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects

_OF_TAU_BENCH: Final = "imported from a tau-bench result: it holds messages only; no model, tools offered, parameters and times"
_OF_TAU2_BENCH: Final = (
    "imported from a simulation of tau2-bench: it holds the messages, without the system prompt, the tools offered and the "
    "parameters; the simulated user's own calls are left out"
)
_OF_MINI_SWE_AGENT: Final = "imported from a mini-swe-agent trajectory: it holds the messages; no tools offered and parameters"


def read_tau_bench(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Return the results in a file, each a run.

    Raises:
        WireError: a result does not follow the format; the message says which.
    """
    del origin
    numbers = count(1)

    def conversation_of(result: JsonObject) -> Conversation:
        messages = as_objects(result.get("traj"))
        if not messages or len(messages) != len(as_list(result.get("traj"))):
            raise ValueError("traj: expected a list of messages")
        return Conversation(
            number=next(numbers),
            name=f"task {result.get('task_id')}, trial {result.get('trial')}"[:100],
            messages=linear(openai_chat.DIALECT, messages),
            lacks=_OF_TAU_BENCH,
        )

    return each(path, "result", items_of(path), conversation_of)


def read_tau2_bench(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Return the simulations in a file, each a run: the agent's side of it.

    Raises:
        WireError: a simulation does not follow the format; the message says which.
    """
    del origin
    numbers = count(1)
    own: dict[str, AttributeValue] = {}

    def note(name: str, value: Any) -> None:
        model = as_object(as_object(value).get("agent_info")).get("llm") if name == "info" else None
        if isinstance(model, str):
            own[genai.REQUEST_MODEL] = model.rpartition("/")[2]

    def conversation_of(simulation: JsonObject) -> Conversation:
        messages = as_objects(simulation.get("messages"))
        if not messages or len(messages) != len(as_list(simulation.get("messages"))):
            raise ValueError("messages: expected a list of messages")
        return Conversation(
            number=next(numbers),
            name=f"task {simulation.get('task_id')}, trial {simulation.get('trial', 0)}"[:100],
            messages=[_of_tau2_bench(message, own) for message in messages if not _is_the_users(message)],
            lacks=_OF_TAU2_BENCH,
        )

    return each(path, "simulation", items_of(path, "simulations", other=note), conversation_of)


def _is_the_users(message: JsonObject) -> bool:
    """Return whether a message is a call of the simulated user's tools, or its result: the agent gets neither."""
    return message.get("requestor") == "user" or (message.get("role") == "user" and bool(message.get("tool_calls")))


def _of_tau2_bench(message: JsonObject, own: Mapping[str, AttributeValue]) -> Said:
    kept: JsonObject = {"role": message.get("role"), "content": message.get("content")}
    if message.get("tool_calls"):
        kept["tool_calls"] = [
            tool_call(call.get("id"), call.get("name"), call.get("arguments")) for call in as_objects(message.get("tool_calls"))
        ]
    if message.get("role") == "tool":
        kept["tool_call_id"] = message.get("id")
    (made,) = linear(openai_chat.DIALECT, [kept])
    made = replace(made, at=iso_time(message["timestamp"], "timestamp") if message.get("timestamp") else 0)
    if message.get("role") != "assistant":
        return made
    if message.get("usage") is None and not message.get("tool_calls"):
        return replace(made, is_repeated=True)  # the greeting, which no model wrote
    raw, usage = as_object(message.get("raw_data")), as_object(message.get("usage"))
    values: dict[str, JsonValue] = {
        genai.RESPONSE_ID: raw.get("id"),
        genai.RESPONSE_MODEL: raw.get("model"),
        genai.USAGE_INPUT_TOKENS: usage.get("prompt_tokens"),
        genai.USAGE_OUTPUT_TOKENS: usage.get("completion_tokens"),
    }
    found = {name: value for name, value in values.items() if isinstance(value, str | int)}
    attributes: dict[str, AttributeValue] = {**own, **found}
    reason = raw.get("finish_reason") or raw.get("stop_reason")
    if isinstance(reason, str):
        attributes[genai.RESPONSE_FINISH_REASONS] = (reason,)
    if isinstance(cost := message.get("cost"), int | float):
        attributes[genai.USAGE_COST_USD] = float(cost)
    return replace(made, attributes=attributes)


def read_mini_swe_agent(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Yield a trajectory: one run, with the provider's answers as mini-swe-agent keeps them.

    Raises:
        WireError: a message does not follow the format; the message says which.
    """
    about: dict[str, Any] = {}

    def note(name: str, value: Any) -> None:
        about[name] = value

    messages = [item for item in each(path, "message", items_of(path, "messages", other=note), _of_mini_swe_agent) if item]
    model = as_object(as_object(as_object(about.get("info")).get("config")).get("model")).get("model_name")
    if isinstance(model, str):
        own = {genai.REQUEST_MODEL: model.rpartition("/")[2]}
        messages = [
            replace(item, attributes={**own, **item.attributes}) if item.message["role"] == "assistant" else item
            for item in messages
        ]
    yield Conversation(number=1, name=origin.name, messages=messages, lacks=_OF_MINI_SWE_AGENT)


def _of_mini_swe_agent(entry: JsonObject) -> Said | None:
    """Return a message as the model received it; None for the agent's note on why it ended."""
    if not isinstance(entry.get("role"), str):
        raise ValueError("expected a message with a role")
    if entry["role"] == "exit":
        return None
    kept: JsonObject = {name: entry[name] for name in ("role", "content", "tool_calls", "tool_call_id") if entry.get(name)}
    (said,) = linear(openai_chat.DIALECT, [kept])
    extra = as_object(entry.get("extra"))
    attributes = answered(openai_chat.DIALECT, as_object(extra.get("response"))) if extra.get("response") else {}
    if isinstance(cost := extra.get("cost"), int | float):
        attributes[genai.USAGE_COST_USD] = float(cost)
    at = extra.get("timestamp")
    return replace(said, at=int(at * 1e9) if isinstance(at, int | float) else 0, attributes=attributes)
