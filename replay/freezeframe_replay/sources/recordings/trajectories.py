"""Trajectories: what benchmarks and research agents keep of a run, as chat messages.

Source: sierra-research/tau-bench ``run.py`` (a list of results); SWE-agent/SWE-agent ``docs/usage/trajectories.md``;
SWE-agent/mini-swe-agent ``docs/usage/output_files.md`` (``mini-swe-agent-1.1``);
harbor-framework/harbor ``rfcs/0001-trajectory-format.md`` (ATIF 1.8);
sierra-research/tau2-bench ``src/tau2/data_model/message.py``, and the file of which the tests have a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.recordings.conversations import (
    MAX_MESSAGES,
    Conversation,
    Said,
    answered,
    linear,
    tool_call,
)
from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import each, items_of
from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import openai_chat
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_integer, as_list, as_object, as_objects, dump

_OF_TAU_BENCH: Final = "imported from a tau-bench result: it holds messages only; no model, tools offered, parameters and times"
_OF_TAU2_BENCH: Final = (
    "imported from a simulation of tau2-bench: it holds what was said, without the system prompt, the tools offered and the "
    "parameters; the simulated user's own calls are left out"
)
_OF_SWE_AGENT: Final = (
    "imported from a SWE-agent trajectory: it holds the history only, which may be longer than what the model was sent; no "
    "model, tools offered, parameters and times"
)

_OF_MINI_SWE_AGENT: Final = "imported from a mini-swe-agent trajectory: it holds what was said; no tools offered and parameters"
_OF_ATIF: Final = "imported from an ATIF trajectory: it holds what was said; no parameters"
_ATIF_VERSION: Final = "ATIF-v1."


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
    """Return whether a message is a call of the simulated user's own tools, or its result: the agent gets neither."""
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
        if agent == first and len(messages) <= MAX_MESSAGES:
            messages.append(message)
    name = about.get("environment")
    yield Conversation(
        number=1,
        name=name[:100] if isinstance(name, str) and name else origin.name,
        messages=linear(openai_chat.DIALECT, messages),
        lacks=_OF_SWE_AGENT,
    )


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
    """Return a message as the model was told of it; None for the agent's own note of why it ended."""
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


# -- ATIF ---------------------------------------------------------------------------------------------------------------


def read_atif(path: Path, origin: Origin) -> Iterator[Conversation]:
    """Yield a trajectory: one run, without those of other agents that it holds.

    Raises:
        WireError: a step does not follow the format, or the trajectory is of another version; the message says which.
    """
    about: dict[str, Any] = {}

    def note(name: str, value: Any) -> None:
        about[name] = value
        if name == "schema_version" and not str(value).startswith(_ATIF_VERSION):
            raise WireError(f"{path}: found {str(value)[:20]!r}, expected {_ATIF_VERSION}x")

    steps = list(chain.from_iterable(each(path, "step", items_of(path, "steps", other=note), _of_step)))
    if "schema_version" not in about:
        raise WireError(f"{path}: found no schema_version, expected {_ATIF_VERSION}x")
    agent = as_object(about.get("agent"))
    own: dict[str, AttributeValue] = {}
    if isinstance(agent.get("model_name"), str):
        own[genai.REQUEST_MODEL] = str(agent["model_name"])
    if agent.get("tool_definitions"):
        own[genai.TOOL_DEFINITIONS] = dump(agent["tool_definitions"])
    messages = [
        replace(item, attributes={**own, **item.attributes}) if item.message["role"] == "assistant" else item for item in steps
    ]
    yield Conversation(number=1, name=str(agent.get("name") or origin.name)[:100], messages=messages, lacks=_OF_ATIF)


_ATIF_ROLES: Final = {"agent": "assistant", "user": "user", "system": "system"}
_ATIF_COUNTS: Final = {
    genai.USAGE_INPUT_TOKENS: "prompt_tokens",
    genai.USAGE_OUTPUT_TOKENS: "completion_tokens",
    genai.USAGE_CACHE_READ_TOKENS: "cached_tokens",
}


def _of_step(step: JsonObject) -> Iterator[Said]:
    """Return what a step says, and the results that it observed."""
    role = _ATIF_ROLES.get(str(step.get("source")))
    if role is None:
        raise ValueError("source: expected agent, user or system")
    at = iso_time(step["timestamp"], "timestamp") if step.get("timestamp") else 0
    key = f"step {step.get('step_id')}"
    message: JsonObject = {"role": role, "content": step.get("message")}
    if step.get("reasoning_content"):
        message["reasoning_content"] = step["reasoning_content"]
    calls: list[JsonValue] = [
        tool_call(call.get("tool_call_id"), call.get("function_name"), call.get("arguments"))
        for call in as_objects(step.get("tool_calls"))
    ]
    if calls:
        message["tool_calls"] = calls
    metrics = as_object(step.get("metrics"))
    attributes: dict[str, AttributeValue] = {name: as_integer(metrics.get(counted)) for name, counted in _ATIF_COUNTS.items()}
    if isinstance(step.get("model_name"), str):
        attributes[genai.REQUEST_MODEL] = str(step["model_name"])
    is_repeated = bool(step.get("is_copied_context")) or (role == "assistant" and step.get("llm_call_count") == 0)
    (said,) = linear(openai_chat.DIALECT, [message])
    known = {name: value for name, value in attributes.items() if value is not None}
    found = [replace(said, key=key, at=at, is_repeated=is_repeated, attributes=known if role == "assistant" else {})]
    for number, result in enumerate(as_objects(as_object(step.get("observation")).get("results"))):
        call = result.get("source_call_id")
        observed: JsonObject = {"role": "tool" if call else "user", "content": result.get("content")}
        (said,) = linear(openai_chat.DIALECT, [{**observed, "tool_call_id": call} if call else observed])
        found.append(replace(said, key=f"{key}, result {number}", at=at, is_repeated=bool(step.get("is_copied_context"))))
    return iter(found)
