"""A typical customer-support agent: it looks up an order and answers the customer.

    python agent.py "Hi, this is Maria Keller. Where is my order? I'm at maria.keller@northbay-mail.com"
    python agent.py --variant async|stream|langgraph "..."     the same agent, written in other styles
    python agent.py --real "..."                               with the real OpenAI and Anthropic (your keys)

The README next to this file shows how to start the world and the provider that it talks to.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Callable
from typing import cast

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from summary import summarise
from tools import MODEL, SCHEMAS, SYSTEM_PROMPT, TOOLS, file_note, tell_model

import freezeframe

freezeframe.instrument()


@freezeframe.run
def answer(message: str) -> str:
    """Answer a customer's message and file a note about it."""
    client = OpenAI()
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": message},
    ]
    while True:
        completion = client.chat.completions.create(model=MODEL, messages=messages, tools=SCHEMAS, temperature=0.2, seed=7)
        answer_message = completion.choices[0].message
        messages.append(cast("ChatCompletionMessageParam", answer_message.to_dict()))
        if not answer_message.tool_calls:
            break
        for call in answer_message.tool_calls:
            if call.type == "function":
                arguments = json.loads(call.function.arguments)
                result = TOOLS[call.function.name](**arguments)
                content = tell_model(call.function.name, arguments, result)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    reply = answer_message.content or ""
    file_note(summarise(message, reply))
    return reply


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Answer a customer's message about an order.")
    parser.add_argument("message")
    parser.add_argument("--variant", choices=("sync", "async", "stream", "langgraph"), default="sync")
    parser.add_argument("--real", action="store_true", help="use the real providers, with the keys in the environment")
    options = parser.parse_args()
    if options.real:
        os.environ.pop("OPENAI_BASE_URL", None)
        os.environ.pop("ANTHROPIC_BASE_URL", None)
    elif not ("OPENAI_BASE_URL" in os.environ and "ANTHROPIC_BASE_URL" in os.environ):
        parser.error("set OPENAI_BASE_URL and ANTHROPIC_BASE_URL as provider.py prints them, or give --real")
    print(_entry_point(options.variant)(options.message))


def _entry_point(variant: str) -> Callable[[str], str]:
    """Return the function that answers in a style; only the chosen style's libraries are imported."""
    if variant == "sync":
        return answer
    if variant == "langgraph":
        from graph import answer_with_graph

        return answer_with_graph
    from variants import answer_async, answer_streamed

    return answer_streamed if variant == "stream" else lambda message: asyncio.run(answer_async(message))


if __name__ == "__main__":
    main()
