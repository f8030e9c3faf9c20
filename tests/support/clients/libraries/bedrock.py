"""boto3's Bedrock runtime: converse, and its event streams."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, Column, Trials, World, failures, load, trial
from clients.provider import OVERLOADED, recorded

HOST: Final = "bedrock-runtime.us-east-1.amazonaws.com"
SIMPLE, STREAM, NO_MODEL = recorded("49d5df348f856844", "b81a5ea7f72fe7fa", "5bce8614d5f10431")
TOOL: Final = recorded("b1090135c75e9b50", "f73eab12f8b4b8c5")
"""Asks for ``get_current_weather`` in two cities at once."""

ASK: Final[dict[str, Any]] = {
    "modelId": "amazon.nova-micro-v1:0",
    "messages": [{"role": "user", "content": [{"text": "What is the weather in Seattle and San Francisco? ünï"}]}],
    "inferenceConfig": {"temperature": 0.3},
}
WEATHER: Final[dict[str, Any]] = {
    "toolSpec": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location.",
        "inputSchema": {"json": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}},
    }
}


def _client(world: World, attempts: int = 1) -> Any:
    config = load("botocore.config").Config(retries={"total_max_attempts": attempts, "mode": "standard"})
    return load("boto3").client(
        "bedrock-runtime",
        endpoint_url=world.url(HOST),
        region_name="us-east-1",
        aws_access_key_id="AKIANONE",
        aws_secret_access_key="none",
        config=config,
    )


def _without_metadata(answer: Any) -> Any:
    """Return the answer without what describes the connection (dates, header objects)."""
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def converse(world: World) -> Any:
    return _without_metadata(_client(world).converse(**ASK))


def converse_stream(world: World) -> Any:
    return list(_client(world).converse_stream(**ASK)["stream"])


def use_tools(world: World) -> Any:
    client, messages = _client(world), list(ASK["messages"])
    while True:
        answer = client.converse(**{**ASK, "messages": messages}, toolConfig={"tools": [WEATHER]})
        messages.append(answer["output"]["message"])
        calls = [part["toolUse"] for part in answer["output"]["message"]["content"] if "toolUse" in part]
        if not calls:
            return messages
        found = [(call["toolUseId"], world.tool(call["name"])(**call["input"])) for call in calls]
        results = [{"toolResult": {"toolUseId": call_id, "content": [{"text": text}]}} for call_id, text in found]
        messages.append({"role": "user", "content": results})


def retry(world: World) -> Any:
    return _without_metadata(_client(world, attempts=2).converse(**ASK))


def abandon(world: World) -> Any:
    events = _client(world).converse_stream(**ASK)["stream"]
    first = next(iter(events))
    events.close()
    return first


TRIALS: Final[Trials] = {
    Column.SYNC: (trial(converse, SIMPLE),),
    Column.ASYNC: "boto3 has no async client",
    Column.STREAM: (trial(converse_stream, STREAM),),
    Column.TOOLS: (trial(use_tools, *TOOL),),
    Column.ERRORS: failures(trial(converse, SIMPLE), trial(converse_stream, STREAM), NO_MODEL),
    Column.RETRY: (trial(retry, OVERLOADED, SIMPLE),),
    Column.ABANDONED: (trial(abandon, STREAM),),
}
CLIENT: Final = Client("boto3 (Bedrock)", "boto3", trials=TRIALS)
