"""A chat behind aiohttp's server: each request is a run.

pip install aiohttp httpx
OPENAI_API_KEY=... python aiohttp_chat.py
curl -X POST localhost:8080/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

import os

import httpx
from aiohttp import web

import freezeframe

freezeframe.instrument()


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


async def chat(request: web.Request) -> web.Response:
    """Answer in one piece."""
    order = await find_order(request.match_info["user"])
    return web.json_response({"answer": await ask(f"{order}. {(await request.json())['text']}")})


async def stream(request: web.Request) -> web.StreamResponse:
    """Answer sentence by sentence."""
    response = web.StreamResponse(headers={"content-type": "text/plain"})
    await response.prepare(request)
    for _ in range(3):
        await response.write((await ask(request.query["text"])).encode())
    return response


app = web.Application()
app.add_routes([web.post("/chat/{user}", chat), web.get("/stream", stream)])

if __name__ == "__main__":
    web.run_app(app)
