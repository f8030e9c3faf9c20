"""A chat that keeps its history in Redis: the turns of a conversation are runs of one session, and a replay needs no Redis.

pip install starlette uvicorn redis httpx
OPENAI_API_KEY=... REDIS_URL=redis://localhost uvicorn starlette_redis:app
curl -X POST localhost:8000/chat -H 'x-conversation-id: chat-81' -d 'Where is my order?'
freezeframe replay --session chat-81
"""

import os
from typing import Any

import httpx
import redis.asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import freezeframe

freezeframe.instrument(record_databases=True)

history: Any = redis.asyncio.from_url(os.environ.get("REDIS_URL", "redis://localhost"), decode_responses=True)


async def ask(said: list[str]) -> str:
    """Ask the model, with the conversation so far."""
    messages = [{"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(said)]
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(
            f"{os.environ.get('OPENAI_BASE_URL', 'https://api.openai.com/v1')}/chat/completions",
            headers={"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
            json={"model": "gpt-4o-mini", "messages": messages},
        )
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


async def chat(request: Request) -> PlainTextResponse:
    """Answer one turn."""
    key = f"chat:{request.headers['x-conversation-id']}"
    await history.rpush(key, (await request.body()).decode())
    answer = await ask([str(text) for text in await history.lrange(key, 0, -1)])
    async with history.pipeline() as pipeline:
        pipeline.rpush(key, answer)
        pipeline.expire(key, 86_400)
        await pipeline.execute()
    return PlainTextResponse(answer)


app = Starlette(routes=[Route("/chat", chat, methods=["POST"])])
