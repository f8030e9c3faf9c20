"""A chat behind Litestar: each request is a run.

pip install litestar openai uvicorn
OPENAI_API_KEY=... uvicorn litestar_chat:app
curl -X POST localhost:8000/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from litestar import Litestar, get, post
from litestar.response import Stream
from openai import AsyncOpenAI

import freezeframe

freezeframe.instrument()

client = AsyncOpenAI()


@dataclass
class Question:
    text: str


async def ask(text: str) -> str | None:
    """Ask the model."""
    answer = await client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


@freezeframe.tool
async def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@post("/chat/{user:str}")
async def chat(user: str, data: Question) -> dict[str, str | None]:
    """Answer in one piece."""
    return {"answer": await ask(f"{await find_order(user)}. {data.text}")}


async def pieces(text: str) -> AsyncIterator[str]:
    for _ in range(3):
        yield await ask(text) or ""


@get("/stream")
async def stream(text: str) -> Stream:
    """Answer sentence by sentence."""
    return Stream(pieces(text), media_type="text/plain")


app = Litestar([chat, stream])
