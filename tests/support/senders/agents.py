"""Agents on the SDKs that stream, and on OpenAI's Responses: what `clients.libraries` does not have with a tool."""

from __future__ import annotations

import json
from typing import Any

from clients.client import World, load
from clients.libraries import anthropic, dspy, openai


def _openai(world: World) -> Any:
    return load("openai").OpenAI(base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=0)


def chat_streamed(world: World) -> Any:
    """Ask by chat completions; the pieces of a call are put together as the SDK's users do."""
    client, messages = _openai(world), list(openai.QUESTION)
    while True:
        text, calls = "", dict[int, dict[str, Any]]()
        options = {"stream": True, "stream_options": {"include_usage": True}, "tools": [openai.WEATHER]}
        for chunk in client.chat.completions.create(model="gpt-4o", messages=messages, **options):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": part.id, "name": part.function.name, "arguments": ""})
                    call["arguments"] += part.function.arguments or ""
        if not calls:
            return text
        made = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls.values()
        ]
        messages.append({"role": "assistant", "content": text or None, "tool_calls": made})
        for call in calls.values():
            found = world.tool(call["name"])(**json.loads(call["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})


def responses(world: World, *, stream: bool = False) -> Any:
    """Ask by Responses."""
    client, items = _openai(world), list(openai.QUESTION)
    weather = {"type": "function", **openai.WEATHER["function"]}
    while True:
        answer = client.responses.create(model="gpt-4o", input=items, tools=[weather], stream=stream)
        if stream:
            *_, last = answer
            answer = last.response
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        for call in calls:
            found = world.tool(call.name)(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": found})


def responses_streamed(world: World) -> Any:
    """Ask by Responses, streamed."""
    return responses(world, stream=True)


def messages_streamed(world: World) -> Any:
    """Ask Anthropic, streamed."""
    client = load("anthropic").Anthropic(base_url=world.url(anthropic.HOST), api_key="sk-ant-none", max_retries=0)
    messages = list(anthropic.ASK["messages"])
    while True:
        with client.messages.stream(**{**anthropic.ASK, "messages": messages, "tools": [anthropic.WEATHER]}) as stream:
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return answer.content[0].text
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": world.tool(call.name)(**call.input)} for call in calls
        ]
        messages.append({"role": "user", "content": results})


def dspy_native(world: World) -> Any:
    """Ask by DSPy's LM, whose tools are its program's own."""
    return dspy.ask(world)


async def openai_agents(world: World) -> Any:
    """Ask by the Agents SDK on Responses, its default."""
    agents = load("agents")
    client = load("openai").AsyncOpenAI(base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=0)
    agent = agents.Agent(
        name="forecaster",
        instructions="You are a helpful assistant",
        model=agents.OpenAIResponsesModel(model="gpt-4o", openai_client=client),
        tools=[agents.function_tool(world.weather)],
    )
    return (await agents.Runner.run(agent, openai.QUESTION[0]["content"])).final_output
