"""The recorded tau-bench airline runs, with people planted in them: played to an agent, recorded, and replayed.

A small agent loop asks through the real openai SDK; a loopback server plays the recorded assistant turns, tools give the
recorded results. In the replay neither is there.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
from loopback import QuietHandler, listening, send_json

import freezeframe
from freezeframe.seams import serve, stop_serving
from freezeframe.testing import capture
from freezeframe_redaction import Redactor, TenantKey
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.span import SpanRecord

DATA = Path(__file__).parents[1] / "data" / "tau_bench" / "gpt-4o-airline.jsonl.gz"
KEY = TenantKey(id="test/1", secret=b"t" * 32)
Message = dict[str, Any]


def load_runs() -> list[dict[str, Any]]:
    """Return the 200 runs."""
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person who is in no recording: planted in messages, tool arguments and results."""

    email: str
    phone: str
    card: str

    @property
    def private(self) -> tuple[str, ...]:
        """Values that must appear nowhere, however they are spaced."""
        return (self.email, self.phone, self.phone.replace(" ", ""), self.card, self.card.replace(" ", ""))


def person(number: int) -> Person:
    """Return the customer of a run; a card number that passes its checksum, a phone number that could be called."""
    digits = f"453914{number:09d}"
    total = sum(int(digit) if place % 2 else sum(divmod(2 * int(digit), 10)) for place, digit in enumerate(digits))
    card = digits + str(-total % 10)
    return Person(
        email=f"lena.brandt{number}@harbour-post.com",
        phone=f"+1 415 555 {2000 + number}",
        card=" ".join(card[start : start + 4] for start in range(0, 16, 4)),
    )


def plant(trajectory: list[Message], who: Person) -> list[Message]:
    """Return the run with the person in it: in what the customer says, in tool arguments, in results and in answers."""
    planted: list[Message] = json.loads(json.dumps(trajectory))
    for message in planted:
        if message["role"] == "user" and "###" not in message["content"]:
            message["content"] += f" Write to {who.email} or call {who.phone}."
        elif message["role"] == "assistant" and message.get("tool_calls"):
            function = message["tool_calls"][0]["function"]
            function["arguments"] = json.dumps({**json.loads(function["arguments"]), "notify": who.email})
        elif message["role"] == "assistant":
            message["content"] += f"\n\nWe have {who.phone} and the card {who.card} on file."
        elif message["role"] == "tool":
            message["content"] = _with_contact(message["content"], who)
    return planted


def _with_contact(text: str, who: Person) -> str:
    try:
        held: Any = json.loads(text)
    except ValueError:
        held = text
    if isinstance(held, dict):
        return json.dumps({**held, "contact": {"email": who.email, "phone": who.phone, "card": who.card}})
    return f"{text} (booked by {who.email}, card {who.card})"


@dataclass(slots=True)
class World:
    """World of the agent: the provider's address, and the next texts of customer and tools."""

    url: str
    client: openai.OpenAI
    said: deque[str] = field(default_factory=deque[str])
    results: deque[str] = field(default_factory=deque[str])
    touched: int = 0


