"""A small rule-based chat model: reads a conversation, calls tools while it can, then answers in its own words.

It plays the part of a hosted model for the demo. It knows only the conversation passed to it, and it is really
non-deterministic: the wording comes from the operating system's randomness, so two equal
requests almost never get equal answers. It must never keep state between two calls.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import SystemRandom
from typing import Literal, Protocol, cast

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
# The introduction is matched in any case, the name is not: its capitals make it a name.
_NAME = re.compile(r"(?i:\b(?:this is|my name is|i am|i'm)) ((?:[A-Z]['\w-]+ ?){1,3})")
_ORDER_ID = re.compile(r"\b[A-Z]-\d{4}\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A function that the caller offers."""

    name: str
    required: tuple[str, ...]
    """Names of the parameters that its JSON schema requires."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """The model's request to call a function."""

    name: str
    arguments: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One message of a conversation, whichever wire it came over."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    tool_name: str | None = None
    """For a tool result: the function that returned it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """The content of a request to the model."""

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()

    def said_by(self, role: str) -> str:
        """Return all text of one role."""
        return "\n".join(turn.text for turn in self.turns if turn.role == role)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The model's next message: tool calls, or text."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class Writer(Protocol):
    """Puts facts into words; the rules have one, the packaged model is another."""

    def write(self, instruction: str, draft: str) -> str:
        """Return the draft in its own words."""
        ...


class RuleModel:
    """The rules: call every tool whose arguments are known, then summarise the results."""

    def __init__(self, writer: Writer | None = None) -> None:
        self._random = SystemRandom()
        self._writer = writer

    def reply(self, conversation: Conversation) -> Reply:
        """Return the next message of the assistant."""
        calls = tuple(_calls_that_help(conversation))
        if calls:
            return Reply(calls=calls)
        if any(turn.role == "tool" for turn in conversation.turns):
            instruction, draft = "Answer the customer with these facts only.", self._answer(conversation)
        else:
            instruction, draft = "Summarise for the support log in one sentence.", self._summary(conversation)
        return Reply(text=self._writer.write(instruction, draft) if self._writer else draft)

    def _answer(self, conversation: Conversation) -> str:
        results = [_parsed(turn) for turn in conversation.turns if turn.role == "tool"]
        order = next(_objects_with("order_id", results), None)
        price = next(_objects_with("amount", results), None)
        policy = max(_objects_with("content", results), key=_score, default=None)
        name = _facts(conversation).get("name")
        parts = [self._one_of(_GREETINGS).format(name=name)] if name else []
        parts.append(self._one_of(_OPENINGS))
        if order is None:
            parts.append(self._one_of(_NO_ORDER))
        else:
            wordings = _SHIPPED if order.get("status") == "shipped" else _WAITING
            parts.append(self._one_of(wordings).format_map(order))
        if price is not None:
            parts.append(self._one_of(_PRICED).format_map(price))
        elif any("price unavailable" in turn.text for turn in conversation.turns if turn.role == "tool"):
            parts.append(self._one_of(_UNPRICED))
        if policy is not None:
            parts.append(self._one_of(_POLICY).format_map(policy))
        parts.append(self._one_of(_CLOSINGS))
        return " ".join(parts)

    def _summary(self, conversation: Conversation) -> str:
        sentences = _SENTENCE_END.split(conversation.said_by("user"))
        telling = next((s for s in reversed(sentences) if _ORDER_ID.search(s)), sentences[-1])
        return f"{self._one_of(_SUMMARIES)} {telling.strip()}"

    def _one_of(self, wordings: Sequence[str]) -> str:
        return self._random.choice(wordings)


def _calls_that_help(conversation: Conversation) -> Iterator[ToolCall]:
    """Yield a call for each tool that has not been called yet and whose required arguments are known."""
    known = _facts(conversation)
    called = {turn.tool_name for turn in conversation.turns if turn.role == "tool"}
    for tool in conversation.tools:
        if tool.name not in called and all(name in known for name in tool.required):
            yield ToolCall(name=tool.name, arguments={name: known[name] for name in tool.required})


def _facts(conversation: Conversation) -> dict[str, str]:
    """Collect the facts in the conversation, under the parameter names that tools use."""
    prompt = conversation.said_by("user")
    known: dict[str, str] = {}
    if name := _NAME.search(prompt):
        known["name"] = name[1].strip()
    if email := _EMAIL.search(prompt):
        known["email"] = email[0].rstrip(".")
    if questions := [s for s in _SENTENCE_END.split(prompt) if s.endswith("?")]:
        known["query"] = " ".join(questions)
    results = [_parsed(turn) for turn in conversation.turns if turn.role == "tool"]
    for key in ("order_id", "sku"):
        found = next(_objects_with(key, results), None)
        if found is not None:
            known[key] = str(found[key])
    return known


def _parsed(turn: Turn) -> object:
    try:
        return cast("object", json.loads(turn.text))
    except ValueError:
        return turn.text


def _objects_with(key: str, value: object) -> Iterator[Mapping[str, object]]:
    """Yield every JSON object in a value, at any depth, that has the key."""
    if isinstance(value, dict):
        mapping = cast("dict[str, object]", value)
        if key in mapping:
            yield mapping
        for inner in mapping.values():
            yield from _objects_with(key, inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _objects_with(key, inner)


def _score(chunk: Mapping[str, object]) -> float:
    score = chunk.get("score")
    return float(score) if isinstance(score, int | float) else 0.0


_GREETINGS = ("Hi {name}!", "Hello {name}!", "Dear {name}!", "Good afternoon {name}!")
_OPENINGS = (
    "Thanks for writing in.",
    "Happy to help – here’s what I found.",
    "I’ve looked this up for you.",
    "Good to hear from you!",
    "Of course, let me tell you where things stand.",
)
_WAITING = (
    "Your order {order_id} ({item}), placed on {placed_on}, is still {status}.",
    "Order {order_id}, the {item}, hasn’t left the warehouse yet: its status is “{status}”.",
    "The {item} from your order {order_id} is {status} at the moment.",
)
_SHIPPED = (
    "Your order {order_id} ({item}) has shipped; the tracking code is {tracking}.",
    "Good news: order {order_id}, the {item}, is on its way (tracking {tracking}).",
    "The {item} from order {order_id} has shipped – follow it with {tracking}.",
)
_NO_ORDER = (
    "I couldn’t find an order under these details.",
    "No order matches what you sent me.",
)
_PRICED = (
    "It costs {amount} {currency} today.",
    "Today’s price is {amount} {currency}.",
    "At the moment we sell it for {amount} {currency}.",
)
_UNPRICED = (
    "I can’t see today’s price right now.",
    "Unfortunately the price is not available at the moment.",
    "Our price list doesn’t answer just now, so I can’t quote a price.",
)
_POLICY = (
    "As for returns: {content}",
    "Our policy says: {content}",
    "And about sending it back – {content}",
)
_CLOSINGS = (
    "Is there anything else I can do?",
    "Have a lovely day!",
    "Just write back if anything is unclear.",
    "Best wishes, your support team",
)
_SUMMARIES = ("Told the customer:", "Answered:", "Customer was informed –", "Resolved with this reply:")
