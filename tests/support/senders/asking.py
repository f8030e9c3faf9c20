"""Run one sender's agent in the sender's own environment: ``python -m senders.asking SENDER``.

Where it is served by a replay, its tool asks for the recorded result.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

from clients.client import World, load
from clients.libraries import anthropic, google_genai, openai
from senders.starting import start
from senders.table import SENDERS

DONE = "done: "
"""Prefix of the line with the result of the agent."""
_BASES = {openai.HOST: "OPENAI_BASE_URL", anthropic.HOST: "ANTHROPIC_BASE_URL", google_genai.HOST: "GOOGLE_GEMINI_BASE_URL"}


class Asking(World):
    """The world of an agent in a process of its own: providers where the SDKs' variables say."""

    def __init__(self) -> None:
        super().__init__(0)

    def url(self, host: str) -> str:
        return os.environ[_BASES[host]].removesuffix("/v1")

    def weather(self, location: str) -> str:
        """Get weather information for a location.

        Args:
            location: the city
        """
        return self.tool("weather")(location=location)

    def tool(self, name: str) -> Callable[..., str]:
        def work(**arguments: Any) -> str:
            if tools := os.environ.get("FREEZEFRAME_TOOLS_URL"):
                with urllib.request.urlopen(f"{tools}/{name}", json.dumps(arguments).encode()) as answer:
                    return json.load(answer)["result"]
            return "40 C"

        return work


def main(name: str) -> None:
    """Take one question after another from standard input, with the variables to ask it under; say when it is done."""
    sender = SENDERS[name]
    module, _, function = sender.agent.partition(":")
    flush = start(sender.start)
    use = getattr(load(module), function)
    for line in sys.stdin:
        job = json.loads(line)
        os.environ.update(job["variables"])
        question = job["question"]
        openai.QUESTION[0]["content"] = anthropic.ASK["messages"][0]["content"] = google_genai.QUESTION = question
        try:
            found = use(Asking())
            result = str(asyncio.run(found) if inspect.iscoroutine(found) else found)
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        flush()
        print(f"\n{DONE}{json.dumps(result)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
