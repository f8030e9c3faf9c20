"""The tools of the order-lookup agent, and its summaries of their results for the model."""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

import httpx
import world
from openai import OpenAI
from openai.types.chat import ChatCompletionToolParam

import freezeframe

Order = dict[str, object]

MODEL = "gpt-4o-mini"
SYSTEM_PROMPT = (
    "You answer customers of a small household shop. Look up the order before you answer, quote the return"
    " policy when they ask about it, and say today's price when they want it. Never guess: say what you"
    " could not find out. Call tools with the customer's own words and data."
)


@freezeframe.tool
def lookup_orders(name: str, email: str) -> list[Order]:
    """Find the orders that a customer may mean."""
    return world.find_orders(_world(), name=name, email=email)


@freezeframe.retriever
def search_policy(query: str) -> list[dict[str, object]]:
    """Find the two paragraphs of our policy that fit a question best."""
    chunks = cast("list[dict[str, str]]", json.loads(Path(__file__).with_name("policy.json").read_text("utf-8")))
    texts = [query, *(chunk["content"] for chunk in chunks)]
    vectors = _openai().embeddings.create(model="text-embedding-3-small", input=texts).data
    query_vector = vectors[0].embedding
    scored: list[dict[str, object]] = []
    for chunk, vector in zip(chunks, vectors[1:], strict=True):
        score = sum(a * b for a, b in zip(query_vector, vector.embedding, strict=True))
        scored.append({**chunk, "score": round(score, 4)})
    return sorted(scored, key=lambda chunk: cast("float", chunk["score"]), reverse=True)[:2]


@freezeframe.tool
def get_price(sku: str) -> dict[str, object]:
    """Ask the pricing API for today's price of an article."""
    try:
        response = httpx.get(f"{os.environ['PRICING_URL']}/prices/{sku}", timeout=5)
        response.raise_for_status()
        return cast("dict[str, object]", response.json())
    except (httpx.HTTPError, ValueError):
        return {"sku": sku, "error": "price unavailable"}


@freezeframe.tool
def file_note(note: str) -> int:
    """Write a note into the support log."""
    return world.file_note(_world(), note=note)


def pick_order(candidates: list[Order]) -> Order | None:
    """Return the order that the customer means."""
    # People ask about what they bought last.
    return max(candidates, key=lambda order: str(order["placed_on"]), default=None)


def tell_model(tool: str, arguments: dict[str, str], result: object) -> str:
    """Return the summary of a tool's result that the model receives."""
    if tool == "lookup_orders":
        result = pick_order(cast("list[Order]", result))
    return json.dumps(result)


TOOLS: dict[str, Callable[..., object]] = {
    "lookup_orders": lookup_orders,
    "search_policy": search_policy,
    "get_price": get_price,
}


def _schema(tool: str, **parameters: str) -> ChatCompletionToolParam:
    return {
        "type": "function",
        "function": {
            "name": tool,
            "description": TOOLS[tool].__doc__ or "",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {k: {"type": "string", "description": d} for k, d in parameters.items()},
                "required": list(parameters),
                "additionalProperties": False,
            },
        },
    }


SCHEMAS = [
    _schema("lookup_orders", name="the customer's full name", email="the customer's e-mail address"),
    _schema("search_policy", query="the customer's question"),
    _schema("get_price", sku="the article's number, from the order"),
]


def _world() -> Path:
    return Path(os.environ["ORDER_WORLD"])


@cache
def _openai() -> OpenAI:
    return OpenAI()
