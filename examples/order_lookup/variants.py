"""The same agent in two other styles: asyncio with its tools called concurrently, and streamed."""

import asyncio
import json
from typing import cast

from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam
from summary import summarise, summarise_async
from tools import MODEL, SCHEMAS, SYSTEM_PROMPT, TOOLS, file_note, tell_model

import freezeframe


@freezeframe.run
async def answer_async(message: str) -> str:
    """Answer a customer's message; tools that the model calls together run concurrently."""
    client = AsyncOpenAI()

    async def call_tool(call_id: str, name: str, arguments: dict[str, str]) -> ChatCompletionMessageParam:
        result = await asyncio.to_thread(TOOLS[name], **arguments)
        return {"role": "tool", "tool_call_id": call_id, "content": tell_model(name, arguments, result)}

    messages = _opening(message)
    while True:
        completion = await client.chat.completions.create(
            model=MODEL, messages=messages, tools=SCHEMAS, temperature=0.2, seed=7
        )
        answer_message = completion.choices[0].message
        messages.append(cast("ChatCompletionMessageParam", answer_message.to_dict()))
        if not answer_message.tool_calls:
            break
        calls = [
            call_tool(call.id, call.function.name, json.loads(call.function.arguments))
            for call in answer_message.tool_calls
            if call.type == "function"
        ]
        messages.extend(await asyncio.gather(*calls))
    reply = answer_message.content or ""
    await asyncio.to_thread(file_note, await summarise_async(message, reply))
    return reply


@freezeframe.run
def answer_streamed(message: str) -> str:
    """Answer a customer's message, reading every completion as a stream."""
    client = OpenAI()
    messages = _opening(message)
    while True:
        with client.chat.completions.stream(
            model=MODEL,
            messages=messages,
            tools=SCHEMAS,
            temperature=0.2,
            seed=7,
            stream_options={"include_usage": True},
        ) as stream:
            answer_message = stream.get_final_completion().choices[0].message
        calls = answer_message.tool_calls or []
        if not calls:
            break
        messages.append(
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.function.name, "arguments": call.function.arguments},
                    }
                    for call in calls
                ],
            }
        )
        for call in calls:
            name, arguments = call.function.name, json.loads(call.function.arguments)
            content = tell_model(name, arguments, TOOLS[name](**arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    reply = answer_message.content or ""
    file_note(summarise(message, reply))
    return reply


def _opening(message: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": message}]
