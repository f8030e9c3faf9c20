"""A stubbed model answers real SDKs in their own wire format, and nothing leaves the process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import httpx
import openai
import pytest

import freezeframe
from freezeframe_replay.stub import model_stub
from freezeframe_schemas.errors import ReplayMiss

pytestmark = pytest.mark.long  # imports both SDKs

ASKED: Any = [{"role": "user", "content": "where is AC-1?"}]
NOWHERE = "http://127.0.0.1:9"
SIGNED: Any = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}


def chat(**options: Any) -> Any:
    client = openai.OpenAI(base_url=f"{NOWHERE}/v1", http_client=openai.DefaultHttpxClient(verify=False))
    return client.chat.completions.create(model="gpt-4o", messages=ASKED, **options)


def claude() -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=NOWHERE, http_client=anthropic.DefaultHttpxClient(verify=False))


@pytest.mark.proof
def test_openai_gets_texts_tool_calls_streams_and_errors_in_order() -> None:
    with model_stub() as model:
        model.reply("in Lyon 🙂")
        model.tool_calls(("lookup", {"order": "AC-1"}), ("track", {}))
        model.stream(["in ", "Lyon"])
        model.error(429)
        model.reply("at last")
        model.error(400, "no such model")
        assert chat().choices[0].message.content == "in Lyon 🙂"
        calls = chat().choices[0].message.tool_calls
        assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
            ("lookup", {"order": "AC-1"}),
            ("track", {}),
        ]
        assert len({call.id for call in calls}) == 2
        chunks = list(chat(stream=True))
        assert [chunk.choices[0].delta.content for chunk in chunks][:2] == ["in ", "Lyon"]
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert chat().choices[0].message.content == "at last"
        with pytest.raises(openai.BadRequestError, match="no such model"):
            chat()
        assert model.requests[0]["messages"] == ASKED


@pytest.mark.proof
def test_anthropic_gets_texts_tool_calls_and_streams() -> None:
    with model_stub() as model:
        model.reply("in Lyon")
        model.tool_call("lookup", {"order": "AC-1"})
        model.stream(["in ", "Lyon"])
        model.tool_call("lookup", {"order": "AC-2"})
        model.error(529, "overloaded")
        model.reply("again")
        api = claude().messages
        options: Any = {"model": "c", "max_tokens": 9, "messages": ASKED}
        assert api.create(**options).content[0].text == "in Lyon"
        use = api.create(**options)
        assert (use.stop_reason, use.content[0].name, use.content[0].input) == ("tool_use", "lookup", {"order": "AC-1"})
        with api.stream(**options) as stream:
            assert list(stream.text_stream) == ["in ", "Lyon"]
        with api.stream(**options) as stream:
            assert stream.get_final_message().content[0].to_dict()["input"] == {"order": "AC-2"}
        assert api.create(**options).content[0].text == "again"


def test_responses_and_embeddings_are_answered_too() -> None:
    with model_stub() as model:
        model.reply("in Lyon")
        model.tool_call("lookup", {"order": "AC-1"})
        model.stream(["in ", "Lyon"])
        model.embedding((0.5, -1.0))
        client = openai.OpenAI(base_url=f"{NOWHERE}/v1", http_client=openai.DefaultHttpxClient(verify=False))
        options: Any = {"model": "gpt-4o", "input": "where is AC-1?"}
        assert client.responses.create(**options).output_text == "in Lyon"
        (call,) = client.responses.create(**options).output
        assert call.type == "function_call"
        assert json.loads(call.arguments) == {"order": "AC-1"}
        with client.responses.stream(**options) as stream:
            assert [event.delta for event in stream if event.type == "response.output_text.delta"] == ["in ", "Lyon"]
            assert stream.get_final_response().output_text == "in Lyon"
        assert client.embeddings.create(model="e", input="AC-1").data[0].embedding == [0.5, -1.0]


def test_bedrock_is_answered_in_its_event_stream_too() -> None:
    import boto3

    bedrock: Any = boto3.client("bedrock-runtime", region_name="eu-west-1", endpoint_url=NOWHERE, **SIGNED)  # pyright: ignore[reportUnknownMemberType]
    options: Any = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "where is AC-1?"}]}]}
    with model_stub() as model:
        model.tool_call("lookup", {"order": "AC-1"})
        model.stream(["in ", "Lyon"])
        (block,) = bedrock.converse(**options)["output"]["message"]["content"]
        assert block["toolUse"]["input"] == {"order": "AC-1"}
        events = list(bedrock.converse_stream(**options)["stream"])
    assert [event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event] == ["in ", "Lyon"]
    assert events[-2]["messageStop"]["stopReason"] == "end_turn"


def test_asynchronous_clients_and_tools_that_ask_a_model_are_answered_too() -> None:
    @freezeframe.tool
    async def research() -> str:
        async with openai.AsyncOpenAI(
            base_url=f"{NOWHERE}/v1", http_client=openai.DefaultAsyncHttpxClient(verify=False)
        ) as client:
            answer = await client.chat.completions.create(model="gpt-4o", messages=ASKED)
        return answer.choices[0].message.content or ""

    with model_stub() as model:
        model.reply("found")
        assert asyncio.run(research()) == "found"


def test_a_call_without_an_answer_an_answer_without_a_call_and_other_http_fail() -> None:
    with model_stub(), pytest.raises(ReplayMiss, match="model call 1: the stub has no answer left"):
        chat()
    with pytest.raises(AssertionError, match="1 answers of the model were never used"), model_stub() as model:
        model.reply("unheard")
    with model_stub(), pytest.raises(ReplayMiss, match="model calls only"):
        httpx.get(f"{NOWHERE}/price")
