"""Programs in Python that reach their tools through MCP, replayed from runs of other instrumentations: no server is started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from freezeframe_replay.cli import main
from freezeframe_replay.engine.mcp_answers import tool_result

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

RUN = Path(__file__).parents[1] / "data" / "otlp" / "openai-chat-oi"
QUESTION = "What's the weather in Seattle and San Francisco today?"
SESSION = """
import asyncio, json, sys
import openai
from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client

async def main():
    client = openai.AsyncOpenAI(api_key="x", max_retries=0)
    async with stdio_client(StdioServerParameters(command="no-such-server")) as streams, ClientSession(*streams) as session:
        await session.initialize()
        print([tool.name for tool in (await session.list_tools()).tools])
        messages = [{"role": "system", "content": "You're a helpful assistant."}, {"role": "user", "content": sys.argv[1]}]
        while True:
            answer = await client.chat.completions.create(model="gpt-4o-mini", messages=messages)
            message = answer.choices[0].message
            if not message.tool_calls:
                return
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = await session.call_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result.content[0].text})

asyncio.run(main())
"""
PROMPTS = """
import asyncio, os, sys
import openai
from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

def server():
    url = os.environ.get("FREEZEFRAME_MCP_URL")
    return streamable_http_client(url) if url else stdio_client(StdioServerParameters(command="no-such-server"))

async def main():
    async with server() as (read, write, *_), ClientSession(read, write) as session:
        offered = (await session.initialize()).capabilities
        assert offered.prompts and offered.resources
        name = (await session.list_prompts()).prompts[0].name
        prompt = (await session.get_prompt(name, {"name": sys.argv[1]})).messages[0].content.text
        order = (await session.read_resource("shop://orders/AC-1")).contents[0].text
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": order}]
    client = openai.AsyncOpenAI(api_key="x", max_retries=0)
    await client.chat.completions.create(model="gpt-4o-mini", messages=messages)

asyncio.run(main())
"""
AGENTS_SDK = """
import asyncio, sys
import openai
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio

set_tracing_disabled(True)

async def main():
    model = OpenAIChatCompletionsModel("gpt-4o-mini", openai.AsyncOpenAI(api_key="x", max_retries=0))
    async with MCPServerStdio(params={"command": "no-such-server", "args": []}) as server:
        agent = Agent(name="weather", instructions="You're a helpful assistant.", model=model, mcp_servers=[server])
        await Runner.run(agent, sys.argv[1])

asyncio.run(main())
"""


@pytest.mark.proof
@pytest.mark.parametrize("program", [SESSION, AGENTS_SDK], ids=["session", "agents-sdk"])
def test_tools_behind_mcp_are_answered_in_process_with_no_server(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(program)
    assert main(["replay", str(RUN), "--", sys.executable, str(agent), QUESTION]) == 0
    told = capsys.readouterr().out
    assert told.startswith("same in meaning, reconstructed")
    assert "4 of 4 steps" in told


def test_another_argument_of_a_tool_behind_mcp_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(SESSION.replace("json.loads(call.function.arguments)", '{"location": "Lyon"}'))
    assert main(["replay", str(RUN), "--", sys.executable, str(agent), QUESTION]) == 3
    told = capsys.readouterr().out
    assert "REPLAY-101 diverged at step 2 (tool get_current_weather" in told
    assert "Lyon" in told


@pytest.mark.parametrize("command", ["replay", "replay serve"])
@pytest.mark.parametrize("recorded", ["logfire", "tl"])
def test_prompts_and_resources_that_spans_hold_are_answered_and_another_argument_is_named(
    recorded: str, command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    agent, run = tmp_path / "agent.py", RUN.parents[1] / "otlp_agents" / f"mcp-prompts-{recorded}"
    agent.write_text(PROMPTS)
    assert main([*command.split(), str(run), "--", sys.executable, str(agent), "Ann"]) == 0
    told = capfd.readouterr().out
    assert told.startswith("same in meaning, reconstructed")
    assert "4 of 4 steps" in told
    assert main([*command.split(), str(run), "--", sys.executable, str(agent), "Bob"]) == 3
    assert "REPLAY-101 diverged at step 2 (mcp prompts/get" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ("sunny", [{"type": "text", "text": "sunny"}]),
        (5, [{"type": "text", "text": "5"}]),
        ({"type": "text", "text": "sunny"}, [{"type": "text", "text": "sunny"}]),
        ([{"type": "text", "text": "sunny"}], [{"type": "text", "text": "sunny"}]),
        ({"content": [{"type": "text", "text": "no"}], "isError": True}, [{"type": "text", "text": "no"}]),
        ({"type": "text"}, [{"type": "text", "text": '{"type":"text"}'}]),
        ([], [{"type": "text", "text": "[]"}]),
    ],
)
def test_a_result_that_a_span_has_in_the_form_of_mcp_is_not_wrapped_again(result: Any, content: Any) -> None:
    assert tool_result(result)["content"] == content
