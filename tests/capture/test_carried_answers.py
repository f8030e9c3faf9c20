"""A conversation that a program keeps from run to run is a gap of the later run, wherever it is kept: the requests show it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from capture_provider import Provider
from carried_texts import carried_texts
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

import freezeframe
from freezeframe.testing import Captured, capture
from freezeframe_schemas.gaps import NOT_REPEATED

KEPT = f"the program asked with an answer that it kept from an earlier run, {NOT_REPEATED}"
RETURNED = KEPT.replace("asked with", "returned")


@dataclass
class Memory:
    messages: list[Any] = field(default_factory=list[Any])


@dataclass
class Bot:
    """Its memory is an object inside an object, which nothing but the requests shows."""

    client: OpenAI
    memory: Memory = field(default_factory=Memory)
    last: Any = None

    def talk(self, text: str, **options: Any) -> str:
        self.memory.messages.append({"role": "user", "content": text})
        answer = complete(self.client, self.memory.messages, **options)
        self.memory.messages.append({"role": "assistant", "content": answer})
        return answer


def complete(client: OpenAI, messages: list[ChatCompletionMessageParam], **options: Any) -> str:
    if options.get("stream"):
        stream: Any = client.chat.completions.create(model="gpt-4o", messages=messages, **options)
        return "".join(event.choices[0].delta.content or "" for event in stream)
    return client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content or ""


def keeps(bot: Bot) -> Callable[[str], str]:
    return bot.talk


def keeps_what_was_streamed(bot: Bot) -> Callable[[str], str]:
    return lambda text: bot.talk(text, stream=True)


def keeps_an_id(bot: Bot) -> Callable[[str], str]:
    def talk(text: str) -> str:
        bot.last = bot.client.responses.create(model="gpt-4o", input=text, previous_response_id=bot.last).id
        return text

    return talk


def keeps_the_id_of_a_tool_call(bot: Bot) -> Callable[[str], str]:
    tools: Any = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}]

    def talk(text: str) -> str:
        said = bot.memory.messages
        said.append({"role": "user", "content": text})
        message = bot.client.chat.completions.create(model="gpt-4o", messages=said, tools=tools).choices[0].message
        said.append(message.model_dump(exclude_none=True))
        said.extend({"role": "tool", "tool_call_id": call.id, "content": "no"} for call in message.tool_calls or ())
        return text

    return talk


def keeps_it_in_langgraph(bot: Bot) -> Callable[[str], str]:
    langchain = pytest.importorskip("langchain_openai")
    graphs, savers = pytest.importorskip("langgraph.graph"), pytest.importorskip("langgraph.checkpoint.memory")
    model = langchain.ChatOpenAI(model="gpt-4o", base_url=str(bot.client.base_url), api_key="k")
    graph = graphs.StateGraph(graphs.MessagesState)

    def ask(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    graph.add_node("ask", ask)
    graph.add_edge(graphs.START, "ask")
    app = graph.compile(checkpointer=savers.InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    return lambda text: app.invoke({"messages": [("user", text)]}, thread)["messages"][-1].content


def keeps_it_in_a_session(bot: Bot) -> Callable[[str], str]:
    agents = pytest.importorskip("agents")
    agents.set_tracing_disabled(True)

    def talk(text: str) -> str:
        client = pytest.importorskip("openai").AsyncOpenAI(base_url=str(bot.client.base_url), api_key="k")
        agent = agents.Agent(name="a", model=agents.OpenAIChatCompletionsModel("gpt-4o", openai_client=client))
        return asyncio.run(agents.Runner.run(agent, text, session=session)).final_output

    session = agents.SQLiteSession("one")
    return talk


def begins_anew(bot: Bot) -> Callable[[str], str]:
    return lambda text: complete(bot.client, [{"role": "user", "content": text}])


def shows_examples(bot: Bot) -> Callable[[str], str]:
    """The second answer is equal to what all prompts hold: it is the program's own text."""
    example: list[Any] = [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "Answer 2: ünï 🙂"}]
    return lambda text: complete(bot.client, [*example, {"role": "user", "content": text}])


def asks_twice(bot: Bot) -> Callable[[str], str]:
    def talk(text: str) -> str:
        mine = Bot(bot.client)
        return mine.talk(text) + mine.talk("and?")

    return talk


def answers_from_a_cache(bot: Bot) -> Callable[[str], str]:
    """No request shows it, but the outcome does."""
    langchain = pytest.importorskip("langchain_openai")
    cache = pytest.importorskip("langchain_core.caches").InMemoryCache()
    model = langchain.ChatOpenAI(model="gpt-4o", base_url=str(bot.client.base_url), api_key="k", cache=cache)

    def talk(text: str) -> str:
        del text
        return model.invoke("the same").content

    return talk


@contextmanager
def recorded(provider: Provider) -> Generator[tuple[Captured, Bot]]:
    with capture() as captured, OpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0) as client:
        yield captured, Bot(client)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (keeps, [KEPT]),
        (keeps_what_was_streamed, [KEPT]),
        (keeps_an_id, [KEPT]),
        (keeps_the_id_of_a_tool_call, [KEPT]),
        (keeps_it_in_langgraph, [KEPT]),
        (keeps_it_in_a_session, [KEPT]),
        (answers_from_a_cache, [RETURNED]),
        (begins_anew, []),
        (shows_examples, []),
        (asks_twice, []),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_run_that_asks_with_or_returns_an_answer_of_an_earlier_run_has_a_gap(
    provider: Provider, make: Callable[[Bot], Callable[[str], str]], said: list[str]
) -> None:
    with recorded(provider) as (captured, bot):
        talk = make(bot)
        for text in ("one", "two", "three"):
            freezeframe.run(name="chat")(lambda text=text: talk(text))()
        found = carried_texts(captured.spans)
    assert found == [[], said, said]


def test_a_conversation_that_the_run_is_given_is_no_gap(provider: Provider) -> None:
    """As its input, by a tool, by a page: a replay gives the run all of these."""
    with recorded(provider) as (captured, bot):

        @freezeframe.tool
        def stored() -> list[Any]:
            return bot.memory.messages

        @freezeframe.run
        def is_given_it(conversation: list[Any]) -> str:
            return complete(bot.client, conversation)

        @freezeframe.run
        def is_told_by_a_tool() -> str:
            return complete(bot.client, stored())

        @freezeframe.run
        def is_told_in_other_words() -> str:
            """The text of the tool's result has the conversation in JSON of its own."""
            return complete(bot.client, httpx.Response(200, content=stored_as_text()).json())

        @freezeframe.tool
        def stored_as_text() -> str:
            return httpx.Response(200, json=bot.memory.messages).text

        freezeframe.run(name="first")(lambda: bot.talk("one"))()
        is_given_it(bot.memory.messages)
        is_told_by_a_tool()
        is_told_in_other_words()
        freezeframe.run(name="last")(lambda: complete(bot.client, bot.memory.messages))()
        found = carried_texts(captured.spans)
    assert found == [[], [], [], [], [KEPT]]


def test_a_process_remembers_a_bounded_number_of_texts(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freezeframe.context.answers._MAX_KNOWN", 4)
    with recorded(provider) as (captured, bot):
        freezeframe.run(name="first")(lambda: bot.talk("one"))()
        for _ in range(3):
            freezeframe.run(name="other")(lambda: complete(bot.client, [{"role": "user", "content": "x"}]))()
        freezeframe.run(name="last")(lambda: bot.talk("two"))()
        found = carried_texts(captured.spans)
    assert found == [[], [], [], [], []]
