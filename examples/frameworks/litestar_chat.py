"""A chat behind Litestar: each request is a run.

pip install litestar httpx uvicorn
OPENAI_API_KEY=... uvicorn litestar_chat:app
curl -X POST localhost:8000/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
from litestar import Litestar, get, post
from litestar.response import Stream

import freezeframe

freezeframe.instrument()


@dataclass
class Question:
    text: str


async def ask(text: str) -> str:
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(
            f"{os.environ.get('OPENAI_BASE_URL', 'https://api.openai.com/v1')}/chat/completions",
            headers={"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
            json={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]},
        )
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


@freezeframe.tool
async def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@post("/chat/{user:str}")
async def chat(user: str, data: Question) -> dict[str, str]:
    """Answer in one piece."""
    return {"answer": await ask(f"{await find_order(user)}. {data.text}")}


async def pieces(text: str) -> AsyncIterator[str]:
    for _ in range(3):
        yield await ask(text)


@get("/stream")
async def stream(text: str) -> Stream:
    """Answer sentence by sentence."""
    return Stream(pieces(text), media_type="text/plain")


app = Litestar([chat, stream])
