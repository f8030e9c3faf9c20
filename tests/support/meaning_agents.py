"""Small agents on the real SDKs that ask what a reconstructed run asked first, and then do what the model says.

They know nothing of the recording but its first request; tools are asked of the replay, as a seam would ask it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from freezeframe.seams import Call
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind, Request
from freezeframe_schemas.fixture import Fixture

_MAX_TURNS = 12


def first_question(fixture: Fixture) -> dict[str, Any]:
    """Return what the run's first model call says."""
    step = next(step for step in fixture.steps if step.exchange.kind is Kind.MODEL)
    return json.loads(step.exchange.request.body)


def reworded(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the same question with one word changed."""
    *before, last = asked["messages"]
    words = str(last["text"]).split(" ")
    return {**asked, "messages": [*before, {**last, "text": " ".join([*words[:-1], f"{words[-1]}x"])}]}


def _tool(session: ReplaySession, name: str, arguments: Mapping[str, Any], call_id: str) -> str:
    body = values.encode({"args": [], "kwargs": dict(arguments)})
    answer = session.respond(
        Call(kind=Kind.TOOL, name=name, seam="decorator", request=Request(body=body.encode()), call_id=call_id)
    )
    assert answer is not None
    if answer.error is not None:
        return str(values.decode_exception(answer.error))
    result = values.decode(answer.response.body.decode())
    return result if isinstance(result, str) else json.dumps(result)


def by_chat(url: str, session: ReplaySession, asked: dict[str, Any], *, streamed: bool) -> str:
    """Run the agent on OpenAI's chat completions."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    messages: list[Any] = [{"role": "system", "content": asked["system"]}] if asked["system"] else []
    messages += [{"role": item["role"], "content": item["text"]} for item in asked["messages"]]
    for _ in range(_MAX_TURNS):
        if streamed:
            with client.chat.completions.stream(model="m", messages=messages) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model="m", messages=messages).choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in message.tool_calls:
            assert call.type == "function"
            result = _tool(session, call.function.name, json.loads(call.function.arguments), call.id)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise AssertionError("the model asks for tools without end")


def by_responses(url: str, session: ReplaySession, asked: dict[str, Any], *, streamed: bool) -> str:
    """Run the agent on OpenAI's Responses."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    items: list[Any] = [{"role": item["role"], "content": item["text"]} for item in asked["messages"]]
    system: Any = asked["system"] or openai.NOT_GIVEN
    for _ in range(_MAX_TURNS):
        if streamed:
            with client.responses.stream(model="m", input=items, instructions=system) as stream:
                response = stream.get_final_response()
        else:
            response = client.responses.create(model="m", input=items, instructions=system)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments", "parsed"}) for item in response.output]
        for call in calls:
            result = _tool(session, call.name, json.loads(call.arguments), call.call_id)
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
    raise AssertionError("the model asks for tools without end")


def by_messages(url: str, session: ReplaySession, asked: dict[str, Any], *, streamed: bool) -> str:
    """Run the agent on Anthropic's messages."""
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
    messages: list[Any] = [{"role": item["role"], "content": item["text"]} for item in asked["messages"]]
    system: Any = asked["system"] or anthropic.NOT_GIVEN
    for _ in range(_MAX_TURNS):
        if streamed:
            with client.messages.stream(model="m", max_tokens=99, messages=messages, system=system) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(model="m", max_tokens=99, messages=messages, system=system)
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]})
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": block.id, "content": _tool(session, block.name, dict(block.input), block.id)}
            for block in message.content
            if block.type == "tool_use"
        ]
        if not results:
            return "".join(block.text for block in message.content if block.type == "text")
        messages.append({"role": "user", "content": results})
    raise AssertionError("the model asks for tools without end")


AGENTS: Mapping[str, Callable[..., str]] = {"chat": by_chat, "resp": by_responses, "msg": by_messages}
"""The second word of a scenario's name -> the agent that speaks its API."""