def agent(world: World, system: str, opening: str, turns: int, tools: dict[str, Callable[..., str]]) -> str:
    """Answer the customer for `turns` model calls; return the last thing that was said."""

    @freezeframe.tool
    def customer(answer: str) -> str:
        del answer
        world.touched += 1
        return world.said.popleft()

    messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": opening}]
    for _ in range(turns):
        answered = world.client.chat.completions.create(model="gpt-4o", messages=messages, tools=schemas(tools), temperature=0)
        message = answered.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if message.tool_calls:
            for call in message.tool_calls:
                assert call.type == "function"
                result = tools[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        else:
            messages.append({"role": "user", "content": customer(message.content or "")})
    return str(messages[-1]["content"])


def make_tools(world: World, names: list[str]) -> dict[str, Callable[..., str]]:
    """Return the airline's tools; each gives the next recorded result."""

    def make(name: str) -> Callable[..., str]:
        @freezeframe.tool(name=name)
        def use(**arguments: Any) -> str:
            del arguments
            world.touched += 1
            return world.results.popleft()

        return use

    return {name: make(name) for name in names}


def schemas(tools: dict[str, Callable[..., str]]) -> Any:
    """Return the tools as the model gets them."""
    return [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in tools]


@contextmanager
def provider() -> Generator[tuple[str, deque[Message]]]:
    """A chat provider that says the assistant's recorded turns one after another."""
    due: deque[Message] = deque()
    numbers = itertools.count(1)

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            message = due.popleft()
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            body = json.dumps(
                {
                    "id": f"chatcmpl-{next(numbers)}",
                    "object": "chat.completion",
                    "created": 1715785200,
                    "model": "gpt-4o-2024-05-13",
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
            ).encode()
            send_json(self, body)

    with listening(Handler) as url:
        yield url, due


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One run as it was recorded here."""

    number: int
    trajectory: list[Message]
    spans: list[SpanRecord]
    outcome: str

    @property
    def who(self) -> Person:
        return person(self.number)


def play(world: World, trajectory: list[Message]) -> str:
    """Let the agent run through a trajectory, from the provider or from a replay."""
    names = sorted({message["name"] for message in trajectory if message["role"] == "tool"})
    turns = sum(message["role"] == "assistant" for message in trajectory)
    system, opening = trajectory[0]["content"], trajectory[1]["content"]
    tools = make_tools(world, names)

    def handle(system: str, opening: str) -> str:
        return agent(world, system, opening, turns, tools)

    return freezeframe.run(name="airline")(handle)(system, opening)


def make_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, http_client=httpx2.Client(verify=False))


def record(runs: list[tuple[int, dict[str, Any]]]) -> tuple[list[Played], str]:
    """Play the runs and record them; return them with the address of the provider, which is gone."""
    turns: list[tuple[int, list[Message], str]] = []
    with provider() as (url, due), capture() as captured, make_client(url) as client:
        for number, run in runs:
            trajectory = plant(run["traj"], person(number))
            world = World(url=url, client=client)
            due.extend(message for message in trajectory if message["role"] == "assistant")
            world.said.extend(message["content"] for message in trajectory[2:] if message["role"] == "user")
            world.results.extend(message["content"] for message in trajectory if message["role"] == "tool")
            turns.append((number, trajectory, play(world, trajectory)))
            assert not due
            assert not world.said
            assert not world.results
            captured.handle.flush(30)
        traces: dict[str, list[SpanRecord]] = {}
        for span in captured.spans:
            traces.setdefault(span.trace_id, []).append(span)
    return [
        Played(number=number, trajectory=trajectory, spans=spans, outcome=outcome)
        for (number, trajectory, outcome), spans in zip(turns, traces.values(), strict=True)
    ], url


def redacted(played: Played, redactor: Redactor) -> list[SpanRecord]:
    return [redactor.redact_span(span) for span in played.spans]


def replay(fixture: Fixture, played: Played, url: str) -> tuple[Report, World]:
    """Let the agent run through it again, with the live customer's own words, answered from the fixture."""
    session = ReplaySession(fixture)
    with make_client(url) as client:
        world = World(url=url, client=client)
        serve(session)
        try:
            play(world, played.trajectory)
        finally:
            stop_serving()
    return session.report(), world


def private_values_in(directory: Path, who: Person) -> list[str]:
    """Return the person's values that occur in the bytes of any file below the directory."""
    held = b"\n".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())
    return [value for value in who.private if value.encode() in held]


def numbered(start: int, stop: int) -> list[tuple[int, dict[str, Any]]]:
    """Return the runs from `start` to `stop`, each with its number."""
    return list(enumerate(load_runs()))[start:stop]
