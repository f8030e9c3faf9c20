"""Arbitrary agents: a seed gives a program, and the places in it where a replay must see a change.

A program is a list of parts, each written by one rule of the grammar (`agent_rules`) from the seed and its own position, so
that a part can be left out without a change to the others: that is how a failing program is made small. At each
``draw.change(...)`` of a rule the program can be altered: in a request, an outcome or the order of effects, always in code
that runs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent_rules import RULES, Change, Draw, duration, indent

_PLACE: Final = re.compile("(^ *)?⟦(\\d+)⟧", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A generated program."""

    seed: int
    entry: str
    """Kind of its entry point; a name of `ENTRIES`."""
    parts: tuple[tuple[int, str], ...]
    """Position and rule of each part."""
    changes: tuple[Change, ...]
    _template: str
    _variables: Mapping[str, str]

    @property
    def places(self) -> list[int]:
        """Return the numbers of the changes that make another program."""
        unchanged = self.source(), self.environment()
        return [place for place in range(len(self.changes)) if (self.source(place), self.environment(place)) != unchanged]

    def source(self, change: int | None = None) -> str:
        """Return the program's text, with one of its places changed."""
        return self._fill(self._template, change)

    def environment(self, change: int | None = None) -> dict[str, str]:
        """Return the variables that the program reads."""
        return {name: self._fill(value, change) for name, value in self._variables.items()}

    def _fill(self, text: str, change: int | None) -> str:
        def place(match: re.Match[str]) -> str:
            margin, number = match[1] or "", int(match[2])
            filled = self.changes[number].after if number == change else self.changes[number].before
            return margin + filled.replace("\n", f"\n{margin}")

        while _PLACE.search(text):  # what is in a place may hold places
            text = _PLACE.sub(place, text)
        return text


ENTRIES: Final[Mapping[str, int]] = {
    "function": 6,
    "coroutine": 4,
    "generator": 1,
    "async_generator": 1,
    "script": 3,
    "block": 1,
    "nested": 1,
    "method": 1,
}
"""Kind of entry point -> its frequency. A block, a nested function and a method cannot be called again by name."""

_PRELUDE: Final = """
import asyncio, datetime, itertools, json, os, queue, random, secrets, subprocess, sys, threading, time, uuid
from concurrent.futures import ThreadPoolExecutor, as_completed
import freezeframe
freezeframe.instrument()
import anthropic, httpx, openai

def make_client(retries):
    return openai.OpenAI(api_key="x", max_retries=retries, http_client=openai.DefaultHttpxClient(verify=False))

def ask(style, prompt, *, model, retries):
    messages = [{"role": "user", "content": prompt}]
    if style.startswith("anthropic"):
        http = anthropic.DefaultHttpxClient(verify=False)
        client = anthropic.Anthropic(api_key="x", max_retries=retries, http_client=http)
        if style == "anthropic":
            return client.messages.create(model=model, max_tokens=99, messages=messages).content[0].text
        with client.messages.stream(model=model, max_tokens=99, messages=messages) as stream:
            return "".join(stream.text_stream)
    client = make_client(retries)
    if style == "responses":
        return client.responses.create(model=model, input=prompt).output_text
    if style == "chat":
        return client.chat.completions.create(model=model, messages=messages).choices[0].message.content
    stream = client.chat.completions.create(model=model, messages=messages, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

async def ask_async(style, prompt, *, model, retries):
    messages = [{"role": "user", "content": prompt}]
    if style.startswith("anthropic"):
        http = anthropic.DefaultAsyncHttpxClient(verify=False)
        async with anthropic.AsyncAnthropic(api_key="x", max_retries=retries, http_client=http) as client:
            if style == "anthropic":
                return (await client.messages.create(model=model, max_tokens=99, messages=messages)).content[0].text
            async with client.messages.stream(model=model, max_tokens=99, messages=messages) as stream:
                return "".join([text async for text in stream.text_stream])
    http = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(api_key="x", max_retries=retries, http_client=http) as client:
        if style == "responses":
            return (await client.responses.create(model=model, input=prompt)).output_text
        if style == "chat":
            return (await client.chat.completions.create(model=model, messages=messages)).choices[0].message.content
        stream = await client.chat.completions.create(model=model, messages=messages, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

WORLD = random.SystemRandom()  # what a tool finds out there is not the program's own chance
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
PEOPLE = ["Maria Keller", "maria.keller@example.com", "+49 30 901820", "350 Fifth Avenue, New York, NY 10118"]

@freezeframe.tool
def look(item):
    return {"item": item, "stock": WORLD.randrange(10**6), "note": WORLD.choice(["fragile", None, "näme 🙂", 1.5, [True]])}

@freezeframe.tool
def pause(item):
    time.sleep(WORLD.uniform(100, 120) / 1000)
    return f"{item}: {WORLD.random()}"

@freezeframe.tool
def customer_of(order):
    return {"order": order, "contact": WORLD.choice(PEOPLE)}

@freezeframe.tool
def fetch(item):
    return httpx.get(os.environ["OPENAI_BASE_URL"].replace("/v1", f"/price/{item}")).json()

@freezeframe.tool
def throw(sides):
    return random.randint(1, sides)

@freezeframe.tool
def refuse(item):
    raise ValueError(f"no {item}: {WORLD.random()}")

@freezeframe.tool
def run_program(word):
    return subprocess.run(["echo", word, str(WORLD.random())], capture_output=True, text=True).stdout

@freezeframe.tool
def read_pages(item):
    for number in range(4):
        yield f"{item} page {number}: {WORLD.random()}"

@freezeframe.tool
async def weigh(item):
    await asyncio.sleep(WORLD.uniform(1, 10) / 1000)
    return f"{item}: {WORLD.random()}"

@freezeframe.tool
async def refuse_async(item):
    await asyncio.sleep(0.02)
    raise ValueError(f"no {item}")

@freezeframe.retriever
def search(query):
    return [{"id": str(n), "text": f"{query} {WORLD.random()}", "score": WORLD.random()} for n in range(2)]

# the agent
"""

