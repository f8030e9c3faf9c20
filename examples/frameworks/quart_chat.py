"""A chat behind Quart: each request is a run.

pip install quart httpx
OPENAI_API_KEY=... hypercorn quart_chat:app
curl -X POST localhost:8000/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

import os
from collections.abc import AsyncIterator

import httpx
from quart import Quart, Response, request

import freezeframe

freezeframe.instrument()

app = Quart(__name__)


async def ask(text: str) -> str:
    """Ask the model."""
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


@app.post("/chat/<user>")
async def chat(user: str) -> dict[str, str]:
    """Answer in one piece."""
    return {"answer": await ask(f"{await find_order(user)}. {(await request.get_json())['text']}")}


@app.get("/stream")
async def stream() -> Response:
    """Answer sentence by sentence."""
    text = request.args["text"]

    async def pieces() -> AsyncIterator[str]:
        for _ in range(3):
            yield await ask(text)

    return Response(pieces(), mimetype="text/plain")
