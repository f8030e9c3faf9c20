"""The local provider is indistinguishable from a hosted one for the SDKs: wire, ids, errors, randomness."""

import json

import anthropic
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

pytestmark = pytest.mark.long  # imports both SDKs

TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "lookup_orders",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"email": {"type": "string"}},
            "required": ["email"],
            "additionalProperties": False,
        },
    },
}
QUESTION: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "This is Jo Lane, jo@lane-mail.net. Where is my order?"}
]
ANSWERED: list[ChatCompletionMessageParam] = [
    *QUESTION,
    {
        "role": "assistant",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "lookup_orders", "arguments": "{}"}}],
    },
    {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": json.dumps({"order_id": "B-2001", "item": "blue bowl", "status": "being packed", "placed_on": "2026-11-02"}),
    },
]


@pytest.fixture
def client(provider: dict[str, str]) -> openai.OpenAI:
    """A client of OpenAI's SDK."""
    return openai.OpenAI(base_url=provider["OPENAI_BASE_URL"], api_key="local", max_retries=0)


@pytest.fixture
def claude(provider: dict[str, str]) -> anthropic.Anthropic:
    """A client of Anthropic's SDK."""
    return anthropic.Anthropic(base_url=provider["ANTHROPIC_BASE_URL"], api_key="local", max_retries=0)


def test_the_model_calls_the_tool_whose_arguments_it_knows(client: openai.OpenAI) -> None:
    """A question with an e-mail makes it call the tool that asks for one."""
    completion = client.chat.completions.create(model="gpt-4o-mini", messages=QUESTION, tools=[TOOL])
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "lookup_orders",
        {"email": "jo@lane-mail.net"},
    )
    assert completion.model == "gpt-4o-mini-2024-07-18"
    assert completion.usage is not None
    assert completion.usage.total_tokens > 0


def test_the_answer_says_what_the_tool_results_say(client: openai.OpenAI) -> None:
    """With the tool's result in the conversation, the answer names the order."""
    completion = client.chat.completions.create(model="gpt-4o-mini", messages=ANSWERED, tools=[TOOL])
    text = completion.choices[0].message.content or ""
    assert completion.choices[0].finish_reason == "stop"
    assert "B-2001" in text
    assert "blue bowl" in text


def test_equal_requests_get_different_answers(client: openai.OpenAI) -> None:
    """Ids, fingerprints and wording vary, temperature and seed notwithstanding."""
    answers = [client.chat.completions.create(model="gpt-4o-mini", messages=ANSWERED, temperature=0, seed=1) for _ in range(12)]
    assert len({answer.id for answer in answers}) == 12
    assert len({answer.system_fingerprint for answer in answers}) == 12
    assert len({answer.choices[0].message.content for answer in answers}) > 1


def test_a_streamed_tool_call_assembles_to_whole_arguments(client: openai.OpenAI) -> None:
    """The SDK's own accumulator rebuilds the call from its pieces."""
    with client.chat.completions.stream(model="gpt-4o-mini", messages=QUESTION, tools=[TOOL]) as stream:
        message = stream.get_final_completion().choices[0].message
    (call,) = message.tool_calls or []
    assert json.loads(call.function.arguments) == {"email": "jo@lane-mail.net"}


def test_a_stream_ends_with_usage_when_asked(client: openai.OpenAI) -> None:
    """`stream_options.include_usage` adds one last chunk without choices."""
    chunks = list(
        client.chat.completions.create(
            model="gpt-4o-mini", messages=ANSWERED, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1
    assert "B-2001" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])


def test_chunk_borders_vary_between_streams(provider: dict[str, str]) -> None:
    """Two streams of one request are cut at different bytes."""
    body = {"model": "gpt-4o-mini", "messages": ANSWERED, "stream": True}
    cuts: set[tuple[int, ...]] = set()
    for _ in range(3):
        with httpx.stream(
            "POST",
            f"{provider['OPENAI_BASE_URL']}/chat/completions",
            json=body,
            headers={"authorization": "Bearer local"},
        ) as response:
            cuts.add(tuple(len(chunk) for chunk in response.iter_raw()))
    assert len(cuts) == 3


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings_of_like_texts_are_near(client: openai.OpenAI, encoding: str) -> None:
    """A question is nearer to the text that shares its words."""
    texts = ["can I return the bowl", "returns are free", "parcels take two days"]
    data = client.embeddings.create(
        model="text-embedding-3-small", input=texts, encoding_format="float" if encoding == "float" else "base64"
    ).data
    vectors = [item.embedding for item in data]
    if encoding == "base64":
        assert all(isinstance(vector, str) for vector in vectors)
        vectors = [i.embedding for i in client.embeddings.create(model="m", input=texts).data]
    near, far = (sum(a * b for a, b in zip(vectors[0], other, strict=True)) for other in vectors[1:])
    assert near > far


def test_anthropic_streams_text(claude: anthropic.Anthropic) -> None:
    """The SDK's stream helper assembles the message that the events spell."""
    with claude.messages.stream(
        model="claude-haiku-4-5",
        max_tokens=100,
        messages=[{"role": "user", "content": "Our reply: Your order B-2001 is being packed."}],
    ) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert "B-2001" in text
    assert message.stop_reason == "end_turn"
    assert message.id.startswith("msg_01")
    assert message.usage.output_tokens > 0


def test_anthropic_calls_tools(claude: anthropic.Anthropic) -> None:
    """Tool use works on Anthropic's wire as it does on OpenAI's."""
    message = claude.messages.create(
        model="claude-haiku-4-5",
        max_tokens=100,
        messages=[{"role": "user", "content": "Where is my order? jo@lane-mail.net"}],
        tools=[{"name": "lookup_orders", "input_schema": {"type": "object", "required": ["email"]}}],
    )
    (block,) = message.content
    assert block.type == "tool_use"
    assert block.input == {"email": "jo@lane-mail.net"}
    assert message.stop_reason == "tool_use"


def test_errors_have_the_shape_that_openai_gives_them(provider: dict[str, str]) -> None:
    """The SDK raises its own exception classes with message, code and request id."""
    client = openai.OpenAI(base_url=provider["OPENAI_BASE_URL"], api_key="local", max_retries=0)
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="gpt-4o-mini", messages=[])
    assert bad.value.code == "missing_required_parameter"
    assert bad.value.param == "messages"
    assert (bad.value.request_id or "").startswith("req_")
    with pytest.raises(openai.NotFoundError, match="Invalid URL"):
        client.models.list()


def test_errors_have_the_shape_that_anthropic_gives_them(provider: dict[str, str]) -> None:
    """No key is an authentication error; a missing field is named."""
    url = f"{provider['ANTHROPIC_BASE_URL']}/v1/messages"
    no_key = httpx.post(url, json={})
    assert (no_key.status_code, no_key.json()["error"]["type"]) == (401, "authentication_error")
    incomplete = httpx.post(url, json={"model": "m"}, headers={"x-api-key": "local", "anthropic-version": "2023-06-01"})
    assert incomplete.json()["error"]["message"] == "messages: Field required"
    assert incomplete.headers["request-id"] == incomplete.json()["request_id"]