_NEWLINE: Final = "\n"
_TASKS: Final = (
    {"question": "Where is my order?", "name": "Laura Fischer", "mail": "laura.fischer@example.com", "items": ["a"]},
    {"question": "Cancel it, please.", "name": "Peter Novak", "mail": "peter.novak@example.org", "items": []},
    {"question": "Is it here yet?", "name": "Sara Lindqvist", "mail": "sara@lindqvist.example", "items": [1, 2]},
)


def make_agent(seed: int, *, without: Collection[str] = (), keep: Collection[int] | None = None) -> Agent:
    """Return the agent of a seed.

    Args:
        seed: decides everything.
        without: rules and entries that are not to be drawn.
        keep: positions of the parts to keep; None keeps all.
    """
    chance = random.Random(f"agent {seed}")
    entry = _weighted(chance, ENTRIES, without)
    is_async = entry in {"coroutine", "async_generator"}
    # The module of a nested run must be importable without a call: what a script does at once is not in the nested recording.
    left_out = {*without, "nested_run"} if entry in {"script", "block"} else without
    changes: list[Change] = []
    variables: dict[str, str] = {}
    parts: list[tuple[int, str]] = []
    texts: list[str] = []
    for position in range(chance.choice((1, 2, 3, 3, 4, 6))):
        draw = Draw(random.Random(f"{seed} {position}"), changes, variables, position=position, is_async=is_async)
        name = _weighted(draw.chance, {name: weight for name, (_, weight) in RULES.items()}, left_out)
        if keep is not None and position not in keep:
            continue
        if texts and draw.chance.random() < 0.15:
            done = "return" if "generator" in entry else "return seen"
            texts.append(draw.change("early return", "pass", done if entry not in {"script", "block"} else "raise SystemExit"))
        texts.append(RULES[name][0](draw))
        parts.append((position, name))
    for position in range(20, 20 + chance.choice((0, 0, 1, 1, 2))):  # drawn last, so that the other parts of a seed stay
        draw = Draw(random.Random(f"{seed} {position}"), changes, variables, position=position, is_async=is_async)
        if keep is None or position in keep:
            texts.insert(draw.chance.randrange(len(texts) + 1), duration(draw))
            parts.append((position, duration.__name__))
    ending = random.Random(f"{seed} ending")
    draw, result = Draw(ending, changes, variables, position=99, is_async=is_async), "seen"
    if ending.random() < 0.1:
        texts.append(f'raise RuntimeError("{draw.word("text of an exception")}")')
    else:
        result = draw.change("outcome", "seen", "[*seen, 'more']")
    runs = 1 if entry in {"script", "block"} else ending.choice((1, 1, 1, 2, 3))
    body = "\n".join(['seen = [task["question"]]', *texts])
    return Agent(
        seed=seed,
        entry=entry,
        parts=tuple(parts),
        changes=tuple(changes),
        _template=_PRELUDE + _program(entry, body, result, [repr(task) for task in _TASKS[:runs]]),
        _variables=variables,
    )


def _weighted(chance: random.Random, weights: Mapping[str, int], without: Collection[str]) -> str:
    left = {name: weight for name, weight in weights.items() if name not in without}
    return chance.choices(list(left), list(left.values()))[0]


def _program(entry: str, body: str, result: str, tasks: Sequence[str]) -> str:
    """Return what follows the prelude: the entry point around the body, and a call of it for each task."""
    if entry == "script":
        return f"task = {tasks[0]}\n{body}\nprint(json.dumps({result}, default=str))\n"
    if entry == "block":
        inner = indent(f"task = {tasks[0]}\n{body}\nrun.output = {result}")
        return f'with freezeframe.run("block", input={tasks[0]}) as run:\n{inner}\n'
    returned = indent(f"{body}\nreturn {result}")
    function = f"@freezeframe.run\ndef agent(task):\n{returned}"
    text, call = {
        "function": (function, "agent(TASK)"),
        "coroutine": (f"@freezeframe.run\nasync def agent(task):\n{returned}", "asyncio.run(agent(TASK))"),
        "generator": (
            f"@freezeframe.run\ndef agent(task):\n{indent(f'{body}{_NEWLINE}yield from {result}')}",
            "list(agent(TASK))",
        ),
        "async_generator": (
            f"@freezeframe.run\nasync def agent(task):\n"
            f"{indent(f'{body}{_NEWLINE}for item in {result}:{_NEWLINE}    yield item')}\n"
            "async def drain(stream):\n    return [item async for item in stream]",
            "asyncio.run(drain(agent(TASK)))",
        ),
        "nested": (f"def make():\n{indent(function)}\n    return agent", "make()(TASK)"),
        "method": (f"class Shop:\n{indent(function.replace('agent(task)', 'agent(self, task)'))}", "Shop().agent(TASK)"),
    }[entry]
    calls = [f"    try:\n        {call.replace('TASK', task)}\n    except RuntimeError:\n        pass\n" for task in tasks]
    return f'{text}\n\nif __name__ == "__main__":\n{"".join(calls)}'
